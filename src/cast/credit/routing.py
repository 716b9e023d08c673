"""The five ways to carry the atoms' advantages to the tokens (paper 4.3 and appendix C)."""

from typing import Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

Routing = Literal["uniform", "per_atom", "aggregate_map", "shuffled_map", "atom_map"]
"""The paper's names: sum reward (Flow-GRPO), per-atom, spatial weighting, shuffled, CAST."""

ROUTINGS: tuple[Routing, ...] = get_args(Routing)


def needs_heatmaps(routing: Routing) -> bool:
    """Whether the verifier's second, teacher-forced pass is needed at all."""
    return routing in ("aggregate_map", "shuffled_map", "atom_map")


def draw_pairing(atoms: int, generator: torch.Generator) -> Int[Tensor, " K"]:
    """Permutation for `shuffled_map`: atom k is given the map of atom `pairing[k]`.

    A uniformly drawn cyclic permutation (Sattolo's algorithm), so that with two atoms or more
    none keeps its own map. That no pairing is left intact is ours: the summary says "shuffled".
    """
    pairing = torch.arange(atoms)
    for last in range(atoms - 1, 0, -1):
        other = int(torch.randint(last, (1,), generator=generator))
        pairing[[last, other]] = pairing[[other, last]]
    return pairing
