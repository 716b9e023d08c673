"""The protocol's numbers against sums done by hand, and what it refuses."""

import numpy as np
import pandas as pd
import pytest

from cast.errors import CastError
from cast.evaluation import geneval2


def test_overall_averages_atoms_within_a_prompt_first(two_by_two):
    # a: 0.75 and 0.5; b: 0.5 and 0.95. Pooled atoms would give 0.6 for seed 1.
    assert geneval2.overall(two_by_two).tolist() == pytest.approx([0.625, 0.725])


def test_skills_pool_atoms_over_prompts(two_by_two):
    table = geneval2.by_skill(two_by_two)
    assert table.index.tolist() == ["object", "count", "position"]
    assert table.loc["object"].tolist() == pytest.approx([0.6, 0.75])
    assert table.loc["count"].tolist() == pytest.approx([0.45, 0.75])
    assert table.loc["position"].tolist() == pytest.approx([0.9, 0.85])


def test_geometric_mean_by_atom_count(two_by_two):
    table = geneval2.geometric_by_atom_count(two_by_two)
    assert table.loc[2].tolist() == pytest.approx([np.sqrt(0.5), 0.5])
    assert table.loc[3].tolist() == pytest.approx([(0.2 * 0.4 * 0.9) ** (1 / 3), 0.85 ** (1 / 3)])


def test_geometric_mean_clamps_zero(score_table):
    table = geneval2.geometric_by_atom_count(score_table({("a", 1): [0.0, 1.0]}), clamp=1e-6)
    assert table.loc[2, 1] == pytest.approx(1e-3)


def test_saturation_counts_the_threshold_itself(two_by_two):
    # b under seed 2 is (1 + 1 + 0.85) / 3 = 0.95 exactly.
    assert geneval2.share_saturated(geneval2.prompt_means(two_by_two)).tolist() == [0.0, 0.5]


def test_row_order_does_not_matter(two_by_two):
    shuffled = two_by_two.sample(frac=1.0, random_state=3)
    for name, values in geneval2.report(two_by_two).items():
        assert geneval2.report(shuffled)[name].tolist() == pytest.approx(values.tolist())


def test_geometric_is_at_most_arithmetic(two_by_two):
    gm = geneval2.geometric_by_atom_count(two_by_two)
    am = geneval2.prompt_means(two_by_two)
    assert (gm.loc[2].to_numpy() <= am.loc["a"].to_numpy() + 1e-12).all()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: t.drop(columns="skill"), "'skill'"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(score=np.nan), "nan"),
        (lambda t: t.assign(score=1.2), "1.2"),
        (lambda t: t.assign(score=-0.1), "-0.1"),
        (lambda t: pd.concat([t, t.head(1)]), "stands there twice"),
        (lambda t: t[~((t.prompt_id == "b") & (t.generation_seed == 2))], "b has no image of seed"),
        (lambda t: t.drop(index=t.index[0]), "a lacks atoms"),
        (lambda t: t.assign(atom=t.atom + 1), "lacks atoms"),
    ],
)
def test_incomplete_tables_are_refused(two_by_two, spoil, words):
    with pytest.raises(CastError, match=words):
        geneval2.overall(spoil(two_by_two))
