"""Table 1 (paper 5.3): every method on the benchmark and on Hard Case, per backbone.

Means and sample standard deviations are over the generation seeds; with several training seeds
each replicate is first averaged over them, and the spread over training seeds stands in its own
column. Gains are over the base model, on the same prompts and seeds, with paired bootstrap
intervals over prompts; so is the ratio of a method's Hard Case gain to Flow-GRPO's.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cast.config import CastConfig
from cast.errors import CastError
from cast.evaluation.folders import BASE
from cast.evaluation.geneval2 import SKILLS
from cast.evaluation.hard_case import HardCase
from cast.evaluation.replicates import Interval, difference, gain_ratio, over_replicates
from cast.evaluation.results import Arm, check_arms, load_arms, load_hard_case
from cast.figures.footer import footer
from cast.figures.numbers import (
    bracketed,
    interval_columns,
    plain,
    plus_minus,
    spread_columns,
)
from cast.figures.typesetting import Layout, write_table

REFERENCE = "flow_grpo_g2"
ORACLE = ("oracle", "hard_oracle")  # the columns beside the verifier's


def table1(arms: Sequence[Arm], hard_case: HardCase, reference: str = REFERENCE) -> pd.DataFrame:
    """One row an arm with every number of the table; NaN where a number isn't defined.

    Columns ending in `_mean` and `_sd` are over replicates, `_low` and `_high` the bounds of 95%
    intervals. `hard_*` columns are over the frozen subset, `oracle_*` by the mini world's oracle.
    Raises `CastError` unless the arms match (`check_arms`) and each backbone has its base.
    """
    check_arms(arms)
    return pd.DataFrame([_row(arm, arms, hard_case, reference) for arm in arms])


def _row(arm: Arm, arms: Sequence[Arm], hard_case: HardCase, reference: str) -> dict[str, Any]:
    base = find_arm(arms, arm.backbone, BASE)
    rival = next((a for a in arms if (a.backbone, a.method) == (arm.backbone, reference)), None)
    selecting = arm is base and arm.backbone == hard_case.backbone
    return {
        "backbone": arm.backbone,
        "method": arm.method,
        "title": arm.title,
        "training_seeds": len(arm.scores),
        "prompts": len(arm.by_prompt()),
        "hard_prompts": len(hard_case.prompt_ids),
        "quality_judge": next((t["judge"].iloc[0] for t in arm.quality.values()), None),
        "hard_on_selecting_seeds": hard_case.selection_mean if selecting else math.nan,
        **_levels(arm, hard_case.prompt_ids),
        **_gains(arm, base, rival, hard_case.prompt_ids),
    }


def _levels(arm: Arm, hard: Sequence[str]) -> dict[str, float]:
    """Means and spreads of one arm by itself."""
    row: dict[str, float] = {}
    for name, values in arm.report().items():
        row |= spread_columns(name, over_replicates(values))
    row |= spread_columns("hard", over_replicates(arm.overall(prompts=hard)))
    for column, name in (("score_strict", "strict"), ("oracle", "oracle")):
        for prefix, prompts in (("", None), ("hard_", hard)):
            known = arm.has(column)
            values = over_replicates(arm.overall(column, prompts)) if known else None
            row |= spread_columns(prefix + name, values)
    row |= spread_columns("quality", over_replicates(_quality(arm)) if arm.quality else None)
    for prefix, prompts in (("", None), ("hard_", hard)):
        seeds = list(arm.overall_by_training_seed(prompts=prompts).values())
        spread = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else math.nan
        row[f"{prefix}training_seed_sd"] = spread
    return row


def _quality(arm: Arm) -> pd.Series:
    """Overall quality (0 to 100) of each generation seed, mean over training seeds."""
    # The judge's room imports the models' libraries, which nothing else here needs.
    from cast.evaluation.qwen_image_bench import overall_quality

    return pd.concat([overall_quality(t) for t in arm.quality.values()], axis=1).mean(axis=1)


def _gains(arm: Arm, base: Arm, rival: Arm | None, hard: Sequence[str]) -> dict[str, float]:
    """Differences to the base and to the reference method, and the ratio of both gains."""
    row = interval_columns("gain", over(arm, base))
    row |= interval_columns("hard_gain", over(arm, base, prompts=hard))
    row |= interval_columns("oracle_gain", over(arm, base, "oracle"))
    row |= interval_columns("oracle_hard_gain", over(arm, base, "oracle", hard))
    trained = rival if arm is not base else None
    row |= interval_columns("hard_gain_over_reference", over(arm, trained, prompts=hard))
    ratio = None
    if rival is not None and arm is not base and arm is not rival:
        treated, reference, zero = (a.by_prompt(prompts=hard) for a in (arm, rival, base))
        ratio = gain_ratio(treated, reference, zero)
    return row | interval_columns("hard_gain_ratio", ratio)


def over(
    arm: Arm, other: Arm | None, column: str = "score", prompts: Sequence[str] | None = None
) -> Interval | None:
    """The arm's mean score minus the other's; None for the same arm or an unknown score."""
    if other is None or other is arm or not (arm.has(column) and other.has(column)):
        return None
    return difference(arm.by_prompt(column, prompts), other.by_prompt(column, prompts))


def find_arm(arms: Sequence[Arm], backbone: str, method: str) -> Arm:
    """The arm of that backbone and method; `CastError` where it isn't among them."""
    for arm in arms:
        if (arm.backbone, arm.method) == (backbone, method):
            return arm
    have = sorted({a.method for a in arms if a.backbone == backbone})
    raise CastError(f"{backbone}: there is no arm {method!r}; there are {have}. Evaluate it first.")


