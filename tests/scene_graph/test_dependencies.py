"""Scoring with dependencies, on a prompt whose every case is worked out by hand."""

import numpy as np
from graphs import vocabulary
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cast.scene_graph import dependencies_hold, parse_prompt, render_prompt, with_dependencies

SHAPES = vocabulary("shapes")
# atoms: count attribute object position count object
RECORD = render_prompt(parse_prompt("a red star above two hearts", SHAPES), SHAPES)


def test_an_absent_entity_takes_its_atoms_with_it():
    scores = np.array([0.9, 0.8, 0.4, 0.7, 0.6, 0.95])
    expected = [0.0, 0.0, 0.4, 0.0, 0.6, 0.95]  # the star is missing: so is what is said of it
    assert with_dependencies(scores, RECORD.atoms).tolist() == expected


def test_a_relation_needs_both_ends():
    scores = np.array([0.9, 0.8, 0.9, 0.7, 0.6, 0.1])
    assert with_dependencies(scores, RECORD.atoms).tolist() == [0.9, 0.8, 0.9, 0.0, 0.0, 0.1]


def test_one_half_is_present():
    scores = np.full(6, 0.5)
    assert dependencies_hold(scores, RECORD.atoms).all()
    assert not dependencies_hold(scores, RECORD.atoms, threshold=0.6)[[0, 1, 3, 4]].any()


@given(arrays(np.float64, (3, 6), elements=st.floats(0, 1)))
def test_batches_objects_and_certain_scores(scores):
    """Row by row alike; object atoms never change; never higher; a second time changes nothing."""
    result = with_dependencies(scores, RECORD.atoms)
    for row, score in zip(result, scores, strict=True):
        assert np.array_equal(row, with_dependencies(score, RECORD.atoms))
    assert np.array_equal(result[:, [2, 5]], scores[:, [2, 5]])
    assert (result <= scores).all()
    assert np.array_equal(with_dependencies(result, RECORD.atoms), result)
    certain = np.ones_like(scores)
    assert np.array_equal(with_dependencies(certain, RECORD.atoms), certain)
