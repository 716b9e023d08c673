"""Which layers, heads, rows and baseline put an atom's heatmap on the entity that it speaks of.

The summary doesn't say which the paper takes, so they are measured, where the truth is known:
on drawn scenes with the mask of every entity. An atom's region is the union of the masks of its
entities. Two numbers, both over the token grid:

- pointing: share of atoms whose map peaks in a cell that its region touches;
- mass: share of the map that lies in such cells.

A map that says nothing gets `area` in both: the share of cells that the region touches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from cast.config.sections import HeatmapSection
from cast.errors import CastError
from cast.scene_graph.graph import PromptRecord
from cast.verifier.attention import Heads, Reading, RowOffset, finish_map
from cast.verifier.soft_tifa import Verifier

KEYS = ["layers", "heads", "row_offset", "baseline"]
MEASURES = ["pointing", "mass", "area"]
READINGS = tuple(
    Reading(heads, row_offset) for heads in get_args(Heads) for row_offset in get_args(RowOffset)
)


@dataclass(frozen=True)
class MaskedScenes:
    """Scenes of one prompt: images and, for every entity of its graph, the true mask."""

    record: PromptRecord
    images: UInt8[Tensor, "B H W 3"]
    masks: Bool[Tensor, "B E H W"]


def touched_cells(masks: Bool[Tensor, "B E H W"], grid: tuple[int, int]) -> Bool[Tensor, "B E R C"]:
    """Cells of the grid that hold at least one pixel of a mask."""
    return functional.adaptive_max_pool2d(masks.float(), grid) > 0


def atom_regions(cells: Bool[Tensor, "B E R C"], record: PromptRecord) -> Bool[Tensor, "B K R C"]:
    """Each atom's region: the union over its entities."""
    parts = [cells[:, list(atom.entities)].any(dim=1) for atom in record.atoms]
    return torch.stack(parts, dim=1)


def pointing(
    maps: Float[Tensor, "B K R C"], regions: Bool[Tensor, "B K R C"]
) -> Bool[Tensor, "B K"]:
    """Whether the map's largest cell lies in the region."""
    peak = maps.flatten(2).argmax(dim=-1, keepdim=True)
    return regions.flatten(2).gather(-1, peak)[..., 0]


def mass(maps: Float[Tensor, "B K R C"], regions: Bool[Tensor, "B K R C"]) -> Float[Tensor, "B K"]:
    """Share of the map that lies in the region."""
    return (maps * regions).sum(dim=(-2, -1)) / maps.sum(dim=(-2, -1))


