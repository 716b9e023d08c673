"""Schedules and the two estimates read off a velocity."""

import pytest
import torch
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from hypothesis import given
from hypothesis import strategies as st

from cast.errors import CastError
from cast.flow import check_sigmas, data_estimate, linear_sigmas, noise_estimate, shift_sigmas


@given(steps=st.integers(1, 200), mu=st.floats(-2, 3))
def test_shifted_schedules_fall_from_one_to_zero(steps, mu):
    sigmas = shift_sigmas(linear_sigmas(steps), mu)
    assert float(sigmas[0]) == 1 and float(sigmas[-1]) == 0 and len(sigmas) == steps + 1
    check_sigmas(sigmas)


def test_the_shift_is_diffusers_exponential_time_shift():
    scheduler = FlowMatchEulerDiscreteScheduler()
    t = linear_sigmas(20)[:-1]
    theirs = scheduler._time_shift_exponential(0.9, 1.0, t)
    torch.testing.assert_close(shift_sigmas(t, 0.9), theirs)


@given(sigma=st.floats(0.01, 1.0))
def test_estimates_recover_the_data_and_the_noise(sigma):
    data, noise = torch.randn(
        2, 3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).unbind()
    s = torch.full((3,), sigma, dtype=torch.float64)
    x, velocity = (1 - sigma) * data + sigma * noise, noise - data
    torch.testing.assert_close(data_estimate(x, velocity, s), data)
    torch.testing.assert_close(noise_estimate(x, velocity, s), noise)


@pytest.mark.parametrize(
    "sigmas", [[1.0], [1.0, 0.5], [0.0, 1.0], [1.0, 1.0, 0.0], [1.1, 0.0], [1.0, float("nan"), 0.0]]
)
def test_bad_schedules_are_refused(sigmas):
    with pytest.raises(CastError, match="not a schedule"):
        check_sigmas(torch.tensor(sigmas))
    with pytest.raises(CastError, match="steps: 0"):
        linear_sigmas(0)
