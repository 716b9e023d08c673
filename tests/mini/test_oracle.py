"""The oracle against the truth of 2,000 drawn scenes, clean and blemished."""

import numpy as np
import pytest
import torch

from cast.mini import oracle
from cast.mini.facts import Facts, truths
from cast.mini.world import draw, place
from cast.mini.zoo.data import scenes
from cast.mini.zoo.measure import by_skill
from cast.mini.zoo.vlm import blemish
from cast.rng import numpy_generator, torch_generator

SKILLS = ("object", "count", "attribute", "position", "verb")


@pytest.fixture(scope="module")
def drawn():
    return scenes(0, "test/oracle", 0, 2000)


def test_at_least_099_of_each_skill_on_clean_scenes(drawn):
    records = [record for record, _ in drawn]
    table = by_skill(records, [oracle.answer(scene.image, record) for record, scene in drawn])
    assert min(table[skill] for skill in SKILLS) >= 0.99, table


def test_at_least_097_of_each_skill_under_blur_noise_and_colour_casts(drawn):
    some = drawn[:800]
    images = torch.stack([torch.from_numpy(s.image).permute(2, 0, 1) for _, s in some]).float()
    rough = blemish(images / 255, torch_generator(0, "test/oracle"))
    rough = (rough * 255).round().byte().permute(0, 2, 3, 1).numpy()
    rows = [oracle.answer(image, record) for image, (record, _) in zip(rough, some, strict=True)]
    table = by_skill([record for record, _ in some], rows)
    assert min(table[skill] for skill in SKILLS) >= 0.97, table


def test_what_is_not_asked_is_not_seen(drawn):
    """On another prompt's scene the oracle says no where the truth is no."""
    wrong = []
    for (record, _), (_, scene) in zip(drawn[:300], drawn[300:600], strict=True):
        truth = truths(Facts(scene.objects, scene.touching), record)
        wrong.append((oracle.answer(scene.image, record) != truth).mean())
    assert np.mean(wrong) < 0.01


def test_a_blob_of_the_right_colour_is_no_object():
    image = np.full((64, 64, 3), 236, dtype=np.uint8)
    image[20:26, 10:50] = (220, 50, 46)
    assert oracle.detect(image)[0] == []


def test_an_empty_image_has_no_object():
    objects, masks = oracle.detect(draw([]).image)
    assert objects == [] and masks.shape == (0, 64, 64)


def test_another_size_is_refused():
    with pytest.raises(ValueError, match="64, 64, 3"):
        oracle.detect(np.zeros((32, 32, 3), dtype=np.uint8))


def test_masks_cover_the_drawn_objects():
    rng = numpy_generator(0, "test/oracle")
    scene = draw([place("heart", "blue", "striped", 6, rng)])
    (item,), masks = oracle.detect(scene.image)
    assert (item.noun, item.colour, item.texture) == ("heart", "blue", "striped")
    union = (masks[0] | scene.object_masks[0]).sum()
    assert (masks[0] & scene.object_masks[0]).sum() / union > 0.8
