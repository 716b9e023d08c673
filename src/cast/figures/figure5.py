"""Figures 5 and 6 (paper App. A): one benchmark prompt a row, one method a column, with scores.

The rows aren't picked by eye: they are the Hard Case prompts in the order of the frozen file
(lowest base mean first), and the images are those of the first generation seed.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cast.config import CastConfig
from cast.evaluation.folders import BASE, arm_folder
from cast.evaluation.results import Arm, load_arms, load_hard_case
from cast.evaluation.store import ImageStore, pixels_sha256
from cast.figures.footer import WORLDS, config_name
from cast.figures.style import PAGE, look, new_figure, note, save_figure

WORDS = 1.1  # inches for the prompt
ROWS = 6  # prompts a figure: figure 5 has the first six, figure 6 the next


def grid_rows(arms: Sequence[Arm], prompt_ids: Sequence[str], seed: int) -> pd.DataFrame:
    """One row an image: `prompt_id`, `prompt`, `method`, `title`, `generation_seed`, `score`
    (mean over atoms by the verifier) and `oracle` (the same by the oracle, NaN without one)."""
    rows = []
    for prompt_id in prompt_ids:
        for arm in arms:
            first = min(arm.scores)
            row = image_row(arm.scores[first], prompt_id, seed)
            rows.append({**row, "method": arm.method, "title": arm.title, "training_seed": first})
    return pd.DataFrame(rows)


def image_row(scores: pd.DataFrame, prompt_id: str, seed: int) -> dict[str, Any]:
    """Prompt and mean scores of one image of a score table."""
    own = scores[(scores["prompt_id"] == prompt_id) & (scores["generation_seed"] == seed)]
    return {
        "prompt_id": prompt_id,
        "prompt": own["prompt"].iloc[0],
        "generation_seed": seed,
        "score": own["score"].mean(),
        "oracle": own["oracle"].mean(),
    }


def load_images(folder: Path, rows: pd.DataFrame) -> list[np.ndarray]:
    """The stored images of `rows` (by prompt id and generation seed), in their order."""
    stored = pd.read_parquet(folder / "images.parquet")
    keys = zip(stored["prompt_id"], stored["generation_seed"], strict=True)
    names = dict(zip(keys, stored["image_sha256"], strict=True))
    store = ImageStore(folder / "images")
    wanted = zip(rows["prompt_id"], rows["generation_seed"], strict=True)
    return [store.get(names[key]) for key in wanted]


def image_grid(rows: pd.DataFrame, images: Sequence[np.ndarray], foot: list[str]) -> Figure:
    """The grid of `images` (uint8 [H, W, 3], in the order of `rows`); a row's best score is bold,
    wherever it stands."""
    records: list[dict[str, Any]] = rows.to_dict("records")
    titles = list(dict.fromkeys(record["title"] for record in records))
    prompts = list(dict.fromkeys(record["prompt"] for record in records))
    columns = len(titles)
    side = min(1.15, (PAGE - WORDS) / columns)  # inches an image
    figure = new_figure(WORDS + side * columns, 0.5 + len(prompts) * (side + 0.14))
    with look():
        axes = figure.subplots(
            len(prompts), columns + 1, squeeze=False, width_ratios=[WORDS / side, *[1.0] * columns]
        )
        for number, (record, image) in enumerate(zip(records, images, strict=True)):
            row, column = divmod(number, columns)
            best = max(record["score"] for record in records[row * columns : (row + 1) * columns])
            axis = axes[row, column + 1]
            axis.imshow(image, interpolation="nearest" if len(image) < 256 else "antialiased")
            axis.set_xlabel(
                _scores(record),
                fontsize=6,
                fontweight="bold" if f"{record['score']:.2f}" == f"{best:.2f}" else "normal",
                labelpad=1.5,
            )
            if row == 0:
                axis.set_title(record["title"])
            axis.set(xticks=[], yticks=[])
            if column == 0:
                axes[row, 0].axis("off")
                words = fill(record["prompt"], 19)
                axes[row, 0].text(0.0, 0.5, words, va="center", fontsize=7, wrap=True)
        note(figure, foot)
    return figure


def _scores(record: dict[str, Any]) -> str:
    oracle = record["oracle"]
    return f"{record['score']:.2f}" + ("" if np.isnan(oracle) else f" (oracle {oracle:.2f})")


def _columns(arms: Sequence[Arm]) -> list[Arm]:
    """Base, the strongest SFT variant (by overall mean), then the others in the config's order."""
    supervised = [arm for arm in arms if arm.kind == "sft"]
    best = max(supervised, key=lambda arm: arm.by_prompt().mean(), default=None)
    base = [arm for arm in arms if arm.method == BASE]
    others = [arm for arm in arms if arm.method != BASE and arm.kind != "sft"]
    return base + ([best] if best is not None else []) + others


def shown_prompts(prompt_ids: Sequence[str], first: int) -> tuple[int, list[str]]:
    """ROWS prompts from place `first` on; the last ones of a list that is too short for that."""
    first = min(first, max(len(prompt_ids) - ROWS, 0))
    return first, list(prompt_ids[first : first + ROWS])


def _make(config: CastConfig, stem: Path, first: int) -> list[Path]:
    hard_case = load_hard_case(config)
    backbone = config.evaluation.hard_case.backbone
    arms = _columns(load_arms(config, backbones=[backbone]))
    first, chosen = shown_prompts(hard_case.prompt_ids, first)
    seed = config.evaluation.seeds[0]
    rows = grid_rows(arms, chosen, seed)
    by_method = {
        arm.method: load_images(
            arm_folder(config, backbone, arm.method, min(arm.scores)),
            rows[rows["method"] == arm.method],
        )
        for arm in arms
    }
    images = [by_method[arm.method][i] for i in range(len(chosen)) for arm in arms]
    rows["image_sha256"] = [pixels_sha256(image) for image in images]
    foot = [
        WORLDS[config.world],
        f"{backbone}; Hard Case prompts {first + 1} to {first + len(chosen)} of the frozen list, "
        f"seed {seed}; mean atom score; config {config_name(config)}.",
    ]
    return save_figure(image_grid(rows, images, foot), stem, rows)


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Figure 5: the hardest six."""
    return _make(config, stem, 0)


def make6(config: CastConfig, stem: Path) -> list[Path]:
    """Figure 6: the next six."""
    return _make(config, stem, ROWS)
