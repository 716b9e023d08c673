import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cast.training.gradients import PairwiseSum, clip_gradients, gradient_norm, take_gradients


def leaves(count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-3, 4, (count, 1), generator=generator)
    return list(torch.randn(count, 50, generator=generator) * scale)


def summed(tensors: list[torch.Tensor]) -> torch.Tensor:
    tree = PairwiseSum()
    for tensor in tensors:
        tree.add([tensor.clone()])
    return tree.total()[0]


@settings(max_examples=30)
@given(st.integers(1, 20), st.integers(0, 1000))
def test_sum_is_right_for_any_count(count: int, seed: int):
    tensors = leaves(count, seed)
    expected = torch.stack(tensors).double().sum(dim=0)
    scale = max(float(t.abs().max()) for t in tensors)
    torch.testing.assert_close(summed(tensors).double(), expected, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_with_equal_shares_give_the_same_bits(ranks: int):
    for seed in range(20):
        tensors = leaves(16, seed)
        share = 16 // ranks
        shares = [summed(tensors[i * share : (i + 1) * share]) for i in range(ranks)]
        assert torch.equal(summed(shares), summed(tensors))


def running(tensors: list[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros_like(tensors[0])
    for tensor in tensors:
        total = total + tensor
    return total


def test_running_sum_would_not():
    """Why the tree is there: the plain order of addition does change bits."""
    sets = [leaves(16, seed) for seed in range(20)]
    same = [torch.equal(running(t), running(t[:8]) + running(t[8:])) for t in sets]
    assert not all(same)


def test_take_moves_and_clears():
    one, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (3 * one).sum().backward()
    taken = take_gradients([one, other])
    assert torch.equal(taken[0], torch.full((2,), 3.0)) and torch.equal(taken[1], torch.zeros(2))
    assert one.grad is None


def test_clip_keeps_direction_and_small_gradients():
    gradients = [torch.tensor([3.0]), torch.tensor([4.0])]
    assert clip_gradients(gradients, 1.0) == pytest.approx(5.0)
    torch.testing.assert_close(torch.cat(gradients), torch.tensor([0.6, 0.8]))
    assert clip_gradients(gradients, 2.0) == pytest.approx(1.0, rel=1e-6)
    assert gradient_norm(gradients) == pytest.approx(1.0, rel=1e-6)
