"""Densities against torch.distributions, and the transitions' coefficients in closed form."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from cast.errors import CastError
from cast.flow import (
    check_transition,
    cps,
    flow_sde,
    image_log_prob,
    ode_step,
    stochastic_step,
    token_kl,
    token_log_prob,
)

SHAPE = (3, 5, 4)


def normal(seed: int, shape=SHAPE) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_log_prob_and_kl_equal_torch_distributions():
    x, mean, reference = normal(0), normal(1), normal(2)
    std = torch.tensor([0.05, 0.7, 1.3])
    scale = std[:, None, None].expand(SHAPE)
    ours = token_log_prob(x, mean, std)
    theirs = Normal(mean.double(), scale.double()).log_prob(x.double()).mean(-1)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)
    ours = token_kl(mean, reference, std)
    theirs = kl_divergence(
        Normal(mean.double(), scale.double()), Normal(reference.double(), scale.double())
    ).mean(-1)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)


def test_the_images_log_prob_is_the_mean_over_all_its_dimensions():
    x, mean, std = normal(0), normal(1), torch.tensor([0.3, 0.7, 1.3])
    whole = Normal(mean, std[:, None, None]).log_prob(x).mean(dim=(1, 2))
    torch.testing.assert_close(image_log_prob(token_log_prob(x, mean, std)), whole)


levels = st.floats(0.02, 0.98)


@settings(max_examples=50, deadline=None)
@given(sigma=levels, part=levels, noise_level=st.floats(0.05, 1.0))
def test_both_kinds_combine_the_data_and_the_noise_as_documented(sigma, part, noise_level):
    """With known data and noise the mean is `(1 - s') x0 + k eps`, with each kind's own k."""
    data, noise = normal(0).double(), normal(1).double()
    following = sigma * part
    s = torch.full((3,), sigma, dtype=torch.float64)
    s_next = torch.full((3,), following, dtype=torch.float64)
    x, velocity = (1 - sigma) * data + sigma * noise, noise - data

    mean, std = flow_sde(x, velocity, s, s_next, 0.5, noise_level)
    step = sigma - following
    b = noise_level**2 * step / (2 * (1 - sigma))
    torch.testing.assert_close(mean, (1 - following) * data + (following - b) * noise)
    excess = (following - b) ** 2 + float(std[0]) ** 2 - following**2
    assert excess == pytest.approx(b * (b + 2 * step), abs=1e-9)

    mean, std = cps(x, velocity, s, s_next, noise_level)
    k = following * math.cos(noise_level * math.pi / 2)
    torch.testing.assert_close(mean, (1 - following) * data + k * noise)
    assert k**2 + float(std[0]) ** 2 == pytest.approx(following**2)


@pytest.mark.parametrize("kind", ["flow_sde", "cps"])
def test_without_noise_both_kinds_are_the_ode(kind):
    x, velocity = normal(0).double(), normal(1).double()
    s, s_next = torch.full((3,), 0.8).double(), torch.full((3,), 0.7).double()
    mean, std = stochastic_step(kind, x, velocity, s, s_next, 0.9, 1e-6)
    torch.testing.assert_close(mean, ode_step(x, velocity, s, s_next))
    assert float(std.max()) < 1e-5


@pytest.mark.parametrize("first", [1.0, 1.0 - 2**-24])
def test_a_step_from_pure_noise_takes_the_schedules_second_level(first):
    """Also when the scheduler's float32 arithmetic left the first level just below 1."""
    x, velocity = normal(0), normal(1)
    s, s_next = torch.full((3,), first), torch.full((3,), 0.9)
    _, std = flow_sde(x, velocity, s, s_next, 0.9, 0.7)
    torch.testing.assert_close(std, torch.full((3,), 0.7))


def test_samples_at_different_levels_do_not_mix():
    x, velocity = normal(0), normal(1)
    s, s_next = torch.tensor([1.0, 0.6, 0.3]), torch.tensor([0.9, 0.5, 0.1])
    for kind in ("flow_sde", "cps"):
        mean, std = stochastic_step(kind, x, velocity, s, s_next, 0.9, 0.7)
        for i in range(3):
            one = slice(i, i + 1)
            alone = stochastic_step(kind, x[one], velocity[one], s[one], s_next[one], 0.9, 0.7)
            assert torch.equal(mean[one], alone.mean) and torch.equal(std[one], alone.std)


def test_bad_settings_are_refused_by_name():
    with pytest.raises(CastError, match=r"sde.kind: 'flow_sd'.*Did you mean 'flow_sde'"):
        check_transition("flow_sd", 1.0)
    with pytest.raises(CastError, match=r"noise_level: 1.2 is not allowed for cps"):
        check_transition("cps", 1.2)
    with pytest.raises(CastError, match=r"noise_level: 0\.0"):
        check_transition("flow_sde", 0.0)
    check_transition("flow_sde", 1.2)
