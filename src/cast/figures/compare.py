"""Two evaluated runs side by side: settings, budgets, scores with intervals, and images.

    make compare A=results/mini/mini-flux2/cast/seed0 B=results/mini/mini-flux2/base/seed0

Unlike a table it refuses little: it is for finding out how two runs differ, so what differs is
listed. Only the scores need the same prompts and seeds.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from cast.evaluation.budget import differences
from cast.evaluation.geneval2 import SKILLS, prompt_means
from cast.evaluation.replicates import Interval, difference, mean_by_prompt
from cast.evaluation.results import read_scores
from cast.figures.figure5 import image_grid, image_row, load_images
from cast.figures.numbers import bracketed, interval_columns, plain
from cast.figures.style import save_figure
from cast.io import read_json

SHOWN = 6  # prompts in the picture: those whose score differs most
LEDGER_KEYS = ("world", "backbone", "base_sha256", "method", "seed", "images", "updates")


def compare(first: Path, second: Path, out: Path) -> str:
    """Compare two arms' folders; writes `out/compare.pdf`, `.png`, `.csv`, returns the report."""
    scores = [read_scores(folder) for folder in (first, second)]
    table = score_differences(*scores)
    lines = [f"A = {first}", f"B = {second}", "", "Settings and budgets that differ (A, B):"]
    for name in ("evaluation.json", "ledger.json", "run.json"):
        one, two = _record(first, name), _record(second, name)
        if bool(one) != bool(two):
            lines.append(f"  {name}: only {'A' if one else 'B'} has one")
            continue
        for place, left, right in differences(one, two):
            lines.append(f"  {name}: {place}: {_short(left)} | {_short(right)}")
    lines += ["", "Scores, and A minus B with its 95% interval over prompts:"]
    for row in table.to_dict("records"):
        lines.append(
            f"  {row['measure']!s:24}{plain(row['a'])}  {plain(row['b'])}  "
            f"{bracketed(row, 'difference')}"
        )
    _save_pictures(first, second, scores, out)
    return "\n".join(lines)


def score_differences(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Columns `measure`, `a`, `b`, `difference` with bounds: overall, by skill, and by the oracle.

    Raises `CastError` where the two scored different prompts.
    """
    views = {"overall": ("score", None), "overall, strict": ("score_strict", None)}
    views |= {skill: ("score", skill) for skill in SKILLS}
    if first["oracle"].notna().all() and second["oracle"].notna().all():
        views["overall, by the oracle"] = ("oracle", None)
    rows = []
    for name, (column, skill) in views.items():
        a, b = (_by_prompt(table, column, skill) for table in (first, second))
        if len(a) and len(b):
            gain: Interval = difference(a, b)
            row = {"measure": name, "a": a.mean(), "b": b.mean()}
            rows.append(row | interval_columns("difference", gain))
    return pd.DataFrame(rows)


def _by_prompt(table: pd.DataFrame, column: str, skill: str | None) -> pd.Series:
    if skill is None:
        return mean_by_prompt(prompt_means(table, column))
    return table[table["skill"] == skill].groupby("prompt_id")[column].mean()


def _record(folder: Path, name: str) -> dict[str, Any]:
    """What a file says of budget and settings; empty where the run has no such file."""
    if not (folder / name).is_file():
        return {}
    record = read_json(folder / name)
    if name == "ledger.json":
        return {key: record.get(key) for key in LEDGER_KEYS} | {
            "prompts and windows": [record.get("prompt_ids"), record.get("window_starts")]
        }
    return record["run"] if name == "run.json" else record


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 48 else text[:45] + "..."


def _save_pictures(first: Path, second: Path, scores: list[pd.DataFrame], out: Path) -> None:
    means = [mean_by_prompt(prompt_means(table)) for table in scores]
    apart = dict(zip(means[0].index, (means[0] - means[1]).abs().round(12), strict=True))
    chosen = sorted(apart, key=lambda prompt_id: (-apart[prompt_id], prompt_id))[:SHOWN]
    rows, images = [], []
    for prompt_id in chosen:
        for title, folder, table in zip("AB", (first, second), scores, strict=True):
            row = image_row(table, str(prompt_id), int(table["generation_seed"].min()))
            rows.append({**row, "title": title})
            images += load_images(folder, pd.DataFrame([row]))
    table = pd.DataFrame(rows)
    foot = [f"A: {first.parent.name}/{first.name}   B: {second.parent.name}/{second.name}"]
    save_figure(image_grid(table, images, foot), out / "compare", table)