def layout1(table: pd.DataFrame, foot: Sequence[str]) -> Layout:
    """The table as it is typeset; the best value of a backbone is bold in each measured column."""
    rows: list[dict[str, Any]] = table.to_dict("records")
    measured = ["overall", "hard"]
    measured += [s for s in SKILLS if any(_defined(row.get(f"{s}_mean")) for row in rows)]
    oracle = any(_defined(row["oracle_mean"]) for row in rows)
    seeds = any(row["training_seeds"] > 1 for row in rows)
    names = ["Overall", "Hard Case"]
    header = ["Method", *names, *(skill.capitalize() for skill in measured[2:])]
    spans = [("", 1), ("GenEval 2 AM by the verifier", len(measured))]
    if oracle:
        header, spans = header + names, [*spans, ("by the oracle", 2)]
    quality = any(_defined(row["quality_mean"]) for row in rows)
    if quality:
        header, spans = [*header, "Overall"], [*spans, ("quality", 1)]
    header += ["over base [95%]", "over Flow-GRPO [95%]", "÷ Flow-GRPO's [95%]"]
    spans.append(("Hard Case gain", 3))
    if seeds:
        header, spans = header + names, [*spans, ("sd over training seeds", 2)]
    several = len({row["backbone"] for row in rows}) > 1
    return Layout(
        title=f"Table 1. {'' if several else rows[0]['backbone'] + ': '}benchmark and Hard Case",
        header=header,
        cells=[_cells(row, measured, several, oracle, quality, seeds) for row in rows],
        spans=spans,
        rules=frozenset(
            i for i in range(1, len(rows)) if rows[i]["backbone"] != rows[i - 1]["backbone"]
        ),
        bold=frozenset(_best(rows, [*measured, *(ORACLE if oracle else ())])),
        footer=[*_notes(rows), *foot],
    )


def _cells(
    row: dict[str, Any],
    measured: Sequence[str],
    several: bool,
    oracle: bool,
    quality: bool,
    seeds: bool,
) -> list[str]:
    cells = [f"{row['backbone']}, {row['title']}" if several else row["title"]]
    shown = [*measured, *(ORACLE if oracle else ())]
    for name in shown:
        spread = math.nan if name in SKILLS else row[f"{name}_sd"]  # the .csv has the skills' too
        cells.append(plus_minus(row[f"{name}_mean"], spread))
    if quality:
        cells.append(plus_minus(row["quality_mean"], row["quality_sd"], 1))
    cells.append(bracketed(row, "hard_gain"))
    cells.append(bracketed(row, "hard_gain_over_reference"))
    cells.append(bracketed(row, "hard_gain_ratio", ".2f"))
    return cells + [plain(row[f"{p}training_seed_sd"]) for p in ("", "hard_") if seeds]


def _best(rows: Sequence[dict[str, Any]], measured: Sequence[str]) -> set[tuple[int, int]]:
    """Cells that show the best value of their backbone, all of them where several look the same."""
    best = set()
    for number, row in enumerate(rows):
        own = [other for other in rows if other["backbone"] == row["backbone"]]
        for column, name in enumerate(measured, start=1):
            highest = max(other[f"{name}_mean"] for other in own)
            if plain(row[f"{name}_mean"]) == plain(highest):
                best.add((number, column))
    return best


def _defined(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _notes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the numbers are, and what can't be read from them."""
    lines = [
        f"{rows[0]['prompts']} prompts, {rows[0]['hard_prompts']} of them Hard Case. Mean ± sample "
        "standard deviation over generation seeds, matched across methods; skills: mean.",
        "Intervals: paired bootstrap over prompts. A ratio is defined (not –) only where "
        "Flow-GRPO's own gain can be told from 0.",
    ]
    judges = sorted({row["quality_judge"] for row in rows if row["quality_judge"]})
    if judges:
        lines.append(f"Quality: Qwen-Image-Bench's protocol, 0 to 100; judge: {', '.join(judges)}.")
    for row in rows:
        if row["oracle_gain_high"] < 0:  # NaN, without an oracle, is not
            lines.append(
                f"{row['title']} loses overall by the oracle, {bracketed(row, 'oracle_gain')}: "
                "whatever the verifier says of it, its images got worse."
            )
        if _defined(row["hard_on_selecting_seeds"]):
            lines.append(
                "Hard Case was chosen on other seeds. On the choosing seeds the base scores "
                f"{row['hard_on_selecting_seeds']:.3f} there; choosing low scores biases that one."
            )
    return lines


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Read the config's arms, refuse what can't be compared, write the table's files."""
    arms = load_arms(config)
    table = table1(arms, load_hard_case(config))
    table.insert(0, "world", config.world)
    return write_table(layout1(table, footer(config, arms)), table, stem)
