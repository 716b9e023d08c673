"""What is true of a list of objects: the answers that the world, the oracle and the verifier's
training data share.

A list of objects comes either from drawing (`world.draw`) or from reading an image
(`oracle.detect`); the questions are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cast.mini.world import SceneObject
from cast.scene_graph.graph import PromptRecord, SceneGraph

COUNT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven")


@dataclass(frozen=True)
class Facts:
    """Objects of one image and which of them touch."""

    objects: tuple[SceneObject, ...]
    touching: frozenset[tuple[int, int]]

    def named(self, noun: str) -> list[int]:
        """Indices of the objects of a kind."""
        return [i for i, item in enumerate(self.objects) if item.noun == noun]

    def count_word(self, noun: str) -> str:
        """The number of objects of a kind as a word; more than seven are `seven` no longer."""
        count = len(self.named(noun))
        return COUNT_WORDS[count] if count < len(COUNT_WORDS) else "many"

    def has_attribute(self, noun: str, attribute: str) -> bool:
        """All objects of the kind have it, and there is one."""
        named = self.named(noun)
        return bool(named) and all(self.objects[i].has(attribute) for i in named)

    def related(self, subject: str, relation: str, target: str) -> bool:
        """Every subject stands so to every target; `touching` asks for one pair that does."""
        first, second = self.named(subject), self.named(target)
        if not first or not second:
            return False
        if relation == "touching":
            return any((min(i, j), max(i, j)) in self.touching for i in first for j in second)
        x = [[float(self.objects[i].x) for i in group] for group in (first, second)]
        y = [[float(self.objects[i].y) for i in group] for group in (first, second)]
        return {
            "to the left of": max(x[0]) < min(x[1]),
            "to the right of": min(x[0]) > max(x[1]),
            "above": max(y[0]) < min(y[1]),
            "below": min(y[0]) > max(y[1]),
        }[relation]


def truths(facts: Facts, record: PromptRecord) -> np.ndarray:
    """Bool [K]: whether each atom's expected answer is the true one."""
    return np.array([_holds(facts, record.graph, record, k) for k in range(len(record.atoms))])


def _holds(facts: Facts, graph: SceneGraph, record: PromptRecord, k: int) -> bool:
    atom = record.atoms[k]
    entity = graph.entities[atom.entities[0]]
    if atom.skill == "object":
        return bool(facts.named(entity.noun))
    if atom.skill == "count":
        return len(facts.named(entity.noun)) == entity.count
    if atom.skill == "attribute":
        assert entity.attribute is not None
        return facts.has_attribute(entity.noun, entity.attribute)
    relation = next(
        r for r in graph.relations if (r.subject, r.object) == (atom.entities[0], atom.entities[1])
    )
    return facts.related(entity.noun, relation.relation, graph.entities[relation.object].noun)


def entity_of(objects: Sequence[SceneObject], graph: SceneGraph) -> list[int]:
    """The graph entity of each object by its noun, -1 for a noun that the graph lacks."""
    nouns = {entity.noun: index for index, entity in enumerate(graph.entities)}
    return [nouns.get(item.noun, -1) for item in objects]
