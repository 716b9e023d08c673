"""The permutation test: its matrix form, its error rates on planted and on empty studies."""

import numpy as np
import pytest

from cast.diagnostics.head_test import (
    SKILLS,
    PromptHeads,
    contrasts,
    draw_permutations,
    gram,
    head_test,
    overlap_table,
    permuted_statistics,
    top_heads,
)
from cast.errors import CastError

STEPS = (3, 7)


def study(
    seed: int,
    planted: int = 0,
    effect: float = 0.0,
    heads: int = 16,
    prompts: int = 4,
    images: int = 16,
    width: int = 8,
) -> list[PromptHeads]:
    """Random features; in the first `planted` heads the correct images of count are moved."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(prompts):
        labels = {skill: rng.random((2, images)) < 0.5 for skill in SKILLS}
        features = rng.standard_normal((len(STEPS), images, heads, width))
        moved = labels["count"].sum(axis=0)[:, None, None] * effect
        features[:, :, :planted] += moved * rng.standard_normal(width)
        grams = np.stack([gram(one) for one in features])
        made.append(PromptHeads(f"p{number}", grams, labels))
    return made


def test_the_matrix_form_is_the_between_class_sum_of_squares():
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((9, 1, 5)), rng.random((1, 9)) < 0.5
    orders = draw_permutations(9, 4, 0, "p")
    found = permuted_statistics(gram(features), contrasts(labels), orders)
    flat = features[:, 0] - features[:, 0].mean(axis=0)
    for order, value in zip(orders, found[0], strict=True):
        # A label moves to the image that the order names, so classes are read back through it.
        moved = labels[0][order]
        between = sum(
            len(part) * np.square(part.mean(axis=0)).sum() for part in (flat[moved], flat[~moved])
        )
        assert value == pytest.approx(between / np.square(flat).sum())


def test_planted_heads_are_found_and_false_discoveries_stay_rare():
    planted, found, false, total = 5, [], 0, 0
    for seed in range(8):
        table, _ = head_test(study(seed, planted, effect=1.0), STEPS, 1000, fdr=0.1, seed=seed)
        reported = table[table["reported"]]
        true = (reported["skill"] == "count") & (reported["head"] < planted)
        found.append(true.sum() / (planted * len(STEPS)))
        false += (~true).sum()
        total += max(len(reported), 1)
    assert np.mean(found) > 0.9
    assert false / total < 0.15  # nominal 0.1 (0.02 a binomial standard error)


def test_an_empty_study_rarely_reports_anything():
    """At most 5% of runs, 2 of 40 in expectation; 6 or more has a probability of 1.4%."""
    runs = [head_test(study(seed), STEPS[:1], 500, fdr=0.05, seed=seed)[0] for seed in range(40)]
    assert sum(bool(table["reported"].any()) for table in runs) < 6
    p = np.concatenate([table["p"].to_numpy() for table in runs])
    assert 0.03 < (p <= 0.05).mean() < 0.07  # and the p-values are uniform


def test_the_order_of_images_and_prompts_and_the_scale_of_features_change_nothing():
    made = study(3, 3, effect=1.0)
    first, _ = head_test(made, STEPS, 300, 0.05)
    second, _ = head_test(made[::-1], STEPS, 300, 0.05)
    for column in ("effect", "z", "p"):
        np.testing.assert_allclose(first[column], second[column])
    features = np.random.default_rng(4).standard_normal((10, 3, 4))
    np.testing.assert_allclose(gram(features), gram(7.0 * features + 2.0), atol=1e-12)


def test_skills_that_no_image_tells_apart_are_stated_and_report_nothing():
    made = study(5)
    blind = [
        PromptHeads(one.prompt_id, one.grams, {**one.labels, "position": np.ones((2, 16), bool)})
        for one in made
    ]
    table, by_prompt = head_test(blind, STEPS, 200, 0.05)
    own = table[table["skill"] == "position"]
    assert own["p"].isna().all() and not own["reported"].any()
    assert "position" not in set(by_prompt["skill"]) and "position" not in top_heads(table, 0.2)
    nothing = {skill: np.zeros((0, 16), dtype=bool) for skill in SKILLS}
    empty, _ = head_test([PromptHeads("p", made[0].grams, nothing)], STEPS, 200, 0.05)
    assert empty["p"].isna().all() and overlap_table(empty, 0.2).empty
    constant = gram(np.ones((8, 2, 4)))
    assert (constant == 0).all()


def test_bad_studies_are_refused():
    with pytest.raises(CastError, match="no prompt"):
        head_test([], STEPS, 200, 0.05)
    made = study(6)
    made[1].grams[0, 2, 0, 0] = np.nan
    with pytest.raises(CastError, match="prompt p1 is NaN"):
        head_test(made, STEPS, 200, 0.05)


def test_overlap_against_chance_by_hand():
    """Ten heads, the two best of each skill: count and attribute share both, position none."""
    table, _ = head_test(study(7, heads=10), STEPS[:1], 200, 0.05)
    best = {"count": [0, 1], "attribute": [0, 1], "position": [4, 5]}
    for skill, heads in best.items():
        rows = table["skill"] == skill
        table.loc[rows, "z"] = np.where(table.loc[rows, "head"].isin(heads), 5.0, 0.0)
    found = overlap_table(table, 0.2).set_index(["first", "second"])
    assert found["shared"].tolist() == [2, 0, 0]
    assert found["expected"].tolist() == pytest.approx([0.4, 0.4, 0.4])
    assert found["p"].iloc[0] == pytest.approx(1 / 45) and found["p"].iloc[1] == 1.0
    assert found["excess"].iloc[0] == pytest.approx(0.8)
