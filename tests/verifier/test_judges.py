"""The mini judge grades what it was told to; the model judge asks through the chat template."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from tiny_verifier import random_images

from cast.mini.world import render_scene
from cast.rng import numpy_generator
from cast.scene_graph import load_vocabulary, sample_prompts
from cast.verifier.images import as_pil
from cast.verifier.judges import (
    COLOURS,
    COMPOSITION,
    EDGES,
    MINI_FACETS,
    NOISE,
    MiniJudge,
    VlmJudge,
)
from cast.verifier.quality_judge import find_facet, judge_image, load_facets, parse_grade


@pytest.fixture(scope="module")
def drawn() -> list[Image.Image]:
    records = sample_prompts(load_vocabulary("shapes"), 0, 24, purpose="judge")
    generator = numpy_generator(0, "judge")
    return [Image.fromarray(render_scene(record.graph, generator).image) for record in records]


def grades(images: list[Image.Image], facet: str) -> np.ndarray:
    judge = MiniJudge()
    answers = [parse_grade(judge.ask(image, "a star", find_facet(facet))) for image in images]
    return np.array(answers, dtype=float)


def test_drawn_scenes_are_good(drawn):
    for facet in MINI_FACETS:
        assert grades(drawn, facet).mean() > 1.9, facet


def test_faults_cost_grades(drawn):
    blurred = [image.filter(ImageFilter.GaussianBlur(1.5)) for image in drawn]
    assert grades(blurred, EDGES).mean() < 1.0
    generator = np.random.default_rng(0)

    def noisy(image: Image.Image, strength: float) -> Image.Image:
        pixels = np.asarray(image, dtype=float)
        added = pixels + 255 * strength * generator.standard_normal(pixels.shape)
        return Image.fromarray(added.clip(0, 255).astype(np.uint8))

    assert grades([noisy(image, 0.03) for image in drawn], NOISE).mean() < 1.5
    assert grades([noisy(image, 0.15) for image in drawn], NOISE).mean() == 0.0
    grey = [image.convert("L").convert("RGB") for image in drawn]
    assert grades(grey, COLOURS).mean() == 0.0
    cropped = [image.crop((10, 10, 34, 34)) for image in drawn]
    assert grades(cropped, COMPOSITION).mean() < grades(drawn, COMPOSITION).mean()


def test_other_facets_do_not_apply(drawn):
    judgement = judge_image(MiniJudge(), drawn[0], "a star", load_facets())
    graded = [str(facet) for facet, grade in judgement.grades.items() if grade != "N/A"]
    assert sorted(graded) == sorted(MINI_FACETS) and not judgement.unread


def test_model_judge_answers_with_text(parts):
    model, tokenizer, processor = parts
    judge = VlmJudge(model, tokenizer, processor, max_new_tokens=3)
    image = as_pil(random_images(0, 1))[0]
    facet = find_facet(NOISE)
    answer = judge.ask(image, "a star", facet)
    assert isinstance(answer, str) and answer == judge.ask(image, "a star", facet)
    inputs = judge._inputs(image, "a star")
    assert int(inputs["mm_token_type_ids"].sum()) == 16
    assert torch.equal(inputs["attention_mask"], torch.ones_like(inputs["input_ids"]))
