"""Digests of code by what it does: comments, docstrings, layout and notebook outputs don't count.

Snakemake gets them as params, so that a fresh checkout or a touched comment reruns nothing and a
change of code reruns what depends on it.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cast.paths import from_root

_LENGTH = 16


def digest(*parts: Any) -> str:
    """16 hex digits that name JSON values by content."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


@functools.cache
def code_digest(*modules: str) -> str:
    """Digest of the modules' syntax trees and of every `cast` module that they import."""
    return digest({name: _tree(_file(name)) for name in sorted(import_closure(modules))})


@functools.cache
def notebook_digest(path: str) -> str:
    """Digest of a notebook's code cells; markdown, outputs and metadata don't count."""
    cells = json.loads(from_root(path).read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return digest([_dump(source) for source in sources])


@functools.cache
def file_digest(path: str) -> str | None:
    """Digest of a file's bytes; None when it isn't there (the step that reads it will say so)."""
    full = from_root(path)
    if not full.is_file():
        return None
    with full.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_LENGTH]


def import_closure(modules: Iterable[str]) -> set[str]:
    """The modules and, transitively, every module of `cast` that they import anywhere."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or _file(name) is None:
            continue
        found.add(name)
        waiting += _imports(name)
    return found


def _imports(name: str) -> list[str]:
    """What a module imports of `cast`, and the package that it lies in."""
    path = _file(name)
    assert path is not None  # the caller looked
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = [name.rpartition(".")[0]] if "." in name else []
    return found + _imported(path.read_text(encoding="utf-8"), package)


@functools.cache  # by content; the closures of several steps meet the same files
def _imported(source: str, package: str) -> list[str]:
    """The names of `cast` that a source imports; `package` is what its relative ones start at."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [module for module in found if module.split(".")[0] == "cast"]


def _file(name: str) -> Path | None:
    """The source of a module of `cast`, or None for a name that is none (a class, a function)."""
    base = from_root("src").joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _tree(path: Path | None) -> str:
    return _dump(path.read_text(encoding="utf-8")) if path else ""


@functools.cache
def _dump(source: str) -> str:
    """A syntax tree without positions, comments and docstrings; unparsable text stays as it is."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a notebook cell with a magic
        return source
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = body[0] if body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)
