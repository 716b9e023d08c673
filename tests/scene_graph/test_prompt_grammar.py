"""The prompt and its graph say the same: properties of rendering, spans, probes and parsing."""

import json

import pytest
from graphs import graphs, vocabulary
from hypothesis import given
from hypothesis import strategies as st

from cast.errors import CastError
from cast.scene_graph import (
    Entity,
    PromptRecord,
    Relation,
    SceneGraph,
    paraphrases,
    parse_prompt,
    render_prompt,
)

# beartype picks list items to check at random, inside strategies too; examples don't depend on it
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

GENEVAL2 = vocabulary("geneval2")
SHAPES = vocabulary("shapes")
ENGLISH = st.sampled_from(["correct", "benchmark"])
ANY = st.one_of(*(graphs(v).map(lambda g, v=v: (v, g)) for v in (GENEVAL2, SHAPES)))


@given(ANY, ENGLISH)
def test_render_then_parse_gives_the_same_graph(case, english):
    words, graph = case
    record = render_prompt(graph, words, english)
    assert parse_prompt(record.prompt, words) == graph


@given(ANY, ENGLISH)
def test_spans_cut_out_the_words_of_their_atom(case, english):
    words, graph = case
    record = render_prompt(graph, words, english)
    nouns = [e.noun if e.count == 1 else words.plural(e.noun, english) for e in graph.entities]
    relations = {(edge.subject, edge.object): edge.relation for edge in graph.relations}
    for atom in record.atoms:
        first, *about = [record.prompt[start:end] for start, end in atom.spans]
        entity = graph.entities[atom.entities[0]]
        own = [nouns[index] for index in atom.entities]
        if atom.skill == "count":
            assert first in (
                ("a", "an") if entity.count == 1 else (words.count_word(entity.count),)
            )
        elif atom.skill == "attribute":
            assert first == entity.attribute
        elif atom.skill == "object":
            assert ([first], []) == (own, about)
            continue
        else:
            assert first == relations[atom.entities[0], atom.entities[1]]
        assert about == own
        assert all(word in atom.probe for word in own if atom.skill != "count")


@given(ANY, ENGLISH)
def test_every_word_but_and_belongs_to_an_atom(case, english):
    words, graph = case
    record = render_prompt(graph, words, english)
    owned = set()
    for atom in record.atoms:
        for start, end in atom.spans:
            owned |= set(range(start, end))
    rest = "".join(c if i not in owned else " " for i, c in enumerate(record.prompt))
    assert set(rest.split()) <= {"and", ","}


@given(ANY)
def test_atom_count_in_closed_form(case):
    """Entities, attributes, relations and the counts above one: GenEval 2's definition."""
    words, graph = case
    record = render_prompt(graph, words)
    attributes = sum(entity.attribute is not None for entity in graph.entities)
    plurals = sum(entity.count > 1 for entity in graph.entities)
    size = len(graph.entities)
    assert record.atom_count == size + attributes + plurals + len(graph.relations)
    assert len(record.atoms) == 2 * size + attributes + len(graph.relations)


@given(ANY)
def test_dependencies_point_at_the_existence_of_the_same_entities(case):
    words, graph = case
    record = render_prompt(graph, words)
    for atom in record.atoms:
        parents = [record.atoms[index] for index in atom.depends_on]
        assert all(parent.skill == "object" for parent in parents)
        expected = () if atom.skill == "object" else atom.entities
        assert tuple(parent.entities[0] for parent in parents) == expected


@given(ANY, st.randoms(use_true_random=False))
def test_canonical_key_ignores_order_and_nothing_else(case, random):
    _, graph = case
    order = list(range(len(graph.entities)))
    random.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    edges = [Relation(place[r.subject], r.relation, place[r.object]) for r in graph.relations]
    random.shuffle(edges)
    shuffled = SceneGraph(tuple(graph.entities[old] for old in order), tuple(edges))
    assert shuffled.canonical() == graph.canonical()
    first, *rest = graph.entities
    more = SceneGraph(
        (Entity(first.noun, first.count + 1, first.attribute), *rest), graph.relations
    )
    assert more.canonical() != graph.canonical()


@given(graphs(SHAPES))
def test_paraphrases_are_an_equivalence(graph):
    """A paraphrase of a paraphrase is one of the graph's own, and the graph comes first."""
    keys = [same.canonical() for same in paraphrases(graph, SHAPES)]
    assert keys[0] == graph.canonical()
    assert len(keys) == 2 ** len(graph.relations)
    for same in paraphrases(graph, SHAPES):
        assert {g.canonical() for g in paraphrases(same, SHAPES)} == set(keys)


@given(ANY, ENGLISH)
def test_json_round_trip(case, english):
    words, graph = case
    record = render_prompt(graph, words, english)
    again = PromptRecord.from_json(json.loads(json.dumps(record.to_json())))
    assert again == record
    assert again.prompt_id == record.prompt_id


