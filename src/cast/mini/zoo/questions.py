"""Questions to train the mini verifier on, with answers from the truth of the drawn scene."""

from dataclasses import dataclass

import numpy as np

from cast.mini.facts import COUNT_WORDS, Facts, truths
from cast.mini.world import CELL, CELLS, COLOURS, SHAPES, TEXTURES, Scene
from cast.mini.zoo import data
from cast.rng import numpy_generator
from cast.scene_graph import (
    Entity,
    PromptRecord,
    Relation,
    SceneGraph,
    render_prompt,
)

RELATIONS = ("to the left of", "to the right of", "above", "below", "touching")
EVEN = {"object": 1, "count": 1, "attribute": 1, "position": 1}
BINDING = {"object": 1, "count": 1, "attribute": 3, "position": 3}
PLACES = {"object": 1, "count": 1, "attribute": 1, "position": 5}
IGNORED = -100  # cross-entropy's own mark for a target that isn't there


@dataclass(frozen=True)
class Question:
    """A probe, its one-word answer, and the kinds of object that it compares or looks up."""

    probe: str
    answer: str
    skill: str = ""
    nouns: tuple[str, ...] = ()


def questioned_scenes(
    seed: int,
    purpose: str,
    index: int,
    n: int,
    per_image: int,
    quota: dict[str, int],
    own: float = 0.55,
) -> list[tuple[Scene, PromptRecord | None, list[Question]]]:
    """`n` scenes with `per_image` questions each, and the prompt that one was drawn from, if any.

    Two fifths of the scenes come from prompts, a fifth from graphs in which two objects touch,
    the rest are free: mixed fills and odd counts, as a generator's failures are.
    """
    rng = numpy_generator(seed, purpose, "questions", index)
    drawn = iter(data.scenes(seed, purpose, index, n))
    result = []
    for _ in range(n):
        record: PromptRecord | None
        record, scene = next(drawn)
        kind = rng.random()
        if kind > 0.6:
            scene, record = data.free_scene(rng), None
        elif kind > 0.4:
            record, scene = data.touching_scene(rng)
        facts = Facts(scene.objects, scene.touching)
        result.append((scene, record, questions(facts, rng, per_image, quota, own)))
    return result


def questions(
    facts: Facts, rng: np.random.Generator, n: int, quota: dict[str, int], own: float = 0.55
) -> list[Question]:
    """`n` questions about one image, in rounds of `quota[skill]` each (verbs are positions).

    `own` is the share of attributes taken from the very objects that are asked about.
    """
    found: list[Question] = []
    left = dict(quota)
    while len(found) < n:
        record = render_prompt(sample_graph_about(facts, rng, own), data.vocabulary())
        for k in rng.permutation(len(record.atoms)):
            atom, holds = record.atoms[k], bool(truths(facts, record)[k])
            key = atom.skill if atom.skill != "verb" else "position"
            if not left[key]:
                continue
            left[key] -= 1
            answer = "Yes" if holds else "No"
            if atom.skill == "count":
                answer = facts.count_word(record.graph.entities[atom.entities[0]].noun)
            nouns = tuple(record.graph.entities[e].noun for e in atom.entities)
            found.append(Question(atom.probe, answer, atom.skill, nouns))
            if not any(left.values()):
                left = dict(quota)
    return found[:n]


def recalls(facts: Facts, rng: np.random.Generator, n: int) -> list[Question]:
    """Up to `n` open questions: the colour, texture, row or column of a kind that has one.

    No benchmark asks them. A yes or no about a colour says little to a model that can't yet look
    the colour up; these teach the looking-up (ours).
    """
    found: list[Question] = []
    for noun in sorted({item.noun for item in facts.objects}):
        items = [facts.objects[i] for i in facts.named(noun)]
        for word, values in (
            ("colour", {item.colour for item in items}),
            ("texture", {item.texture or "No" for item in items}),
            ("row", {COUNT_WORDS[int(item.y // 16) + 1] for item in items}),
            ("column", {COUNT_WORDS[int(item.x // 16) + 1] for item in items}),
        ):
            if len(values) == 1:
                found.append(Question(f"{noun} {word}", values.pop()))
    return [found[i] for i in rng.permutation(len(found))[:n]]


LOOKUPS = (len(COLOURS) + 1, len(TEXTURES) + 2, *[CELLS] * 8)  # classes of each looked-up fact


def looked_up(facts: Facts, question: Question) -> list[int]:
    """What must be found in the image before an attribute or a position can be judged.

    Colour (0 if mixed) and texture (0 none, 3 mixed) of the first kind, or first and last row and
    column of both; `IGNORED` where the question needs it not or the kind is absent.
    """
    found = [IGNORED] * len(LOOKUPS)
    kinds = [[facts.objects[i] for i in facts.named(noun)] for noun in question.nouns]
    if not kinds or not all(kinds):
        return found
    if question.skill == "attribute":
        colours = {list(COLOURS).index(item.colour) + 1 for item in kinds[0]}
        textures = {TEXTURES.index(t) + 1 if (t := item.texture) else 0 for item in kinds[0]}
        found[0] = colours.pop() if len(colours) == 1 else 0
        found[1] = textures.pop() if len(textures) == 1 else len(TEXTURES) + 1
    if question.skill == "position":
        found[2:] = [
            int(edge(getattr(item, axis) for item in kind) // CELL)
            for kind in kinds
            for axis in ("x", "y")
            for edge in (min, max)
        ]
    return found


def sample_graph_about(facts: Facts, rng: np.random.Generator, own: float = 0.55) -> SceneGraph:
    """Two entities and a relation that may or may not hold in the image."""
    nouns = _nouns(facts, rng)
    entities = tuple(
        Entity(noun, int(rng.integers(1, 6)), _attribute(facts, noun, rng, own)) for noun in nouns
    )
    true = [r for r in RELATIONS if facts.related(nouns[0], r, nouns[1])]
    relation = str(rng.choice(true if true and rng.random() < 0.6 else RELATIONS))
    if "touching" in true and rng.random() < 0.5:
        relation = "touching"
    return SceneGraph(entities, (Relation(0, relation, 1),))


def _nouns(facts: Facts, rng: np.random.Generator) -> list[str]:
    """Two nouns: mostly of the image, preferably ones that touch if any do."""
    present = sorted({item.noun for item in facts.objects})
    pairs = [[facts.objects[i].noun for i in pair] for pair in sorted(facts.touching)]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    if pairs and rng.random() < 0.5:
        return list(rng.permutation(pairs[rng.integers(len(pairs))]))
    absent = 1.0 if len(present) < 2 or rng.random() < 0.35 else 0.0
    weights = np.array([1.0 if noun in present else absent for noun in SHAPES])
    return list(map(str, rng.choice(SHAPES, 2, replace=False, p=weights / weights.sum())))


def _attribute(facts: Facts, noun: str, rng: np.random.Generator, own: float) -> str:
    """A word true of one of the noun's objects, or of another object, or any."""
    kind = rng.random()
    pool = [facts.objects[i] for i in facts.named(noun)] if kind < own else list(facts.objects)
    if pool and kind < 0.8:
        item = pool[rng.integers(len(pool))]
        return item.texture if item.texture and rng.random() < 0.5 else item.colour
    return str(rng.choice(data.ATTRIBUTES))
