"""Measures of the claims on scores: gains, leads and ratios with their intervals.

Where a claim speaks of both backbones, every backbone of the config is measured, and the interval
is that of the worst: the claim holds where all of them do.
"""

from collections.abc import Callable

import pandas as pd

from cast.evaluation.folders import BASE
from cast.evaluation.geneval2 import SKILLS, share_saturated
from cast.evaluation.replicates import (
    Interval,
    difference,
    gain_ratio,
    interval,
    resampled_means,
)
from cast.evaluation.results import Arm
from cast.evidence import Measured
from cast.figures.claims.evidence import Evidence
from cast.figures.claims.rules import NotRun
from cast.figures.numbers import bracketed, interval_columns, plain

G2 = "flow_grpo_g2"
Measure = Callable[[Evidence], Measured]


def said(value: Interval, form: str = "+.3f") -> str:
    """An interval in words."""
    return bracketed(interval_columns("x", value), "x", form)


def of_interval(text: str, found: Interval) -> Measured:
    """A number with its interval; one that isn't defined (NaN) has words only."""
    if found.value != found.value:
        return Measured(text=text)
    return Measured(text=text, value=found.value, low=found.low, high=found.high)


def worst(found: dict[str, tuple[str, Interval]]) -> Measured:
    """Several backbones' words, and the interval of the one with the lowest lower bound."""
    text = "; ".join(f"{name}: {words}" for name, (words, _) in found.items())
    return of_interval(text, min((value for _, value in found.values()), key=lambda v: v.low))


def hard_ratio(backbone: str) -> Measure:
    """CAST's Hard Case gain over Flow-GRPO's, on the mini stand-in of `backbone` or itself."""

    def measure(evidence: Evidence) -> Measured:
        name = stand_in(evidence, backbone)
        base, rival, cast = evidence.arms(BASE, G2, "cast", backbone=name)
        hard = evidence.hard_case.prompt_ids
        treated, reference, zero = (a.by_prompt(prompts=hard) for a in (cast, rival, base))
        ratio = gain_ratio(treated, reference, zero)
        words = [f"{arm.title} gains {lead(arm, base, hard)}" for arm in (cast, rival)]
        return of_interval(f"{name}: ratio {said(ratio, '.2f')}; {'; '.join(words)}", ratio)

    return measure


def stand_in(evidence: Evidence, backbone: str) -> str:
    """The config's backbone of that family: `flux2` or `qwen`."""
    for name in evidence.config.backbones:
        if backbone in name.lower().replace(".", ""):
            return name
    raise NotRun(f"no {backbone} backbone in this config")


def lead(arm: Arm, other: Arm, prompts: tuple[str, ...] | None = None) -> str:
    """An arm's lead over another in words, with its range over training seeds where it has more
    than one: the interval is over prompts and doesn't know of that spread."""
    words = said(difference(arm.by_prompt(prompts=prompts), other.by_prompt(prompts=prompts)))
    own, others = (a.overall_by_training_seed(prompts=prompts) for a in (arm, other))
    leads = [value - others.get(seed, min(others.values())) for seed, value in own.items()]
    if len(leads) == 1:
        return words
    low, high = (plain(end, 3) for end in (min(leads), max(leads)))
    return f"{words} (training seeds {low} to {high})"


def hard_lead(other: str, ahead: str = "cast", everywhere: bool = False) -> Measure:
    """The Hard Case lead of `ahead` over the other, on Hard Case's backbone or on all of them."""

    def measure(evidence: Evidence) -> Measured:
        names = evidence.config.backbones if everywhere else (evidence.backbone,)
        hard = evidence.hard_case.prompt_ids
        found = {}
        for name in names:
            first, second = evidence.arms(ahead, other, backbone=name)
            value = difference(first.by_prompt(prompts=hard), second.by_prompt(prompts=hard))
            found[name] = (f"{first.title} over {second.title} {lead(first, second, hard)}", value)
        return worst(found)

    return measure


