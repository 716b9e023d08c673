"""The causal scene graph, the atoms it asks for, and the record that joins both to a prompt.

Paper 4.1: entities are nodes and relations are edges; a node's existence, its attribute, its
count and every edge are atoms, each probed by one question. The graph comes first and the
prompt is written from it, so every atom knows its words before an image exists.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from cast.errors import CastError

Skill = Literal["object", "count", "attribute", "position", "verb"]
SKILLS: tuple[Skill, ...] = get_args(Skill)


@dataclass(frozen=True)
class Entity:
    """One node: `count` objects called `noun` (singular), with at most one attribute."""

    noun: str
    count: int
    attribute: str | None = None


@dataclass(frozen=True)
class Relation:
    """One directed edge between two entities, by their index; the text is the vocabulary's."""

    subject: int
    relation: str
    object: int


@dataclass(frozen=True)
class SceneGraph:
    """Entities in the order of the prompt, and the relations between them.

    Raises `CastError` for no entity, a repeated noun (its probes could not tell the two apart),
    a count below one, or a relation whose ends are not two different entities.
    """

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.entities)
        if not size:
            raise CastError("A scene graph needs at least one entity.")
        if len({entity.noun for entity in self.entities}) < size:
            nouns = ", ".join(entity.noun for entity in self.entities)
            raise CastError(f"A scene graph names each noun once; got {nouns}.")
        for entity in self.entities:
            if entity.count < 1:
                raise CastError(f"{entity.noun}: count is {entity.count}; it must be 1 or more.")
        for edge in self.relations:
            ends = (edge.subject, edge.object)
            if ends[0] == ends[1] or not all(0 <= end < size for end in ends):
                raise CastError(
                    f"Relation {edge.relation!r} joins entities {ends}; "
                    f"allowed are two different indices from 0 to {size - 1}."
                )

    def canonical(self) -> str:
        """Key that ignores order: equal for graphs that say the same, in whatever order."""
        nodes = sorted(f"{e.count} {e.attribute or '-'} {e.noun}" for e in self.entities)
        edges = sorted(
            f"{self.entities[r.subject].noun} {r.relation} {self.entities[r.object].noun}"
            for r in self.relations
        )
        return "; ".join(nodes) + " | " + "; ".join(edges)


@dataclass(frozen=True)
class Atom:
    """One verifiable fact of a prompt, with its probe.

    `spans` are character ranges of the prompt: first the words that state the atom itself
    ("three", "red", "circles", "to the left of"), then the nouns of the entities it is about.
    `entities` and `depends_on` are indices of entities and atoms of the same prompt: count and
    attribute depend on the existence of their entity, a relation on that of both its ends.
    """

    skill: Skill
    probe: str
    answer: str
    spans: tuple[tuple[int, int], ...]
    entities: tuple[int, ...]
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True)
class PromptRecord:
    """A prompt, its graph and all its atoms, in GenEval 2's order.

    `atoms` holds every probe (K of them). `atom_count` is GenEval 2's: the probes without the
    count probes whose answer is "one", since "a" is probed but not counted.

    >>> # "a red circle above two squares"
    >>> # atoms: count(one) attribute object position count(two) object, so K = 6, atom_count = 5
    """

    prompt: str
    graph: SceneGraph
    atoms: tuple[Atom, ...]
    atom_count: int

    @cached_property
    def prompt_id(self) -> str:
        """First 16 hex digits of the sha256 of the prompt's text."""
        return hashlib.sha256(self.prompt.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary; `from_json` reads it back."""
        return {
            "prompt": self.prompt,
            "atom_count": self.atom_count,
            "entities": [[e.noun, e.count, e.attribute] for e in self.graph.entities],
            "relations": [[r.subject, r.relation, r.object] for r in self.graph.relations],
            "atoms": [
                {
                    "skill": atom.skill,
                    "probe": atom.probe,
                    "answer": atom.answer,
                    "spans": [list(span) for span in atom.spans],
                    "entities": list(atom.entities),
                    "depends_on": list(atom.depends_on),
                }
                for atom in self.atoms
            ],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "PromptRecord":
        """Rebuild a record; raises `CastError` for anything that `to_json` would not write."""
        try:
            graph = SceneGraph(
                tuple(Entity(*entity) for entity in value["entities"]),
                tuple(Relation(*relation) for relation in value["relations"]),
            )
            atoms = tuple(_atom_from_json(atom) for atom in value["atoms"])
            return cls(value["prompt"], graph, atoms, value["atom_count"])
        except (KeyError, TypeError, ValueError) as error:
            raise CastError(f"Not a prompt record ({type(error).__name__}: {error}).") from error


def _atom_from_json(value: dict[str, Any]) -> Atom:
    if value["skill"] not in SKILLS:
        raise CastError(f"skill is {value['skill']!r}; allowed are {', '.join(SKILLS)}.")
    return Atom(
        skill=value["skill"],
        probe=value["probe"],
        answer=value["answer"],
        spans=tuple((start, end) for start, end in value["spans"]),
        entities=tuple(value["entities"]),
        depends_on=tuple(value["depends_on"]),
    )
