"""Measures of the claims that scores, ledgers and the pure core can answer by themselves."""

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import torch

from cast.credit import group_advantages
from cast.evaluation.folders import BASE
from cast.evaluation.geneval2 import SKILLS, share_saturated
from cast.evaluation.replicates import (
    Interval,
    difference,
    gain_ratio,
    interval,
    resampled_means,
)
from cast.evaluation.results import Arm, check_arms
from cast.figures.claims.evidence import Evidence
from cast.figures.claims.rules import Measured, NotRun
from cast.figures.numbers import bracketed, interval_columns
from cast.flow import flow_sde
from cast.scene_graph import read_prompts

G2 = "flow_grpo_g2"


def said(value: Interval, form: str = "+.3f") -> str:
    """An interval in words."""
    return bracketed(interval_columns("x", value), "x", form)


def hard_ratio(backbone: str) -> Callable[[Evidence], Measured]:
    """CAST's Hard Case gain over Flow-GRPO's, on the mini stand-in of `backbone` or itself."""

    def measure(evidence: Evidence) -> Measured:
        name = _stand_in(evidence, backbone)
        base, rival, cast = evidence.arms(BASE, G2, "cast", backbone=name)
        hard = evidence.hard_case.prompt_ids
        treated, reference, zero = (a.by_prompt(prompts=hard) for a in (cast, rival, base))
        ratio = gain_ratio(treated, reference, zero)
        lead = difference(treated, reference)
        return Measured(f"{name}: ratio {said(ratio, '.2f')}; lead {said(lead)}", ratio)

    return measure


def _stand_in(evidence: Evidence, backbone: str) -> str:
    """The config's backbone of that family: `flux2` or `qwen`."""
    for name in evidence.config.backbones:
        if backbone in name.lower().replace(".", ""):
            return name
    raise NotRun(f"no {backbone} backbone in this config")


def hard_lead(*others: str, ahead: str = "cast") -> Callable[[Evidence], Measured]:
    """The smallest Hard Case lead of `ahead` over the others (all must be led)."""

    def measure(evidence: Evidence) -> Measured:
        arms = evidence.arms(ahead, *others)
        hard = evidence.hard_case.prompt_ids
        leads = {
            arm.title: difference(arms[0].by_prompt(prompts=hard), arm.by_prompt(prompts=hard))
            for arm in arms[1:]
        }
        text = "; ".join(f"over {title} {said(lead)}" for title, lead in leads.items())
        return Measured(text, min(leads.values(), key=lambda lead: lead.low))

    return measure


def holds_or_improves(evidence: Evidence) -> Measured:
    """CAST's full-set gain, overall and by skill; the interval is that of the worst of them."""
    base, cast = evidence.arms(BASE, "cast")
    gains = {"overall": difference(cast.by_prompt(), base.by_prompt())}
    for skill in SKILLS:
        after, before = (_skill_by_prompt(arm, skill) for arm in (cast, base))
        if len(after):
            gains[skill] = difference(after, before)
    worst = min(gains.values(), key=lambda gain: gain.high)
    text = "; ".join(f"{name} {said(gain)}" for name, gain in gains.items())
    # "Holds or improves" fails only where a loss can be told from none, so the upper bound of the
    # worst counts, and the overall gain's lower bound.
    return Measured(text, Interval(worst.value, min(gains["overall"].low, worst.high), worst.high))


def _skill_by_prompt(arm: Arm, skill: str) -> pd.Series:
    """Mean score of a skill's atoms in each prompt that has one."""
    rows = pd.concat([table[table["skill"] == skill] for table in arm.scores.values()])
    if rows.empty:
        return pd.Series(dtype=float)
    return rows.pivot_table("score", "prompt_id", aggfunc="mean")["score"]


