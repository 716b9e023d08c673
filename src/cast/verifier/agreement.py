"""How often the verifier is right, where the truth is known (the mini world's oracle).

Works on any table with one row an atom: `skill`, a score in [0, 1] and a truth of 0 or 1, such
as an evaluated arm's `scores.parquet`. A score of at least 0.5 is a yes. For a count probe the
score is the probability of the asked number, so a yes means "that many".
"""

import numpy as np
import pandas as pd

from cast.errors import CastError

THRESHOLD = 0.5
ORDER = ("object", "attribute", "colour", "texture", "count", "position", "verb")


def agreement(
    table: pd.DataFrame, column: str = "score_strict", truth: str = "oracle", by: str = "skill"
) -> pd.DataFrame:
    """One row a skill (or another column, `by`), then `all`: how often `column` is right.

    Columns: `atoms`, `agreement`; `balanced`, the mean of the shares right among the truly false
    and the truly true, which a judge that says yes to everything can't raise above a half; the
    confusion counts `both_yes`, `verifier_only` (a false yes), `truth_only` (a false no),
    `both_no`; and `false_yes_rate`, `false_no_rate`, as shares of the truly false and the truly
    true. A share of none is NaN. `CastError` for a missing column, no rows, or a truth other than
    0 and 1.
    """
    for name in (by, column, truth):
        if name not in table:
            raise CastError(f"scores: no column {name!r}; it has {sorted(table.columns)}.")
    if table.empty or not np.isin(table[truth].to_numpy(), [0, 1]).all():
        raise CastError(f"scores: {truth} must be 0 or 1 in every row; only the mini world has it.")
    present = set(table[by])
    rows = {
        name: _confusion(table.loc[table[by] == name], column, truth)
        for name in [*(n for n in ORDER if n in present), *sorted(present - set(ORDER))]
    }
    rows["all"] = _confusion(table, column, truth)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(by).reset_index()


def _confusion(table: pd.DataFrame, column: str, truth: str) -> dict[str, int | float]:
    said = table[column].to_numpy() >= THRESHOLD
    true = table[truth].to_numpy() == 1
    both_yes, verifier_only = int((said & true).sum()), int((said & ~true).sum())
    truth_only, both_no = int((~said & true).sum()), int((~said & ~true).sum())
    false_yes = _share(verifier_only, verifier_only + both_no)
    false_no = _share(truth_only, truth_only + both_yes)
    return {
        "atoms": len(table),
        "agreement": (both_yes + both_no) / len(table),
        "balanced": 1 - (false_yes + false_no) / 2,
        "both_yes": both_yes,
        "verifier_only": verifier_only,
        "truth_only": truth_only,
        "both_no": both_no,
        "false_yes_rate": false_yes,
        "false_no_rate": false_no,
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
