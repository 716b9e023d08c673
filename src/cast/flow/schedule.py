"""Noise levels of a sampler and the deterministic step between them (paper 2.1).

Convention, as in diffusers: sigma runs from 1 (noise) to 0 (data), `x_s = (1 - s) x0 + s eps`,
and the model predicts the velocity `v = eps - x0`. All arithmetic is float32.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from cast.errors import CastError


def linear_sigmas(steps: int) -> Float[Tensor, " n"]:
    """`steps + 1` equally spaced levels from 1 to 0."""
    if steps < 1:
        raise CastError(f"steps: {steps} is not allowed; a schedule needs at least 1 step.")
    return torch.linspace(1.0, 0.0, steps + 1)


def shift_sigmas(sigmas: Float[Tensor, " n"], mu: float) -> Float[Tensor, " n"]:
    """Time shift `e^mu / (e^mu + 1 / s - 1)`: more steps near the noise for a larger `mu`.

    Source: Stable Diffusion 3 (2403.03206), section 5.3.2. Keeps 0 and 1 exactly.
    """
    shift = sigmas.new_tensor(math.exp(mu))
    return shift / (shift + (1.0 / sigmas - 1.0))


def check_sigmas(sigmas: Float[Tensor, " n"]) -> None:
    """Raise `CastError` unless the levels fall strictly from at most 1 to exactly 0."""
    levels = sigmas.double()
    falls = bool((levels[1:] < levels[:-1]).all())
    if len(levels) < 2 or not falls or levels[0] > 1 or levels[-1] != 0:
        raise CastError(
            f"sigmas: {levels.tolist()} is not a schedule; it must fall strictly from at most 1 "
            "to exactly 0 and hold at least two levels."
        )


def per_sample(values: Float[Tensor, " B"]) -> Float[Tensor, "B 1 1"]:
    """Give a per-sample scalar the two trailing axes of packed tokens."""
    return values[:, None, None]


def ode_step(
    x: Float[Tensor, "B P C"],
    velocity: Float[Tensor, "B P C"],
    sigma: Float[Tensor, " B"],
    sigma_next: Float[Tensor, " B"],
) -> Float[Tensor, "B P C"]:
    """Euler step of the probability-flow ODE: `x + (s' - s) v`, as diffusers' Euler scheduler."""
    return x + per_sample(sigma_next - sigma) * velocity


def data_estimate(
    x: Float[Tensor, "B P C"], velocity: Float[Tensor, "B P C"], sigma: Float[Tensor, " B"]
) -> Float[Tensor, "B P C"]:
    """The model's estimate of the clean latents: `x0_hat = x - s v`."""
    return x - per_sample(sigma) * velocity


def noise_estimate(
    x: Float[Tensor, "B P C"], velocity: Float[Tensor, "B P C"], sigma: Float[Tensor, " B"]
) -> Float[Tensor, "B P C"]:
    """The model's estimate of the noise: `eps_hat = x + (1 - s) v`."""
    return x + per_sample(1.0 - sigma) * velocity
