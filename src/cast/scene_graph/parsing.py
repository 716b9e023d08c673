"""Reading a prompt back into its scene graph: the inverse of `render_prompt`."""

import re
from collections.abc import Iterable

from cast.errors import CastError, nearest
from cast.scene_graph.graph import Entity, Relation, SceneGraph
from cast.scene_graph.vocabulary import Vocabulary


def parse_prompt(text: str, vocabulary: Vocabulary) -> SceneGraph:
    """The scene graph that a prompt of GenEval 2's grammar states.

    Both Englishes are read ("an elephant" and "a elephant", "two sheep" and "two sheeps").
    Raises `CastError` naming the words that aren't the grammar's or the vocabulary's.
    """
    if not text.strip():
        raise CastError("The prompt is empty.")
    pieces = _link_pattern(vocabulary).split(text)
    phrases, links = pieces[0::2], pieces[1::2]
    graph = SceneGraph(
        tuple(_entity(phrase, text, vocabulary) for phrase in phrases),
        tuple(
            Relation(index, link.strip(), index + 1)
            for index, link in enumerate(links)
            if link not in (" and ", ", and ")
        ),
    )
    conjunction = ", and " if graph.relations else " and "
    for link in links:
        if link in (" and ", ", and ") and link != conjunction:
            raise CastError(
                f"Prompt {text!r}: beside a relation the conjunction is ', and', else ' and'."
            )
    return graph


def _link_pattern(vocabulary: Vocabulary) -> re.Pattern[str]:
    """What stands between two entities; longer relations first, so none hides in another."""
    relations = sorted(vocabulary.relation_skills, key=len, reverse=True)
    choices = [", and ", " and ", *(f" {relation} " for relation in relations)]
    return re.compile("(" + "|".join(map(re.escape, choices)) + ")")


def _entity(phrase: str, text: str, vocabulary: Vocabulary) -> Entity:
    words = phrase.split(" ")
    if not 2 <= len(words) <= 3:
        raise CastError(
            f"Prompt {text!r}: {phrase!r} must be a count, at most one attribute, and an object; "
            f"relations are {', '.join(vocabulary.relation_skills) or 'none'}."
        )
    first, noun = words[0], words[-1]
    count = 1 if first in ("a", "an") else vocabulary.count_of.get(first, 1)
    if count == 1 and first not in ("a", "an"):
        raise _unknown(text, "count", first, ("a", "an", *vocabulary.counts[1:]))
    attribute = words[1] if len(words) == 3 else None
    if attribute is not None and attribute not in vocabulary.attributes:
        raise _unknown(text, "attribute", attribute, vocabulary.attributes)
    singular_of = vocabulary.singular_of if count > 1 else {n: n for n in vocabulary.nouns}
    if noun not in singular_of:
        raise _unknown(text, "object", noun, singular_of)
    return Entity(singular_of[noun], count, attribute)


def _unknown(text: str, key: str, word: str, known: Iterable[str]) -> CastError:
    return CastError(
        f"Prompt {text!r}: {key} is {word!r}; allowed are {', '.join(known)}."
        + nearest(word, known)
    )
