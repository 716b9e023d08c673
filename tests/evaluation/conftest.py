"""Small score tables whose aggregates are known by hand."""

from collections.abc import Callable

import pandas as pd
import pytest

SKILLS = ("object", "count", "position")


def build_scores(images: dict[tuple[str, int], list[float]]) -> pd.DataFrame:
    """Score rows of images given as {(prompt_id, seed): scores of its atoms}."""
    return pd.DataFrame(
        [
            {
                "prompt_id": prompt_id,
                "prompt": f"prompt {prompt_id}",
                "generation_seed": seed,
                "atom": atom,
                "skill": SKILLS[atom],
                "atom_count": len(scores),
                "score": score,
                "score_strict": score,
                "oracle": float(score > 0.5),
            }
            for (prompt_id, seed), scores in images.items()
            for atom, score in enumerate(scores)
        ]
    )


@pytest.fixture
def score_table() -> Callable[[dict[tuple[str, int], list[float]]], pd.DataFrame]:
    return build_scores


@pytest.fixture
def two_by_two() -> pd.DataFrame:
    """Two prompts (two and three atoms) under two seeds."""
    return build_scores(
        {
            ("a", 1): [1.0, 0.5],
            ("a", 2): [0.5, 0.5],
            ("b", 1): [0.2, 0.4, 0.9],
            ("b", 2): [1.0, 1.0, 0.85],
        }
    )
