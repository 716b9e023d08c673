"""Window ranges and draws: the paper's two ranges, uniformity, independence of order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cast.errors import CastError
from cast.flow import WindowRange, candidate_range, draw_window_starts


def test_the_papers_two_ranges():
    assert candidate_range(0.21, 50, low=0) == WindowRange(0, 11)
    assert candidate_range(0.14, 50, low=1) == WindowRange(1, 7)


@given(high=st.integers(2, 40), low=st.integers(0, 39), length=st.integers(1, 5))
def test_windows_lie_wholly_inside_the_range(high, low, length):
    if low + length > high:
        with pytest.raises(CastError):
            WindowRange(low, high).starts(length)
        return
    starts = draw_window_starts(WindowRange(low, high), 0, 3, 16, "trajectory", length)
    assert int(starts.min()) >= low and int(starts.max()) + length <= high


def test_starts_are_uniform_over_the_range():
    """Chi-square with 9 degrees of freedom; 21.67 is its 99% point (the draws are fixed)."""
    draws = torch.cat(
        [draw_window_starts(WindowRange(0, 11), 0, c, 16, "trajectory") for c in range(250)]
    )
    counts = torch.bincount(draws, minlength=10).double()
    assert len(counts) == 10
    assert float(((counts - 400) ** 2 / 400).sum()) < 21.67


def test_a_draw_depends_on_its_names_alone():
    wide = WindowRange(0, 11)
    forwards = [draw_window_starts(wide, 7, c, 8, "trajectory") for c in range(5)]
    torch.rand(100)
    backwards = [draw_window_starts(wide, 7, c, 8, "trajectory") for c in reversed(range(5))][::-1]
    assert all(torch.equal(a, b) for a, b in zip(forwards, backwards, strict=True))
    larger = draw_window_starts(wide, 7, 0, 16, "trajectory")
    assert torch.equal(larger[:8], forwards[0])
    assert not torch.equal(draw_window_starts(wide, 8, 0, 16, "trajectory"), larger)


def test_group_scope_draws_once_a_group():
    wide = WindowRange(1, 30)
    draws = [draw_window_starts(wide, 0, c, 16, "group") for c in range(20)]
    assert all(len(set(draw.tolist())) == 1 for draw in draws)
    assert len({int(draw[0]) for draw in draws}) > 5


@pytest.mark.parametrize("low, high", [(-1, 3), (3, 3), (4, 2)])
def test_empty_ranges_are_refused(low, high):
    with pytest.raises(CastError, match="low < high"):
        WindowRange(low, high)
