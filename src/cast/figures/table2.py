"""Table 2 (paper 5.3, App. C): which part of CAST does the work, on one backbone.

All rows share prompts, windows, images, updates and optimisation; they differ in how an atom's
score becomes credit. The last column is what CAST gains over the row on Hard Case, with a paired
bootstrap interval over prompts: above 0, the part that the row lacks matters.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig, load_method_config
from cast.evaluation.folders import BASE
from cast.evaluation.geneval2 import SKILLS
from cast.evaluation.hard_case import HardCase
from cast.evaluation.results import Arm, load_arms, load_hard_case
from cast.figures.footer import footer
from cast.figures.numbers import bracketed, interval_columns, plain, plus_minus
from cast.figures.table1 import find_arm, over, table1
from cast.figures.typesetting import Layout, write_table

PARTS = {  # credit routing -> (normalised by, spatial weight)
    None: ("–", "–"),
    "uniform": ("image", "none"),
    "per_atom": ("atom", "none"),
    "aggregate_map": ("image", "mean map"),
    "shuffled_map": ("atom", "another atom's map"),
    "atom_map": ("atom", "own map"),
}


def table2(arms: Sequence[Arm], hard_case: HardCase) -> pd.DataFrame:
    """Table 1's row of each ablation, with `credit`, `weight` and `cast_over` (and bounds)."""
    rows = table1(arms, hard_case)
    extra = []
    for arm in arms:
        routing = None if arm.method == BASE else load_method_config(arm.method).routing
        credit, weight = PARTS[routing]
        cast = find_arm(arms, arm.backbone, "cast")
        ahead = over(cast, arm, prompts=hard_case.prompt_ids)
        extra.append({"credit": credit, "weight": weight} | interval_columns("cast_over", ahead))
    return pd.concat([rows, pd.DataFrame(extra)], axis=1)


def layout2(table: pd.DataFrame, foot: Sequence[str]) -> Layout:
    """The table as it is typeset."""
    rows: list[dict[str, Any]] = table.to_dict("records")
    skills = [s for s in SKILLS if f"{s}_mean" in table.columns]
    header = ["Variant", "Credit per", "Spatial weight", "Overall", "Hard Case"]
    header += [skill.capitalize() for skill in skills]
    header += ["Gain over base [95%]", "CAST's lead [95%]"]
    cells = [
        [
            row["title"],
            row["credit"],
            row["weight"],
            plus_minus(row["overall_mean"], row["overall_sd"]),
            plus_minus(row["hard_mean"], row["hard_sd"]),
            *(plain(row[f"{skill}_mean"]) for skill in skills),
            bracketed(row, "hard_gain"),
            bracketed(row, "cast_over"),
        ]
        for row in rows
    ]
    spans = [("", 3), ("GenEval 2 AM by the verifier", 2 + len(skills)), ("on Hard Case", 2)]
    return Layout(
        title=f"Table 2. {rows[0]['backbone']}: ablations",
        header=header,
        cells=cells,
        spans=spans,
        rules=frozenset({1}),
        footer=[
            "Mean ± sample standard deviation over generation seeds; intervals: paired bootstrap "
            "over prompts. Flow-GRPO (G2) is the sum reward.",
            *foot,
        ],
    )


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Read the ablations of the Hard Case's backbone and write the table's files."""
    backbone = config.evaluation.hard_case.backbone
    arms = load_arms(config, methods=config.ablations, backbones=[backbone])
    table = table2(arms, load_hard_case(config))
    table.insert(0, "world", config.world)
    return write_table(layout2(table, footer(config, arms)), table, stem)
