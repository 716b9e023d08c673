"""Figure 1 (paper 1, 4): the method on one real prompt, from scene graph to signed map.

A row an image of the prompt's group; beside the image, each atom's heatmap tinted by the sign of
its advantage (blue for, orange against), and last their sum, the map that weights the policy's
gradient. Everything is computed, nothing is drawn by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from cast.config import CastConfig
from cast.credit import advantage_map, group_advantages
from cast.errors import CastError
from cast.evaluation.folders import BASE, arm_folder, benchmark
from cast.evaluation.results import load_hard_case
from cast.evaluation.store import ImageStore
from cast.figures.footer import WORLDS, config_name
from cast.figures.prompts import draw_graph
from cast.figures.style import AGAINST, FOR, PAGE, look, new_figure, note, save_figure
from cast.scene_graph import PromptRecord, Vocabulary, load_vocabulary

SHOWN = 3  # images of the group that are shown: the best, the worst and the one between
FINEST = 16  # cells along a map's longer side: all that a page shows (mini's own grid is 8x8)
SIGNED = LinearSegmentedColormap.from_list("signed", [AGAINST, "#FFFFFF", FOR])


@dataclass(frozen=True)
class Example:
    """One prompt's group with everything that its advantage map is made of.

    B images, K atoms, an R x C token grid; `advantages` are per atom, `maps` their weighted sum.
    """

    record: PromptRecord
    images: UInt8[np.ndarray, "B H W 3"]
    scores: Float[Tensor, "B K"]
    heatmaps: Float[Tensor, "B K R C"]
    advantages: Float[Tensor, "B K"]
    maps: Float[Tensor, "B R C"]


def make_example(
    record: PromptRecord,
    images: UInt8[np.ndarray, "B H W 3"],
    verifier: Any,
    grid: tuple[int, int],
    clip: float = 5.0,
    eps: float = 1e-4,
) -> Example:
    """Score a group of at least two images, read its heatmaps and make CAST's map."""
    if len(images) < 2:
        raise CastError(f"figure1: {len(images)} image; a group needs at least two.")
    tensor = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0
    scores, heatmaps = verifier.score_and_heatmaps(tensor, record, grid)
    resolution = verifier.resolution(scores)
    return Example(
        record=record,
        images=images,
        scores=scores,
        heatmaps=heatmaps,
        advantages=group_advantages(scores, resolution, eps),
        maps=advantage_map("atom_map", scores, heatmaps, grid, resolution, clip, eps=eps),
    )


def example_rows(example: Example) -> pd.DataFrame:
    """One row an image and atom: its score, its advantage, and where its heatmap peaks."""
    peaks = example.heatmaps.flatten(2).argmax(dim=2)
    columns = example.heatmaps.shape[3]
    return pd.DataFrame(
        [
            {
                "prompt": example.record.prompt,
                "image": i,
                "atom": k,
                "skill": atom.skill,
                "probe": atom.probe,
                "answer": atom.answer,
                "score": float(example.scores[i, k]),
                "advantage": float(example.advantages[i, k]),
                "peak_row": int(peaks[i, k]) // columns,
                "peak_column": int(peaks[i, k]) % columns,
            }
            for i in range(len(example.images))
            for k, atom in enumerate(example.record.atoms)
        ]
    )


def figure1(example: Example, vocabulary: Vocabulary, foot: Sequence[str]) -> Figure:
    """Graph and probes above; below, images, signed heatmaps and the advantage map."""
    atoms = len(example.record.atoms)
    shown = _shown(example.scores.mean(dim=1))
    figure = new_figure(PAGE, 1.35 + 0.72 * len(shown) + 0.35)
    with look():
        heights = [1.35, 0.72 * len(shown) + 0.2]
        above, below = figure.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
        left, right = above.subplots(1, 2, width_ratios=[1, 2.2])
        draw_graph(example.record.graph, vocabulary, left)
        _write_probes(right, example.record)
        axes = below.subplots(len(shown), atoms + 2, squeeze=False)
        for row, i in enumerate(shown):
            _draw_image(axes[row, 0], example, i, row == 0)
            for k in range(atoms):
                _draw_atom(axes[row, 1 + k], example, i, k, row == 0)
            _draw_map(axes[row, -1], example, i, row == 0)
        note(figure, foot)
    return figure


def _shown(means: Float[Tensor, " B"]) -> list[int]:
    """Best, middle and worst image by mean score; ties by their order in the group."""
    order = sorted(range(len(means)), key=lambda i: (-float(means[i]), i))
    places = np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)
    return [order[place] for place in places]


