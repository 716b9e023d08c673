"""How well the knee is found: curves with known tau*, noise and steps (ours).

A synthetic study has M prompts whose curves share one shape and differ in offset and rise, as
prompts do, plus white noise of such a size that the mean curve's is `noise` of its rise.
"""

from collections.abc import Iterable
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import brentq

from cast.config import CastConfig
from cast.diagnostics.knee import Shape, fit_knee, knees
from cast.evaluation.folders import world_folder
from cast.io import write_parquet
from cast.rng import numpy_generator
from cast.workflow.digest import code_digest

Kind = Literal["exponential", "logistic"]
KINDS: tuple[Kind, ...] = ("exponential", "logistic")
TAUS = (0.11, 0.21)  # the paper's least and largest
NOISES = (0.0, 0.005, 0.01, 0.02)
STEPS = (20, 50)
TOLERANCE = 1e-3  # a noiseless curve's interval has no width: what lies so near is covered
REPEATS = 200  # studies a row: a coverage of 95% is then known to within 1.5% (standard error)
SMOKE_REPEATS = 20  # the smoke world's numbers mean nothing


def known_shape(kind: Kind, tau_star: float, steps: int) -> Shape:
    """The shape whose knee lies at `tau_star` on a curve of `steps` points `0, 1/N, ...`.

    A logistic rise has its midpoint halfway to the knee.
    """
    at = tau_star * steps / (steps - 1)

    def shape(rate: float) -> Shape:
        midpoint = at / 2
        lag = 0.0 if kind == "exponential" else float(np.log1p(np.exp(rate * midpoint)) / rate)
        return Shape(rate, lag)

    def miss(rate: float) -> float:
        return float(knees(np.array([rate]), np.array([shape(rate).lag]))[0]) - at

    root: Any = brentq(miss, 2.0 / at, 150.0, xtol=1e-10)
    return shape(float(root))


def synthetic_curves(
    shape: Shape, steps: int, noise: float, prompts: int, rng: np.random.Generator
) -> Float[np.ndarray, "M N"]:
    """Curves of M prompts around one shape; the mean's noise is `noise` of its rise."""
    x = np.linspace(0.0, 1.0, steps)
    values = shape(x)
    values = (values - values[0]) / (values[-1] - values[0])
    offsets = rng.normal(0.3, 0.1, (prompts, 1))
    rises = rng.uniform(0.4, 0.6, (prompts, 1))
    white = rng.standard_normal((prompts, steps)) * (0.5 * noise * np.sqrt(prompts))
    return offsets + rises * values + white


def knee_table(
    repeats: int = REPEATS,
    prompts: int = 24,
    draws: int = 200,
    kinds: Iterable[Kind] = KINDS,
    taus: Iterable[float] = TAUS,
    noises: Iterable[float] = NOISES,
    steps: Iterable[int] = STEPS,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a setting: the estimate's error, its interval's width and coverage.

    `error` is the median absolute error of tau*, `error_95` its 95% quantile, `kneedle_error` the
    Kneedle algorithm's median on the same curves (not finding one counts as an error of 1),
    `coverage` the share of 95% intervals that hold the true value, `width` their mean width.
    """
    rows = []
    for kind, tau_star, noise, count in product(kinds, taus, noises, steps):
        shape = known_shape(kind, tau_star, count)
        tau = np.arange(count) / count
        rng = numpy_generator(seed, "knee table", kind, str(tau_star), str(noise), count)
        found = [
            fit_knee(tau, synthetic_curves(shape, count, noise, prompts, rng), draws, seed=number)
            for number in range(repeats)
        ]
        errors = np.array([abs(one.tau_star - tau_star) for one in found])
        covered = [one.low - TOLERANCE <= tau_star <= one.high + TOLERANCE for one in found]
        kneedle = [1.0 if np.isnan(o.kneedle) else abs(o.kneedle - tau_star) for o in found]
        rows.append(
            {
                "rise": kind,
                "tau_star": tau_star,
                "noise": noise,
                "steps": count,
                "error": float(np.median(errors)),
                "error_95": float(np.quantile(errors, 0.95)),
                "kneedle_error": float(np.median(kneedle)),
                "width": float(np.mean([one.high - one.low for one in found])),
                "coverage": float(np.mean(covered)),
            }
        )
    return pd.DataFrame(rows)


def cached_knee_table(config: CastConfig) -> pd.DataFrame:
    """The whole table, kept below the world's results until the code that makes it changes.

    Fewer studies a row in the smoke world.
    """
    path = world_folder(config) / "structure" / f"knee_table_{code_digest(__name__)}.parquet"
    if not path.is_file():
        smoke = config.world == "smoke"
        write_parquet(path, knee_table(SMOKE_REPEATS if smoke else REPEATS))
    return pd.read_parquet(path)
