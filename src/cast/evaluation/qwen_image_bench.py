"""Qwen-Image-Bench over replicates (paper 5.2, G): overall quality, mean and sample sd over seeds.

The protocol of one image (facets, grades, nested means) is `cast.verifier.quality_judge`'s. Here
are its rows for many images and their aggregates. A grade that couldn't be read is kept as
`unread`: it is left out of the means, as the protocol leaves out N/A, and it is counted.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from cast.errors import CastError
from cast.verifier.quality_judge import (
    Facet,
    Grade,
    ImageJudgement,
    Judge,
    image_points,
    judge_image,
)

KEYS = ["prompt_id", "generation_seed", "facet"]
UNREAD = "unread"
_GRADES: dict[str, Grade] = {"0": 0, "1": 1, "2": 2, "N/A": "N/A"}


def judge_rows(
    judge: Judge, image: Image.Image, prompt: str, facets: Iterable[Facet], key: Mapping[str, Any]
) -> pd.DataFrame:
    """One row a facet of one image: `key`'s columns, `facet`, `grade`, and the raw `answer` of
    those that couldn't be read."""
    judged = judge_image(judge, image, prompt, facets)
    grades = {str(facet): str(grade) for facet, grade in judged.grades.items()}
    grades |= {str(facet): UNREAD for facet in judged.unread}
    answers = {str(facet): answer for facet, answer in judged.unread.items()}
    return pd.DataFrame(
        [
            {**key, "prompt": prompt, "facet": facet, "grade": grade, "answer": answers.get(facet)}
            for facet, grade in sorted(grades.items())
        ]
    )


def check_quality(table: pd.DataFrame) -> None:
    """Raise `CastError` for an unknown grade, a facet twice, or unequal replicates."""
    unknown = sorted(set(table["grade"]) - {*_GRADES, UNREAD})
    if unknown:
        raise CastError(
            f"quality: grade {unknown[0]!r}; allowed are {', '.join([*_GRADES, UNREAD])}."
        )
    twice = table[table.duplicated(KEYS)]
    if len(twice):
        row = twice.iloc[0]
        raise CastError(
            f"quality: prompt {row.prompt_id}, seed {row.generation_seed}, facet {row.facet!r} "
            "stands there twice."
        )
    asked = table.pivot_table("grade", ["prompt_id", "facet"], "generation_seed", aggfunc="count")
    if asked.isna().to_numpy().any():
        row, column = np.argwhere(asked.isna().to_numpy())[0]
        prompt_id, facet = asked.index[row]
        raise CastError(
            f"quality: prompt {prompt_id}, facet {facet!r} has no answer for seed "
            f"{asked.columns[column]}; replicates must be equal. Judge the missing image."
        )


def quality_points(table: pd.DataFrame, level: str = "Overall") -> pd.DataFrame:
    """Points (0 to 100) of a level: prompts as rows, seeds as columns; NaN where an image has no
    grade on that level."""
    check_quality(table)
    judged: dict[tuple[str, int], dict[Facet, Grade]] = {}
    columns = (table[name] for name in ("prompt_id", "generation_seed", "facet", "grade"))
    for prompt_id, seed, facet, grade in zip(*columns, strict=True):
        grades = judged.setdefault((prompt_id, seed), {})
        if grade != UNREAD:
            grades[Facet.parse(facet)] = _GRADES[grade]
    rows = [
        (*key, image_points(ImageJudgement(grades, {})).get(level, np.nan))
        for key, grades in judged.items()
    ]
    points = pd.DataFrame(rows, columns=["prompt_id", "generation_seed", "points"])
    return points.pivot(index="prompt_id", columns="generation_seed", values="points")


def overall_quality(table: pd.DataFrame) -> pd.Series:
    """Overall of each seed: mean over the images that have one."""
    return quality_points(table).mean()


def unread_share(table: pd.DataFrame) -> float:
    """Share of the judge's answers that couldn't be read."""
    return float(np.mean(table["grade"].to_numpy() == UNREAD))
