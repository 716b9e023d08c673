"""Sampling scene graphs with a given atom count, and streams of prompts.

A *skeleton* fixes everything but the words: the layout, which entities are plural or have an
attribute, and which relations are verbs. All skeletons of an atom count are listed once, with
the probability that the vocabulary's `Mix` gives them; a graph is a skeleton drawn from the list
and words drawn uniformly. Conditioning is exact, so no candidate is ever thrown away for its
atom count. (The paper gives the range, 3 to 10, and the median, 6.5; the mix is ours, fitted to
GenEval 2.)
"""

import itertools
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, cast

import numpy as np

from cast.errors import CastError
from cast.rng import numpy_generator
from cast.scene_graph.graph import Entity, PromptRecord, Relation, SceneGraph, Skill
from cast.scene_graph.rendering import render_prompt
from cast.scene_graph.vocabulary import LAYOUTS, English, Layout, Mix, Vocabulary

T = TypeVar("T")
MAX_ATTEMPTS = 1000  # candidates for one prompt before its exclusions count as unsatisfiable


@dataclass(frozen=True)
class Skeleton:
    """A graph without words; `links` holds the skill of each relation, None for "and"."""

    links: tuple[Skill | None, ...]
    attributes: tuple[bool, ...]
    counts: tuple[tuple[int, ...], ...]  # every allowed choice of the entities' counts
    atom_count: int


def sample_graph(
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    atom_count: int | None = None,
    mix: Mix | None = None,
    require: frozenset[Skill] = frozenset(),
) -> SceneGraph:
    """Draw one graph.

    `atom_count` as GenEval 2 counts it (None: whatever the mix gives); `mix` replaces the
    vocabulary's own; every skill in `require` is present. Raises `CastError` when the vocabulary
    can't make such a graph.
    """
    skeletons, cumulative = _table(vocabulary, mix or vocabulary.mix, atom_count, require)
    draw = rng.random(12)  # 1 skeleton, 1 counts, 3 nouns, 3 attributes, 2 relations
    skeleton = skeletons[min(bisect_right(cumulative, draw[0]), len(skeletons) - 1)]
    counts = _pick(skeleton.counts, draw[1])
    nouns = _nouns(vocabulary, skeleton.links, draw[2:5])
    entities = tuple(
        Entity(noun, count, _pick(vocabulary.attributes, u) if has_attribute else None)
        for noun, count, has_attribute, u in zip(
            nouns, counts, skeleton.attributes, draw[5:8], strict=False
        )
    )
    relations = tuple(
        Relation(i, _pick(_relations(vocabulary, skill), draw[8 + i]), i + 1)
        for i, skill in enumerate(skeleton.links)
        if skill is not None
    )
    return SceneGraph(entities, relations)


def sample_prompts(
    vocabulary: Vocabulary,
    seed: int,
    n: int | None,
    atom_counts: tuple[int, int] = (3, 10),
    exclude: Collection[str] = frozenset(),
    purpose: str = "train",
    *,
    start: int = 0,
    english: English = "correct",
    mix: Mix | None = None,
    require: frozenset[Skill] = frozenset(),
) -> Iterator[PromptRecord]:
    """Stream prompts `start` to `start + n` (for ever, if n is None) of the stream `purpose`.

    Prompt i depends on `(seed, purpose, i)` alone. Atom counts are balanced: every block of
    `high - low + 1` prompts holds each atom count once, in an order of its own. `exclude` holds
    canonical keys (`SceneGraph.canonical`); a graph that equals one of them, or says the same
    with a relation and its inverse exchanged, is drawn again. Prompts may repeat; memory is flat.
    Raises `CastError` before the first prompt for an atom count that the vocabulary can't reach.
    """
    low, high = atom_counts
    if not 1 <= low <= high:
        raise CastError(f"atom counts are {low} to {high}; allowed is 1 <= low <= high.")
    if n is not None and n < 0:
        raise CastError(f"number of prompts is {n}; it must be 0 or more.")
    for atom_count in range(low, high + 1):
        _table(vocabulary, mix or vocabulary.mix, atom_count, require)
    return stream_prompts(
        vocabulary,
        seed,
        itertools.count(start) if n is None else range(start, start + n),
        (low, high),
        lambda graph: bool(exclude) and is_excluded(graph, vocabulary, exclude),
        purpose,
        english=english,
        mix=mix,
        require=require,
    )


def stream_prompts(
    vocabulary: Vocabulary,
    seed: int,
    indices: Iterable[int],
    atom_counts: tuple[int, int],
    rejected: Callable[[SceneGraph], bool],
    purpose: str,
    *,
    english: English = "correct",
    mix: Mix | None = None,
    require: frozenset[Skill] = frozenset(),
) -> Iterator[PromptRecord]:
    """As `sample_prompts`, for any indices and any rule that rejects a graph."""
    low, high = atom_counts
    size = high - low + 1
    block, order = -1, np.empty(0, dtype=np.int64)
    for index in indices:
        if index // size != block:
            block = index // size
            order = numpy_generator(seed, purpose, "atoms", block).permutation(size)
        atom_count = low + int(order[index % size])
        rng = numpy_generator(seed, purpose, index)
        for _ in range(MAX_ATTEMPTS):
            graph = sample_graph(vocabulary, rng, atom_count, mix, require)
            if not rejected(graph):
                break
        else:
            raise CastError(
                f"Prompt {index} of {purpose!r}: {MAX_ATTEMPTS} graphs of {atom_count} atoms were "
                "all rejected; ask for fewer prompts or add words to the vocabulary."
            )
        yield render_prompt(graph, vocabulary, english)