def saturated(backbone: str) -> Callable[[Evidence], Measured]:
    """Share of prompts that the base already scores at 0.95 or more, bootstrap over prompts."""

    def measure(evidence: Evidence) -> Measured:
        name = _stand_in(evidence, backbone)
        means = evidence.arm(BASE, name).means()[0]
        by_prompt = share_saturated(means.T)  # here the share of each prompt's seeds
        (sample,) = resampled_means(by_prompt.to_numpy(dtype=float))
        found = interval(float(share_saturated(means).mean()), sample)
        return Measured(f"{name}: {said(found, '.1%')}", found)

    return measure


def oracle_gain(evidence: Evidence) -> Measured:
    """CAST's full-set gain by the oracle, and beside it the verifier's gain and Flow-GRPO's."""
    base, rival, cast = evidence.arms(BASE, G2, "cast")
    if not base.has("oracle"):
        raise NotRun("this world has no oracle")
    words = []
    for arm in (rival, cast):
        true, seen = (difference(arm.by_prompt(c), base.by_prompt(c)) for c in ("oracle", "score"))
        words.append(f"{arm.title}: oracle {said(true)}, verifier {said(seen)}")
    gain = difference(cast.by_prompt("oracle"), base.by_prompt("oracle"))
    return Measured("; ".join(words), gain)


def verifier_accuracy(evidence: Evidence) -> Measured:
    """Agreement of verifier (strict, at 0.5) and oracle on the base model's own images."""
    base = evidence.arm(BASE)
    if not base.has("oracle"):
        raise NotRun("this world has no oracle")
    table = base.scores[0]
    agrees = (table["score_strict"] >= 0.5) == (table["oracle"] >= 0.5)
    table = table.assign(agrees=agrees.astype(float))
    by_skill = table.pivot_table("agrees", "skill", aggfunc="mean")["agrees"].to_dict()
    by_prompt = table.pivot_table("agrees", "prompt_id", aggfunc="mean").to_numpy()[:, 0]
    found = interval(float(by_prompt.mean()), resampled_means(by_prompt)[0])
    words = ", ".join(f"{skill} {by_skill[skill]:.3f}" for skill in SKILLS if skill in by_skill)
    return Measured(f"{said(found, '.3f')}: {words}", found)


def atom_counts(evidence: Evidence) -> Measured:
    """Range and median of the benchmark's atom counts."""
    counts = evidence.table("prompts", "benchmark.parquet")["atom_count"].to_numpy(dtype=float)
    low, middle, high = counts.min(), float(np.median(counts)), counts.max()
    return Measured(
        f"{len(counts)} prompts of {low:.0f} to {high:.0f} atoms, median {middle:g}",
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
        f"{sizes['train']:,} training, {sizes['development']:,} development, "
        f"{sizes['benchmark']:,} benchmark prompts; {shared} shared graphs",
        passed=good,
    )


def one_budget(evidence: Evidence) -> Measured:
    """Images and updates of every trained arm of the config, which must be equal."""
    arms = [evidence.arm(method) for method in evidence.config.methods]
    check_arms(arms)
    budgets = {(e["images"], e["updates"]) for arm in arms for e in arm.ledgers.values()}
    words = ", ".join(f"{images:,} images, {updates:,} updates" for images, updates in budgets)
    return Measured(f"{len(arms)} methods: {words}", passed=len(budgets) == 1)


def frozen_subset(evidence: Evidence) -> Measured:
    """The subset's file: sizes, seal and seeds that don't evaluate (checked when it is read)."""
    subset = evidence.hard_case
    good = subset.keep == len(subset.prompt_ids) == evidence.config.evaluation.hard_case.keep
    return Measured(
        f"{subset.keep} of the {subset.pool} most varied prompts, by {subset.backbone}; "
        f"sha256 {subset.sha256[:12]}; selecting seeds {list(subset.selection_seeds)}",
        passed=good,
    )


