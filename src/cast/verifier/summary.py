"""Soft-TIFA's aggregates of a score table, as text.

A table has one row an atom: `prompt_id`, `generation_seed`, `skill`, `atom_count`, `score`.
AM is the arithmetic mean over an image's atoms, GM the geometric one. GenEval 2 reports AM for
skills (atoms pooled over prompts) and GM for atom counts. Numbers are percentages.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

GM_CLAMP = 1e-6
"""Scores below this count as this in a GM, so that an underflow is not a logarithm of zero
(ours: the published evaluator has no clamp, and one zero makes its GM zero)."""

SKILL_ORDER = ("object", "attribute", "count", "position", "verb")


def image_means(scores: pd.DataFrame, column: str = "score") -> pd.DataFrame:
    """One row an image: `am`, `gm` in [0, 1], with its prompt, seed and atom count."""
    keys = ["prompt_id", "generation_seed", "atom_count"]
    table = scores.assign(am=scores[column], log=np.log(scores[column].clip(lower=GM_CLAMP)))
    means = table.pivot_table(["am", "log"], keys, aggfunc="mean").reset_index()
    return means.assign(gm=np.exp(means["log"].to_numpy())).drop(columns="log")


def skill_means(scores: pd.DataFrame, column: str = "score") -> dict[str, float]:
    """AM by skill, in [0, 1]; skills that no atom has are left out."""
    present = [skill for skill in SKILL_ORDER if bool((scores["skill"] == skill).any())]
    return {s: float(np.mean(scores.loc[scores["skill"] == s, column])) for s in present}


def atom_count_means(images: pd.DataFrame) -> dict[int, float]:
    """GM by atom count, in [0, 1], of a table that `image_means` made."""
    counts = sorted({int(count) for count in images["atom_count"]})
    return {n: float(np.mean(images.loc[images["atom_count"] == n, "gm"])) for n in counts}


def summary_text(scores: pd.DataFrame) -> str:
    """The tables that the command prints: overall, by skill (AM), by atom count (GM)."""
    official, strict = image_means(scores), image_means(scores, "score_strict")

    def lines(title: str, left: Mapping[Any, float], right: Mapping[Any, float]) -> list[str]:
        return ["", title] + [
            f"  {name!s:<10}{100 * value:>10.2f}{100 * right[name]:>10.2f}"
            for name, value in left.items()
        ]

    def overall(images: pd.DataFrame) -> dict[str, float]:
        return {name: float(np.mean(images[name.lower()])) for name in ("AM", "GM")}

    return "\n".join(
        [
            f"{len(official)} images, {scores['prompt_id'].nunique()} prompts, {len(scores)} atoms",
            *lines("percent       official    strict", overall(official), overall(strict)),
            *lines("AM by skill", skill_means(scores), skill_means(scores, "score_strict")),
            *lines("GM by atom count", atom_count_means(official), atom_count_means(strict)),
        ]
    )