def layer_sets(depth: int) -> list[tuple[int, ...]]:
    """Every set of layers for a small model; single layers, thirds and all for a large one."""
    layers = range(depth)
    if depth <= 4:
        return [chosen for size in range(1, depth + 1) for chosen in combinations(layers, size)]
    edges = [0, depth // 3, 2 * depth // 3, depth]
    thirds = [tuple(range(a, b)) for a, b in pairwise(edges)]
    return [*((layer,) for layer in layers), *thirds, tuple(layers)]


def sweep(
    verifier: Verifier,
    scenes: Sequence[MaskedScenes],
    sets: Sequence[tuple[int, ...]] | None = None,
    readings: Sequence[Reading] = READINGS,
    baselines: Sequence[str] = ("neutral", "none"),
    progress: bool = False,
) -> pd.DataFrame:
    """One row a setting and skill: `atoms`, `pointing`, `mass`, `area`, the means over atoms.

    One forward pass serves all settings; the verifier's own `floor` and `temperature` hold
    throughout. `CastError` when there is no scene.
    """
    _check(scenes)
    sets = list(sets or layer_sets(verifier.depth))
    sums: dict[tuple[Reading, str, str], Tensor] = {}
    areas: dict[str, list[float]] = {}
    for scene in tqdm(scenes, unit="prompt", disable=not progress):
        maps, grid = verifier.layer_maps(_tensor(scene), scene.record, readings)
        regions = atom_regions(touched_cells(scene.masks, grid), scene.record)
        for k, atom in enumerate(scene.record.atoms):
            areas.setdefault(atom.skill, []).extend(_area(regions)[:, k].tolist())
        for reading, attention in zip(readings, maps, strict=True):
            mixed = torch.stack([attention[:, list(layers)].mean(dim=1) for layers in sets])
            for baseline in baselines:
                found = _measured(mixed, baseline, regions, grid, verifier.heatmap)
                for k, atom in enumerate(scene.record.atoms):
                    key = (reading, baseline, atom.skill)
                    sums[key] = sums.get(key, 0.0) + found[..., k]
    rows = [
        (layers, *reading, baseline, skill, len(areas[skill]), *values, sum(areas[skill]))
        for (reading, baseline, skill), found in sums.items()
        for layers, values in zip(sets, found.tolist(), strict=True)
    ]
    table = pd.DataFrame(rows, columns=[*KEYS, "skill", "atoms", *MEASURES])
    means = table[MEASURES].div(table["atoms"], axis=0)
    return table.assign(**means).sort_values([*KEYS, "skill"], ignore_index=True)


def located(verifier: Verifier, scenes: Sequence[MaskedScenes]) -> pd.DataFrame:
    """The verifier's own heatmaps, one row an atom of an image: `prompt_id`, `image`, `skill`,
    `pointing` (0 or 1), `mass`, `area`. `CastError` when there is no scene."""
    _check(scenes)
    tables = []
    for scene in scenes:
        grid = verifier.image_grid(_tensor(scene))
        maps = verifier.heatmaps(_tensor(scene), scene.record, grid)
        regions = atom_regions(touched_cells(scene.masks, grid), scene.record)
        skills = [atom.skill for atom in scene.record.atoms]
        values = {"pointing": pointing(maps, regions), "mass": mass(maps, regions)}
        values["area"] = _area(regions)
        tables.append(
            pd.DataFrame(
                {
                    "prompt_id": scene.record.prompt_id,
                    "image": np.repeat(np.arange(len(maps)), len(skills)),
                    "skill": skills * len(maps),
                    **{name: value.float().flatten().numpy() for name, value in values.items()},
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def best_setting(table: pd.DataFrame) -> HeatmapSection:
    """The setting with the highest pointing accuracy, each skill weighing alike; ties by mass."""
    means = table.pivot_table(["pointing", "mass"], KEYS, aggfunc="mean")
    ordered = means.sort_values(["pointing", "mass"], ascending=False)
    layers, heads, row_offset, baseline = ordered.index[0]
    return HeatmapSection(
        layers=tuple(layers), heads=heads, row_offset=row_offset, baseline=baseline
    )


def _check(scenes: Sequence[MaskedScenes]) -> None:
    if not scenes:
        raise CastError("scenes: there are none; draw at least one.")


def _tensor(scene: MaskedScenes) -> Float[Tensor, "B 3 H W"]:
    return scene.images.permute(0, 3, 1, 2).float() / 255.0


def _area(regions: Bool[Tensor, "B K R C"]) -> Float[Tensor, "B K"]:
    return regions.float().mean(dim=(-2, -1))


def _measured(
    mixed: Float[Tensor, "S B G N"],
    baseline: str,
    regions: Bool[Tensor, "B K R C"],
    grid: tuple[int, int],
    settings: HeatmapSection,
) -> Float[Tensor, "S 2 K"]:
    """Pointing and mass, summed over images, of S layer sets' maps."""
    flat = mixed.flatten(0, 1)
    neutral = flat[:, -1] if baseline == "neutral" else None
    maps = finish_map(flat[:, :-1], neutral, grid, grid, settings)
    repeated = regions.repeat(len(mixed), 1, 1, 1)
    found = torch.stack([pointing(maps, repeated).float(), mass(maps, repeated)], dim=1)
    return found.unflatten(0, mixed.shape[:2]).sum(dim=1)
