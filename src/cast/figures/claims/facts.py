"""Measures of the claims that are read off files: the protocol, the budget, what was made."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from cast.evaluation.folders import BASE
from cast.evaluation.results import Arm, check_arms
from cast.evidence import Measured
from cast.figures.claims.evidence import Evidence
from cast.figures.claims.measures import G2
from cast.scene_graph import read_prompts
from cast.workflow.keys import list_arms


def atom_counts(evidence: Evidence) -> Measured:
    """Range and median of the benchmark's atom counts."""
    counts = evidence.table("prompts", "benchmark.parquet")["atom_count"].to_numpy(dtype=float)
    low, middle, high = counts.min(), float(np.median(counts)), counts.max()
    return Measured(
        text=f"{len(counts)} prompts of {low:.0f} to {high:.0f} atoms, median {middle:g}",
        passed=bool(low == 3 and high == 10 and middle == 6.5),
    )


def disjoint_prompts(evidence: Evidence) -> Measured:
    """Sizes of the prompt sets and what they share, by scene graph whatever its order."""
    names = ("train", "development", "benchmark")
    records = {n: read_prompts(evidence.file("prompts", f"{n}.parquet")) for n in names}
    graphs = {name: {r.graph.canonical() for r in own} for name, own in records.items()}
    shared = sum(len(graphs[one] & graphs[two]) for one, two in combinations(names, 2))
    sizes = {name: len(own) for name, own in records.items()}
    expected = (evidence.config.prompts.train, evidence.config.prompts.development)
    good = shared == 0 and (sizes["train"], sizes["development"]) == expected
    return Measured(
        text=f"{sizes['train']:,} training, {sizes['development']:,} development, "
        f"{sizes['benchmark']:,} benchmark prompts; {shared} shared graphs",
        passed=good,
    )


def one_budget(evidence: Evidence) -> Measured:
    """Images and updates of every trained arm of the config, ablations too: they must be equal."""
    arms = _arms(evidence, trained=True)
    check_arms(arms)
    budgets = {(e["images"], e["updates"]) for arm in arms for e in arm.ledgers.values()}
    words = ", ".join(f"{images:,} images, {updates:,} updates" for images, updates in budgets)
    return Measured(text=f"{len(arms)} arms: {words}", passed=len(budgets) == 1)


def frozen_subset(evidence: Evidence) -> Measured:
    """The subset's file: sizes, seal and seeds that don't evaluate (checked when it is read)."""
    subset = evidence.hard_case
    good = subset.keep == len(subset.prompt_ids) == evidence.config.evaluation.hard_case.keep
    return Measured(
        text=f"{subset.keep} of the {subset.pool} most varied prompts, by {subset.backbone}; "
        f"sha256 {subset.sha256[:12]}; selecting seeds {list(subset.selection_seeds)}",
        passed=good,
    )


def four_replicates(evidence: Evidence) -> Measured:
    """Generation seeds of every evaluated arm, which must be the same four."""
    arms = _arms(evidence)
    seeds = {tuple(sorted(set(t["generation_seed"]))) for a in arms for t in a.scores.values()}
    return Measured(
        text=f"{len(arms)} arms with seeds {[list(s) for s in sorted(seeds)]}",
        passed=len(seeds) == 1 and len(next(iter(seeds))) == 4,
    )


def _arms(evidence: Evidence, trained: bool = False) -> list[Arm]:
    """Every arm of the config, once for all its training seeds."""
    names = dict.fromkeys((b, m) for b, m, _ in list_arms(evidence.config))
    return [evidence.arm(m, b) for b, m in names if m != BASE or not trained]


def replay_error(evidence: Evidence) -> Measured:
    """Largest difference of replayed and stored log_prob before any update of any run."""
    tables = list(evidence.metrics())
    error = max(float(table["replay_error"].max()) for table in tables)
    ratio = float(np.exp(error) - 1)
    text = f"ratios within {ratio:.1e} of 1 a token, in every collection of {len(tables)} runs"
    return Measured(text=text, value=error)


def cost_ratio(evidence: Evidence) -> Measured:
    """CAST's training hours over Flow-GRPO's on each backbone; the table is the claim."""
    evidence.figure("table3")
    words = []
    for name in evidence.config.backbones:
        rival, cast = evidence.arms(G2, "cast", backbone=name)
        ratio = _hours(cast) / _hours(rival)
        words.append(f"{name}: {cast.title} {ratio:.2f} times {rival.title}")
    return Measured(text="; ".join(words), passed=True)


def _hours(arm: Arm) -> float:
    costs = [cost for entry in arm.ledgers.values() for cost in entry["phases"].values()]
    return sum(cost["device_s"] for cost in costs)


def made(*names: str) -> Callable[[Evidence], Measured]:
    """That the artefacts were made."""

    def measure(evidence: Evidence) -> Measured:
        files: Sequence[str] = [evidence.figure(name).name for name in names]
        return Measured(text=", ".join(files), passed=True)

    return measure
