"""Digests of code: what a reader sees doesn't count, what a machine does counts."""

import json
from pathlib import Path

import pytest

from cast.workflow import digest as digests


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A small package in the place of `src/cast`."""
    source = tmp_path / "src/cast"
    files = {
        "__init__.py": "",
        "room/__init__.py": "from cast.room.inner import f\n",
        "room/inner.py": "import cast.low\n\n\ndef f():\n    return 1\n",
        "low.py": "X = 1\n",
        "user.py": "def g():\n    from .room import f\n    return f\n",
        "other.py": "Y = 1\n",
    }
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(digests, "from_root", lambda name: tmp_path / name)
    return source


def code(*modules: str) -> str:
    digests.code_digest.cache_clear()
    return digests.code_digest(*modules)


def test_the_closure_follows_every_import(tree):
    found = digests.import_closure(["cast.user"])
    assert found == {"cast", "cast.user", "cast.room", "cast.room.inner", "cast.low"}


@pytest.mark.parametrize(
    "text",
    [
        "import cast.low  # why\n\ndef f():\n    return 1\n",
        '"""About."""\nimport cast.low\ndef f():\n    """It."""\n    return 1\n',
        "import cast.low\n\n\n\ndef f():\n    return (\n        1\n    )\n",
    ],
)
def test_words_and_layout_do_not_count(tree, text):
    before = code("cast.user")
    (tree / "room/inner.py").write_text(text)
    assert code("cast.user") == before


@pytest.mark.parametrize(
    ("name", "counts"), [("room/inner.py", True), ("low.py", True), ("other.py", False)]
)
def test_code_counts_where_it_is_used(tree, name, counts):
    before = code("cast.user")
    (tree / name).write_text((tree / name).read_text() + "CHANGED = 1\n")
    assert (code("cast.user") != before) is counts


def test_of_a_notebook_only_the_code_counts(tree, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["Words."]},
        {"cell_type": "code", "source": ["x = 1\n", "%time x"], "outputs": []},
        {"cell_type": "code", "source": ["y = 2"], "outputs": [], "execution_count": None},
    ]
    path = tmp_path / "a.ipynb"

    def of(changed: list) -> str:
        path.write_text(json.dumps({"cells": changed}))
        digests.notebook_digest.cache_clear()
        return digests.notebook_digest("a.ipynb")

    first = of(cells)
    said = {**cells[0], "source": ["Other words."]}
    ran = {**cells[2], "outputs": [{"text": "2"}], "execution_count": 3, "source": ["y = 2  # two"]}
    assert of([said, cells[1], ran]) == first
    assert of([said, cells[1], {**ran, "source": ["y = 3"]}]) != first


def test_a_missing_file_has_no_digest(tree):
    assert digests.file_digest("none") is None
