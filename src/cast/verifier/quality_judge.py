"""Qwen-Image-Bench's protocol: a judge grades each image on the facets of its prompt (paper 5.2).

A facet is a path of three levels, `Quality / Realism / Physical Logic`. The judge answers 0
(fails), 1 (acceptable) or 2 (good), which count 0, 60 and 100; `N/A` drops the facet. Means are
nested: facets to their middle level, middle levels to their pillar, pillars to the image's
overall; the benchmark's overall is the mean over images. An answer that can't be read is counted
and reported, never dropped in silence. The judge is anything with an `ask` method.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from PIL import Image

from cast.errors import CastError, nearest
from cast.io import read_json
from cast.paths import from_root

FACETS_FILE = "data/qwen_image_bench/facets.json"
POINTS = {0: 0.0, 1: 60.0, 2: 100.0}

Grade: TypeAlias = Literal[0, 1, 2, "N/A"]


@dataclass(frozen=True, order=True)
class Facet:
    """One question that is asked of an image, at the end of a path of three levels."""

    pillar: str
    dimension: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Facet":
        """`Pillar / Dimension / Name`; the name may hold ` / ` itself."""
        levels = [level.strip() for level in text.split(" / ", maxsplit=2)]
        if len(levels) != 3 or not all(levels):
            raise CastError(f"facet {text!r}: must be 'Pillar / Dimension / Name'.")
        return cls(*levels)

    def __str__(self) -> str:
        return f"{self.pillar} / {self.dimension} / {self.name}"


@runtime_checkable
class Judge(Protocol):
    """Whatever grades: returns its answer as text, to be read by `parse_grade`."""

    def ask(self, image: Image.Image, prompt: str, facet: Facet) -> str: ...


@dataclass(frozen=True)
class ImageJudgement:
    """Grades of one image by facet; `unread` holds the answers that were not a grade."""

    grades: Mapping[Facet, Grade]
    unread: Mapping[Facet, str]


def load_facets(path: str | Path | None = None) -> tuple[Facet, ...]:
    """The benchmark's 56 facets, in the shipped file's order."""
    return tuple(Facet.parse(text) for text in _facet_file(path)["facets"])


def prompt_facets(prompt_id: int, path: str | Path | None = None) -> tuple[Facet, ...]:
    """Facets that the benchmark asks of prompt `prompt_id` (1 to 1000)."""
    table = _facet_file(path)
    prompts = table["prompts"]
    if not 1 <= prompt_id <= len(prompts):
        raise CastError(f"prompt {prompt_id}: allowed are 1 to {len(prompts)}.")
    return tuple(Facet.parse(table["facets"][index]) for index in prompts[prompt_id - 1])


def find_facet(text: str, facets: Sequence[Facet] | None = None) -> Facet:
    """The known facet that is written so; `CastError` with the nearest one otherwise."""
    known = {str(facet): facet for facet in facets or load_facets()}
    if text not in known:
        raise CastError(f"facet {text!r} is not one of the {len(known)}." + nearest(text, known))
    return known[text]


def parse_grade(answer: str) -> Grade | None:
    """A judge's answer as a grade; None when it is not one.

    The answer is a bare grade, possibly quoted or with a full stop, or ends in `score: <grade>`
    (the last such line counts). Anything else is not read: a digit somewhere in a sentence is no
    grade.
    """
    text = answer.strip()
    found = re.findall(r"(?im)^\W*(?:score|grade|answer)\W*[:=]\s*(.+?)\s*$", text)
    bare = (found[-1] if found else text).strip(" \t\r\n\"'`*.")
    if re.fullmatch(r"(?i)n\s*/?\s*a", bare):
        return "N/A"
    grades: dict[str, Grade] = {"0": 0, "1": 1, "2": 2}
    return grades.get(bare)


def judge_image(
    judge: Judge, image: Image.Image, prompt: str, facets: Iterable[Facet]
) -> ImageJudgement:
    """Ask every facet of one image; `CastError` when there is none to ask."""
    grades: dict[Facet, Grade] = {}
    unread: dict[Facet, str] = {}
    for facet in facets:
        answer = judge.ask(image, prompt, facet)
        grade = parse_grade(answer)
        if grade is None:
            unread[facet] = answer
        else:
            grades[facet] = grade
    if not grades and not unread:
        raise CastError(f"prompt {prompt!r}: no facet is asked of it.")
    return ImageJudgement(grades, unread)


def image_points(judgement: ImageJudgement) -> dict[str, float]:
    """Points from 0 to 100 of every level of one image: `Pillar`, `Pillar / Dimension`, facets,
    and `Overall`. Levels without a grade are absent, `Overall` too when all are."""
    tree: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    points: dict[str, float] = {}
    for facet, grade in judgement.grades.items():
        if grade != "N/A":
            points[str(facet)] = POINTS[grade]
            tree[facet.pillar][facet.dimension].append(POINTS[grade])
    pillars = []
    for pillar, dimensions in tree.items():
        means = {name: _mean(values) for name, values in dimensions.items()}
        points |= {f"{pillar} / {name}": value for name, value in means.items()}
        points[pillar] = _mean(list(means.values()))
        pillars.append(points[pillar])
    if pillars:
        points["Overall"] = _mean(pillars)
    return points


def benchmark_report(judgements: Sequence[ImageJudgement]) -> dict[str, Any]:
    """Means over images of every level, and what was not scored.

    Keys: `points` (a level's mean over the images that have it), `images`, `without_overall`
    (images whose every facet was N/A or unread), `answers`, `not_applicable`, `unread`.
    """
    if not judgements:
        raise CastError("judgements: there are none; judge at least one image.")
    collected: dict[str, list[float]] = defaultdict(list)
    for judgement in judgements:
        for level, value in image_points(judgement).items():
            collected[level].append(value)
    grades = [grade for judgement in judgements for grade in judgement.grades.values()]
    unread = sum(len(judgement.unread) for judgement in judgements)
    return {
        "points": {level: _mean(values) for level, values in sorted(collected.items())},
        "images": len(judgements),
        "without_overall": len(judgements) - len(collected["Overall"]),
        "answers": len(grades) + unread,
        "not_applicable": grades.count("N/A"),
        "unread": unread,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@lru_cache(maxsize=4)
def _facet_file(path: str | Path | None) -> dict[str, Any]:
    place = from_root(FACETS_FILE) if path is None else Path(path)
    value = read_json(place)
    if not isinstance(value, dict) or not {"facets", "prompts"} <= set(value):
        raise CastError(f"{place}: must hold the keys facets and prompts.")
    return value
