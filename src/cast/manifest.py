"""`MANIFEST.json` beside shipped models: what each file must hash to, and how it was made.

A model folder `models/mini/NAME` is described by `models/mini/MANIFEST.json` under its name. Every
loader asks `check_manifest` first, so a damaged download is refused by name and not by a strange
image an hour later. Folders without a manifest beside them (hub snapshots, users' own models) are
not checked.
"""

import fcntl
import os
from pathlib import Path
from typing import Any

from cast.errors import CastError
from cast.io import read_json, sha256_file, write_json

NAME = "MANIFEST.json"


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """`{relative path: {sha256, bytes}}` of every file under a model's folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "sha256": sha256_file(path),
            "bytes": path.stat().st_size,
        }
        for path in files
    }


def write_entry(folder: Path, entry: dict[str, Any]) -> None:
    """Put a model's entry, with the hashes of its files, into the manifest beside its folder."""
    _change(folder, {**entry, "files": describe_files(folder)})


def drop_entry(folder: Path) -> None:
    """Forget a model that is about to be replaced: its old hashes would refuse the new files."""
    _change(folder, None)


def _change(folder: Path, entry: dict[str, Any] | None) -> None:
    """Read, change and write under a lock, since two trainings may end at once."""
    path = folder.parent / NAME
    folder.parent.mkdir(parents=True, exist_ok=True)
    directory = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        manifest = read_json(path) if path.exists() else {}
        manifest.pop(folder.name, None)
        if entry is not None:
            manifest[folder.name] = entry
        write_json(path, dict(sorted(manifest.items())))
    finally:
        os.close(directory)


def check_manifest(folder: str | Path) -> None:
    """Compare a model folder with its manifest, where there is one.

    Raises:
        CastError: a listed file is missing, changed, or not listed; the message names it.
    """
    folder = Path(folder)
    path = folder.parent / NAME
    if not folder.is_dir() or not path.exists():
        return
    entry = read_json(path).get(folder.name)
    if entry is None:
        return
    found = describe_files(folder)
    for name in sorted(found.keys() | entry["files"].keys()):
        if name not in found:
            problem = "is missing"
        elif name not in entry["files"]:
            problem = "is not in the manifest"
        elif found[name] != entry["files"][name]:
            problem = "has changed"
        else:
            continue
        raise CastError(
            f"{folder / name} {problem} (see {path}). Restore it, for instance with "
            f"`git checkout -- {folder}`, or train the model anew with `snakemake zoo`."
        )
