"""Replicates and intervals (paper 5.2, App. G; the bootstrap is ours, design section 4).

Generation seeds are matched across methods, so differences are taken prompt by prompt. A
prompt's value is its mean over replicates; the bootstrap resamples prompts, the same draws for
every arm, so a difference between two arms keeps its pairing.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from cast.errors import CastError
from cast.rng import numpy_generator

DRAWS = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Replicates:
    """Mean and sample standard deviation (n - 1 below) over `count` generation seeds."""

    mean: float
    sd: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.sd:.3f}"


def over_replicates(values: pd.Series) -> Replicates:
    """Summarise one value a seed; a single replicate has no standard deviation (NaN)."""
    numbers = values.to_numpy(dtype=float)
    if np.isnan(numbers).any():
        raise CastError(f"replicates: no value for seed {values.index[np.isnan(numbers)][0]}.")
    sd = numbers.std(ddof=1) if len(numbers) > 1 else np.nan
    return Replicates(float(numbers.mean()), float(sd), len(numbers))


@dataclass(frozen=True)
class Interval:
    """A value with its percentile interval; bounds are NaN where the value isn't defined."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def excludes(self, number: float) -> bool:
        """Whether the interval lies wholly on one side of `number`."""
        return bool(self.low > number or self.high < number)


def mean_by_prompt(means: pd.DataFrame) -> pd.Series:
    """Mean over seeds of a prompts x seeds table, refusing a missing image."""
    if means.isna().to_numpy().any():
        raise CastError("replicates: an image's score is missing; they must be equal per prompt.")
    return means.mean(axis=1)


def paired(*arms: pd.Series) -> list[Float[np.ndarray, " N"]]:
    """The arms' values in one order of prompts; refuses arms that scored different prompts."""
    first = arms[0].sort_index()
    for arm in arms:
        if arm.index.has_duplicates:
            raise CastError(
                f"replicates: prompt {arm.index[arm.index.duplicated()][0]} stands there twice."
            )
        different = first.index.symmetric_difference(arm.index)
        if len(different):
            raise CastError(
                f"replicates: prompt {different[0]} was scored for one arm and not for another; "
                "arms are compared on the same prompts only. Evaluate both on one benchmark."
            )
    return [arm.sort_index().to_numpy(dtype=float) for arm in arms]


def resampled_means(
    *values: Float[np.ndarray, " N"], draws: int = DRAWS, seed: int = 0
) -> list[Float[np.ndarray, " D"]]:
    """Means of each array over the same bootstrap samples of its N entries."""
    count = len(values[0])
    rng = numpy_generator(seed, "bootstrap", count, draws)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=draws) / count
    return [weights @ array for array in values]


def interval(value: float, sample: Float[np.ndarray, " D"], level: float = LEVEL) -> Interval:
    """Percentile interval of bootstrap values around the point estimate."""
    low, high = np.quantile(sample, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high), level)


def difference(
    treated: pd.Series, reference: pd.Series, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Mean over prompts of `treated - reference`, with its paired bootstrap interval."""
    first, second = paired(treated, reference)
    change = first - second
    return interval(change.mean(), resampled_means(change, draws=draws, seed=seed)[0])


def gain_ratio(
    treated: pd.Series,
    reference: pd.Series,
    base: pd.Series,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """(treated - base) / (reference - base), with its paired bootstrap interval.

    The ratio says nothing where the reference's own gain can't be told from none: then the
    value and both bounds are NaN (stated rule: its interval must lie above 0).
    """
    first, second, zero = paired(treated, reference, base)
    above, below = resampled_means(first - zero, second - zero, draws=draws, seed=seed)
    gain = float((second - zero).mean())
    if interval(gain, below).low <= 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    return interval((first - zero).mean() / gain, above / np.where(below == 0, np.nan, below))
