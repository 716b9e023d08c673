"""Which of a trajectory's steps are stochastic (paper 4.3 and appendix B).

A trajectory's window is a few consecutive transitions inside the candidate range
`[low, high)` of step indices; every other step is the deterministic ODE.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int64
from torch import Tensor

from cast.errors import CastError
from cast.rng import torch_generator

WindowScope = Literal["trajectory", "group"]


@dataclass(frozen=True)
class WindowRange:
    """Candidate steps `low, ..., high - 1`; the windows drawn from it lie wholly inside."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise CastError(
                f"window: [{self.low}, {self.high}) is not a range of steps; "
                "it needs 0 <= low < high."
            )

    def starts(self, length: int) -> range:
        """The allowed first steps of a window of `length` transitions."""
        if not 1 <= length <= self.high - self.low:
            raise CastError(
                f"sde.window_length: {length} transitions don't fit the window range "
                f"[{self.low}, {self.high}); allowed are 1 to {self.high - self.low}."
            )
        return range(self.low, self.high - length + 1)


def candidate_range(tau_star: float, steps: int, low: int) -> WindowRange:
    """`[low, ceil(tau* steps))` from the structure-formation point tau* in (0, 1] (appendix B).

    For 50 steps, tau* 0.21 gives a range that ends at 11 and 0.14 one that ends at 7. Why the
    paper's `low` is 0 for one model and 1 for the other is not in its summary: it is the caller's.
    """
    if not 0.0 < tau_star <= 1.0:
        raise CastError(f"tau_star: {tau_star} is not allowed; it lies in (0, 1].")
    # A product such as 0.14 * 50 = 7.000000000000001 must not round up to the next step.
    return WindowRange(low, math.ceil(round(tau_star * steps, 9)))


def draw_window_starts(
    window_range: WindowRange,
    seed: int,
    collection: int,
    group_size: int,
    scope: WindowScope,
    length: int = 2,
) -> Int64[Tensor, " B"]:
    """First stochastic step of each trajectory of a group, uniform over the allowed starts.

    `trajectory`: each its own draw (paper 4.3). `group`: one draw for all. A draw depends on
    (seed, collection, sample) alone, not on process count or call order.
    """
    allowed = window_range.starts(length)
    samples = range(group_size) if scope == "trajectory" else [0] * group_size
    draws = [
        torch.randint(
            len(allowed), (1,), generator=torch_generator(seed, "window", collection, sample)
        )
        for sample in samples
    ]
    return torch.cat(draws) + window_range.low
