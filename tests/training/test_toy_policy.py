"""CAST's gradient on a policy whose velocity is known in closed form.

The data: every token is a mixture of two narrow Gaussians at +1 and -1, so the exact velocity
is known (`E[eps - x0 | x_s]`). The policy adds `sum_j theta_j phi_j(p)` to it: eight smooth bumps
over 32 tokens, each of which reaches into its neighbours', as a network's parameters do. The
reward is how far the tokens of one known region lie on the positive side, and the heatmap is that
region's indicator. Other tokens then carry no information on the reward, and all they can add to
the gradient is noise: that is what the map removes.
"""

import pytest
import torch
from torch import Tensor

from cast.credit import Routing, advantage_map
from cast.flow import (
    Rollout,
    WindowRange,
    draw_window_starts,
    linear_sigmas,
    replay_log_prob,
    rollout,
)
from cast.training.policy_loss import policy_loss, ratio_level

P, REGION, STEPS, GROUP, GROUPS = 32, 4, 8, 16, 600
SPREAD = 0.2
SIGMAS = linear_sigmas(STEPS)
BUMPS = torch.exp(-0.5 * ((torch.arange(P)[None] - torch.arange(2, P, 4)[:, None]) / 2.0) ** 2)


def exact_velocity(x: Tensor, sigma: Tensor) -> Tensor:
    """`(x - E[x0 | x]) / s` for the two-Gaussian mixture, [B, P, 1]."""
    s = sigma[:, None, None].clamp_min(1e-4)
    variance = (1 - s) ** 2 * SPREAD**2 + s**2
    positive = torch.sigmoid(2 * (1 - s) * x / variance)
    mode = 2 * positive - 1
    estimate = mode + (1 - s) * SPREAD**2 / variance * (x - (1 - s) * mode)
    estimate = torch.where(s > 1 - 1e-6, torch.zeros_like(x), estimate)  # no news in pure noise
    return (x - estimate) / s


def policy(theta: Tensor):
    """The velocity with a parameter vector [B, J] of its own for every sample."""

    def velocity(x: Tensor, sigma: Tensor, samples: Tensor) -> Tensor:
        return exact_velocity(x, sigma) + (theta[samples] @ BUMPS)[:, :, None]

    return velocity


@pytest.fixture(scope="module")
def sampled() -> tuple[Rollout, Tensor, Tensor]:
    """Rollouts of many groups, the region's scores [G, B, 1] and its maps [B, 1, 1, P]."""
    generator = torch.Generator().manual_seed(0)
    count = GROUPS * GROUP
    starts = draw_window_starts(WindowRange(0, 5), 0, 0, count, "trajectory")
    rolled = rollout(
        policy(torch.zeros(count, len(BUMPS))),
        SIGMAS,
        torch.randn(count, P, 1, generator=generator),
        starts,
        torch.randn(count, 2, P, 1, generator=generator),
        noise_level=0.7,
        micro_batch=count,
    )
    scores = torch.sigmoid(rolled.latents[:, 8 : 8 + REGION, 0].mean(dim=1) * 2)
    heatmaps = torch.zeros(GROUP, 1, 1, P)
    heatmaps[..., 8 : 8 + REGION] = P / REGION
    return rolled, scores.reshape(GROUPS, GROUP, 1), heatmaps


def group_gradients(sampled: tuple[Rollout, Tensor, Tensor], routing: Routing) -> Tensor:
    """The update's gradient for every group, [G, J], from the package's own parts."""
    rolled, scores, heatmaps = sampled
    # The clip at 5 would cut a map whose peak is 8: it is off here, since it is a bias by design.
    maps = [advantage_map(routing, group, heatmaps, (1, P), clip=1e9) for group in scores]
    advantages = torch.cat(maps).flatten(1)
    count = len(advantages)
    theta = torch.zeros(count, len(BUMPS), requires_grad=True)
    for index in range(2):
        replay = replay_log_prob(
            policy(theta), rolled, SIGMAS, index, torch.arange(count), noise_level=0.7,
            micro_batch=count,
        )  # fmt: skip
        old = rolled.log_probs[:, index]
        torch.testing.assert_close(replay.log_prob.detach(), old, atol=1e-5, rtol=0)
        loss = policy_loss(replay.log_prob, old, advantages, 1e-4, ratio_level(routing)).loss
        (loss.sum() / (2 * GROUP)).backward()
    assert theta.grad is not None
    return theta.grad.reshape(GROUPS, GROUP, -1).sum(dim=1)


def test_the_velocity_is_exact():
    """Its ODE carries noise to the data: half the mass at each mode, with the right spread."""
    noise = torch.randn(4000, 1, 1, generator=torch.Generator().manual_seed(1))
    theta = torch.zeros(4000, len(BUMPS))
    fine = linear_sigmas(200)
    ends = rollout(
        lambda x, s, i: exact_velocity(x, s) + 0 * theta[i][:, :1, None], fine, noise,
        micro_batch=4000,
    ).latents.flatten()  # fmt: skip
    assert (ends > 0).float().mean() == pytest.approx(0.5, abs=0.03)
    assert ends[ends > 0].mean() == pytest.approx(1.0, abs=0.02)
    assert ends[ends > 0].std() == pytest.approx(SPREAD, abs=0.02)


def test_cast_has_the_policy_gradient_of_the_region_with_less_noise(sampled):
    """The measured factor: about P / region = 8, since that share of the tokens is only noise."""
    uniform = group_gradients(sampled, "uniform")
    # The map's mean is 1, so inside the region it is P / region times the uniform one.
    cast = group_gradients(sampled, "atom_map") * (REGION / P)
    difference = uniform - cast
    standard_error = difference.std(dim=0) / GROUPS**0.5
    assert (difference.mean(dim=0).abs() < 4 * standard_error).all()
    # There is a signal to agree on, where the region is, and it asks for a smaller velocity
    # there (x0 = x - s v): the loss falls as theta falls.
    signal = cast.mean(dim=0) / (cast.std(dim=0) / GROUPS**0.5)
    assert signal.abs().argmax() == 2 and signal[2] > 8
    factor = float(uniform.var(dim=0).sum() / cast.var(dim=0).sum())
    print(f"variance, uniform over CAST: {factor:.2f}")
    assert 0.6 * P / REGION < factor < 1.6 * P / REGION
