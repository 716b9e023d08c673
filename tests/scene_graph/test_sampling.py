"""The sampler: reproducible, balanced, within the vocabulary's limits, and flat in memory."""

import gc
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from graphs import vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from cast.errors import CastError
from cast.scene_graph import (
    Mix,
    Skill,
    is_excluded,
    paraphrases,
    parse_prompt,
    sample_graph,
    sample_prompts,
)

GENEVAL2 = vocabulary("geneval2")
SHAPES = vocabulary("shapes")


@given(st.sampled_from([GENEVAL2, SHAPES]), st.integers(0, 2**31 - 1), st.integers(3, 10))
def test_a_sampled_graph_has_the_atom_count_and_keeps_the_limits(words, seed, atom_count):
    graph = sample_graph(words, np.random.default_rng(seed), atom_count)
    entities = graph.entities
    assert len({entity.noun for entity in entities}) == len(entities) <= 3
    attributes = sum(entity.attribute is not None for entity in entities)
    plurals = sum(entity.count > 1 for entity in entities)
    assert len(entities) + attributes + plurals + len(graph.relations) == atom_count
    if words.max_objects is not None:
        assert sum(entity.count for entity in entities) <= words.max_objects
    for edge in graph.relations:
        if edge.relation in words.verbs:
            ends = (entities[edge.subject], entities[edge.object])
            assert all(entity.noun in words.verb_nouns for entity in ends)
            assert all(entity.count <= (words.verb_max_count or 99) for entity in ends)


@settings(max_examples=20)
@given(st.sampled_from([GENEVAL2, SHAPES]), st.integers(0, 1000), st.integers(0, 20))
def test_a_prompt_depends_on_its_index_alone(words, seed, start):
    """A stream from the middle, and an endless one, give what the whole stream gives."""
    whole = list(sample_prompts(words, seed, start + 5))
    assert list(sample_prompts(words, seed, 5, start=start)) == whole[start:]
    assert list(islice(sample_prompts(words, seed, None), start + 5)) == whole


def test_streams_of_other_seeds_and_purposes_differ():
    texts = [
        [record.prompt for record in sample_prompts(SHAPES, seed, 20, purpose=purpose)]
        for seed, purpose in ((0, "train"), (1, "train"), (0, "zoo"))
    ]
    assert texts[0] != texts[1] != texts[2] != texts[0]


@pytest.mark.parametrize("atom_counts", [(3, 10), (4, 4), (5, 9)])
def test_every_block_holds_each_atom_count_once(atom_counts):
    low, high = atom_counts
    size = high - low + 1
    counts = [record.atom_count for record in sample_prompts(SHAPES, 3, 4 * size, atom_counts)]
    for block in range(4):
        assert sorted(counts[block * size : (block + 1) * size]) == list(range(low, high + 1))


def test_the_mix_is_met_when_nothing_is_fixed():
    """Without an atom count the sampler draws each part independently, so shares are the mix's.

    2,000 graphs; every share within four standard errors of its probability.
    """
    rng = np.random.default_rng(0)
    drawn = [sample_graph(GENEVAL2, rng) for _ in range(2000)]
    entities = [entity for graph in drawn for entity in graph.entities]
    edges = [edge for graph in drawn for edge in graph.relations]
    mix = GENEVAL2.mix
    total = sum(mix.layouts.values())
    singles = mix.layouts["A"] / total
    for share, probability, size in (
        (np.mean([e.attribute is not None for e in entities]), mix.attribute, len(entities)),
        (np.mean([e.count > 1 for e in entities]), mix.plural, len(entities)),
        (np.mean([e.relation in GENEVAL2.verbs for e in edges]), mix.verb, len(edges)),
        (np.mean([len(g.entities) == 1 for g in drawn]), singles, len(drawn)),
    ):
        assert abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / size)
    nouns = Counter(entity.noun for entity in entities if entity.noun not in GENEVAL2.verb_nouns)
    assert len(nouns) == 20


