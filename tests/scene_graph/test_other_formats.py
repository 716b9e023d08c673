"""GenEval 1, DSG/DPG and TIFA: lossless round trips, dependencies, and what is refused."""

import json

import pytest
from graphs import vocabulary

from cast.errors import CastError
from cast.scene_graph import (
    Entity,
    Question,
    QuestionPrompt,
    Relation,
    SceneGraph,
    geneval1_of,
    questions_of,
    read_dsg,
    read_geneval1,
    read_tifa,
    render_prompt,
    sample_prompts,
    write_dsg,
    write_geneval1,
    write_tifa,
)

SHAPES = vocabulary("shapes")
GENEVAL1 = """\
{"tag": "single_object", "include": [{"class": "tea pot", "count": 1}], "prompt": "a photo of a tea pot"}
{"tag": "counting", "include": [{"class": "kite", "count": 3}], "exclude": [{"class": "kite", "count": 4}], "prompt": "a photo of three kites"}
{"tag": "color_attr", "include": [{"class": "kite", "count": 1, "color": "red"}, {"class": "oar", "count": 1, "color": "blue"}], "prompt": "a photo of a red kite and a blue oar"}
{"tag": "position", "include": [{"class": "oar", "count": 1}, {"class": "kite", "count": 1, "position": ["left of", 0]}], "prompt": "a photo of a kite left of an oar"}
"""  # noqa: E501
HEADER = (
    "item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,"
    "question_natural_language\n"
)
DSG = HEADER + (
    'p1,"A tall lamp, lit",lamp,1,0,entity,whole,entity - whole (lamp),Is there a lamp?\n'
    'p1,"A tall lamp, lit","lamp, tall",2,1,attribute,scale,'
    '"attribute - scale (lamp, tall)",Is the lamp tall?\n'
    'p1,"A tall lamp, lit","lamp, lit",4,"1,2",attribute,state,'
    '"attribute - state (lamp, lit)",Is the lamp lit?\n'
    "p2,a boat,boat,1,0,entity,whole,entity - whole (boat),Is there a boat?\n"
)
TIFA = [
    {
        "id": "t1",
        "caption": "two lamps by a boat",
        "question": "how many lamps are there?",
        "choices": ["1", "2", "3", "4"],
        "answer": "2",
        "element_type": "counting",
        "element": "two",
        "coco_val_id": "17",
    }
]


def test_geneval1_reads_graphs_and_writes_the_same_bytes(tmp_path):
    path = tmp_path / "evaluation_metadata.jsonl"
    path.write_text(GENEVAL1)
    prompts = read_geneval1(path)
    assert prompts[1].graph.entities == (Entity("kite", 3),)
    assert prompts[1].exclude == (("kite", 4),)
    assert prompts[2].graph.entities[1] == Entity("oar", 1, "blue")
    assert prompts[3].graph.relations == (Relation(1, "left of", 0),)
    write_geneval1(tmp_path / "again.jsonl", prompts)
    assert (tmp_path / "again.jsonl").read_text() == GENEVAL1


def test_dsg_reads_dependencies_by_id_and_writes_the_same_bytes(tmp_path):
    """Proposition ids may skip a number; dependencies are indices all the same."""
    path = tmp_path / "dsg.csv"
    path.write_text(DSG)
    first, second = read_dsg(path)
    assert (first.prompt, second.prompt) == ("A tall lamp, lit", "a boat")
    assert [question.number for question in first.questions] == [1, 2, 4]
    assert [question.depends_on for question in first.questions] == [(), (0,), (0, 1)]
    assert first.questions[0].probe == "Is there a lamp?"  # the first is not skipped
    write_dsg(tmp_path / "again.csv", [first, second])
    assert (tmp_path / "again.csv").read_text() == DSG
    path.write_bytes(DSG.replace("\n", "\r\n").encode())  # CSV's own standard
    assert read_dsg(path) == [first, second]


def test_tifa_round_trip(tmp_path):
    path = tmp_path / "tifa.json"
    path.write_text(json.dumps(TIFA, indent=4) + "\n")
    (prompt,) = read_tifa(path)
    assert prompt.image_id == "17"
    assert prompt.questions[0].choices == ("1", "2", "3", "4")
    write_tifa(tmp_path / "again.json", [prompt])
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_our_records_go_through_every_format(tmp_path):
    records = list(sample_prompts(SHAPES, 0, 16))
    prompts = [questions_of(record, SHAPES.counts) for record in records]
    write_tifa(tmp_path / "ours.json", prompts)
    for record, prompt in zip(records, read_tifa(tmp_path / "ours.json"), strict=True):
        assert prompt.item_id == record.prompt_id
        assert [q.probe for q in prompt.questions] == [atom.probe for atom in record.atoms]
        answers = [question.answer.lower() for question in prompt.questions]
        assert answers == [atom.answer.lower() for atom in record.atoms]
    yes = [
        QuestionPrompt(
            "x", record.prompt, tuple(q for q in p.questions if q.category[0] == "object")
        )
        for record, p in zip(records[:1], prompts[:1], strict=True)
    ]
    write_dsg(tmp_path / "ours.csv", yes)
    assert read_dsg(tmp_path / "ours.csv") == yes
    metadata = [geneval1_of(record) for record in records]
    write_geneval1(tmp_path / "ours.jsonl", metadata)
    again = read_geneval1(tmp_path / "ours.jsonl")
    assert [prompt.graph for prompt in again] == [record.graph for record in records]


