"""Stochastic transitions between two noise levels, and the densities of what they draw.

A transition is a Gaussian, `x' = mean + std * xi` with `xi ~ N(0, I)`, and every kind's mean is
`(1 - s') x0_hat + k eps_hat`: the ODE step has `k = s'` and `std = 0`. With a perfect model the
mean of x' is then exact, and its covariance differs from the true marginal's by exactly

    (k^2 + std^2 - s'^2) I  -  w^2 R,    w = (1 - s') - k (1 - s) / s,

where R is the mean posterior covariance of the data given x. (Ours: from the law of total
covariance. The ODE's own error is the second term, with `w = (s - s') / s`.) Densities and
divergences are averaged over a packed token's channels, so each token has one number of order
one whatever the latent's depth (paper 4.3, "per-token").
"""

import math
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from cast.errors import CastError, nearest
from cast.flow.schedule import data_estimate, noise_estimate, per_sample

TransitionKind = Literal["flow_sde", "cps"]

# Schedulers shift their levels in float32, which can leave the first a rounding error below 1.
ALMOST_ONE = 1.0 - 1e-6


class Transition(NamedTuple):
    """Gaussian of the next state; `std` is one standard deviation a sample."""

    mean: Float[Tensor, "B P C"]
    std: Float[Tensor, " B"]


def flow_sde(
    x: Float[Tensor, "B P C"],
    velocity: Float[Tensor, "B P C"],
    sigma: Float[Tensor, " B"],
    sigma_next: Float[Tensor, " B"],
    sigma_second: float,
    noise_level: float,
) -> Transition:
    """Euler-Maruyama step of Flow-GRPO's SDE (paper 2.1; 2505.05470, equation 9).

    With `g = a sqrt(s / (1 - s))` and `D = s - s'`:
    `mean = x (1 - g^2 D / (2 s)) - v D (1 + g^2 (1 - s) / (2 s))`, `std = g sqrt(D)`.

    `g` is infinite at `s = 1`, so there (and only there) its denominator takes the schedule's
    second level, `sigma_second`. In the module's terms `k = s' - b` with `b = g^2 D / (2 s)`,
    so the noise variance is too large by `b (b + 2 D)`. On an even schedule b is `a^2 / 2` in the
    first step and `a^2 / (2 i)` in step i, whatever the number of steps: about a quarter too
    much in each of the first two steps at `a = 1`, a sixteenth in the third.
    """
    denominator = 1.0 - torch.where(sigma > ALMOST_ONE, sigma_second, sigma)
    g_squared = noise_level**2 * sigma / denominator
    step = sigma - sigma_next
    keep = 1.0 - g_squared * step / (2.0 * sigma)
    move = step * (1.0 + g_squared * (1.0 - sigma) / (2.0 * sigma))
    mean = per_sample(keep) * x - per_sample(move) * velocity
    return Transition(mean, torch.sqrt(g_squared * step))


def cps(
    x: Float[Tensor, "B P C"],
    velocity: Float[Tensor, "B P C"],
    sigma: Float[Tensor, " B"],
    sigma_next: Float[Tensor, " B"],
    noise_level: float,
) -> Transition:
    """Coefficients-preserving step (2509.05952): exactly `s'` of noise at every level, also at 1.

    `std = s' sin(a pi / 2)`, `mean = (1 - s') x0_hat + s' cos(a pi / 2) eps_hat`. For known data
    the marginal is kept exactly, the first step included. For spread-out data the variance is too
    small by `w^2 R` (see the module), where `w` tends to `(1 - s) (1 - cos(a pi / 2))` for small
    steps: next to nothing near `s = 1`, where windows lie, but more steps don't mend it elsewhere.
    The last level (`s' = 0`) is deterministic and has no density.
    """
    angle = noise_level * math.pi / 2.0
    data = data_estimate(x, velocity, sigma)
    noise = noise_estimate(x, velocity, sigma)
    kept = sigma_next * math.cos(angle)
    mean = per_sample(1.0 - sigma_next) * data + per_sample(kept) * noise
    return Transition(mean, sigma_next * math.sin(angle))


def check_transition(kind: str, noise_level: float) -> None:
    """Raise `CastError` for an unknown kind or a noise level that gives no valid Gaussian."""
    kinds = get_args(TransitionKind)
    if kind not in kinds:
        raise CastError(
            f"sde.kind: {kind!r} is unknown; allowed are {', '.join(kinds)}.{nearest(kind, kinds)}"
        )
    if not noise_level > 0.0 or (kind == "cps" and noise_level > 1.0):
        allowed = "(0, 1]" if kind == "cps" else "above 0"
        raise CastError(f"sde.noise_level: {noise_level} is not allowed for {kind}; use {allowed}.")


def stochastic_step(
    kind: TransitionKind,
    x: Float[Tensor, "B P C"],
    velocity: Float[Tensor, "B P C"],
    sigma: Float[Tensor, " B"],
    sigma_next: Float[Tensor, " B"],
    sigma_second: float,
    noise_level: float,
) -> Transition:
    """The transition of the given kind; see `flow_sde` and `cps`."""
    if kind == "flow_sde":
        return flow_sde(x, velocity, sigma, sigma_next, sigma_second, noise_level)
    return cps(x, velocity, sigma, sigma_next, noise_level)


def token_log_prob(
    x_next: Float[Tensor, "B P C"], mean: Float[Tensor, "B P C"], std: Float[Tensor, " B"]
) -> Float[Tensor, "B P"]:
    """Gaussian log-density of each token, averaged over its channels: nats a channel."""
    scaled = (x_next - mean) / per_sample(std)
    constant = torch.log(std) + 0.5 * math.log(2.0 * math.pi)
    return -0.5 * scaled.square().mean(dim=-1) - constant[:, None]


def image_log_prob(token_log_probs: Float[Tensor, "*batch P"]) -> Float[Tensor, "*batch"]:
    """The image's log_prob, as Flow-GRPO has it: the mean of its tokens'."""
    return token_log_probs.mean(dim=-1)


def token_kl(
    mean: Float[Tensor, "B P C"], mean_reference: Float[Tensor, "B P C"], std: Float[Tensor, " B"]
) -> Float[Tensor, "B P"]:
    """KL divergence of two transitions that share `std`, averaged over a token's channels."""
    return ((mean - mean_reference).square() / (2.0 * per_sample(std).square())).mean(dim=-1)
