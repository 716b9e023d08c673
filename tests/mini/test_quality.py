"""The mini judge: drawn scenes are good, every fault costs the grade that is about it."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from cast.errors import CastError
from cast.mini.world import Scene
from cast.mini.zoo import annotator, data
from cast.mini.zoo.blemishes import KINDS
from cast.mini.zoo.quality import ALIGNMENT, APPEARANCE, MINI_FACETS, MiniJudge
from cast.rng import numpy_generator
from cast.scene_graph import PromptRecord
from cast.verifier.quality_judge import find_facet, judge_image, load_facets, parse_grade

Drawn = list[tuple[PromptRecord, Scene]]
EDGES, NOISE, WHOLE, COLOURS, COMPOSITION, LIGHT = APPEARANCE


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return data.scenes(0, "test/quality", 0, 12)


def mean_grade(images: list[np.ndarray], prompts: list[str], facet: str) -> float:
    judge = MiniJudge()
    answers = [
        parse_grade(judge.ask(Image.fromarray(image), prompt, find_facet(facet)))
        for image, prompt in zip(images, prompts, strict=True)
    ]
    return float(np.mean([a for a in answers if isinstance(a, int)]))


def test_drawn_scenes_are_good_and_true(drawn: Drawn):
    images, prompts = [s.image for _, s in drawn], [r.prompt for r, _ in drawn]
    for facet in (*APPEARANCE, *list(ALIGNMENT)[:3]):
        assert mean_grade(images, prompts, facet) > 1.9, facet


def test_faults_cost_the_grade_that_is_about_them(drawn: Drawn):
    images, prompts = [s.image for _, s in drawn], [r.prompt for r, _ in drawn]
    rng = numpy_generator(0, "test/faults")

    def faulty(kind: str) -> list[np.ndarray]:
        made = [KINDS[kind](image / 255.0, 0.8, rng) for image in images]
        return [np.round(np.clip(m, 0, 1) * 255).astype(np.uint8) for m in made]

    for kind, facet in (("blur", EDGES), ("noise", NOISE), ("colour_cast", LIGHT)):
        assert mean_grade(faulty(kind), prompts, facet) < 1.0, kind
    assert mean_grade(faulty("low_contrast"), prompts, COLOURS) < 1.0
    littered = [data.littered(scene, rng).image for _, scene in drawn]
    assert mean_grade(littered, prompts, WHOLE) < mean_grade(images, prompts, WHOLE)
    cropped = [np.asarray(Image.fromarray(i).crop((10, 10, 74, 74))) for i in images]
    assert mean_grade(cropped, prompts, COMPOSITION) < 2.0


def test_another_prompt_costs_alignment(drawn: Drawn):
    images, prompts = [s.image for _, s in drawn], [r.prompt for r, _ in drawn]
    for facet in list(ALIGNMENT)[:2]:
        assert mean_grade(images, prompts[1:] + prompts[:1], facet) < 1.5


def test_what_is_not_asked_for_does_not_apply(drawn: Drawn):
    image = Image.fromarray(drawn[0][1].image)
    judgement = judge_image(MiniJudge(), image, "a star", load_facets())
    graded = {str(facet) for facet, grade in judgement.grades.items() if grade != "N/A"}
    assert graded == {*APPEARANCE, *list(ALIGNMENT)[:2]} and not judgement.unread
    assert {*MINI_FACETS} < {*load_facets()}
    with pytest.raises(CastError, match="'zebra'"):
        MiniJudge().ask(image, "two zebra", MINI_FACETS[-1])


def test_the_simulated_annotator_looks_at_rendering_first(drawn: Drawn):
    image = drawn[0][1].image
    soft = np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(1.5)))
    assert annotator.utility(image, 0.0) > annotator.utility(soft, 1.0)
    assert annotator.utility(image, 1.0) > annotator.utility(image, 0.0)
    rng = numpy_generator(0, "test/choices")
    assert annotator.preference(0.7, 0.71, rng) == 0.5
    chosen = [annotator.preference(0.8, 0.75, rng) for _ in range(2000)]
    expected = 1 / (1 + np.exp(-0.05 / annotator.TEMPERATURE))
    assert np.mean(chosen) == pytest.approx(expected, abs=0.04)
