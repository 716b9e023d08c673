"""The GenEval 2 protocol (paper 5.2, App. G): from a table of atom scores to its numbers.

A score table has one row an atom: `prompt_id`, `prompt`, `generation_seed`, `atom` (0..K-1),
`skill`, `atom_count` and one column a scorer, each score in [0, 1]. All aggregates first check
it: a missing image or a prompt that was generated a different number of times is refused, never
averaged over.
"""

import numpy as np
import pandas as pd

from cast.errors import CastError

SKILLS = ("object", "attribute", "count", "position", "verb")
KEYS = ("prompt_id", "generation_seed", "atom")
COLUMNS = (*KEYS, "prompt", "skill", "atom_count")
SATURATED = 0.95  # App. G counts the prompts whose score is at least this
CLAMP = 1e-6  # ours: a geometric mean's floor; a softmax in float32 does underflow to zero


def check_scores(scores: pd.DataFrame, column: str = "score", where: str = "scores") -> None:
    """Raise `CastError` unless every prompt has each of its atoms once under the same seeds."""
    missing = [name for name in (*COLUMNS, column) if name not in scores.columns]
    if missing:
        raise CastError(f"{where}: no column {missing[0]!r}; it has {sorted(scores.columns)}.")
    if scores.empty:
        raise CastError(f"{where}: no rows; score at least one image first.")
    bad = scores[~scores[column].between(0.0, 1.0)]  # NaN is outside as well
    if len(bad):
        row = bad.iloc[0]
        raise CastError(
            f"{where}: {column} of prompt {row.prompt_id}, seed {row.generation_seed}, atom "
            f"{row.atom} is {row[column]}; allowed are numbers from 0 to 1. Score it again."
        )
    duplicated = scores[scores.duplicated(list(KEYS))]
    if len(duplicated):
        row = duplicated.iloc[0]
        raise CastError(
            f"{where}: prompt {row.prompt_id} ({row.prompt!r}), seed {row.generation_seed}, atom "
            f"{row.atom} stands there twice; every prompt of a benchmark must be there once."
        )
    _check_replicates(scores, where)


def _check_replicates(scores: pd.DataFrame, where: str) -> None:
    seeds = sorted(set(scores["generation_seed"]))
    size, last = (
        scores.pivot_table("atom", "prompt_id", "generation_seed", aggfunc=how)
        for how in ("count", "max")
    )
    absent = size.isna().to_numpy()
    if absent.any():
        row, column = np.argwhere(absent)[0]
        raise CastError(
            f"{where}: prompt {size.index[row]} has no image of seed {seeds[column]}, while others "
            f"have the seeds {seeds}; replicates must be equal. Run the evaluation again: it makes "
            "what is missing."
        )
    counts, lasts = size.to_numpy(), last.to_numpy()
    broken = (counts != counts[:, :1]) | (lasts != counts - 1)
    if broken.any():
        row, column = np.argwhere(broken)[0]
        raise CastError(
            f"{where}: prompt {size.index[row]} lacks atoms under seed {seeds[column]} "
            f"({counts[row, column]:.0f} rows, highest atom {lasts[row, column]:.0f}); score its "
            "images again."
        )


def prompt_means(scores: pd.DataFrame, column: str = "score") -> pd.DataFrame:
    """Soft-TIFA AM of each image: mean over its atoms; prompts as rows, seeds as columns."""
    check_scores(scores, column)
    return scores.pivot_table(column, "prompt_id", "generation_seed", aggfunc="mean")


def overall(scores: pd.DataFrame, column: str = "score") -> pd.Series:
    """AM overall, one value a seed: mean over prompts of each prompt's mean over atoms."""
    return prompt_means(scores, column).mean()


def by_skill(scores: pd.DataFrame, column: str = "score") -> pd.DataFrame:
    """AM of each skill (rows) and seed (columns): mean over all atoms of that skill.

    Atoms are pooled, not averaged within a prompt first: a prompt with three objects counts
    three times among the object atoms, as in the published evaluator. Absent skills have no row.
    """
    check_scores(scores, column)
    return _by_skill(scores, column)


def _by_skill(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    table = scores.pivot_table(column, "skill", "generation_seed", aggfunc="mean")
    return table.reindex([skill for skill in SKILLS if skill in table.index])


def geometric_by_atom_count(
    scores: pd.DataFrame, column: str = "score", clamp: float = CLAMP
) -> pd.DataFrame:
    """Soft-TIFA GM by atom count (rows) and seed (columns): prompts' geometric means, averaged.

    Scores below `clamp` count as `clamp`, so that one underflowing atom gives a small number and
    not a logarithm of zero (ours: the published evaluator has no clamp).
    """
    check_scores(scores, column)
    return _geometric(scores, column, clamp)


def _geometric(scores: pd.DataFrame, column: str, clamp: float) -> pd.DataFrame:
    logs = scores.assign(log=np.log(scores[column].clip(lower=clamp)))
    images = logs.pivot_table("log", ["atom_count", "prompt_id"], "generation_seed", aggfunc="mean")
    images = images.map(np.exp).reset_index(level="atom_count")
    return images.pivot_table(index="atom_count", aggfunc="mean")


def share_saturated(means: pd.DataFrame) -> pd.Series:
    """Share of prompts whose image scores at least 0.95, one value a seed, from `prompt_means`.

    App. G averages the share over the seeds; so does the mean of this series. A score within
    1e-9 of the threshold reaches it, whatever the order in which its atoms were summed.
    """
    return (means >= SATURATED - 1e-9).mean()


def report(scores: pd.DataFrame, column: str = "score") -> dict[str, pd.Series]:
    """All numbers of the protocol, each a series over seeds: overall, saturated, skills, gm_N."""
    means = prompt_means(scores, column)
    named = {"overall": means.mean(), "saturated": share_saturated(means)}
    named |= {str(skill): row for skill, row in _by_skill(scores, column).iterrows()}
    gm = _geometric(scores, column, CLAMP)
    return named | {f"gm_{atom_count}": row for atom_count, row in gm.iterrows()}