def test_required_skills_are_there():
    need: frozenset[Skill] = frozenset({"verb", "position", "attribute"})
    for record in sample_prompts(SHAPES, 0, 40, (6, 9), require=need):
        assert need <= {atom.skill for atom in record.atoms}


def test_a_mix_replaces_the_vocabularys_own():
    mix = replace(SHAPES.mix, attribute=1.0, plural=0.0, layouts={"A and B and C": 1.0})
    for record in sample_prompts(SHAPES, 0, 20, (6, 6), mix=mix):
        assert [entity.count for entity in record.graph.entities] == [1, 1, 1]
        assert all(entity.attribute for entity in record.graph.entities)


def test_excluded_graphs_do_not_come_back_in_any_order_or_direction():
    """With three atoms the space is small, so a second stream would meet the first often."""
    first = list(sample_prompts(SHAPES, 0, 100, (3, 3)))
    exclude = {record.graph.canonical() for record in first}
    turned = {same.canonical() for record in first for same in paraphrases(record.graph, SHAPES)}
    free = list(sample_prompts(SHAPES, 1, 200, (3, 3)))
    assert any(is_excluded(record.graph, SHAPES, exclude) for record in free)
    for record in sample_prompts(SHAPES, 1, 200, (3, 3), exclude):
        assert record.graph.canonical() not in turned
    assert parse_prompt(free[0].prompt, SHAPES) == free[0].graph


def test_memory_is_flat():
    """600 prompts later the interpreter holds as many blocks as before: nothing is kept."""
    stream = sample_prompts(SHAPES, 0, None, exclude={"nothing"})
    blocks = []
    for _ in range(4):
        for _ in islice(stream, 200):
            pass
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert blocks[3] - blocks[0] < 300  # one kept object a prompt would be 600


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"atom_counts": (3, 12)}, "can't make a prompt of 12 atoms"),
        ({"atom_counts": (0, 4)}, "1 <= low <= high"),
        ({"atom_counts": (5, 4)}, "1 <= low <= high"),
        ({"n": -1}, "0 or more"),
        ({"atom_counts": (1, 1)}, "can't make a prompt of 1 atoms"),
        ({"atom_counts": (10, 10), "require": frozenset({"verb"})}, "10 atoms with verb"),
    ],
)
def test_what_cannot_be_sampled_is_said_before_the_first_prompt(arguments, names):
    if names.endswith("1 atoms"):
        arguments["mix"] = replace(SHAPES.mix, layouts={"A and B": 1.0})
    with pytest.raises(CastError, match=names):
        sample_prompts(SHAPES, 0, **({"n": 5} | arguments))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"attribute": 1.5}, "sampling.attribute is 1.5"),
        ({"verb": -0.1}, "sampling.verb is -0.1"),
        ({"layouts": {"A  and B": 1.0}}, "Did you mean 'A and B'"),
        ({"layouts": {"A": -1.0}}, "weight -1.0"),
        ({"layouts": {"A": 0.0}}, "no layout has a positive weight"),
        ({"layouts": {}}, "no layout has a positive weight"),
    ],
)
def test_an_impossible_mix_is_refused(change, names):
    base = {"attribute": 0.5, "plural": 0.5, "verb": 0.5, "layouts": {"A": 1.0}}
    with pytest.raises(CastError, match=names):
        Mix(**(base | change))


def test_a_mix_that_leaves_no_graph_is_refused():
    mix = replace(SHAPES.mix, plural=0.0, attribute=0.0, layouts={"A": 1.0})
    with pytest.raises(CastError, match="it makes 1"):
        sample_prompts(SHAPES, 0, 1, (3, 3), mix=mix)


def test_an_exhausted_space_is_an_error_not_a_loop():
    mix = replace(SHAPES.mix, plural=0.0, attribute=0.0, layouts={"A": 1.0})
    every = {f"1 - {noun} | " for noun in SHAPES.nouns}
    with pytest.raises(CastError, match="all rejected"):
        list(sample_prompts(SHAPES, 0, 1, (1, 1), every, mix=mix))
