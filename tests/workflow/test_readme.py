"""Everything that the README names is there: paths, targets of make and Snakemake, modules."""

import importlib.util
import re

import pytest

from cast.paths import repository_root
from cast.site.listing import SHOWN

ROOT = repository_root()
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("  #")[0].strip() for block in CODE for line in block.splitlines()]
COMMANDS += re.findall(r"`((?:make|snakemake|python) [^`]+)`", README.replace("\n", " "))
ROWS = re.findall(r"^\| (.+) \| (`.+`) \| (\[.+\)) \| (.+) \|$", README, re.MULTILINE)


def named(first: str) -> list[str]:
    """Commands that begin with a word."""
    found = [part for command in COMMANDS for part in command.split(" && ")]
    return [command for command in found if command.split(" ")[0] == first]


def test_links_and_paths_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    rooms = r"(?:src|config|report|examples|notebooks|rules|tests|profiles|models|data)"
    paths = re.findall(rf"`({rooms}/[\w./-]+)`", README)
    assert len(links) > 20 and paths
    assert [path for path in links + paths if not (ROOT / path).exists()] == []


def test_the_tree_names_every_room():
    house = README.split("## The house")[1]
    rooms = {path.parent.name for path in (ROOT / "src/cast").glob("*/__init__.py")}
    assert set(re.findall(r"(\w+)/", house)) >= rooms
    assert [name for name in re.findall(r"^  (\w+)/", house, re.M) if name not in rooms] == []


def test_make_has_the_targets_and_the_variables():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    used = named("make")
    assert {command.split()[1] for command in used} <= targets
    variables = {word.split("=")[0] for c in used for word in c.split() if "=" in word}
    assert variables and all(re.search(rf"\b{name}\b", makefile) for name in variables)
    assert all(f"# make {name} " in makefile for name in targets), "its head explains every target"


def test_modules_exist():
    modules = re.findall(r"python -m (cast[\w.]*)", README)
    assert modules
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []


def test_the_map_names_rules_notebooks_and_every_artefact():
    rules = "\n".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    known = set(re.findall(r"^\s*rule (\w+):", rules, re.MULTILINE))
    assert len(ROWS) >= 13
    named_rules = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[1])}
    assert named_rules <= known
    assert known - named_rules <= {"chunk_of_evaluation", "chunk_of_hard_case", "zoo_model"}
    shown = {path.name for row in ROWS for path in map(ROOT.joinpath, _targets(row[2]))}
    notebooks = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks - shown <= {"05c_chunk.ipynb"}
    files = " ".join(row[3] for row in ROWS)
    assert [name for name in SHOWN if f"{name}.*" not in files] == []


def _targets(cell: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", cell)


@pytest.mark.workflow
def test_snakemake_makes_every_file_that_is_named(clone):
    commands = [c.split()[1:] for c in named("snakemake") if "--" not in c and "METHOD" not in c]
    files = {name for words in commands for name in words} - {"zoo"}
    files |= {f"paper_figures/{name}.pdf" for name in SHOWN}
    files |= {path for row in ROWS for path in re.findall(r"`(results/mini/[\w./-]+\w)`", row[3])}
    assert "results/mini/hard_case.json" in files and "paper_figures/table1.pdf" in files
    clone.dry_run(*sorted(files))
