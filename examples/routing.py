"""Your own routing: from a group's scores and heatmaps to an advantage for every image token.

This one gives all credit to the atom that the group fails most. To train with it, name it in
`Routing` (src/cast/credit/routing.py) and in `MethodConfig.routing` (src/cast/config/arms.py), give
it a branch in `advantage_map` (src/cast/credit/advantage_map.py), and write a method file like
config/methods/cast.yaml. The trainer stays as it is.
"""

import torch
from torch import Tensor

from cast.credit import group_advantages, pool_to_grid


def hardest_atom_map(
    scores: Tensor,
    heatmaps: Tensor,
    grid: tuple[int, int],
    resolution: float | Tensor = 1e-6,
    clip: float = 5.0,
) -> Tensor:
    """Scores [B, K] and maps [B, K, H, W] give `A_ik M_ik(p)`, [B, R, C], of one atom k: of those
    whose scores differ at all, the one with the lowest mean. Zero where none does."""
    advantages = group_advantages(scores, resolution)
    teaches = advantages.abs().sum(dim=0) > 0
    hardest = torch.where(teaches, scores.mean(dim=0), torch.inf).argmin()
    maps = pool_to_grid(heatmaps, grid)
    return (advantages[:, hardest, None, None] * maps[:, hardest]).clamp(-clip, clip)
