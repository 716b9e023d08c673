"""Hypothesis strategies for scene graphs that a vocabulary's grammar can say."""

from functools import cache

from hypothesis import strategies as st

from cast.scene_graph import Entity, Relation, SceneGraph, Vocabulary, load_vocabulary


@cache
def vocabulary(name: str) -> Vocabulary:
    return load_vocabulary(name)


@st.composite
def graphs(draw: st.DrawFn, words: Vocabulary) -> SceneGraph:
    """One to three entities, each joined to the next by a relation or by "and"."""
    nouns = draw(st.lists(st.sampled_from(words.nouns), min_size=1, max_size=3, unique=True))
    attributes = st.none() | st.sampled_from(words.attributes)
    counts = st.integers(1, len(words.counts))
    entities = tuple(Entity(noun, draw(counts), draw(attributes)) for noun in nouns)
    links = st.none() | st.sampled_from((*words.positions, *words.verbs))
    relations = [(i, draw(links)) for i in range(len(nouns) - 1)]
    return SceneGraph(entities, tuple(Relation(i, text, i + 1) for i, text in relations if text))