@pytest.mark.parametrize(
    ("entities", "relations", "tag"),
    [
        ((Entity("star", 1),), (), "single_object"),
        ((Entity("star", 3),), (), "counting"),
        ((Entity("star", 1), Entity("heart", 1)), (), "two_object"),
        ((Entity("star", 1, "red"),), (), "colors"),
        ((Entity("star", 1, "red"), Entity("heart", 1)), (), "color_attr"),
        ((Entity("star", 1), Entity("heart", 1)), (Relation(0, "above", 1),), "position"),
    ],
)
def test_the_nearest_geneval1_tag(entities, relations, tag):
    assert geneval1_of(render_prompt(SceneGraph(entities, relations), SHAPES)).tag == tag


def test_dsg_cannot_hold_counts(tmp_path):
    prompt = QuestionPrompt("x", "two stars", (Question("How many stars?", "two"),))
    with pytest.raises(CastError, match="yes questions only"):
        write_dsg(tmp_path / "dsg.csv", [prompt])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("item_id,", "id,", "line 1: the header is"),
        (",4,", ",2,", "line 4: proposition_id: 2 stands twice"),
        (",4,", ",four,", "line 4: proposition_id: is 'four'"),
        ('"1,2"', '"1,9"', "line 4: dependency: 9 isn't another question; allowed are 0 and 1, 2"),
        ('"1,2"', '"1,4"', "line 4: dependency: 4 isn't another question"),
        ('"1,2"', "", "line 4: dependency: is ''"),
        ("Is there a lamp?", "", "line 2: question_natural_language: is empty"),
        (',"lamp, lit"', ",lamp, lit", "line 4: has 10 fields; the header names 9"),
        ('p1,"A tall lamp, lit",lamp,', "p1,A lamp,lamp,", "line 3: text: 'p1' has another text"),
        ("Is there a boat?\n", "Is there a bo", "line 5: is cut"),
        ('tall)",Is the lamp tall?', "tall),Is the lamp tall?", "is it cut?"),
        (DSG.removeprefix(HEADER), "", "holds no question"),
        (DSG, "", "line 1: the header is ''"),
    ],
)
def test_bad_dsg(tmp_path, old, new, words):
    path = tmp_path / "dsg.csv"
    path.write_text(DSG.replace(old, new))
    with pytest.raises(CastError) as error:
        read_dsg(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer": "7"}, "entry 0: answer: '7' isn't among the choices"),
        ({"choices": "yes"}, "entry 0: choices: is 'yes'"),
        ({"choices": [1, "2"]}, "entry 0: choices"),
        ({"captoin": "x"}, "Did you mean 'caption'"),
        ({"id": 3}, "entry 0: id: is 3"),
    ],
)
def test_bad_tifa(tmp_path, change, words):
    path = tmp_path / "tifa.json"
    path.write_text(json.dumps([TIFA[0] | change]))
    with pytest.raises(CastError) as error:
        read_tifa(path)
    assert f"{path}: " in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize("text", ["{}", "[]", "[3]", '[{"id": "t1"', ""])
def test_json_that_is_not_tifa(tmp_path, text):
    path = tmp_path / "tifa.json"
    path.write_text(text)
    with pytest.raises(CastError, match=str(path)):
        read_tifa(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"counting"', '"countnig"', "line 2: tag: is 'countnig'; allowed are"),
        ('"count": 3', '"count": 0', "line 2: include: count is 0"),
        ('"count": 3', '"count": "3"', "line 2: include: count: is '3'"),
        ('"color": "red"', '"colour": "red"', "Did you mean 'color'"),
        ('["left of", 0]', '["left of", 5]', "line 4: include: Relation 'left of'"),
        ('["left of", 0]', '["left of"]', "line 4: include: position is"),
        ('"class": "oar", "count": 1, "color"', '"class": "kite", "count": 1, "color"', "line 3"),
        ('[{"class": "tea pot", "count": 1}]', "[]", "line 1: include: A scene graph needs"),
        ('[{"class": "tea pot", "count": 1}]', "[1]", "line 1: include: 1 must be an object"),
        ('"a photo of a tea pot"', '" "', "line 1: prompt: is empty"),
        (GENEVAL1, "", "holds no prompt"),
    ],
)
def test_bad_geneval1(tmp_path, old, new, words):
    path = tmp_path / "evaluation_metadata.jsonl"
    path.write_text(GENEVAL1.replace(old, new))
    with pytest.raises(CastError) as error:
        read_geneval1(path)
    assert str(path) in str(error.value)
    assert words in str(error.value)