def spatial_weighting(evidence: Evidence) -> Measured:
    """CAST's Hard Case lead over spatial weighting alone; in words that one's over both parts."""
    weighted, cast = evidence.arms("aggregate_map", "cast")
    hard = evidence.hard_case.prompt_ids
    value = difference(cast.by_prompt(prompts=hard), weighted.by_prompt(prompts=hard))
    words = [f"CAST over {weighted.title} {lead(cast, weighted, hard)}"]
    for other in evidence.arms(G2, "per_atom"):
        words.append(f"{weighted.title} over {other.title} {lead(weighted, other, hard)}")
    return of_interval("; ".join(words), value)


def holds_or_improves(evidence: Evidence) -> Measured:
    """CAST's full-set gain, overall and by skill, on every backbone.

    "Holds or improves" fails only where a loss can be told from none, so it is the upper bound of
    the worst skill that counts, and the overall gain's lower bound.
    """
    found = {}
    for name in evidence.config.backbones:
        base, cast = evidence.arms(BASE, "cast", backbone=name)
        gains = {"overall": difference(cast.by_prompt(), base.by_prompt())}
        for skill in SKILLS:
            after, before = (_skill_by_prompt(arm, skill) for arm in (cast, base))
            if len(after):
                gains[skill] = difference(after, before)
        least = min(gains.values(), key=lambda gain: gain.high)
        low = min(gains["overall"].low, least.high)
        words = ", ".join(f"{skill} {said(gain)}" for skill, gain in gains.items())
        found[name] = (words, Interval(least.value, low, least.high))
    return worst(found)


def _skill_by_prompt(arm: Arm, skill: str) -> pd.Series:
    """Mean score of a skill's atoms in each prompt that has one."""
    rows = pd.concat([table[table["skill"] == skill] for table in arm.scores.values()])
    if rows.empty:
        return pd.Series(dtype=float)
    return rows.pivot_table("score", "prompt_id", aggfunc="mean")["score"]


def saturated(backbone: str) -> Measure:
    """Share of prompts that the base already scores at 0.95 or more, bootstrap over prompts; the
    number is `backbone`'s, the words are of all."""

    def measure(evidence: Evidence) -> Measured:
        shares = {name: _saturated(evidence, name) for name in evidence.config.backbones}
        words = ", ".join(f"{name} {said(share, '.1%')}" for name, share in shares.items())
        return of_interval(words, shares[stand_in(evidence, backbone)])

    return measure


def _saturated(evidence: Evidence, backbone: str) -> Interval:
    means = evidence.arm(BASE, backbone).means()[0]
    by_prompt = share_saturated(means.T)  # here the share of each prompt's seeds
    (sample,) = resampled_means(by_prompt.to_numpy(dtype=float))
    return interval(float(share_saturated(means).mean()), sample)


def oracle_gain(evidence: Evidence) -> Measured:
    """CAST's full-set gain by the oracle on every backbone, beside the verifier's and Flow-GRPO's.

    In words also how often both judges agree on the images of the base and of CAST: where they
    agree less after training, the verifier was fooled.
    """
    found = {}
    for name in evidence.config.backbones:
        base, rival, cast = evidence.arms(BASE, G2, "cast", backbone=name)
        if not base.has("oracle"):
            raise NotRun("this world has no oracle")
        words = []
        for arm in (cast, rival):
            true, seen = (
                difference(arm.by_prompt(judge), base.by_prompt(judge))
                for judge in ("oracle", "score")
            )
            share = f"{true.value / seen.value:.0%}" if seen.low > 0 else "no"
            words.append(
                f"{arm.title} oracle {said(true)}, verifier {said(seen)}, {share} gain confirmed"
            )
        words.append(f"judges agree on {_agreed(base):.1%} before, {_agreed(cast):.1%} after CAST")
        gain = difference(cast.by_prompt("oracle"), base.by_prompt("oracle"))
        found[name] = (", ".join(words), gain)
    return worst(found)


def _agreed(arm: Arm) -> float:
    tables = pd.concat(list(arm.scores.values()))
    return float(((tables["score_strict"] >= 0.5) == (tables["oracle"] >= 0.5)).mean())
