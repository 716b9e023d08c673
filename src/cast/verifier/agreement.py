"""How often the verifier is right, where the truth is known (the mini world's oracle).

Works on any table with one row an atom: `skill`, a score in [0, 1] and a truth of 0 or 1, such
as an evaluated arm's `scores.parquet`. A score of at least 0.5 is a yes. For a count probe the
score is the probability of the asked number, so a yes means "that many".
"""

import numpy as np
import pandas as pd

from cast.errors import CastError

THRESHOLD = 0.5
ORDER = ("object", "attribute", "count", "position", "verb")


def agreement(
    table: pd.DataFrame, column: str = "score_strict", truth: str = "oracle"
) -> pd.DataFrame:
    """One row a skill, then `all`: `atoms`, `agreement`, and the confusion counts.

    `both_yes`, `verifier_only` (a false yes), `truth_only` (a false no), `both_no`; and
    `false_yes_rate`, `false_no_rate`, as shares of the truly false and the truly true (NaN where
    there is none). `CastError` for a missing column, no rows, or a truth other than 0 and 1.
    """
    for name in ("skill", column, truth):
        if name not in table:
            raise CastError(f"scores: no column {name!r}; it has {sorted(table.columns)}.")
    if table.empty or not np.isin(table[truth].to_numpy(), [0, 1]).all():
        raise CastError(f"scores: {truth} must be 0 or 1 in every row; only the mini world has it.")
    present = [skill for skill in ORDER if bool((table["skill"] == skill).any())]
    rows = {
        skill: _confusion(table.loc[table["skill"] == skill], column, truth) for skill in present
    }
    rows["all"] = _confusion(table, column, truth)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("skill").reset_index()


def _confusion(table: pd.DataFrame, column: str, truth: str) -> dict[str, int | float]:
    said = table[column].to_numpy() >= THRESHOLD
    true = table[truth].to_numpy() == 1
    both_yes, verifier_only = int((said & true).sum()), int((said & ~true).sum())
    truth_only, both_no = int((~said & true).sum()), int((~said & ~true).sum())
    return {
        "atoms": len(table),
        "agreement": (both_yes + both_no) / len(table),
        "both_yes": both_yes,
        "verifier_only": verifier_only,
        "truth_only": truth_only,
        "both_no": both_no,
        "false_yes_rate": _share(verifier_only, verifier_only + both_no),
        "false_no_rate": _share(truth_only, truth_only + both_yes),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
