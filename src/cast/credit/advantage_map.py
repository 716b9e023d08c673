"""The advantage map: which tokens of which image deserve the credit (paper 4.3)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from cast.credit.group_norm import group_advantages, image_advantages
from cast.credit.routing import ROUTINGS, Routing, needs_heatmaps
from cast.errors import CastError, nearest


def pool_to_grid(
    heatmaps: Float[Tensor, "B K H W"], grid: tuple[int, int]
) -> Float[Tensor, "B K R C"]:
    """Area-average maps to the token grid and give each spatial mean 1.

    A map that already has the grid's shape and mean 1 is returned as it is. A map without any
    mass says nothing about place, so it becomes the uniform map.
    """
    pooled = heatmaps
    if tuple(heatmaps.shape[-2:]) != tuple(grid):
        pooled = functional.interpolate(heatmaps, size=grid, mode="area")
    mean = pooled.mean(dim=(-2, -1), keepdim=True)
    if bool(((mean - 1).abs() <= 1e-6).all()):
        return pooled
    return torch.where(mean > 0, pooled / mean.clamp_min(1e-30), torch.ones_like(pooled))


def advantage_map(
    routing: Routing,
    scores: Float[Tensor, "B K"],
    heatmaps: Float[Tensor, "B K H W"] | None,
    grid: tuple[int, int],
    resolution: float | Float[Tensor, " K"] = 1e-6,
    clip: float = 5.0,
    permutation: Int[Tensor, " K"] | None = None,
    eps: float = 1e-4,
) -> Float[Tensor, "B R C"]:
    """Advantage of every token of the R x C grid, `A_i(p)`, clipped to +-`clip`.

    With `A_ik` from `group_advantages`, `A_i` from `image_advantages` and the K maps `M_ik`:

    - `uniform`: `A_i` everywhere (sum reward; Flow-GRPO).
    - `per_atom`: `sum_k A_ik` everywhere.
    - `aggregate_map`: `A_i mean_k M_ik(p)` (spatial weighting).
    - `shuffled_map`: `sum_k A_ik M_i,permutation(k)(p)`.
    - `atom_map`: `sum_k A_ik M_ik(p)` (CAST).

    Args:
        scores: per-atom scores in [0, 1] of one prompt's images.
        heatmaps: non-negative maps of any size, pooled to `grid` here; None for the two
            routings without maps.
        grid: rows and columns of the token grid.
        resolution, eps: see `group_advantages`.
        permutation: for `shuffled_map` only, from `draw_pairing`.

    Raises:
        CastError: unknown routing.
        ValueError: maps or permutation missing where the routing needs them, or maps that are
            negative or not finite.
    """
    if routing not in ROUTINGS:
        known = ", ".join(ROUTINGS)
        raise CastError(
            f"routing {routing!r} is not known; allowed: {known}.{nearest(routing, ROUTINGS)}"
        )
    images = scores.shape[0]
    if not needs_heatmaps(routing):
        if routing == "uniform":
            value = image_advantages(scores, resolution, eps)
        else:
            value = group_advantages(scores, resolution, eps).sum(dim=1)
        return value.clamp(-clip, clip)[:, None, None].expand(images, *grid).clone()
    maps = pool_to_grid(_checked(heatmaps, routing, scores), grid)
    if routing == "aggregate_map":
        image = image_advantages(scores, resolution, eps)
        return (image[:, None, None] * maps.mean(dim=1)).clamp(-clip, clip)
    if routing == "shuffled_map":
        maps = maps[:, _permuted(permutation, scores.shape[1])]
    atoms = group_advantages(scores, resolution, eps)
    return (atoms[:, :, None, None] * maps).sum(dim=1).clamp(-clip, clip)


def _checked(heatmaps: Tensor | None, routing: str, scores: Tensor) -> Tensor:
    if heatmaps is None:
        raise ValueError(f"routing {routing!r} needs heatmaps")
    if heatmaps.shape[:2] != scores.shape:
        raise ValueError(f"heatmaps {tuple(heatmaps.shape)} don't fit scores {tuple(scores.shape)}")
    if not bool(torch.isfinite(heatmaps).all()) or bool((heatmaps < 0).any()):
        raise ValueError("heatmaps must be finite and non-negative")
    return heatmaps


def _permuted(permutation: Tensor | None, atoms: int) -> Tensor:
    if permutation is None:
        raise ValueError("routing 'shuffled_map' needs a permutation (draw_pairing)")
    if sorted(permutation.tolist()) != list(range(atoms)):
        raise ValueError(f"{permutation.tolist()} is no permutation of {atoms} atoms")
    return permutation
