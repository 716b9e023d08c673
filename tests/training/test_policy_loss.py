import pytest
import torch

from cast.training.policy_loss import clip_range, policy_loss, ratio_level

P = 9


def tensors(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    log_prob = torch.randn(4, P, generator=generator).requires_grad_()
    return log_prob, torch.randn(4, P, generator=generator)


@pytest.mark.parametrize("level", ["token", "image"])
def test_on_policy_gradient_is_the_policy_gradient(level):
    """Ratio 1: the gradient is `-mean_p A grad log_prob`, for an image with its mean A."""
    log_prob, advantages = tensors()
    result = policy_loss(log_prob, log_prob.detach(), advantages, 1e-4, level)
    result.loss.sum().backward()
    expected = -advantages / P
    if level == "image":
        expected = expected.mean(dim=1, keepdim=True).expand(-1, P)
    torch.testing.assert_close(log_prob.grad, expected)
    assert torch.equal(result.ratio, torch.ones_like(result.ratio))
    assert torch.equal(result.clipped, torch.zeros(4))


def test_levels_agree_on_policy_for_one_advantage_an_image():
    gradients = []
    for level in ("token", "image"):
        log_prob, advantages = tensors()
        flat = advantages[:, :1].expand(-1, P)
        policy_loss(log_prob, log_prob.detach(), flat, 1e-4, level).loss.sum().backward()
        gradients.append(log_prob.grad)
    torch.testing.assert_close(*gradients)


def test_clipping_stops_what_has_gone_far_enough():
    """Beyond the range in the advantage's direction: no gradient; against it: a full one."""
    old = torch.zeros(1, 4)
    log_prob = torch.tensor([[0.5, -0.5, 0.5, -0.5]], requires_grad=True)
    advantages = torch.tensor([[1.0, 1.0, -1.0, -1.0]])
    result = policy_loss(log_prob, old, advantages, 0.1)
    result.loss.sum().backward()
    ratio = log_prob.detach().exp()
    expected = torch.tensor([[0.0, -ratio[0, 1] / 4, ratio[0, 2] / 4, 0.0]])
    torch.testing.assert_close(log_prob.grad, expected)
    objective = torch.tensor([1.1, ratio[0, 1], -ratio[0, 2], -0.9]).mean()
    torch.testing.assert_close(result.loss, -objective[None])
    assert result.clipped.item() == 0.5


def test_zero_advantages_give_exactly_zero_gradient():
    log_prob, _ = tensors()
    policy_loss(log_prob, log_prob.detach() - 0.3, torch.zeros(4, P), 1e-4).loss.sum().backward()
    assert log_prob.grad is not None and bool((log_prob.grad == 0).all())


def test_levels_and_clip_ranges():
    assert ratio_level("uniform") == "image"
    assert {ratio_level(r) for r in ("per_atom", "atom_map", "shuffled_map")} == {"token"}
    assert clip_range("image", 1e-4, None, 64) == 1e-4
    assert clip_range("token", 1e-4, None, 64) == pytest.approx(8e-4)
    assert clip_range("token", 1e-4, 0.2, 64) == 0.2
