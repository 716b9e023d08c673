"""What figures 2, 7 and 8 measured for the claims C01 to C06, C24 and C25."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.diagnostics.head_sensitivity import shift_by_step
from cast.diagnostics.head_test import overlap_table
from cast.diagnostics.rank_agreement import Agreement
from cast.diagnostics.saturation import spread_gap
from cast.diagnostics.structure_formation import layout_share
from cast.evaluation.replicates import Interval, interval, resampled_means
from cast.evidence import Measured
from cast.figures.claims.measures import of_interval, said, worst
from cast.flow import candidate_range

NOTHING = Interval(float("nan"), float("nan"), float("nan"))
PAPER = {0.21: (0, 11), 0.14: (1, 7)}  # tau* and range of FLUX.2-dev and Qwen-Image-2512
EARLY = 0.25  # all of the paper's points lie before it


def layout_times(formations: Sequence[Any], rows: pd.DataFrame, config: CastConfig) -> Measured:
    """C01: tau* of every backbone; the value is that of the one that selects Hard Case."""
    own = rows[rows["similarity"] == config.diagnostics.structure.similarity]
    found = {
        str(r["backbone"]): Interval(
            float(r["tau_star"]), float(r["tau_low"]), float(r["tau_high"])
        )
        for r in own.to_dict("records")
    }
    early = sum(value.high < EARLY for value in found.values())
    words = ", ".join(f"{name} {said(value, '.2f')}" for name, value in found.items())
    main = config.evaluation.hard_case.backbone
    value = found.get(main, found[formations[0].backbone])
    return of_interval(f"{words}; before {EARLY}: {early} of {len(found)}", value)


def candidate_ranges(rows: pd.DataFrame, similarity: str) -> Measured:
    """C02: the paper's ranges follow from its tau* by our rule; beside them our own."""
    made = {tau: candidate_range(tau, 50, low) for tau, (low, _) in PAPER.items()}
    words = [f"tau* {tau} gives [{r.low}, {r.high})" for tau, r in made.items()]
    own = rows[rows["similarity"] == similarity].to_dict("records")
    words += [f"ours, {r['backbone']}: {r['range_50']}" for r in own]
    right = all((r.low, r.high) == PAPER[tau] for tau, r in made.items())
    return Measured(text="N = 50: " + ", ".join(words), passed=right)


def layout_at_tau(formations: Sequence[Any], similarity: str) -> Measured:
    """C03: more than half of the layout's final rise is there at tau*, on the worst backbone.

    The rise is that of object and position scores from the first estimate to the final image. The
    value is the share that tau* has of it, less one half, with a bootstrap over prompts; a score
    that doesn't rise for certain has none.
    """
    found = {}
    for one in formations:
        share = layout_share(one.atoms, one.knees[similarity].tau_star).dropna()
        gained, whole = (share[name].to_numpy(dtype=float) for name in ("gained", "whole"))
        above, below = resampled_means(gained, whole)
        if interval(float(whole.mean()), below).low <= 0:
            found[one.backbone] = ("the scores don't rise for certain", NOTHING)
            continue
        value = interval(gained.mean() / whole.mean() - 0.5, above / below - 0.5)
        total = interval(gained.mean() / whole.mean(), above / below)
        found[one.backbone] = (said(total, ".2f"), value)
    measured = worst(found)
    text = f"share of object and position scores' rise at tau* (value: less 0.5): {measured.text}"
    return measured.model_copy(update={"text": text})


def saturated(spreads: pd.DataFrame) -> Measured:
    """C04: mean and CoV of the preference score; the value is the pooled CoV."""
    own = spreads[spreads["score"] == "preference"].to_dict("records")
    words = ", ".join(f"{r['backbone']} mean {r['mean']:.3f} CoV {r['cov']:.3f}" for r in own)
    pooled = own[-1]
    value = Interval(float(pooled["cov"]), float(pooled["cov_low"]), float(pooled["cov_high"]))
    return of_interval(words, value)


def wider(images: pd.DataFrame, spreads: pd.DataFrame) -> Measured:
    """C05: CoV of atom scores less that of preference scores, on the worst backbone."""
    words = {
        str(r["backbone"]): f"atoms mean {r['mean']:.3f} CoV {r['cov']:.3f}"
        for r in spreads[spreads["score"] == "atoms"].to_dict("records")
    }
    found = {}
    for name, group in images.groupby("backbone", sort=False):
        gap = spread_gap(group)
        found[str(name)] = (f"{words[str(name)]}, {said(gap)} above preference's", gap)
    return worst(found)


def agreeing(table: pd.DataFrame, pooled: Agreement) -> Measured:
    """C06: share of same-prompt pairs that both scores rank alike; the value is the pooled one."""
    words = [f"{r['backbone']} {r['agreement']:.1%}" for r in table.to_dict("records")]
    words.append(f"{pooled.pairs} pairs, {pooled.ties} ties")
    return of_interval(", ".join(words), pooled.mean)


def shift_in_time(by_prompt: Mapping[str, pd.DataFrame]) -> Measured:
    """C24: position earlier, attribute later (`shift_by_step`), on the worst backbone."""
    found = {}
    for name, table in by_prompt.items():
        shifts = shift_by_step(table).dropna().to_numpy(dtype=float)
        if len(shifts) < 2:
            found[name] = (f"{len(shifts)} prompts tell", NOTHING)
            continue
        value = interval(float(shifts.mean()), resampled_means(shifts)[0])
        found[name] = (f"{said(value)} over {len(shifts)} prompts", value)
    measured = worst(found)
    text = f"position's early lead and attribute's late one, in sd, halved: {measured.text}"
    return measured.model_copy(update={"text": text})


def overlapping(heads: Mapping[str, pd.DataFrame], share: float) -> Measured:
    """C25: overlap of the most sensitive heads, less chance's: the smallest pair of skills'."""
    found = {}
    for name, table in heads.items():
        pairs = overlap_table(table, share).to_dict("records")
        if not pairs:
            found[name] = ("fewer than two skills were told", NOTHING)
            continue
        words = ", ".join(
            f"{r['first']}/{r['second']} {r['shared']} of {r['top']} (chance {r['expected']:.1f})"
            for r in pairs
        )
        least = min(pairs, key=lambda r: r["excess_low"])
        bounds = (float(least[key]) for key in ("excess", "excess_low", "excess_high"))
        found[name] = (words, Interval(*bounds))
    return worst(found)
