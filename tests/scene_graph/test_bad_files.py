"""Bad benchmark files: the message names file, line and key, says the mend; nothing is written."""

import json
import os
from pathlib import Path

import pytest
from graphs import vocabulary

from cast.errors import CastError
from cast.scene_graph import build_prompt_sets, read_geneval2

SHAPES = vocabulary("shapes")
GOOD = {
    "prompt": "two red stars",
    "atom_count": 3,
    "vqa_list": [
        ["How many stars are in the image?", "two"],
        ["Are the stars red?", "Yes"],
        ["Are there any stars in the image?", "Yes"],
    ],
    "skills": ["count", "attribute", "object"],
}
FIRST = json.dumps(
    {
        "prompt": "a heart",
        "atom_count": 1,
        "vqa_list": [
            ["How many hearts are in the image?", "one"],
            ["Are there any hearts in the image?", "Yes"],
        ],
        "skills": ["count", "object"],
    }
).encode()


def line(**changes: object) -> bytes:
    return json.dumps(GOOD | changes).encode()


def without(key: str) -> bytes:
    return json.dumps({name: value for name, value in GOOD.items() if name != key}).encode()


def probes(index: int, value: object) -> bytes:
    changed = list(GOOD["vqa_list"])
    changed[index] = value
    return line(vqa_list=changed)


# id: (second line of the file, words that the message must hold besides file and line)
LINES: dict[str, tuple[bytes, list[str]]] = {
    "truncated": (line()[:60], ["isn't JSON", "is it cut?"]),
    "latin1": (
        line().replace(b"two red", "zwölf red".encode("latin-1"), 1),
        ["isn't UTF-8", "iconv"],
    ),
    "nul": (line().replace(b"two", b"tw\x00", 1), ["NUL bytes"]),
    "crlf": (line() + b"\r", ["CRLF", "dos2unix"]),
    "10 MB": (line(prompt="a " * 5_000_000), ["longer than 1,000,000 bytes"]),
    "blank": (b"", ["is empty; remove it"]),
    "list": (b'["two red stars"]', ["must be an object"]),
    "key twice": (line()[:-1] + b', "prompt": "a star"}', ["'prompt' is given twice"]),
    "no prompt": (without("prompt"), ["prompt: is missing"]),
    "no atom_count": (without("atom_count"), ["atom_count: is missing"]),
    "no vqa_list": (without("vqa_list"), ["vqa_list: is missing"]),
    "no skills": (without("skills"), ["skills: is missing"]),
    "extra key": (line(skillz=[]), ["skillz: is unknown", "Did you mean 'skills'"]),
    "prompt type": (line(prompt=7), ["prompt: is 7", "type str"]),
    "count as text": (line(atom_count="3"), ["atom_count: is '3'", "type int"]),
    "count as bool": (line(atom_count=True), ["atom_count: is True", "type int"]),
    "count as float": (line(atom_count=3.0), ["atom_count: is 3.0", "type int"]),
    "negative count": (line(atom_count=-3), ["atom_count: is -3", "1 or more"]),
    "wrong count": (line(atom_count=4), ["atom_count: is 4", "gives 3"]),
    "lengths": (line(skills=["count", "object"]), ["skills: has 2 entries, vqa_list has 3"]),
    "unknown skill": (line(skills=["count", "colour", "object"]), ["'colour' is unknown", "verb"]),
    "swapped skill": (
        line(skills=["count", "object", "attribute"]),
        ["skills: is 'object' at entry 1", "gives 'attribute'"],
    ),
    "empty vqa_list": (line(vqa_list=[], skills=[]), ["vqa_list: is empty"]),
    "probe not a pair": (probes(0, "How many?"), ["must be a pair [probe, answer]"]),
    "probe of three": (probes(0, ["How many?", "two", 2]), ["must be a pair [probe, answer]"]),
    "answer outside": (
        probes(0, ["How many stars are in the image?", "twelve"]),
        ["answer 'twelve' is unknown", "Yes, one, two"],
    ),
    "answer No": (probes(1, ["Are the stars red?", "No"]), ["answer 'No' is unknown"]),
    "wrong answer": (
        probes(0, ["How many stars are in the image?", "three"]),
        ["'three'] at entry 0", "'two']"],
    ),
    "wrong probe": (probes(1, ["Is the star red?", "Yes"]), ["at entry 1", "Are the stars red?"]),
    "empty prompt": (line(prompt=""), ["prompt: ", "is empty"]),
    "unknown noun": (line(prompt="two red starts"), ["object is 'starts'", "Did you mean 'stars'"]),
    "unknown attribute": (
        line(prompt="two rad stars"),
        ["attribute is 'rad'", "Did you mean 'red'"],
    ),
    "unknown relation": (line(prompt="a star by a heart"), ["'a star by a heart' must be a count"]),
    "same noun twice": (line(prompt="a star and two stars"), ["names each noun once"]),
    "duplicate": (FIRST, ["prompt: repeats line 1"]),
}


@pytest.mark.parametrize("case", LINES)
def test_a_bad_line(tmp_path, case):
    bad, words = LINES[case]
    path = tmp_path / "benchmark.jsonl"
    path.write_bytes(FIRST + b"\n" + bad + b"\n")
    refused(path, [f"{path}, line 2: ", *words])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbf" + FIRST + b"\n", ["line 1", "byte order mark"]),
        ((FIRST.decode() + "\n").encode("utf-16"), ["line 1", "byte order mark"]),
        ((FIRST.decode() + "\n").encode("utf-16-le"), ["line 1", "NUL bytes"]),
        (b"", ["holds no prompt"]),
        (FIRST[:-1], ["line 1", "is it cut?"]),
    ],
    ids=["BOM", "UTF-16 with BOM", "UTF-16", "empty", "cut"],
)
def test_a_bad_file(tmp_path, content, words):
    path = tmp_path / "benchmark.jsonl"
    path.write_bytes(content)
    refused(path, [str(path), *words])


def test_a_last_line_without_its_end_is_read_when_it_is_whole(tmp_path):
    path = tmp_path / "benchmark.jsonl"
    path.write_bytes(FIRST)
    assert len(read_geneval2(path, SHAPES)) == 1


def test_a_folder_a_missing_file_and_a_path_through_a_file(tmp_path):
    refused(tmp_path, [f"{tmp_path}: is a folder; give the file"])
    refused(tmp_path / "none.jsonl", ["none.jsonl: there is no such file"])
    (tmp_path / "file").write_bytes(FIRST)
    refused(tmp_path / "file" / "x.jsonl", ["x.jsonl: can't be opened (Not a directory)"])


def test_no_read_permission(tmp_path):
    path = tmp_path / "benchmark.jsonl"
    path.write_bytes(FIRST + b"\n")
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)  # root reads everything
    try:
        with pytest.raises(CastError, match=r"can't be opened \(Permission denied\)"):
            read_geneval2(path, SHAPES)
    finally:
        if root:
            os.seteuid(0)


def refused(path: Path, words: list[str]) -> None:
    """Reading raises `CastError` with these words, and so does a build, which writes nothing."""
    with pytest.raises(CastError) as error:
        read_geneval2(path, SHAPES)
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 1000
    folder = path.parent / "sets" if path.parent.is_dir() else path.parent.parent / "sets"
    with pytest.raises(CastError):
        build_prompt_sets(folder, SHAPES, path)
    assert not folder.exists()
