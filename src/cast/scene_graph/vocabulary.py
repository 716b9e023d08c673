"""Vocabulary: the words that scenes are made of, read from a YAML file.

A file says which nouns, attributes, relations and counts exist, which of them may meet, and how
often (`sampling`). Another vocabulary is another file and no code. The files that ship are
`geneval2` (described from the benchmark's data) and `shapes` (the mini world).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cast.errors import CastError, nearest
from cast.scene_graph.graph import SceneGraph

English = Literal["correct", "benchmark"]

# A layout is the link after each entity but the last: True for a relation, False for "and".
Layout = tuple[bool, ...]
LAYOUTS: dict[str, Layout] = {
    "A": (),
    "A and B": (False,),
    "A and B and C": (False, False),
    "A rel B": (True,),
    "A rel B, and C": (True, False),
    "A, and B rel C": (False, True),
    "A rel B rel C": (True, True),
}


@dataclass(frozen=True, eq=False)
class Mix:
    """How often things appear before the atom count is fixed.

    `attribute` and `plural` are probabilities per entity, `verb` the share of verbs among the
    relations, `layouts` relative weights by pattern (the keys of `LAYOUTS`).
    """

    attribute: float
    plural: float
    verb: float
    layouts: Mapping[str, float]

    def __post_init__(self) -> None:
        for key in ("attribute", "plural", "verb"):
            if not 0.0 <= getattr(self, key) <= 1.0:
                raise CastError(
                    f"sampling.{key} is {getattr(self, key)}; allowed is a probability, 0 to 1."
                )
        for key, weight in self.layouts.items():
            if key not in LAYOUTS:
                raise CastError(
                    f"sampling.layouts has {key!r}; allowed are {', '.join(map(repr, LAYOUTS))}."
                    + nearest(key, LAYOUTS)
                )
            if weight < 0:
                raise CastError(f"sampling.layouts: {key!r} has weight {weight}; allowed is >= 0.")
        if not any(weight > 0 for weight in self.layouts.values()):
            raise CastError("sampling.layouts: no layout has a positive weight.")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of one world. Built by `load_vocabulary`, which checks them against each other.

    objects: singular to plural, in correct English. benchmark_plurals: the plurals that the
    benchmark writes instead ("sheeps"). verb_objects: the nouns that verbs may join (all, if
    empty). verb_max_count: largest count at either end of a verb. counts: the words for 1, 2, ...
    max_objects: cap on the sum of a prompt's counts. inverse: relations that say the same with
    their ends exchanged. articles: words whose article is not the one that their first letter
    suggests. benchmark_sha256: that of the published benchmark file in these words, if any.
    """

    name: str
    objects: Mapping[str, str]
    benchmark_plurals: Mapping[str, str]
    attributes: tuple[str, ...]
    positions: tuple[str, ...]
    verbs: tuple[str, ...]
    verb_objects: tuple[str, ...]
    verb_max_count: int | None
    counts: tuple[str, ...]
    max_objects: int | None
    inverse: Mapping[str, str]
    articles: Mapping[str, str]
    benchmark_sha256: str | None
    mix: Mix

    @cached_property
    def nouns(self) -> tuple[str, ...]:
        """The singular nouns, in the file's order."""
        return tuple(self.objects)

    @cached_property
    def verb_nouns(self) -> tuple[str, ...]:
        """The nouns that a verb may join."""
        return self.verb_objects or self.nouns

    @cached_property
    def relation_skills(self) -> dict[str, Literal["position", "verb"]]:
        """The skill of every relation."""
        skills: dict[str, Literal["position", "verb"]] = {}
        skills |= {relation: "position" for relation in self.positions}
        skills |= {relation: "verb" for relation in self.verbs}
        return skills

    @cached_property
    def count_of(self) -> dict[str, int]:
        """The number that a count word means."""
        return {word: number for number, word in enumerate(self.counts, start=1)}

    @cached_property
    def singular_of(self) -> dict[str, str]:
        """The singular of every plural, in either English."""
        plurals = {plural: noun for noun, plural in self.objects.items()}
        return plurals | {plural: noun for noun, plural in self.benchmark_plurals.items()}

    def count_word(self, count: int) -> str:
        """The word for a count; `CastError` if the vocabulary has none."""
        if not 1 <= count <= len(self.counts):
            raise CastError(
                f"count is {count}; vocabulary {self.name} counts 1-{len(self.counts)}."
            )
        return self.counts[count - 1]

    def plural(self, noun: str, english: English = "correct") -> str:
        """The plural of a noun: correct, or as the benchmark writes it."""
        if noun not in self.objects:
            raise CastError(
                f"object is {noun!r}; vocabulary {self.name} doesn't have it."
                + nearest(noun, self.objects)
            )
        if english == "benchmark" and noun in self.benchmark_plurals:
            return self.benchmark_plurals[noun]
        return self.objects[noun]

    def article(self, word: str, english: English = "correct") -> str:
        """ "a" or "an" before a word; the benchmark always writes "a"."""
        if english == "benchmark":
            return "a"
        return self.articles.get(word) or ("an" if word[0] in "aeiou" else "a")

    def check(self, graph: SceneGraph) -> None:
        """Raise `CastError` for a word, count or relation that this vocabulary doesn't have."""
        for entity in graph.entities:
            self.plural(entity.noun)
            self.count_word(entity.count)
            if entity.attribute is not None and entity.attribute not in self.attributes:
                raise CastError(
                    f"attribute is {entity.attribute!r}; vocabulary {self.name} doesn't have it."
                    + nearest(entity.attribute, self.attributes)
                )
        for edge in graph.relations:
            if edge.relation not in self.relation_skills:
                raise CastError(
                    f"relation is {edge.relation!r}; vocabulary {self.name} doesn't have it."
                    + nearest(edge.relation, self.relation_skills)
                )