def _write_probes(axis: Axes, record: PromptRecord) -> None:
    lines = [f"“{record.prompt}”", ""]
    for k, atom in enumerate(record.atoms):
        lines.append(f"{k + 1}  {atom.probe}  →  {atom.answer}   ({atom.skill})")
    axis.text(0.0, 0.98, "\n".join(lines), va="top", fontsize=6.5, linespacing=1.35)
    axis.axis("off")


def _bare(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set_linewidth(0.4)


def _draw_image(axis: Axes, example: Example, i: int, first: bool) -> None:
    axis.imshow(example.images[i], interpolation="nearest")
    axis.set_xlabel(f"mean {float(example.scores[i].mean()):.2f}", fontsize=6, labelpad=1)
    _bare(axis)
    if first:
        axis.set_title("image", fontsize=6.5)


def _draw_atom(axis: Axes, example: Example, i: int, k: int, first: bool) -> None:
    """The atom's heatmap, tinted for or against as its advantage says; grey where it is 0."""
    value = float(example.advantages[i, k])
    heat = example.heatmaps[i, k].numpy()
    colour = "#777777" if value == 0 else (FOR if value > 0 else AGAINST)
    tint = LinearSegmentedColormap.from_list("tint", ["#FFFFFF", colour])
    axis.imshow(heat, cmap=tint, vmin=0.0, vmax=float(example.heatmaps[i].max()))
    axis.set_xlabel(
        f"p {float(example.scores[i, k]):.2f}\nA {round(value, 1) + 0.0:+.1f}",
        fontsize=5.5,
        labelpad=1,
    )
    _bare(axis)
    if first:
        axis.set_title(f"{k + 1}\n{fill(example.record.atoms[k].skill, 9)}", fontsize=6)


def _draw_map(axis: Axes, example: Example, i: int, first: bool) -> None:
    largest = max(float(example.maps.abs().max()), 1e-12)
    height, width = example.images.shape[1:3]
    grey = example.images[i].mean(axis=2)
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axis.imshow(grey, cmap="gray", vmin=0, vmax=255)
    axis.imshow(
        example.maps[i].numpy(),
        cmap=SIGNED,
        vmin=-largest,
        vmax=largest,
        alpha=0.75,
        extent=extent,
        interpolation="nearest",
    )
    axis.set_xlabel(f"sum, ±{largest:.1f}", fontsize=6, labelpad=1)
    _bare(axis)
    if first:
        axis.set_title("map", fontsize=6.5)


def choose_prompt(
    records: Sequence[PromptRecord], hard: Sequence[str], scores: pd.DataFrame
) -> PromptRecord:
    """The Hard Case prompt with the most skills and the widest spread of atom scores.

    A rule, not an eye: skills first, then the sum over atoms of the standard deviation over
    seeds, then the id; at most eight atoms, which is what fits a page.
    """
    spread = scores.pivot_table("score", ["prompt_id", "atom"], "generation_seed").std(axis=1)
    total = spread.groupby("prompt_id").sum()
    fitting = [r for r in records if r.prompt_id in set(hard) and len(r.atoms) <= 8]
    if not fitting:
        raise CastError("figure1: no Hard Case prompt has eight atoms or fewer; nothing fits.")
    return min(
        fitting,
        key=lambda r: (
            -len({atom.skill for atom in r.atoms}),
            -round(float(total[r.prompt_id]), 9),
            r.prompt_id,
        ),
    )


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Choose the prompt, take the base model's stored images, and write the figure's files."""
    from cast.verifier import Verifier

    backbone = config.evaluation.hard_case.backbone
    folder = arm_folder(config, backbone, BASE, 0)
    scores = pd.read_parquet(folder / "scores.parquet")
    record = choose_prompt(benchmark(config), load_hard_case(config).prompt_ids, scores)
    images = pd.read_parquet(folder / "images.parquet")
    names = images.loc[images["prompt_id"] == record.prompt_id, "image_sha256"]
    group = np.stack([ImageStore(folder / "images").get(str(name)) for name in names])
    side = max(8, max(config.sampling.height, config.sampling.width) // FINEST)
    grid = (config.sampling.height // side, config.sampling.width // side)
    verifier = Verifier.load(config.verifier)
    training = config.training
    example = make_example(
        record, group, verifier, grid, training.advantage_clip, training.advantage_eps
    )
    foot = [
        WORLDS[config.world],
        f"{backbone} before training; the group is the prompt's {len(group)} evaluation images; "
        f"config {config_name(config)}.",
    ]
    figure = figure1(example, load_vocabulary(config.vocabulary), foot)
    return save_figure(figure, stem, example_rows(example))
