"""Sampling with a stochastic window, and the replay of what was drawn.

The model is one callable, `velocity(x [b, P, C], sigma [b], samples [b]) -> [b, P, C]`, where
`samples` are the rows' indices in the batch (to select their conditioning). It is always called
with exactly `micro_batch` rows, in rollout and in replay, the last call padded by repeating a
row: matrix kernels choose their summation order by shape, and another shape gives other bits,
which would show as a ratio that is not 1 before any update.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from cast.errors import CastError
from cast.flow.schedule import check_sigmas, data_estimate, ode_step, per_sample
from cast.flow.transition import (
    TransitionKind,
    check_transition,
    stochastic_step,
    token_log_prob,
)

Velocity = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Rollout:
    """What the update needs of B sampled trajectories with T stochastic transitions each.

    `states[:, j]` is the state at step `starts + j`, so transition t of a sample goes from
    `states[:, t]` to `states[:, t + 1]`. Its size doesn't depend on the number of steps.
    `log_probs` were computed while sampling. `x0_estimates` [B, N, P, C], where asked for, are
    the clean-latent estimates before each of the N steps.
    """

    latents: Float[Tensor, "B P C"]
    starts: Int64[Tensor, " B"]
    states: Float[Tensor, "B S P C"]
    log_probs: Float[Tensor, "B T P"]
    x0_estimates: Float[Tensor, "B N P C"] | None = None


class Replay(NamedTuple):
    """One transition of b samples under the current parameters, differentiable."""

    log_prob: Float[Tensor, "b P"]
    mean: Float[Tensor, "b P C"]
    std: Float[Tensor, " b"]


def micro_batches(count: int, size: int) -> Iterator[tuple[Int64[Tensor, " size"], int]]:
    """Runs of exactly `size` sample indices, and how many of each run are not padding."""
    for first in range(0, count, size):
        real = min(size, count - first)
        yield (first + torch.arange(size)).clamp(max=first + real - 1), real


@torch.no_grad()
def rollout(
    velocity: Velocity,
    sigmas: Float[Tensor, " n"],
    noise: Float[Tensor, "B P C"],
    starts: Int64[Tensor, " B"] | None = None,
    transition_noise: Float[Tensor, "B T P C"] | None = None,
    kind: TransitionKind = "flow_sde",
    noise_level: float = 1.0,
    micro_batch: int = 8,
    return_x0: bool = False,
) -> Rollout:
    """Sample B trajectories: ODE steps, but for T stochastic transitions from `starts` on.

    `noise` is the state at `sigmas[0]` and `transition_noise` the standard normal noise of the
    window's transitions; both are passed in, so a trajectory is a function of its arguments.
    Without `starts` and `transition_noise` it is the plain ODE sampler (T = 0).
    """
    count, tokens, channels = noise.shape
    if (starts is None) != (transition_noise is None):
        raise CastError("rollout: give both `starts` and `transition_noise`, or neither.")
    if starts is None or transition_noise is None:
        starts = torch.zeros(count, dtype=torch.int64)
        transition_noise = noise.new_empty(count, 0, tokens, channels)
    length = transition_noise.shape[1]
    sigmas, transition_noise = sigmas.to(noise), transition_noise.to(noise)
    _check(sigmas, starts, length, kind, noise_level, micro_batch)

    parts = []
    for samples, real in micro_batches(count, micro_batch):
        part = _sample(
            lambda x, sigma, samples=samples: velocity(x, sigma, samples),
            sigmas,
            noise[samples],
            starts[samples],
            transition_noise[samples],
            kind,
            noise_level,
            return_x0,
        )
        parts.append([tensor[:real] for tensor in part])
    latents, states, log_probs, *x0_estimates = map(torch.cat, zip(*parts, strict=True))
    return Rollout(latents, starts, states, log_probs, x0_estimates[0] if return_x0 else None)


def _sample(
    velocity: Callable[[Tensor, Tensor], Tensor],
    sigmas: Float[Tensor, " n"],
    x: Float[Tensor, "b P C"],
    starts: Int64[Tensor, " b"],
    transition_noise: Float[Tensor, "b T P C"],
    kind: TransitionKind,
    noise_level: float,
    return_x0: bool,
) -> list[Tensor]:
    """Latents, states, log_probs and, if asked, x0 estimates of one micro-batch."""
    length = transition_noise.shape[1]
    states = x.new_zeros(len(x), length + 1, *x.shape[1:])
    log_probs = x.new_zeros(len(x), length, x.shape[1])
    x0_estimates = []

    def keep_states(offset: Tensor) -> None:
        kept = torch.nonzero((offset >= 0) & (offset <= length)).flatten()
        states[kept, offset[kept]] = x[kept]

    for step in range(len(sigmas) - 1):
        offset = step - starts  # position in the window: stochastic for 0 <= offset < length
        keep_states(offset)
        sigma, sigma_next = sigmas[step].expand(len(x)), sigmas[step + 1].expand(len(x))
        v = velocity(x, sigma)
        if return_x0:
            x0_estimates.append(data_estimate(x, v, sigma))
        following = ode_step(x, v, sigma, sigma_next)
        rows = torch.nonzero((offset >= 0) & (offset < length)).flatten()
        if len(rows):
            at = offset[rows]
            mean, std = stochastic_step(
                kind,
                x[rows],
                v[rows],
                sigma[rows],
                sigma_next[rows],
                float(sigmas[1]),
                noise_level,
            )
            drawn = mean + per_sample(std) * transition_noise[rows, at]
            log_probs[rows, at] = token_log_prob(drawn, mean, std)
            following[rows] = drawn
        x = following
    keep_states(len(sigmas) - 1 - starts)
    return [x, states, log_probs] + ([torch.stack(x0_estimates, 1)] if return_x0 else [])


def replay_log_prob(
    velocity: Velocity,
    rollout: Rollout,
    sigmas: Float[Tensor, " n"],
    index: int,
    samples: Int64[Tensor, " b"],
    kind: TransitionKind = "flow_sde",
    noise_level: float = 1.0,
    micro_batch: int = 8,
) -> Replay:
    """log_prob of the stored transition `index` (0 to T - 1) of some samples, with gradients.

    `samples` holds at most `micro_batch` indices; the model sees exactly `micro_batch` rows, as
    in the rollout. Under unchanged parameters the result equals `rollout.log_probs`.
    """
    if not 0 < len(samples) <= micro_batch:
        raise CastError(f"replay: {len(samples)} samples don't fit a micro-batch of {micro_batch}.")
    padded = torch.cat([samples, samples[-1:].expand(micro_batch - len(samples))])
    sigmas = sigmas.to(rollout.states)
    x, x_next = rollout.states[samples, index], rollout.states[samples, index + 1]
    step = (rollout.starts[samples] + index).to(sigmas.device)
    padded_step = (rollout.starts[padded] + index).to(sigmas.device)
    v = velocity(rollout.states[padded, index], sigmas[padded_step], padded)[: len(samples)]
    mean, std = stochastic_step(
        kind, x, v, sigmas[step], sigmas[step + 1], float(sigmas[1]), noise_level
    )
    return Replay(token_log_prob(x_next, mean, std), mean, std)


def _check(
    sigmas: Tensor, starts: Tensor, length: int, kind: str, noise_level: float, micro_batch: int
) -> None:
    check_sigmas(sigmas)
    if micro_batch < 1:
        raise CastError(f"training.micro_batch: {micro_batch} is not allowed; use 1 or more.")
    if length == 0:
        return
    check_transition(kind, noise_level)
    # A deterministic last transition has no density, so the coefficients-preserving window
    # must end one step earlier than the other.
    last = len(sigmas) - 1 - length - (1 if kind == "cps" else 0)
    if int(starts.min()) < 0 or int(starts.max()) > last:
        raise CastError(
            f"window: starts {starts.tolist()} of {length} transitions don't fit "
            f"{len(sigmas) - 1} steps of {kind}; allowed are 0 to {last}."
        )
