"""Held-out scenes: true to a prompt that nothing trains on; of other questions half are true."""

import numpy as np
import pytest
import torch

from cast.config import VerifierSection
from cast.mini.facts import Facts, truths
from cast.mini.zoo import data
from cast.mini.zoo.held_out import HeldOut, held_out, kinds, verifier_answers
from cast.mini.zoo.measure import verifier_accuracy
from cast.scene_graph import Entity, SceneGraph, load_vocabulary, render_prompt
from cast.verifier.soft_tifa import Verifier


@pytest.fixture(scope="module")
def drawn() -> list[HeldOut]:
    return held_out(6, 2)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier.load(VerifierSection())


def test_scenes_are_true_to_prompts_that_no_evaluation_asks(drawn):
    for item in drawn:
        assert item.record.graph.canonical() not in data.evaluation_graphs()
        for scene in item.scenes:
            assert truths(Facts(scene.objects, scene.touching), item.record).all()
    again = held_out(6, 2)
    assert all(torch.equal(a.images, b.images) for a, b in zip(drawn, again, strict=True))
    assert not torch.equal(drawn[0].images[0], drawn[0].images[1]), "scenes of one prompt differ"


def test_masks_cover_each_entitys_objects(drawn):
    for item in drawn:
        masked = item.masked()
        for scene, masks in zip(item.scenes, masked.masks, strict=True):
            for index in range(len(item.record.graph.entities)):
                own = [
                    m
                    for o, m in zip(scene.objects, scene.object_masks, strict=True)
                    if o.entity == index
                ]
                assert np.array_equal(masks[index].numpy(), np.any(own, axis=0))


def test_answers_have_a_row_an_atom_and_the_oracle_beside(verifier, drawn):
    table = verifier_answers(verifier, drawn)
    own = table[table["asked"] == "own"]
    assert len(own) == sum(2 * len(item.record.atoms) for item in drawn)
    assert (own["truth"] == 1).all()
    other = table[table["asked"] == "other"]
    assert 0.2 < other["truth"].mean() < 0.8
    assert (table["oracle"] == table["truth"]).mean() > 0.98
    first = drawn[0]
    image = first.images[1:].permute(0, 3, 1, 2) / 255
    row = own[(own["prompt_id"] == first.record.prompt_id) & (own["image"] == 1)]
    assert row["score_strict"].tolist() == pytest.approx(
        verifier.score(image, first.record)[0].tolist(), abs=1e-6
    )


def test_kinds_tell_colours_from_textures():
    graph = SceneGraph((Entity("circle", 1, "red"), Entity("star", 2, "dotted")), ())
    record = render_prompt(graph, load_vocabulary("shapes"))
    assert [k for k in kinds(record) if k in ("colour", "texture")] == ["colour", "texture"]
    skills = [atom.skill for atom in record.atoms]
    assert [s if s == "attribute" else k for s, k in zip(skills, kinds(record), strict=True)] == (
        skills
    )


def test_accuracy_names_every_kind(verifier):
    accuracy = verifier_accuracy(verifier, 4)
    assert set(accuracy) == {"agreement", "balanced"}
    assert {"object", "count", "all"} <= set(accuracy["balanced"])
    assert accuracy["agreement"]["object"] > 0.9, "the shipped verifier knows its shapes"
