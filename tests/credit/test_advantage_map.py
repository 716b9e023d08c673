import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cast.credit import ROUTINGS, advantage_map, draw_pairing, group_advantages, pool_to_grid
from cast.errors import CastError

GRID = (4, 4)


def group(seed: int, images: int = 6, atoms: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    heatmaps = torch.rand(images, atoms, *GRID, generator=generator)
    heatmaps = heatmaps / heatmaps.mean(dim=(-2, -1), keepdim=True)
    return torch.rand(images, atoms, generator=generator), heatmaps


# Two images, two atoms, a 2 x 2 grid, eps 0.1, worked by hand.
# Atom 0 scores 0.9, 0.1: mean 0.5, std 0.4, advantages +-0.4 / 0.5 = +-0.8.
# Atom 1 scores 0.2, 0.6: mean 0.4, std 0.2, advantages -+0.2 / 0.3 = -+2/3.
# The mean scores 0.55, 0.35: mean 0.45, std 0.1, advantages +-0.1 / 0.2 = +-0.5.
HAND_SCORES = torch.tensor([[0.9, 0.2], [0.1, 0.6]])
HAND_MAPS = torch.tensor(
    [
        [[[4.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 2.0]]],
        [[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [2.0, 2.0]]],
    ]
)
HAND = {
    "uniform": [[[0.5, 0.5], [0.5, 0.5]], [[-0.5, -0.5], [-0.5, -0.5]]],
    "per_atom": [[[2 / 15, 2 / 15], [2 / 15, 2 / 15]], [[-2 / 15, -2 / 15], [-2 / 15, -2 / 15]]],
    "aggregate_map": [[[1.0, 0.5], [0.0, 0.5]], [[-0.25, -0.25], [-0.75, -0.75]]],
    "shuffled_map": [[[-8 / 3, 1.6], [0.0, 1.6]], [[2 / 3, 2 / 3], [-14 / 15, -14 / 15]]],
    "atom_map": [[[3.2, -4 / 3], [0.0, -4 / 3]], [[-0.8, -0.8], [8 / 15, 8 / 15]]],
}


@pytest.mark.parametrize("routing", ROUTINGS)
def test_hand_computed_example(routing):
    swap = torch.tensor([1, 0])
    got = advantage_map(routing, HAND_SCORES, HAND_MAPS, (2, 2), 1e-6, permutation=swap, eps=0.1)
    torch.testing.assert_close(got, torch.tensor(HAND[routing]))


def test_clip_is_on_the_sum():
    got = advantage_map("atom_map", HAND_SCORES, HAND_MAPS, (2, 2), 1e-6, clip=3.0, eps=0.1)
    assert got[0, 0, 0] == 3.0
    torch.testing.assert_close(got[1], torch.tensor(HAND["atom_map"][1]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_one_atom_with_a_uniform_map_is_uniform(seed):
    scores, _ = group(seed, atoms=1)
    flat = torch.ones(6, 1, *GRID)
    expected = advantage_map("uniform", scores, None, GRID)
    for routing in ("per_atom", "aggregate_map", "shuffled_map", "atom_map"):
        got = advantage_map(routing, scores, flat, GRID, permutation=torch.tensor([0]))
        torch.testing.assert_close(got, expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_uniform_maps_are_per_atom(seed):
    scores, heatmaps = group(seed)
    got = advantage_map("atom_map", scores, torch.ones_like(heatmaps), GRID)
    torch.testing.assert_close(got, advantage_map("per_atom", scores, None, GRID))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_a_permutation_of_identical_maps_is_atom_map(seed):
    scores, heatmaps = group(seed)
    same = heatmaps[:, :1].expand_as(heatmaps)
    pairing = draw_pairing(4, torch.Generator().manual_seed(seed))
    got = advantage_map("shuffled_map", scores, same, GRID, permutation=pairing)
    torch.testing.assert_close(got, advantage_map("atom_map", scores, same, GRID))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_spatial_mean_of_atom_map_is_per_atom(seed):
    """Maps move credit between tokens and never make any: their mean is 1."""
    scores, heatmaps = group(seed)
    got = advantage_map("atom_map", scores, heatmaps, GRID, clip=1e9)
    expected = group_advantages(scores, 1e-6).sum(dim=1)
    torch.testing.assert_close(got.mean(dim=(1, 2)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_flat_scores_give_exactly_zero(routing):
    scores = torch.full((6, 4), 0.7)
    _, heatmaps = group(0)
    pairing = torch.tensor([1, 2, 3, 0])
    got = advantage_map(routing, scores, heatmaps, GRID, permutation=pairing)
    assert torch.equal(got, torch.zeros(6, *GRID))


def test_pairing_leaves_no_atom_its_own_map():
    for atoms in range(2, 11):
        for seed in range(20):
            pairing = draw_pairing(atoms, torch.Generator().manual_seed(seed))
            assert sorted(pairing.tolist()) == list(range(atoms))
            assert not (pairing == torch.arange(atoms)).any()
    assert draw_pairing(1, torch.Generator()).tolist() == [0]


def test_pooling_keeps_place_and_mean():
    heatmaps = torch.zeros(1, 2, 8, 8)
    heatmaps[0, 0, :4, :4] = 3.0
    pooled = pool_to_grid(heatmaps, (2, 2))
    assert torch.equal(pooled[0, 0], torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    assert torch.equal(pooled[0, 1], torch.ones(2, 2))  # no mass: no place
    already = torch.ones(1, 1, 2, 2)
    assert pool_to_grid(already, (2, 2)) is already


def test_refusals():
    scores, heatmaps = group(0)
    with pytest.raises(CastError, match="Did you mean 'atom_map'"):
        # Unwrapped: under the tests' type checks the literal itself would refuse first.
        inspect.unwrap(advantage_map)("atom_maps", scores, heatmaps, GRID)
    with pytest.raises(ValueError, match="needs heatmaps"):
        advantage_map("atom_map", scores, None, GRID)
    with pytest.raises(ValueError, match="needs a permutation"):
        advantage_map("shuffled_map", scores, heatmaps, GRID)
    with pytest.raises(ValueError, match="no permutation"):
        advantage_map("shuffled_map", scores, heatmaps, GRID, permutation=torch.zeros(4).long())
    with pytest.raises(ValueError, match="non-negative"):
        advantage_map("atom_map", scores, -heatmaps, GRID)
