"""Rollout and replay on a small network: what is stored, replayed, and independent of what."""

import copy

import pytest
import torch
from torch import nn

from cast.errors import CastError
from cast.flow import (
    TransitionKind,
    linear_sigmas,
    micro_batches,
    ode_step,
    replay_log_prob,
    rollout,
)

TOKENS, CHANNELS, STEPS = 6, 4, 8


class SmallModel(nn.Module):
    """A velocity that depends on the state, the level and the sample; records its calls."""

    def __init__(self, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.rows: list[int] = []
        self.dtype = dtype
        self.net = nn.Sequential(
            nn.Linear(CHANNELS + 2, 32), nn.Tanh(), nn.Linear(32, CHANNELS)
        ).to(dtype)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))

    def forward(self, x, sigma, samples):
        self.rows.append(len(x))
        extra = torch.stack([sigma, samples / 10], -1)[:, None].expand(-1, TOKENS, -1)
        return self.net(torch.cat([x, extra], -1).to(self.dtype)).float()


def drawn(count: int, length: int = 2):
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(count, TOKENS, CHANNELS, generator=generator)
    return noise, torch.randn(count, length, TOKENS, CHANNELS, generator=generator)


def sample(model, count=5, kind: TransitionKind = "flow_sde", starts=None):
    """The first `count` of five trajectories, in micro-batches of 4."""
    noise, transition_noise = (tensor[:count] for tensor in drawn(5))
    starts = torch.tensor([0, 1, 2, 3, 4])[:count] if starts is None else starts
    sigmas = linear_sigmas(STEPS)
    result = rollout(model, sigmas, noise, starts, transition_noise, kind, 0.7, micro_batch=4)
    return result, sigmas


def test_without_a_window_it_is_the_euler_loop_bit_for_bit():
    model, (noise, _) = SmallModel(), drawn(4)
    result = rollout(model, linear_sigmas(STEPS), noise, micro_batch=4, return_x0=True)
    x = noise
    sigmas = linear_sigmas(STEPS)
    assert result.x0_estimates is not None
    with torch.no_grad():
        for i in range(STEPS):
            v = model(x, sigmas[i].expand(4), torch.arange(4))
            assert torch.equal(result.x0_estimates[:, i], x - sigmas[i] * v)
            x = ode_step(x, v, sigmas[i].expand(4), sigmas[i + 1].expand(4))
    assert torch.equal(result.latents, x)
    assert result.log_probs.shape == (4, 0, TOKENS)
    assert torch.equal(result.states[:, 0], noise)


@pytest.mark.parametrize("kind", ["flow_sde", "cps"])
def test_each_trajectory_follows_the_ode_outside_its_window(kind):
    model = SmallModel()
    result, sigmas = sample(model, kind=kind)
    noise, _ = drawn(5)
    with torch.no_grad():
        for i in range(5):
            start = int(result.starts[i])
            samples = torch.tensor([i] * 4)
            x = noise[[i] * 4]
            for step in range(STEPS):
                if step == start:
                    assert torch.equal(result.states[i, 0], x[0])
                    x = result.states[i, 2].expand_as(x)
                if step in (start, start + 1):
                    continue
                s, s_next = sigmas[step].expand(4), sigmas[step + 1].expand(4)
                x = ode_step(x, model(x, s, samples), s, s_next)
            torch.testing.assert_close(result.latents[i], x[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["flow_sde", "cps"])
def test_on_policy_the_ratio_is_exactly_one(kind):
    """Also for a replay of other samples than those that shared a micro-batch in the rollout."""
    model = SmallModel()
    result, sigmas = sample(model, kind=kind)
    for samples in ([0, 1, 2, 3], [4], [3, 1], [4, 2, 0]):
        for index in (0, 1):
            picked = torch.tensor(samples)
            log_prob, _, _ = replay_log_prob(model, result, sigmas, index, picked, kind, 0.7, 4)
            ratio = torch.exp(log_prob - result.log_probs[picked, index])
            assert torch.equal(ratio, torch.ones_like(ratio))
    assert set(model.rows) == {4}, "another number of rows may give other bits"


def test_the_on_policy_gradient_is_reinforce():
    """The clipped objective's gradient at ratio 1 is `mean A grad log_prob`, token by token."""
    model, twin = SmallModel(), SmallModel()
    result, sigmas = sample(model, count=4)
    advantages = torch.randn(4, TOKENS, generator=torch.Generator().manual_seed(3))
    for network, clipped in ((model, True), (twin, False)):
        for index in (0, 1):
            picked = torch.arange(4)
            replay = replay_log_prob(network, result, sigmas, index, picked, "flow_sde", 0.7, 4)
            ratio = torch.exp(replay.log_prob - result.log_probs[:, index])
            objective = replay.log_prob * advantages
            if clipped:
                inside = ratio.clamp(1 - 1e-4, 1 + 1e-4)
                objective = torch.minimum(ratio * advantages, inside * advantages)
            objective.mean().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert one.grad is not None and float(one.grad.abs().max()) > 0
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-6, atol=1e-9)


