"""Agreement and spread against small examples by hand, and their degenerate cases."""

import numpy as np
import pandas as pd
import pytest

from cast.diagnostics.rank_agreement import pair_agreement, rank_agreement
from cast.diagnostics.saturation import spread, spread_gap, spread_table
from cast.errors import CastError


def table(*prompts: tuple[list[float], list[float]], resolution: float = 0.0) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"preference": preference, "atoms": atoms}).assign(prompt_id=f"p{number}")
        for number, (preference, atoms) in enumerate(prompts)
    ]
    return pd.concat(parts, ignore_index=True).assign(
        preference_resolution=resolution, atom_resolution=resolution, backbone="one"
    )


def test_pairs_by_hand():
    """Of three pairs one agrees, one disagrees and one is a tie of the atom scores."""
    preference, atoms = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, 0.1])
    assert pair_agreement(preference, atoms) == (0, 2, 1)
    assert pair_agreement(preference, np.array([0.1, 0.5, 0.3])) == (2, 3, 0)
    assert pair_agreement(preference, np.array([0.1, 0.5, 0.3]), 0.0, 0.25) == (1, 1, 2)


def test_agreement_is_the_mean_over_prompts_with_their_deviation():
    found = rank_agreement(
        table(([1.0, 2.0], [0.1, 0.2]), ([1.0, 2.0], [0.2, 0.1]), ([1.0, 1.0], [0.1, 0.2]))
    )
    assert found.mean.value == 0.5 and found.mean.low <= 0.5 <= found.mean.high
    assert found.prompt_sd == pytest.approx(np.std([0, 1], ddof=1))
    assert (found.pairs, found.ties, found.silent) == (3, 1, 1)


def test_independent_scores_agree_by_chance():
    rng = np.random.default_rng(0)
    prompts = [(rng.random(6).tolist(), rng.random(6).tolist()) for _ in range(150)]
    found = rank_agreement(table(*prompts))
    assert found.mean.low < 0.5 < found.mean.high and found.mean.high - found.mean.low < 0.15


def test_only_ties_is_a_stated_result():
    found = rank_agreement(table(([1.0, 1.0], [0.1, 0.2])))
    assert np.isnan(found.mean.value) and (found.pairs, found.ties, found.silent) == (1, 1, 1)


def test_agreement_refuses_single_images_and_nan():
    with pytest.raises(CastError, match="p1 has fewer than two images"):
        rank_agreement(table(([1.0, 2.0], [0.1, 0.2]), ([1.0], [0.5])))
    with pytest.raises(CastError, match="atoms of an image of prompt p0 is NaN"):
        rank_agreement(table(([1.0, 2.0], [0.1, np.nan])))
    with pytest.raises(CastError, match="no column 'atoms'"):
        rank_agreement(table(([1.0, 2.0], [0.1, 0.2])).drop(columns="atoms"))


def test_spread_by_hand_and_of_one_backbone():
    assert spread(np.array([1.0, 2.0, 3.0])) == {"mean": 2.0, "sd": 1.0, "cov": 0.5}
    images = table(([0.9, 0.92], [0.2, 0.8]), ([0.88, 0.9], [0.5, 0.9]))
    rows = spread_table(images).set_index(["backbone", "score"])
    assert rows["cov"]["one", "atoms"] == rows["cov"]["pooled", "atoms"]  # one model: its own
    gap = spread_gap(images)
    assert gap.value == pytest.approx(
        rows["cov"]["pooled", "atoms"] - rows["cov"]["pooled", "preference"]
    )
    for bad in ([0.5], [0.5, np.nan], [-1.0, 1.0]):
        with pytest.raises(CastError):
            spread(np.array(bad))