def test_the_two_englishes():
    graph = SceneGraph((Entity("elephant", 1), Entity("sheep", 2)))
    correct = render_prompt(graph, GENEVAL2)
    benchmark = render_prompt(graph, GENEVAL2, "benchmark")
    assert correct.prompt == "an elephant and two sheep"
    assert benchmark.prompt == "a elephant and two sheeps"
    assert correct.atoms[2].probe == "How many sheep are in the image?"
    assert benchmark.atoms[2].probe == "How many sheeps are in the image?"
    assert parse_prompt(correct.prompt, GENEVAL2) == parse_prompt(benchmark.prompt, GENEVAL2)


def test_a_worked_example():
    """Every probe of one prompt, in GenEval 2's order, with the singular and plural forms."""
    graph = SceneGraph(
        (Entity("cross", 2, "red"), Entity("star", 1), Entity("heart", 1)),
        (Relation(0, "above", 1), Relation(1, "touching", 2)),
    )
    record = render_prompt(graph, SHAPES)
    assert record.prompt == "two red crosses above a star touching a heart"
    assert record.atom_count == 7
    assert [(atom.skill, atom.probe, atom.answer) for atom in record.atoms] == [
        ("count", "How many crosses are in the image?", "two"),
        ("attribute", "Are the crosses red?", "Yes"),
        ("object", "Are there any crosses in the image?", "Yes"),
        ("position", "Are the crosses above the star?", "Yes"),
        ("count", "How many stars are in the image?", "one"),
        ("object", "Are there any stars in the image?", "Yes"),
        ("verb", "Is the star touching the heart?", "Yes"),
        ("count", "How many hearts are in the image?", "one"),
        ("object", "Are there any hearts in the image?", "Yes"),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("a red", "'red'"),
        ("a crimson circle", "crimson"),
        ("a circel", "Did you mean 'circle'"),
        ("two circle", "Did you mean 'circles'"),
        ("a circles", "Did you mean 'circle'"),
        ("one circle", "'one'"),
        ("nine circles", "'nine'"),
        ("a red green circle", "at most one attribute"),
        ("a circle beside a star", "relations are"),
        ("a circle and a star above a heart", "', and'"),
        ("a circle, and a star", "' and'"),
        ("a circle and a circle", "each noun once"),
        ("a circle and", "attribute is 'circle'"),
        (" a circle", "count is ''"),
        ("a circle\n", "circle\\n"),
    ],
)
def test_what_the_grammar_refuses(text, names):
    with pytest.raises(CastError) as error:
        parse_prompt(text, SHAPES)
    assert names in str(error.value)


@pytest.mark.parametrize(
    ("entities", "relations", "names"),
    [
        ((), (), "at least one entity"),
        ((Entity("star", 0),), (), "count is 0"),
        ((Entity("star", -2),), (), "count is -2"),
        ((Entity("star", 1), Entity("star", 2)), (), "each noun once"),
        ((Entity("star", 1),), (Relation(0, "above", 0),), "two different indices"),
        ((Entity("star", 1), Entity("heart", 1)), (Relation(0, "above", 2),), "0 to 1"),
    ],
)
def test_graphs_that_cannot_be(entities, relations, names):
    with pytest.raises(CastError, match=names):
        SceneGraph(entities, relations)


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        (SceneGraph((Entity("stra", 1),)), "Did you mean 'star'"),
        (SceneGraph((Entity("star", 6),)), "counts 1-5"),
        (SceneGraph((Entity("star", 1, "rde"),)), "Did you mean 'red'"),
        (
            SceneGraph((Entity("star", 1), Entity("heart", 1)), (Relation(0, "abve", 1),)),
            "Did you mean 'above'",
        ),
        (
            SceneGraph((Entity("star", 1), Entity("heart", 1)), (Relation(1, "above", 0),)),
            "reorder the entities",
        ),
    ],
)
def test_graphs_that_cannot_be_said(graph, names):
    with pytest.raises(CastError, match=names):
        render_prompt(graph, SHAPES)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda v: v.pop("atoms"), "atoms"),
        (lambda v: v["atoms"][0].update(skill="colour"), "colour"),
        (lambda v: v["atoms"][0].pop("spans"), "spans"),
        (lambda v: v["entities"][0].append(3), "TypeError"),
        (lambda v: v.update(entities=None), "TypeError"),
    ],
)
def test_from_json_refuses_what_to_json_would_not_write(spoil, names):
    value = render_prompt(SceneGraph((Entity("star", 2, "red"),)), SHAPES).to_json()
    spoil(value)
    with pytest.raises(CastError, match=names):
        PromptRecord.from_json(value)