def is_excluded(graph: SceneGraph, vocabulary: Vocabulary, exclude: Collection[str]) -> bool:
    """Whether `exclude` holds the canonical key of a graph, or of one that says the same."""
    return any(same.canonical() in exclude for same in paraphrases(graph, vocabulary))


def paraphrases(graph: SceneGraph, vocabulary: Vocabulary) -> Iterator[SceneGraph]:
    """The graph, and every graph with some relations turned round to their inverse."""
    choices = []
    for edge in graph.relations:
        turned = vocabulary.inverse.get(edge.relation)
        options = [edge]
        if turned is not None:
            options.append(Relation(edge.object, turned, edge.subject))
        choices.append(options)
    for relations in itertools.product(*choices):
        yield SceneGraph(graph.entities, relations)


def _pick(options: "tuple[T, ...]", u: float) -> T:
    return options[int(u * len(options))]


def _relations(vocabulary: Vocabulary, skill: Skill) -> tuple[str, ...]:
    return vocabulary.verbs if skill == "verb" else vocabulary.positions


def _nouns(
    vocabulary: Vocabulary, links: tuple[Skill | None, ...], draw: np.ndarray
) -> tuple[str, ...]:
    """Distinct nouns, uniform among those allowed; the ends of a verb come from `verb_nouns`."""
    acting = {end for i, skill in enumerate(links) if skill == "verb" for end in (i, i + 1)}
    chosen: dict[int, str] = {}
    for index in sorted(range(len(links) + 1), key=lambda i: i not in acting):
        pool = vocabulary.verb_nouns if index in acting else vocabulary.nouns
        free = tuple(noun for noun in pool if noun not in chosen.values())
        chosen[index] = _pick(free, draw[index])
    return tuple(chosen[index] for index in range(len(links) + 1))


@lru_cache(maxsize=256)
def _table(
    vocabulary: Vocabulary, mix: Mix, atom_count: int | None, require: frozenset[Skill]
) -> tuple[list[Skeleton], list[float]]:
    """The skeletons of an atom count with their cumulative probabilities."""
    weighted = [
        (skeleton, weight)
        for skeleton, weight in _all_skeletons(vocabulary, mix)
        if atom_count in (None, skeleton.atom_count) and require <= _skills(skeleton)
    ]
    if not weighted:
        reachable = sorted({s.atom_count for s, _ in _all_skeletons(vocabulary, mix)})
        wanted = "any number of" if atom_count is None else str(atom_count)
        skills = f" with {', '.join(sorted(require))}" if require else ""
        raise CastError(
            f"Vocabulary {vocabulary.name} can't make a prompt of {wanted} atoms{skills}; it makes "
            f"{', '.join(map(str, reachable)) or 'none'}. Change the atom counts, the skill mix "
            "(sampling) or max_objects."
        )
    cumulative = np.cumsum([weight for _, weight in weighted])
    return [skeleton for skeleton, _ in weighted], list(cumulative / cumulative[-1])


@lru_cache(maxsize=16)
def _all_skeletons(vocabulary: Vocabulary, mix: Mix) -> list[tuple[Skeleton, float]]:
    found = []
    for pattern, weight in mix.layouts.items():
        layout = LAYOUTS[pattern]
        size = len(layout) + 1
        if size > len(vocabulary.nouns):
            continue
        for links, attributes, plurals in itertools.product(
            _link_choices(layout),
            itertools.product((False, True), repeat=size),
            itertools.product((False, True), repeat=size),
        ):
            skeleton = _skeleton(vocabulary, links, attributes, plurals)
            probability = (
                weight
                * _bernoulli(mix.verb, [skill == "verb" for skill in links if skill])
                * _bernoulli(mix.attribute, attributes)
                * _bernoulli(mix.plural, plurals)
            )
            if skeleton is not None and probability > 0:
                found.append((skeleton, probability))
    return found


def _link_choices(layout: Layout) -> Iterator[tuple[Skill | None, ...]]:
    options = [("position", "verb") if related else (None,) for related in layout]
    return cast("Iterator[tuple[Skill | None, ...]]", itertools.product(*options))


def _bernoulli(probability: float, outcomes: Collection[bool]) -> float:
    hits = sum(outcomes)
    return probability**hits * (1.0 - probability) ** (len(outcomes) - hits)


def _skeleton(
    vocabulary: Vocabulary,
    links: tuple[Skill | None, ...],
    attributes: tuple[bool, ...],
    plurals: tuple[bool, ...],
) -> Skeleton | None:
    """The skeleton, or None where the vocabulary has no words or counts for it."""
    acting = {end for i, skill in enumerate(links) if skill == "verb" for end in (i, i + 1)}
    if any(skill and not _relations(vocabulary, skill) for skill in links):
        return None
    if (any(attributes) and not vocabulary.attributes) or len(acting) > len(vocabulary.verb_nouns):
        return None
    largest = len(vocabulary.counts)
    limit = vocabulary.verb_max_count or largest
    ranges = [
        range(2, (min(limit, largest) if index in acting else largest) + 1) if plural else (1,)
        for index, plural in enumerate(plurals)
    ]
    cap = vocabulary.max_objects
    counts = tuple(c for c in itertools.product(*ranges) if cap is None or sum(c) <= cap)
    if not counts:
        return None
    relations = sum(skill is not None for skill in links)
    return Skeleton(
        links, attributes, counts, len(plurals) + sum(attributes) + sum(plurals) + relations
    )


def _skills(skeleton: Skeleton) -> frozenset[Skill]:
    skills: set[Skill] = {"object", "count"}
    skills |= {skill for skill in skeleton.links if skill}
    if any(skeleton.attributes):
        skills.add("attribute")
    return frozenset(skills)
