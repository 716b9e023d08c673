"""Vocabulary files: a new one needs no code, a bad one is refused by name."""

from itertools import pairwise

import pytest
import yaml

from cast.errors import CastError
from cast.scene_graph import load_vocabulary, parse_prompt, sample_prompts

MINIMAL = {
    "name": "kitchen",
    "objects": {"cup": "cups", "knife": "knives", "egg": "eggs", "urn": "urns"},
    "benchmark_plurals": {"knife": "knifes"},
    "attributes": ["old", "white"],
    "positions": ["beside"],
    "verbs": [],
    "counts": ["one", "two", "three"],
    "max_objects": 5,
    "inverse": {"beside": "beside"},
    "articles": {"urn": "an"},
    "sampling": {
        "attribute": 0.5,
        "plural": 0.5,
        "verb": 0.0,
        "layouts": {"A and B": 1.0, "A rel B": 1.0, "A rel B rel C": 1.0},
    },
}


def write(folder, value):
    path = folder / "kitchen.yaml"
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return path


def test_another_vocabulary_needs_no_code(tmp_path):
    words = load_vocabulary(write(tmp_path, MINIMAL))
    for record in sample_prompts(words, 0, 40, (3, 8)):
        assert parse_prompt(record.prompt, words) == record.graph
        for word, following in pairwise(record.prompt.split()):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou")
    assert words.plural("knife", "benchmark") == "knifes"


@pytest.mark.parametrize("name", ["geneval2", "shapes"])
def test_the_shipped_ones_load_by_name(name):
    assert load_vocabulary(name).name == name


def test_sizes_of_the_shipped_ones():
    geneval2 = load_vocabulary("geneval2")
    assert [len(geneval2.objects), len(geneval2.attributes)] == [40, 18]
    assert [len(geneval2.positions), len(geneval2.verbs), len(geneval2.counts)] == [6, 3, 7]
    shapes = load_vocabulary("shapes")
    assert [len(shapes.objects), len(shapes.attributes)] == [6, 8]
    assert [len(shapes.positions), len(shapes.verbs), len(shapes.counts)] == [4, 1, 5]


def test_a_plural_equal_to_its_own_singular_is_fine(tmp_path):
    words = load_vocabulary(
        write(tmp_path, MINIMAL | {"objects": {"sheep": "sheep"} | MINIMAL["objects"]})
    )
    assert parse_prompt("a sheep and two cups", words).entities[0].count == 1
    assert parse_prompt("two sheep and two cups", words).entities[0].count == 2


CASES = {
    "no objects": ({"objects": {}}, "objects: "),
    "objects as list": ({"objects": ["cup"]}, "objects: "),
    "unknown key": ({"atributes": []}, "Did you mean 'attributes'"),
    "plural of another noun": (
        {"objects": {"cup": "cups", "mug": "cups"}},
        "'cups' belongs to both",
    ),
    "plural equal to a noun": ({"objects": {"cup": "egg", "egg": "eggs"}}, "'egg' belongs to both"),
    "noun that is an attribute": ({"attributes": ["cup"]}, "'cup' already stands under"),
    "attribute twice": ({"attributes": ["old", "old"]}, "'old' already stands under"),
    "two-word attribute": ({"attributes": ["very old"]}, "must be one word"),
    "upper case": ({"objects": {"Cup": "cups"}}, "lower-case"),
    "empty word": ({"attributes": [""]}, "lower-case"),
    "and in a relation": ({"positions": ["over and above"]}, "word that the grammar needs"),
    "article as attribute": ({"attributes": ["a"]}, "word that the grammar needs"),
    "unknown verb object": ({"verb_objects": ["cups"]}, "Did you mean 'cup'"),
    "unknown inverse": ({"inverse": {"beside": "besides"}}, "Did you mean 'beside'"),
    "unknown article": ({"articles": {"urn": "the"}}, "allowed are 'a' and 'an'"),
    "unknown benchmark plural": ({"benchmark_plurals": {"cups": "cups"}}, "Did you mean 'cup'"),
    "no counts": ({"counts": []}, "counts: "),
    "negative cap": ({"max_objects": -1}, "max_objects: "),
    "text as cap": ({"max_objects": "5"}, "max_objects: "),
    "bad hash": ({"benchmark_sha256": "abc"}, "benchmark_sha256: "),
    "no sampling": ({"sampling": None}, "sampling: "),
    "probability over 1": (
        {"sampling": {**MINIMAL["sampling"], "verb": 2.0}},
        "sampling.verb is 2.0",
    ),
    "unknown layout": (
        {"sampling": {**MINIMAL["sampling"], "layouts": {"A rel": 1.0}}},
        "Did you mean 'A rel B'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_vocabulary(tmp_path, case):
    change, words = CASES[case]
    path = write(tmp_path, MINIMAL | change)
    with pytest.raises(CastError) as error:
        load_vocabulary(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("objects: {cup: cups, cup: mugs}", "line 1: cup is given twice"),
        ("name: [", "can't be read as YAML"),
        ("- a list", "the file: "),
        ("", "the file: "),
    ],
)
def test_a_file_that_is_no_vocabulary(tmp_path, text, words):
    with pytest.raises(CastError) as error:
        load_vocabulary(write(tmp_path, text))
    assert words in str(error.value)


def test_a_name_and_a_path_that_are_not_there(tmp_path):
    with pytest.raises(CastError, match="Did you mean 'shapes'"):
        load_vocabulary("shape")
    with pytest.raises(CastError, match="no such vocabulary file"):
        load_vocabulary(tmp_path / "none.yaml")
