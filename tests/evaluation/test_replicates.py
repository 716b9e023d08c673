"""Replicates and bootstrap intervals."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cast.errors import CastError
from cast.evaluation import replicates as R


def series(*values: float) -> pd.Series:
    return pd.Series(values, index=[f"p{i}" for i in range(len(values))])


def test_mean_and_sample_standard_deviation():
    summary = R.over_replicates(pd.Series([0.1, 0.2, 0.3, 0.4]))
    assert summary.mean == pytest.approx(0.25)
    assert summary.sd == pytest.approx(np.sqrt(0.05 / 3))  # n - 1, not n
    assert (summary.count, str(summary)) == (4, "0.250 ± 0.129")


def test_one_replicate_has_no_spread():
    assert np.isnan(R.over_replicates(pd.Series([0.5])).sd)


def test_missing_replicate_is_refused():
    with pytest.raises(CastError, match="seed 1"):
        R.over_replicates(pd.Series([0.5, np.nan]))
    with pytest.raises(CastError, match="missing"):
        R.mean_by_prompt(pd.DataFrame({1: [0.5, 0.5], 2: [0.5, np.nan]}))


def test_difference_ignores_prompt_order_and_uses_pairs():
    a, b = series(0.9, 0.5, 0.1), series(0.8, 0.4, 0.0)
    result = R.difference(a, b.iloc[::-1])
    # Every prompt gains exactly 0.1, so pairing leaves no spread at all.
    assert result.value == pytest.approx(0.1)
    assert (result.low, result.high) == pytest.approx((0.1, 0.1))
    assert result.excludes(0.0) and not result.excludes(0.1 + 1e-18)


def test_interval_matches_the_normal_approximation():
    rng = np.random.default_rng(0)
    values = rng.normal(0.05, 0.2, size=400)
    gains = series(*values)
    result = R.difference(gains, gains * 0)
    half = 1.96 * values.std() / 20
    assert result.low == pytest.approx(result.value - half, abs=0.15 * half)
    assert result.high == pytest.approx(result.value + half, abs=0.15 * half)


def test_coverage_of_the_mean_is_nominal():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        sample = series(*rng.normal(0.0, 1.0, size=50))
        hits += not R.difference(sample, sample * 0, draws=500).excludes(0.0)
    assert 0.90 <= hits / 200 <= 0.985  # 0.95 within three standard errors, percentile bias below


def test_different_prompts_are_refused():
    with pytest.raises(CastError, match="p2"):
        R.difference(series(1.0, 1.0, 1.0), series(1.0, 1.0))
    twice = pd.Series([1.0, 1.0], index=["p0", "p0"])
    with pytest.raises(CastError, match="p0"):
        R.difference(twice, twice)


def test_ratio_of_gains():
    base = series(0.2, 0.3, 0.4, 0.5)
    reference = base + series(0.1, 0.1, 0.1, 0.1)
    treated = base + series(0.2, 0.2, 0.2, 0.2)
    result = R.gain_ratio(treated, reference, base)
    assert (result.value, result.low, result.high) == pytest.approx((2.0, 2.0, 2.0))


def test_ratio_is_undefined_where_the_reference_gains_nothing():
    base = series(0.2, 0.3, 0.4, 0.5)
    reference = base + series(0.1, -0.1, 0.1, -0.1)
    result = R.gain_ratio(base + 0.1, reference, base)
    assert np.isnan([result.value, result.low, result.high]).all()
    assert not result.excludes(1.0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.floats(0.01, 0.5))
def test_shift_and_sign(values, shift):
    base = series(*values)
    up = R.difference(base + shift, base, draws=50)
    down = R.difference(base, base + shift, draws=50)
    assert up.value == pytest.approx(shift, abs=1e-9)
    assert (down.low, down.high) == pytest.approx((-up.high, -up.low), abs=1e-9)
