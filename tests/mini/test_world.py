"""Scenes are what their graphs say, and the same for the same seed."""

import numpy as np
import pytest

from cast.mini.facts import Facts, truths
from cast.mini.world import SIZE, draw, place, render_scene
from cast.rng import numpy_generator
from cast.scene_graph import Entity, Relation, SceneGraph, load_vocabulary, sample_prompts


@pytest.fixture(scope="module")
def drawn():
    rng = numpy_generator(0, "test/world")
    records = sample_prompts(load_vocabulary("shapes"), 0, 300, purpose="test/world")
    return [(record, render_scene(record.graph, rng)) for record in records]


def test_every_atom_of_the_graph_is_true_in_the_scene(drawn):
    for record, scene in drawn:
        assert truths(Facts(scene.objects, scene.touching), record).all(), record.prompt


def test_counts_masks_and_boxes_agree(drawn):
    for record, scene in drawn:
        assert len(scene.objects) == sum(entity.count for entity in record.graph.entities)
        masks = scene.entity_masks(len(record.graph.entities))
        for index, entity in enumerate(record.graph.entities):
            parts = [
                mask
                for item, mask in zip(scene.objects, scene.object_masks, strict=True)
                if item.entity == index
            ]
            assert len(parts) == entity.count
            np.testing.assert_array_equal(masks[index], np.any(parts, axis=0))
        for (x0, y0, x1, y1), mask in zip(scene.boxes(), scene.object_masks, strict=True):
            assert mask[y0:y1, x0:x1].sum() == mask.sum() > 0
            assert 0 <= x0 < x1 <= SIZE and 0 <= y0 < y1 <= SIZE


def test_only_the_related_objects_touch(drawn):
    for record, scene in drawn:
        asked = {
            frozenset((r.subject, r.object))
            for r in record.graph.relations
            if r.relation == "touching"
        }
        found = {
            frozenset((scene.objects[i].entity, scene.objects[j].entity)) for i, j in scene.touching
        }
        assert found == asked


def test_a_seed_gives_the_same_bytes():
    graph = SceneGraph(
        (Entity("circle", 2, "red"), Entity("star", 3, "striped")), (Relation(0, "above", 1),)
    )
    first, second, other = (
        render_scene(graph, numpy_generator(seed, "test/world")).image for seed in (1, 1, 2)
    )
    assert first.tobytes() == second.tobytes() != other.tobytes()


def test_a_graph_without_a_layout_is_refused():
    # Five left of one left of five leave no column for the middle with room for all.
    graph = SceneGraph(
        (Entity("circle", 5), Entity("star", 16), Entity("heart", 5)),
        (Relation(0, "to the left of", 1), Relation(1, "to the left of", 2)),
    )
    with pytest.raises(ValueError, match="no layout"):
        render_scene(graph, numpy_generator(0, "test/world"))


def test_facts_by_hand():
    rng = numpy_generator(0, "test/world")
    row = [("circle", "red", 0), ("circle", "blue", 5), ("square", "red", 2), ("square", "red", 3)]
    scene = draw([place(noun, colour, None, cell, rng) for noun, colour, cell in row])
    facts = Facts(scene.objects, scene.touching)
    assert facts.count_word("circle") == "two" and facts.count_word("heart") == "zero"
    assert facts.has_attribute("square", "red") and not facts.has_attribute("circle", "red")
    assert not facts.has_attribute("heart", "red")  # of nothing, nothing is true
    assert facts.related("circle", "to the left of", "square")
    assert not facts.related("square", "to the left of", "circle")
    assert not facts.related("circle", "above", "square")  # one circle stands in the same row
    assert not facts.related("circle", "touching", "square")
