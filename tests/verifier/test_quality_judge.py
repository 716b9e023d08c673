"""Qwen-Image-Bench's protocol: grades, nested means in closed form, nothing dropped unseen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cast.errors import CastError
from cast.verifier.quality_judge import (
    Facet,
    ImageJudgement,
    benchmark_report,
    find_facet,
    image_points,
    judge_image,
    load_facets,
    parse_grade,
    prompt_facets,
)

A = Facet("Quality", "Detail", "Noise")
B = Facet("Quality", "Detail", "Naturalness")
C = Facet("Quality", "Realism", "Physical Logic")
D = Facet("Alignment", "Attributes", "Quantity")


def test_the_shipped_list():
    facets = load_facets()
    assert len(facets) == len(set(facets)) == 56
    assert len({facet.pillar for facet in facets}) == 5
    lens = find_facet("Creative Generation / Visual Storytelling / Camera / Lens Style")
    assert lens.name == "Camera / Lens Style"
    asked = [prompt_facets(prompt) for prompt in (1, 500, 1000)]
    assert all(3 <= len(row) <= 10 and set(row) <= set(facets) for row in asked)
    first = "Quality / Realism / Physical Logic"
    assert str(asked[0][0]) == first and len(asked[0]) == 5


def test_unknown_facets_and_prompts_are_refused():
    with pytest.raises(CastError, match=r"not one of the 56.*Did you mean 'Quality / Detail / Noi"):
        find_facet("Quality / Detail / Noize")
    with pytest.raises(CastError, match="must be 'Pillar / Dimension / Name'"):
        Facet.parse("Quality / Noise")
    with pytest.raises(CastError, match="allowed are 1 to 1000"):
        prompt_facets(1001)


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        ("2", 2),
        (" 1.\n", 1),
        ('"0"', 0),
        ("N/A", "N/A"),
        ("n/a.", "N/A"),
        ("The edges are soft in 2 places.\nScore: 1", 1),
        ("Score: 0\nOn reflection:\n**Score: 2**", 2),
        ("3", None),
        ("2 of 3 are sharp", None),
        ("", None),
        ("Score: high", None),
    ],
)
def test_parse_grade(answer, grade):
    assert parse_grade(answer) == grade


def test_nested_means_in_closed_form():
    points = image_points(ImageJudgement({A: 2, B: 1, C: 0, D: 2}, {}))
    assert points["Quality / Detail"] == 80.0  # mean of 100 and 60
    assert points["Quality"] == 40.0  # mean of 80 and 0, not of three facets
    assert points["Alignment"] == 100.0
    assert points["Overall"] == 70.0  # mean of pillars
    assert points["Quality / Detail / Naturalness"] == 60.0


def test_not_applicable_drops_the_facet_and_nothing_else():
    points = image_points(ImageJudgement({A: 2, C: "N/A", D: 1}, {}))
    assert "Quality / Realism" not in points and points["Quality"] == 100.0
    assert points["Overall"] == 80.0
    assert image_points(ImageJudgement({A: "N/A"}, {B: "?"})) == {}


class Scripted:
    def __init__(self, answers: dict[Facet, str]):
        self.answers = answers

    def ask(self, image: Image.Image, prompt: str, facet: Facet) -> str:
        return self.answers[facet]


def test_unread_answers_are_counted():
    image = Image.new("RGB", (4, 4))
    judge = Scripted({A: "2", B: "I can't say", C: "N/A"})
    first = judge_image(judge, image, "a star", [A, B, C])
    assert first.unread == {B: "I can't say"}
    second = judge_image(Scripted({A: "?"}), image, "a star", [A])
    report = benchmark_report([first, second])
    assert report["answers"] == 4 and report["unread"] == 2 and report["not_applicable"] == 1
    assert report["images"] == 2 and report["without_overall"] == 1
    assert report["points"]["Overall"] == 100.0


def test_nothing_to_judge_is_an_error():
    with pytest.raises(CastError, match="no facet is asked"):
        judge_image(Scripted({}), Image.new("RGB", (4, 4)), "a star", [])
    with pytest.raises(CastError, match="at least one image"):
        benchmark_report([])


GRADES = st.sampled_from([0, 1, 2, "N/A"])


@given(st.lists(st.dictionaries(st.sampled_from([A, B, C, D]), GRADES, min_size=1), min_size=1))
def test_points_lie_between_the_extremes(images):
    judgements = [ImageJudgement(grades, {}) for grades in images]
    report = benchmark_report(judgements)
    assert all(0 <= value <= 100 for value in report["points"].values())
    for judgement in judgements:
        points = image_points(judgement)
        facets = [value for level, value in points.items() if level.count(" / ") == 2]
        if facets:
            assert min(facets) <= points["Overall"] <= max(facets)