def four_replicates(evidence: Evidence) -> Measured:
    """Generation seeds of every evaluated arm, which must be the same four."""
    arms = [evidence.arm(method) for method in (BASE, *evidence.config.methods)]
    seeds = {tuple(sorted(set(t["generation_seed"]))) for a in arms for t in a.scores.values()}
    return Measured(
        f"{len(arms)} arms with seeds {[list(s) for s in sorted(seeds)]}",
        passed=len(seeds) == 1 and len(next(iter(seeds))) == 4,
    )


def replay_error(evidence: Evidence) -> Measured:
    """Largest difference of replayed and stored log_prob before any update of any run."""
    tables = evidence.metrics([m for m in evidence.config.methods if not m.startswith("sft")])
    error = max(float(table["replay_error"].max()) for table in tables.values())
    return Measured(f"largest {error:.1e} a token", Interval(error, error, error))


def flat_scores(_evidence: Evidence) -> Measured:
    """Largest advantage of a group whose scores differ by less than the scorer resolves."""
    scores = 0.7 + 1e-7 * torch.rand(16, 6, generator=torch.Generator().manual_seed(0))
    largest = float(group_advantages(scores, resolution=1e-6).abs().max())
    return Measured(f"largest advantage {largest:g}", Interval(largest, largest, largest))


def cost_ratio(evidence: Evidence) -> Measured:
    """CAST's training hours over Flow-GRPO's; the table is the claim."""
    evidence.figure("table3")
    rival, cast = evidence.arms(G2, "cast")
    hours = [_hours(arm) for arm in (cast, rival)]
    return Measured(f"CAST {hours[0] / hours[1]:.2f} times Flow-GRPO (G2)", passed=True)


def _hours(arm: Arm) -> float:
    costs = [cost for entry in arm.ledgers.values() for cost in entry["phases"].values()]
    return sum(cost["device_s"] for cost in costs)


def made(*names: str) -> Callable[[Evidence], Measured]:
    """That the artefacts were made."""

    def measure(evidence: Evidence) -> Measured:
        files: Sequence[str] = [evidence.figure(name).name for name in names]
        return Measured(", ".join(files), passed=True)

    return measure


def marginal_error(_evidence: Evidence) -> Measured:
    """Whether Flow-SDE's marginal error vanishes with the step, as the continuous SDE has none.

    On one-dimensional Gaussian data (sd 0.5) the exact velocity is linear, so a step's mean and
    spread give the variance in closed form. The number is the error for 240 steps from sigma 0.8
    to 0.2 over that for 120: a half for a first-order method. Nearer the noise, where g is
    singular, the error doesn't vanish with the step; it is measured and said beside.
    """
    ratio = _variance_error(240, 0.8, 0.2) / _variance_error(120, 0.8, 0.2)
    near = ", ".join(
        f"{_variance_error(n, 1 - 1 / n, 1 / n):.1%} at N = {n}" for n in (20, 50, 200)
    )
    text = f"error halves with the step (ratio {ratio:.3f}); near the noise it stays: {near}"
    return Measured(text, Interval(ratio, ratio, ratio))


def _variance_error(
    steps: int, high: float, low: float, data: float = 0.5, noise_level: float = 0.7
) -> float:
    """Largest relative error of the variance over `steps` Flow-SDE steps from `high` to `low`."""
    sigmas = torch.linspace(high, low, steps + 1)
    variance, worst = (1 - high) ** 2 * data**2 + high**2, 0.0
    for now, following in pairwise(sigmas):
        exact = (1 - now) ** 2 * data**2 + now**2
        slope = (now - (1 - now) * data**2) / exact  # v = slope x, for Gaussian data
        one = torch.ones(1, 1, 1)
        levels = now.reshape(1), following.reshape(1)
        mean, std = flow_sde(one, one * slope, *levels, float(following), noise_level)
        variance = float(mean) ** 2 * variance + float(std) ** 2
        wanted = float((1 - following) ** 2 * data**2 + following**2)
        worst = max(worst, abs(variance / wanted - 1))
    return worst
