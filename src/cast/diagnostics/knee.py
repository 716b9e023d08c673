"""The knee of a rise-then-plateau curve, with a bootstrap interval (paper App. B).

A curve is fitted first and its curvature taken second: the finite-difference curvature of a noisy
curve is useless. The family (ours; the summary names none) is an affine function of

    f(x) = -E / (1 + q E),  E = exp(-k x),  q >= 0,

an exponential rise for q = 0 and a logistic one, with its midpoint at `ln(q) / k`, for every other
q; `q = exp(k lag) - 1`, so the lag is nearly that midpoint. The knee is the point of largest
downward curvature with both axes scaled to [0, 1] (paper App. B: "maximum curvature"). All
bootstrap draws are fitted at once: the best shape of a coarse grid, then Levenberg-Marquardt on
(ln k, lag), offset and rise projected out.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from kneed import KneeLocator
from scipy.stats import norm as normal
from scipy.stats import t as student

from cast.errors import CastError
from cast.rng import numpy_generator

LEVEL = 0.95
FEWEST = 6  # points of a curve: the fit has four parameters
FINE = np.linspace(0.0, 1.0, 301)
RATES = np.geomspace(1.5, 150.0, 24)  # of the grid that the fit starts from
LAGS = np.linspace(0.0, 0.6, 13)
BOUNDS = np.array([[0.0, 0.0], [np.log(200.0), 0.7]])  # of ln k and the lag
ITERATIONS = 10
Array = Float[np.ndarray, "..."]


class Shape(NamedTuple):
    """A rise on x in [0, 1]: its rate k and its lag; without a lag it is an exponential."""

    rate: float
    lag: float

    def __call__(self, x: Array) -> Array:
        return _rise(np.asarray(self.rate), np.asarray(self.lag), x)


@dataclass(frozen=True)
class Knee:
    """tau* with its 95% interval (NaN for a single curve) and the fit it was read from.

    The interval is an expanded percentile one: see `expanded_tail`.

    `kneedle` is the Kneedle algorithm's point on the unfitted mean, NaN where it finds none;
    `residual` the root mean square of the fit's error, as a share of the rise. The curve itself
    is `start + rise * shape(x)` with x the share of the tau axis.
    """

    tau_star: float
    low: float
    high: float
    kneedle: float
    residual: float
    shape: Shape
    start: float
    rise: float
    first: float
    last: float

    def curve(self, tau: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The fitted curve."""
        return self.start + self.rise * self.shape((tau - self.first) / (self.last - self.first))


def fit_knee(
    tau: Float[np.ndarray, " N"],
    curves: Float[np.ndarray, "M N"],
    draws: int = 1000,
    seed: int = 0,
) -> Knee:
    """Knee of the mean of M curves (one a prompt), with a bootstrap over the M.

    `tau` rises. Raises `CastError` for too few points, values that aren't finite, and curves whose
    mean is constant or falls: those have no rise and so no knee.
    """
    _check(tau, curves)
    mean = curves.mean(axis=0)
    x = (tau - tau[0]) / (tau[-1] - tau[0])
    rates, lags = _fit(x, mean[None])
    shape = Shape(float(rates[0]), float(lags[0]))
    start, rise = _affine(shape(x), mean)
    if rise <= 0:
        raise CastError("knee: the mean curve falls, so it has no rise and no knee.")
    residual = float(np.sqrt(np.mean((start + rise * shape(x) - mean) ** 2)) / np.ptp(mean))
    at = float(knees(rates, lags)[0])
    low = high = float("nan")
    if len(curves) > 1:
        sample = knees(*_fit(x, _bootstrap_weights(len(curves), draws, seed) @ curves))
        tail = expanded_tail(len(curves))
        bounds = np.quantile(sample, [tail, 1 - tail])
        low, high = min(float(bounds[0]), at), max(float(bounds[1]), at)
    scale = lambda share: float(tau[0] + share * (tau[-1] - tau[0]))  # noqa: E731
    return Knee(
        tau_star=scale(at),
        low=scale(low),
        high=scale(high),
        kneedle=_kneedle(tau, mean),
        residual=residual,
        shape=shape,
        start=start,
        rise=rise,
        first=float(tau[0]),
        last=float(tau[-1]),
    )


