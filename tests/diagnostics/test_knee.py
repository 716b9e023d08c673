"""The knee against closed forms, known curves with noise, and curves that have none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm as normal
from scipy.stats import t as student

from cast.diagnostics.knee import Shape, expanded_tail, fit_knee, knees
from cast.diagnostics.knee_table import knee_table, known_shape, synthetic_curves
from cast.errors import CastError
from cast.flow import WindowRange, candidate_range

TAU = np.arange(50) / 50


def knee_of(shape: Shape) -> float:
    return float(knees(np.array([shape.rate]), np.array([shape.lag]))[0])


@settings(max_examples=20)
@given(rate=st.floats(4.0, 60.0))
def test_an_exponential_bends_most_where_its_slope_is_one_over_root_two(rate: float):
    closed = np.log(np.sqrt(2) * rate / (1 - np.exp(-rate))) / rate
    assert knee_of(Shape(rate, 0.0)) == pytest.approx(closed, abs=1e-4)


@settings(max_examples=20)
@given(rate=st.floats(8.0, 60.0), lag=st.floats(0.0, 0.3))
def test_the_knee_is_the_largest_curvature_of_the_drawn_curve(rate: float, lag: float):
    """Against finite differences of the plain curve on a fine grid."""
    x = np.linspace(0, 1, 20_001)
    y = Shape(rate, lag)(x)
    y = (y - y[0]) / (y[-1] - y[0])
    slope = np.gradient(y, x)
    bend = -np.gradient(slope, x) / (1 + slope**2) ** 1.5
    inner = slice(5, -5)
    assert knee_of(Shape(rate, lag)) == pytest.approx(x[inner][bend[inner].argmax()], abs=2e-3)


@pytest.mark.parametrize("kind", ["exponential", "logistic"])
@pytest.mark.parametrize("tau_star", [0.11, 0.14, 0.21])
def test_noiseless_curves_give_tau_back(kind, tau_star):
    shape = known_shape(kind, tau_star, 50)
    curves = synthetic_curves(shape, 50, 0.0, 6, np.random.default_rng(0))
    knee = fit_knee(TAU, curves, draws=100)
    assert knee.tau_star == pytest.approx(tau_star, abs=1e-3)
    assert knee.residual < 1e-6
    np.testing.assert_allclose(knee.curve(TAU), curves.mean(axis=0), atol=1e-6)


def test_scale_and_offset_change_nothing():
    shape = known_shape("logistic", 0.2, 50)
    curves = synthetic_curves(shape, 50, 0.01, 8, np.random.default_rng(1))
    first, second = fit_knee(TAU, curves), fit_knee(TAU, 3.0 + 0.01 * curves)
    assert second.tau_star == pytest.approx(first.tau_star, abs=1e-6)
    assert (second.low, second.high) == pytest.approx((first.low, first.high), abs=1e-5)


def test_the_table_on_a_part_of_its_settings():
    """The whole table is in the notebook; an unbiased estimate and honest intervals here."""
    table = knee_table(
        repeats=12, draws=100, taus=[0.14], noises=[0.01], steps=[20, 50], prompts=24
    )
    assert (table["error"] < 0.01).all() and (table["error_95"] < 0.03).all()
    assert table["coverage"].mean() >= 0.9 and (table["width"] < 0.03).all()
    assert (table["error"] < table["kneedle_error"]).mean() >= 0.5


def test_the_interval_of_few_curves_is_as_wide_as_students():
    """For the mean of M normal values: its bootstrap's quantiles are z times sd / sqrt(M)."""
    for count in (2, 6, 24):
        biased = np.sqrt((count - 1) / count)  # the bootstrap's standard deviation, as a share
        reach = biased * -normal.ppf(expanded_tail(count))
        assert reach == pytest.approx(-student.ppf(0.025, count - 1))
    assert expanded_tail(10_000) == pytest.approx(0.025, abs=1e-4)


@pytest.mark.parametrize("tau_star", [0.11, 0.21])
def test_an_exponentials_fit_is_its_least_squares_at_the_bound(tau_star):
    """Where the best lag is 0, against a search over the rate alone."""
    shape, x, at_bound = known_shape("exponential", tau_star, 20), np.linspace(0, 1, 20), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mean = synthetic_curves(shape, 20, 0.02, 24, rng).mean(axis=0)
        knee = fit_knee(np.arange(20) / 20, mean[None])
        if knee.shape.lag > 0:
            continue
        at_bound += 1

        def error(log_rate: float, mean: np.ndarray = mean) -> float:
            design = np.stack([np.ones(20), Shape(np.exp(log_rate), 0.0)(x)], axis=1)
            return float(np.linalg.lstsq(design, mean, rcond=None)[1][0])

        best = minimize_scalar(error, bounds=(0.5, 4.5), method="bounded", options={"xatol": 1e-8})
        assert knee.shape.rate == pytest.approx(np.exp(best.x), rel=1e-3)
    assert at_bound > 4


def test_the_papers_ranges():
    assert candidate_range(0.21, 50, 0) == WindowRange(0, 11)
    assert candidate_range(0.14, 50, 1) == WindowRange(1, 7)


def test_more_prompts_narrow_the_interval_and_one_has_none():
    shape, rng = known_shape("exponential", 0.2, 50), np.random.default_rng(2)
    curves = synthetic_curves(shape, 50, 0.02, 64, rng)
    few, many = fit_knee(TAU, curves[:8]), fit_knee(TAU, curves)
    assert many.high - many.low < few.high - few.low
    alone = fit_knee(TAU, curves[:1])
    assert np.isnan(alone.low) and np.isnan(alone.high) and np.isfinite(alone.tau_star)


def bad_curves() -> dict[str, tuple[np.ndarray, np.ndarray, str]]:
    rising = np.linspace(0, 1, 50) ** 0.5
    broken = np.stack([rising, rising])
    broken[1, 7] = np.nan
    return {
        "few points": (TAU[:5], rising[None, :5], "at least 6"),
        "none": (TAU, np.zeros((0, 50)), "no curve"),
        "NaN": (TAU, broken, "curve 1 holds NaN"),
        "constant": (TAU, np.full((3, 50), 0.7), "constant"),
        "falls": (TAU, -rising[None], "falls"),
        "unordered": (TAU[::-1], rising[None], "must rise"),
    }


@pytest.mark.parametrize("fault", bad_curves())
def test_curves_without_a_knee_are_refused(fault: str):
    tau, curves, message = bad_curves()[fault]
    with pytest.raises(CastError, match=message):
        fit_knee(tau, curves, draws=100)
