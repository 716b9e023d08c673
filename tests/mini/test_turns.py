"""The verifier's training: what is asked, what must be looked up, and the attention it is shown."""

import pytest
import torch
from torch.testing import assert_close

from cast.mini.facts import Facts
from cast.mini.world import COLOURS, SceneObject, draw
from cast.mini.zoo import data, questions, vlm
from cast.mini.zoo.questions import IGNORED, Question
from cast.mini.zoo.turns import GROUNDED, Asked, recorded_attention, turns
from cast.rng import numpy_generator


def item(noun: str, colour: str, texture: str | None, column: int, row: int) -> SceneObject:
    return SceneObject(noun, colour, texture, 16.0 * column + 8, 16.0 * row + 8, 6.0)


@pytest.fixture(scope="module")
def facts() -> Facts:
    objects = (
        item("star", "red", None, 0, 3),
        item("star", "red", "striped", 2, 1),
        item("heart", "blue", "dotted", 3, 0),
    )
    scene = draw(objects)
    return Facts(scene.objects, scene.touching)


def test_what_must_be_looked_up(facts):
    colour = Question("Are the stars red?", "Yes", "attribute", ("star",))
    place = Question("Are the stars above the heart?", "No", "position", ("star", "heart"))
    absent = Question("Is the cross red?", "No", "attribute", ("cross",))
    red = 1 + list(COLOURS).index("red")
    assert questions.looked_up(facts, colour) == [red, 3, *[IGNORED] * 8]
    # First and last column, first and last row, of the stars and then of the heart.
    assert questions.looked_up(facts, place) == [IGNORED, IGNORED, 0, 2, 1, 3, 3, 3, 0, 0]
    assert questions.looked_up(facts, absent) == [IGNORED] * 10


def test_open_questions_have_one_answer(facts):
    found = {q.probe: q.answer for q in questions.recalls(facts, numpy_generator(0, "t"), 99)}
    assert found == {
        "star colour": "red",
        "heart colour": "blue",
        "heart texture": "dotted",
        "heart row": "one",
        "heart column": "four",
    }


def test_scrambled_objects_leave_every_object_as_it_was():
    rng = numpy_generator(0, "litter")
    scene = data.free_scene(rng)
    littered = data.littered(scene, rng)
    kept = scene.object_masks.any(0)
    assert (littered.image[kept] == scene.image[kept]).all()
    assert (littered.image != scene.image).any()
    assert littered.objects == scene.objects


def test_recorded_attention_is_the_models_own():
    stage = vlm.Stage()
    ids, start = stage.segmenter.prefix(64)
    record, scene = data.scenes(0, "test/turns", 0, 1)[0]
    turn = turns(stage.segmenter, Asked(scene, record, [], []))[0]
    ids = torch.cat([ids, torch.tensor(turn.ids)])[None]
    image = torch.zeros_like(ids)
    image[:, start : start + 64] = 1
    patches = stage.patches([scene], "test/turns", 0)
    stage.model.set_attn_implementation("eager")
    size = ids.shape[1]
    allowed = torch.ones(1, 1, size, size, dtype=torch.bool).tril()
    layer = stage.model.model.language_model.layers[GROUNDED].self_attn
    with torch.no_grad(), recorded_attention(layer, allowed, start) as found:
        output = stage.model(
            input_ids=ids,
            pixel_values=patches.pixel_values,
            image_grid_thw=patches.grid_thw,
            mm_token_type_ids=image.int(),
            output_attentions=True,
        )
    expected = output.attentions[GROUNDED].mean(1)[..., start : start + 64]
    assert_close(found[0], expected, rtol=0.0, atol=1e-6)


def test_a_word_is_shown_what_it_names():
    record, scene = data.scenes(0, "test/turns", 1, 1)[0]
    stage = vlm.Stage()
    turn = turns(stage.segmenter, Asked(scene, record, [], []))[0]
    assert turn.named
    for row, mask in turn.named:
        assert len(turn.ids) - turn.targets <= row < len(turn.ids)
        assert mask.any() and not mask.all()
