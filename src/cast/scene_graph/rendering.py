"""Prompt and probes of a scene graph, in GenEval 2's grammar and templates.

Grammar: "a red circle", "A and B", "A and B and C"; with a relation beside a conjunct the
conjunction takes a comma ("A rel B, and C"), and "A rel B rel C" binds neighbours. Probes come
entity by entity: count, attribute, object, then the relation to the next entity. Every atom
records the characters of the prompt that state it.
"""

from cast.errors import CastError
from cast.scene_graph.graph import Atom, PromptRecord, Relation, SceneGraph, Skill
from cast.scene_graph.vocabulary import English, Vocabulary

Span = tuple[int, int]


def render_prompt(
    graph: SceneGraph, vocabulary: Vocabulary, english: English = "correct"
) -> PromptRecord:
    """Write the prompt of a graph, its probes, and each atom's words in it.

    `english="correct"` writes "an elephant" and "two sheep"; `"benchmark"` reproduces GenEval 2's
    "a elephant" and "two sheeps". Raises `CastError` for a word outside the vocabulary, or a
    relation that doesn't lead from an entity to the next one, which the grammar can't say.
    """
    vocabulary.check(graph)
    links = links_of(graph)
    conjunction = ", and " if graph.relations else " and "
    text = ""
    words: list[tuple[Span, Span | None, Span]] = []  # count word, attribute, noun
    link_spans: list[Span] = []
    for index, entity in enumerate(graph.entities):
        if index:
            link = links[index - 1]
            joint = f" {link.relation} " if link else conjunction
            link_spans.append((len(text) + 1, len(text) + len(joint) - 1))
            text += joint
        noun = _form(graph, index, vocabulary, english)
        first = entity.attribute or noun
        plain = entity.count == 1
        count = vocabulary.article(first, english) if plain else vocabulary.counts[entity.count - 1]
        count_span = (len(text), len(text) + len(count))
        text += count + " "
        attribute_span = None
        if entity.attribute is not None:
            attribute_span = (len(text), len(text) + len(entity.attribute))
            text += entity.attribute + " "
        words.append((count_span, attribute_span, (len(text), len(text) + len(noun))))
        text += noun
    atoms = _atoms(graph, vocabulary, english, links, words, link_spans)
    counted = sum(atom.skill != "count" or atom.answer != vocabulary.counts[0] for atom in atoms)
    return PromptRecord(text, graph, atoms, counted)


def links_of(graph: SceneGraph) -> tuple[Relation | None, ...]:
    """What joins each entity to the next: a relation, or None for "and"."""
    links: list[Relation | None] = [None] * (len(graph.entities) - 1)
    for edge in graph.relations:
        if edge.object != edge.subject + 1 or links[edge.subject] is not None:
            raise CastError(
                f"Relation {edge.relation!r} from entity {edge.subject} to {edge.object}: a prompt "
                "can only say one relation from an entity to the next; reorder the entities."
            )
        links[edge.subject] = edge
    return tuple(links)


def _form(graph: SceneGraph, index: int, vocabulary: Vocabulary, english: English) -> str:
    """The noun as its count inflects it."""
    entity = graph.entities[index]
    return entity.noun if entity.count == 1 else vocabulary.plural(entity.noun, english)


def _atoms(
    graph: SceneGraph,
    vocabulary: Vocabulary,
    english: English,
    links: tuple[Relation | None, ...],
    words: list[tuple[Span, Span | None, Span]],
    link_spans: list[Span],
) -> tuple[Atom, ...]:
    existence = _existence_indices(graph, links)
    atoms: list[Atom] = []
    for index, entity in enumerate(graph.entities):
        count_span, attribute_span, noun_span = words[index]
        plural = vocabulary.plural(entity.noun, english)
        noun = entity.noun if entity.count == 1 else plural
        verb = "Is" if entity.count == 1 else "Are"
        own, needs = (index,), (existence[index],)
        answer = vocabulary.counts[entity.count - 1]
        probe = f"How many {plural} are in the image?"
        atoms.append(Atom("count", probe, answer, (count_span, noun_span), own, needs))
        if attribute_span is not None:
            probe = f"{verb} the {noun} {entity.attribute}?"
            atoms.append(Atom("attribute", probe, "Yes", (attribute_span, noun_span), own, needs))
        atoms.append(
            Atom("object", f"Are there any {plural} in the image?", "Yes", (noun_span,), own)
        )
        link = links[index] if index < len(links) else None
        if link is not None:
            skill: Skill = vocabulary.relation_skills[link.relation]
            other = _form(graph, index + 1, vocabulary, english)
            probe = f"{verb} the {noun} {link.relation} the {other}?"
            spans = (link_spans[index], noun_span, words[index + 1][2])
            ends = (index, index + 1)
            depends = (existence[index], existence[index + 1])
            atoms.append(Atom(skill, probe, "Yes", spans, ends, depends))
    return tuple(atoms)


def _existence_indices(graph: SceneGraph, links: tuple[Relation | None, ...]) -> list[int]:
    """Index of every entity's object atom among the prompt's atoms."""
    indices: list[int] = []
    position = 0
    for index, entity in enumerate(graph.entities):
        position += 1 if entity.attribute is None else 2
        indices.append(position)
        position += 1
        if index < len(links) and links[index] is not None:
            position += 1
    return indices