def expanded_tail(count: int) -> float:
    """Share of bootstrap draws below the interval of `count` curves, at least two.

    Plain percentiles are too narrow for few: a bootstrap's variance is (M-1)/M of what it should
    be, and it takes the normal's quantiles for Student's. The expanded percentile interval mends
    both (Hesterberg 2015, "What teachers should know about the bootstrap").
    """
    quantile = student.ppf((1 - LEVEL) / 2, count - 1)
    return float(normal.cdf(np.sqrt(count / (count - 1)) * quantile))


def knees(rates: Float[np.ndarray, " S"], lags: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Point in [0, 1] of each shape's largest downward curvature on normalised axes.

    For an exponential it is `ln(sqrt(2) k / (1 - exp(-k))) / k`, where the slope is 1/sqrt(2).
    """
    bends = _bend(rates[:, None], lags[:, None], FINE)
    peak = bends.argmax(axis=1).clip(1, len(FINE) - 2)
    left, middle, right = (bends[np.arange(len(bends)), peak + i] for i in (-1, 0, 1))
    bow = left - 2 * middle + right  # the parabola through the three highest points
    shift = np.where(bow < 0, 0.5 * (left - right) / np.where(bow < 0, bow, -1.0), 0.0)
    return (FINE[peak] + shift.clip(-1, 1) * FINE[1]).clip(0.0, 1.0)


def _fit(
    x: Float[np.ndarray, " N"], curves: Float[np.ndarray, "D N"]
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """Rates and lags of the least-squares rise of each curve."""
    centred = curves - curves.mean(axis=1, keepdims=True)
    parameters = _start(x, centred)
    damping = np.full(len(curves), 1e-3)
    error, jacobian, residual = _errors(x, centred, parameters)
    for _ in range(ITERATIONS):
        normal = np.einsum("dni,dnj->dij", jacobian, jacobian)
        scale = np.einsum("dii->di", normal) + 1e-12
        damped = normal + damping[:, None, None] * (scale[:, :, None] * np.eye(2))
        gradient = np.einsum("dni,dn->di", jacobian, residual)
        # At a bound (an exponential's lag), a step across it would spoil the other parameter's.
        out = (parameters <= BOUNDS[0]) & (gradient < 0) | (parameters >= BOUNDS[1]) & (
            gradient > 0
        )
        free = ~out
        damped *= (free[:, :, None] & free[:, None, :]) | np.eye(2, dtype=bool)
        step = np.linalg.solve(damped, (gradient * free)[:, :, None])[:, :, 0]
        tried = (parameters + step).clip(*BOUNDS)
        new_error, new_jacobian, new_residual = _errors(x, centred, tried)
        better = new_error < error
        parameters = np.where(better[:, None], tried, parameters)
        error = np.where(better, new_error, error)
        jacobian = np.where(better[:, None, None], new_jacobian, jacobian)
        residual = np.where(better[:, None], new_residual, residual)
        damping = np.where(better, damping * 0.2, damping * 8.0).clip(1e-9, 1e9)
    return np.exp(parameters[:, 0]), parameters[:, 1]


def _start(x: np.ndarray, centred: Float[np.ndarray, "D N"]) -> Float[np.ndarray, "D 2"]:
    """The best rising shape of the grid, as ln k and lag."""
    rates, lags = (grid.ravel() for grid in np.meshgrid(RATES, LAGS))
    vectors = _rise(rates[:, None], lags[:, None], x)
    vectors = vectors - vectors.mean(axis=1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    best = (vectors @ centred.T).argmax(axis=0)
    return np.stack([np.log(rates[best]), lags[best]], axis=1)


def _errors(
    x: np.ndarray, centred: Float[np.ndarray, "D N"], parameters: Float[np.ndarray, "D 2"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum of squares [D], Jacobian [D, N, 2] and residual [D, N], offset and rise projected out.

    Variable projection with Kaufman's approximation: the derivative of the shape, less what the
    offset and the rise take up.
    """
    rate, lag = np.exp(parameters[:, :1]), parameters[:, 1:]
    decay, q = np.exp(-rate * x), np.expm1(rate * lag)
    shape = _rise(rate, lag, x)
    by_lag = rate * shape**2
    by_rate = rate * x * shape**2 / decay / (1 + q) + lag * by_lag
    shape = shape - shape.mean(axis=1, keepdims=True)
    unit = shape / np.linalg.norm(shape, axis=1, keepdims=True)
    along = (unit * centred).sum(axis=1, keepdims=True)
    residual = centred - along * unit
    rise = along / np.linalg.norm(shape, axis=1, keepdims=True)
    slopes = []
    for slope in (by_rate, by_lag):
        free = slope - slope.mean(axis=1, keepdims=True)
        slopes.append(rise * (free - (free * unit).sum(axis=1, keepdims=True) * unit))
    return (residual**2).sum(axis=1), np.stack(slopes, axis=2), residual


def _affine(values: np.ndarray, curve: np.ndarray) -> tuple[float, float]:
    """Least-squares offset and scale of `values` to `curve`."""
    centred = values - values.mean()
    rise = float(centred @ curve / (centred @ centred))
    return float(curve.mean() - rise * values.mean()), rise


def _rise(rate: Array, lag: Array, x: Array) -> Array:
    """The shape times 1 + q (a factor that keeps it from vanishing at long lags)."""
    decay, q = np.exp(-rate * x), np.expm1(rate * lag)
    return -decay * (1 + q) / (1 + q * decay)


def _bend(rate: Array, lag: Array, x: Array) -> Array:
    """Downward curvature `-y'' / (1 + y'^2)^1.5` of the rise scaled to [0, 1]."""
    decay, q = np.exp(-rate * x), np.expm1(rate * lag)
    bottom = 1 + q * decay
    slope = rate * decay * (1 + q) / bottom**2
    second = -(rate**2) * decay * (1 + q) * (1 - q * decay) / bottom**3
    height = _rise(rate, lag, np.ones(1)) - _rise(rate, lag, np.zeros(1))
    return -(second / height) / (1 + (slope / height) ** 2) ** 1.5


def _bootstrap_weights(count: int, draws: int, seed: int) -> Float[np.ndarray, "D M"]:
    rng = numpy_generator(seed, "knee bootstrap", count, draws)
    return rng.multinomial(count, np.full(count, 1 / count), size=draws) / count


def _kneedle(tau: np.ndarray, mean: np.ndarray) -> float:
    found = KneeLocator(tau, mean, curve="concave", direction="increasing").knee
    return float("nan") if found is None else float(found)


def _check(tau: np.ndarray, curves: np.ndarray) -> None:
    if len(tau) < FEWEST:
        raise CastError(f"knee: {len(tau)} points a curve; the fit needs at least {FEWEST}.")
    if not len(curves):
        raise CastError("knee: no curve; give at least one.")
    if not (np.diff(tau) > 0).all():
        raise CastError("knee: tau must rise from point to point.")
    if not np.isfinite(curves).all():
        bad = int(np.argwhere(~np.isfinite(curves).all(axis=1))[0, 0])
        raise CastError(f"knee: curve {bad} holds NaN or infinity; measure it again.")
    if np.ptp(curves.mean(axis=0)) <= 1e-12 * max(1.0, float(np.abs(curves).max())):
        raise CastError("knee: the mean curve is constant, so it has no knee.")
