"""From scores and heatmaps to an advantage for every token (paper 2.2 and 4.3). Torch only."""

from cast.credit.advantage_map import advantage_map, pool_to_grid
from cast.credit.group_norm import group_advantages, image_advantages
from cast.credit.routing import ROUTINGS, Routing, draw_pairing, needs_heatmaps

__all__ = [
    "ROUTINGS",
    "Routing",
    "advantage_map",
    "draw_pairing",
    "group_advantages",
    "image_advantages",
    "needs_heatmaps",
    "pool_to_grid",
]
