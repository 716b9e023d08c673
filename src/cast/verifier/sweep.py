"""Which layers, rows and baseline put an atom's heatmap on the entity that it speaks of.

The summary doesn't say which the paper takes, so they are measured, where the truth is known:
on drawn scenes with the mask of every entity. An atom's region is the union of the masks of its
entities. Two numbers, both over the token grid:

- pointing: share of atoms whose map peaks in a cell that its region touches;
- mass: share of the map that lies in such cells.

A map that says nothing gets `area` in both: the share of cells that the region touches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from cast.config.sections import HeatmapSection
from cast.errors import CastError
from cast.scene_graph.graph import PromptRecord
from cast.verifier.attention import finish_map
from cast.verifier.soft_tifa import Verifier

KEYS = ["layers", "row_offset", "baseline"]


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
    row_offsets: Sequence[int] = (0, -1),
    baselines: Sequence[str] = ("neutral", "none"),
    progress: bool = False,
) -> pd.DataFrame:
    """One row a setting and skill: `atoms`, `pointing`, `mass`, `area`, the means over atoms.

    One forward pass a row offset serves all sets and baselines. The verifier's own `heads`,
    `floor` and `temperature` hold throughout. `CastError` when there is no scene, or when the
    verifier's own baseline is none.
    """
    if verifier.heatmap.baseline != "neutral":
        raise CastError("sweep: load the verifier with verifier.heatmap.baseline: neutral.")
    if not scenes:
        raise CastError("scenes: there are none; draw at least one.")
    sets = list(sets or layer_sets(verifier.depth))
    rows: list[tuple[object, ...]] = []
    for scene in tqdm(scenes, unit="prompt", disable=not progress):
        for row in _scene_rows(verifier, scene, sets, row_offsets, baselines):
            rows.append(row)
    columns = [*KEYS, "skill", "pointing", "mass", "area"]
    table = pd.DataFrame(rows, columns=columns)
    keys = [*KEYS, "skill"]
    means = table.pivot_table(["pointing", "mass", "area"], keys, aggfunc="mean")
    counts = table.assign(atoms=1).pivot_table("atoms", keys, aggfunc="sum")
    columns = [*keys, "atoms", "pointing", "mass", "area"]
    return means.join(counts).reset_index().reindex(columns=columns)


def _scene_rows(
    verifier: Verifier,
    scene: MaskedScenes,
    sets: Sequence[tuple[int, ...]],
    row_offsets: Sequence[int],
    baselines: Sequence[str],
) -> Iterator[tuple[object, ...]]:
    images = scene.images.permute(0, 3, 1, 2).float() / 255.0
    for row_offset in row_offsets:
        atoms, neutral, grid = verifier.layer_maps(images, scene.record, row_offset)
        regions = atom_regions(touched_cells(scene.masks, grid), scene.record)
        area = regions.float().mean(dim=(-2, -1))
        for layers in sets:
            chosen = atoms[:, list(layers)].mean(dim=1)
            for baseline in baselines:
                sinks = neutral[:, list(layers)].mean(dim=1) if baseline == "neutral" else None
                maps = finish_map(chosen, sinks, grid, grid, verifier.heatmap)
                hits, inside = pointing(maps, regions), mass(maps, regions)
                for k, atom in enumerate(scene.record.atoms):
                    for i in range(len(images)):
                        yield (
                            layers,
                            row_offset,
                            baseline,
                            atom.skill,
                            float(hits[i, k]),
                            float(inside[i, k]),
                            float(area[i, k]),
                        )


def best_setting(table: pd.DataFrame) -> HeatmapSection:
    """The setting with the highest pointing accuracy, each skill weighing alike; ties by mass."""
    means = table.pivot_table(["pointing", "mass"], KEYS, aggfunc="mean")
    ordered = means.sort_values(["pointing", "mass"], ascending=False)
    layers, row_offset, baseline = ordered.index[0]
    return HeatmapSection(layers=tuple(layers), row_offset=row_offset, baseline=baseline)