def test_the_gradient_equals_the_closed_form():
    """d log_prob / d mean = (x' - mean) / std^2 / C, which autograd must carry to the weights."""
    model = SmallModel()
    result, sigmas = sample(model, count=4)
    picked = torch.arange(4)
    replay = replay_log_prob(model, result, sigmas, 1, picked, "flow_sde", 0.7, 4)
    (found,) = torch.autograd.grad(replay.log_prob.sum(), replay.mean)
    scale = replay.std[:, None, None] ** 2 * CHANNELS
    torch.testing.assert_close(found, (result.states[:, 2] - replay.mean.detach()) / scale)


def test_the_ratio_in_bfloat16_is_one_when_rollout_and_replay_cast_alike(capsys):
    """And what it costs when they don't: the deviation of a float32 replay is reported."""
    model = SmallModel(torch.bfloat16)
    result, sigmas = sample(model)
    exact = copy.deepcopy(model)
    exact.net.float()
    exact.dtype = torch.float32
    worst = {}
    for name, network in (("bfloat16", model), ("float32", exact)):
        deviations = []
        for index in (0, 1):
            picked = torch.arange(4)
            replay = replay_log_prob(network, result, sigmas, index, picked, "flow_sde", 0.7, 4)
            ratio = torch.exp(replay.log_prob.detach() - result.log_probs[:4, index])
            deviations.append(float((ratio - 1).abs().max()))
        worst[name] = max(deviations)
    with capsys.disabled():
        print(f"\nbfloat16 rollout, largest |ratio - 1|: {worst}")
    assert worst["bfloat16"] == 0
    assert worst["float32"] > 1e-4


def test_a_trajectory_does_not_depend_on_its_batch():
    model = SmallModel()
    whole, _ = sample(model, count=5)
    small, _ = sample(model, count=3)
    assert torch.equal(whole.latents[:3], small.latents)
    assert torch.equal(whole.log_probs[:3], small.log_probs)
    assert torch.equal(whole.states[:3], small.states)


def test_what_is_kept_does_not_grow_with_the_steps():
    noise, transition_noise = drawn(4)
    starts = torch.tensor([0, 1, 2, 3])
    few, many = (
        rollout(SmallModel(), linear_sigmas(n), noise, starts, transition_noise) for n in (6, 60)
    )
    assert few.states.shape == many.states.shape and few.x0_estimates is None


def test_the_last_steps_of_flow_sde_may_be_stochastic_but_not_those_of_cps():
    model = SmallModel()
    last = torch.full((4,), STEPS - 2)
    result, sigmas = sample(model, count=4, starts=last)
    assert torch.equal(result.states[:, 2], result.latents)
    replay = replay_log_prob(model, result, sigmas, 1, torch.arange(4), "flow_sde", 0.7, 4)
    assert torch.equal(replay.log_prob, result.log_probs[:, 1])
    with pytest.raises(CastError, match="allowed are 0 to 5"):
        sample(model, count=4, starts=last, kind="cps")


def test_bad_arguments_are_refused():
    model, (noise, transition_noise) = SmallModel(), drawn(4)
    sigmas, starts = linear_sigmas(STEPS), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(CastError, match="both"):
        rollout(model, sigmas, noise, starts)
    with pytest.raises(CastError, match="window: starts"):
        rollout(model, sigmas, noise, starts + STEPS, transition_noise)
    with pytest.raises(CastError, match="not a schedule"):
        rollout(model, sigmas.flip(0), noise)
    with pytest.raises(CastError, match="micro_batch"):
        rollout(model, sigmas, noise, micro_batch=0)
    result = rollout(model, sigmas, noise, starts, transition_noise, micro_batch=2)
    with pytest.raises(CastError, match="don't fit a micro-batch"):
        replay_log_prob(model, result, sigmas, 0, torch.arange(4), micro_batch=2)


def test_micro_batches_cover_every_sample_once_in_full_rows():
    runs = list(micro_batches(10, 4))
    assert [len(indices) for indices, _ in runs] == [4, 4, 4]
    assert torch.cat([indices[:real] for indices, real in runs]).tolist() == list(range(10))
