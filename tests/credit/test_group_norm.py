import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cast.credit import group_advantages, image_advantages

groups = arrays("float32", (8, 3), elements=st.floats(0, 1, width=32)).map(torch.from_numpy)


def test_closed_form():
    scores = torch.tensor([[0.9, 0.5], [0.1, 0.5]])
    expected = torch.tensor([[0.8, 0.0], [-0.8, 0.0]])  # 0.4 / (0.4 + 0.1); the flat atom is 0
    torch.testing.assert_close(group_advantages(scores, 1e-6, eps=0.1), expected)


def test_a_spread_within_the_resolution_is_exactly_zero():
    residue = torch.full((16, 1), 0.7) + torch.linspace(0, 9e-7, 16)[:, None]
    assert torch.equal(group_advantages(residue, 1e-6), torch.zeros(16, 1))
    assert group_advantages(residue, 1e-8).abs().max() > 0


def test_one_clear_image_in_sixteen_is_a_signal():
    scores = torch.full((16, 1), 0.5)
    scores[3] = 0.6  # one bf16 step at p = 0.5 is 0.03: the range is above it, the std is not
    advantages = group_advantages(scores, 0.125 * 0.25)
    assert advantages[3, 0] > 3 and (advantages < 0).sum() == 15


def test_resolution_is_per_atom():
    scores = torch.tensor([[0.5, 0.5], [0.6, 0.6]])
    advantages = group_advantages(scores, torch.tensor([0.2, 0.05]))
    assert torch.equal(advantages[:, 0], torch.zeros(2))
    assert advantages[1, 1] > 0.9


@settings(max_examples=50, deadline=None)
@given(groups)
def test_centred_bounded_and_free_of_shift(scores: torch.Tensor):
    advantages = group_advantages(scores, 1e-3)
    assert torch.isfinite(advantages).all()
    assert advantages.mean(dim=0).abs().max() < 1e-4
    assert advantages.std(dim=0, correction=0).max() <= 1 + 1e-5
    flat = scores.amax(dim=0) - scores.amin(dim=0) <= 1e-3
    assert torch.equal(advantages[:, flat], torch.zeros(8, int(flat.sum())))


@settings(max_examples=30, deadline=None)
@given(groups, st.permutations(range(8)))
def test_permuting_images_permutes_advantages(scores: torch.Tensor, order: list[int]):
    torch.testing.assert_close(
        group_advantages(scores[order], 1e-3), group_advantages(scores, 1e-3)[order]
    )


def test_image_advantage_is_that_of_the_mean():
    scores = torch.rand(8, 5, generator=torch.Generator().manual_seed(0))
    expected = group_advantages(scores.mean(dim=1, keepdim=True), 1e-6)[:, 0]
    torch.testing.assert_close(image_advantages(scores, 1e-6), expected)


def test_one_image_has_no_advantage():
    assert torch.equal(group_advantages(torch.tensor([[0.3, 0.8]]), 0.0), torch.zeros(1, 2))


def test_refusals():
    with pytest.raises(ValueError, match="NaN"):
        group_advantages(torch.tensor([[float("nan")], [0.5]]), 1e-6)
    with pytest.raises(ValueError, match="negative"):
        group_advantages(torch.rand(4, 2), -1.0)
