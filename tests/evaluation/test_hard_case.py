"""Hard Case selection by hand, with ties, and the seal of its file."""

import numpy as np
import pandas as pd
import pytest

from cast.errors import CastError
from cast.evaluation.hard_case import HardCase, read_hard_case, select_hard_case, write_hard_case
from cast.io import read_json, write_json

MEANS = pd.DataFrame(
    {
        200: [0.0, 0.4, 0.9, 0.5, 0.1],
        201: [1.0, 0.6, 0.5, 0.5, 0.1],
    },
    index=pd.Index(["a", "b", "c", "d", "e"], name="prompt_id"),
)  # variances 0.5, 0.02, 0.08, 0, 0; means 0.5, 0.5, 0.7, 0.5, 0.1


def test_variance_first_then_mean():
    assert select_hard_case(MEANS, pool=3, keep=2) == ["a", "b"]
    assert select_hard_case(MEANS, pool=2, keep=1) == ["a"]
    # The lowest mean of all (e) never varies, so it isn't a hard case.
    assert "e" not in select_hard_case(MEANS, pool=3, keep=3)


def test_ties_are_broken_by_prompt_id_whatever_the_order():
    assert select_hard_case(MEANS, pool=4, keep=4) == ["a", "b", "d", "c"]
    assert select_hard_case(MEANS.iloc[::-1], pool=4, keep=4) == ["a", "b", "d", "c"]


def test_rounding_noise_does_not_break_a_tie():
    noisy = MEANS.copy()
    noisy.loc["e"] += 1e-15
    noisy.loc["e", 200] += 1e-15
    assert select_hard_case(noisy, pool=4, keep=4) == ["a", "b", "d", "c"]


@pytest.mark.parametrize(
    ("means", "pool", "keep", "words"),
    [
        (MEANS, 6, 2, "pool 6"),
        (MEANS, 3, 4, "keep 4"),
        (MEANS, 3, 0, "keep 0"),
        (MEANS[[200]], 3, 2, "at least two"),
        (MEANS.assign(**{"201": np.nan}), 3, 2, "one score"),
        (pd.concat([MEANS, MEANS.head(1)]), 3, 2, "once"),
    ],
)
def test_bad_selections_are_refused(means, pool, keep, words):
    with pytest.raises(CastError, match=words):
        select_hard_case(means, pool, keep)


def hard_case(**changes) -> HardCase:
    fields = {
        "prompt_ids": ("a", "b"),
        "pool": 3,
        "keep": 2,
        "selection_seeds": (200, 201),
        "evaluation_seeds": (100, 101),
        "backbone": "mini-flux2",
        "base_sha256": "0" * 64,
        "world": "mini",
        "settings_sha256": "1" * 64,
        "selection_mean": 0.5,
    }
    return HardCase(**(fields | changes))


def test_round_trip_keeps_the_hash(tmp_path):
    written = write_hard_case(tmp_path / "hard_case.json", hard_case())
    assert read_hard_case(tmp_path / "hard_case.json") == written
    assert len(written.sha256) == 64


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"prompt_ids": ["a", "c"]}, "changed after it was frozen"),
        ({"selection_mean": 0.6}, "changed after it was frozen"),
        ({"extra": 1}, "extra"),
        ({"pool": "many"}, "pool"),
    ],
)
def test_an_edited_file_is_refused(tmp_path, edit, words):
    path = tmp_path / "hard_case.json"
    write_hard_case(path, hard_case())
    write_json(path, read_json(path) | edit)
    with pytest.raises(CastError, match=words):
        read_hard_case(path)


def test_selecting_seeds_must_not_evaluate(tmp_path):
    path = tmp_path / "hard_case.json"
    write_hard_case(path, hard_case(evaluation_seeds=(201, 300)))
    with pytest.raises(CastError, match=r"\[201\] both"):
        read_hard_case(path)
