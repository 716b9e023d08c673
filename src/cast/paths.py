"""Where the repository is: relative paths in configs are read from its root."""

from pathlib import Path

_MARKS = ("pyproject.toml", "config/backbones")


def repository_root(start: Path | None = None) -> Path:
    """Root of the clone that the current folder lies in, else of the clone that holds this file.

    So a notebook opened in `notebooks/` and a test that works in a copy both find their own tree.
    """
    start = Path.cwd() if start is None else start
    for folder in (start, *start.parents):
        if all((folder / mark).exists() for mark in _MARKS):
            return folder
    return Path(__file__).resolve().parents[2]


def from_root(path: str | Path) -> Path:
    """`path` itself when absolute, else the same path under the repository's root."""
    return repository_root() / path
