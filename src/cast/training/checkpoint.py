"""Checkpoints that survive a kill at any moment, a full disk and a flipped bit.

`step_000012/` holds `tensors.safetensors` and `record.json`, and `sha256.json` with the hashes of
both and of itself. The folder is written beside its place under a hidden name, fsynced and
renamed, so a folder with its proper name is whole. The last two are kept: when the newest turns
out damaged it is refused by name and the one before it is used.
"""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from cast.errors import CastError
from cast.io import read_json, sha256_file, sha256_json, write_json, write_safetensors

KEPT = 2
_TENSORS, _RECORD, _HASHES = "tensors.safetensors", "record.json", "sha256.json"
_NAME = re.compile(r"step_(\d{6,})")


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on from after `step` collections."""

    step: int
    tensors: dict[str, Tensor]
    record: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint whole, then drop all but the last two. Returns its folder.

    Raises `CastError` when it can't be written (a full disk): the earlier ones are untouched.
    """
    place = folder / f"step_{checkpoint.step:06d}"
    temporary = folder / f".{place.name}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        write_safetensors(temporary / _TENSORS, checkpoint.tensors)
        write_json(temporary / _RECORD, checkpoint.record)
        hashes = {name: sha256_file(temporary / name) for name in (_TENSORS, _RECORD)}
        write_json(temporary / _HASHES, {**hashes, "self": sha256_json(hashes)})
        shutil.rmtree(place, ignore_errors=True)
        temporary.rename(place)
        _fsync(folder)
    except Exception as error:  # safetensors has its own error for a full disk
        shutil.rmtree(temporary, ignore_errors=True)
        raise CastError(
            f"{place}: the checkpoint can't be written ({error}). The earlier checkpoints are "
            "whole: free some space (or mend the folder) and run the same command to go on."
        ) from error
    for old in _steps(folder)[:-KEPT]:
        shutil.rmtree(old)
    return place


def load_latest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest whole checkpoint, or None when there is none.

    A damaged one is named through `warn`, set aside as `damaged_step_...` and never loaded.
    """
    for leftover in folder.glob(".step_*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    for place in reversed(_steps(folder)):
        fault = _fault(place)
        if fault is None:
            step = int(place.name.removeprefix("step_"))
            return Checkpoint(step, load_file(place / _TENSORS), read_json(place / _RECORD))
        aside = place.with_name(f"damaged_{place.name}")
        shutil.rmtree(aside, ignore_errors=True)
        place.rename(aside)
        warn(f"{place}: this checkpoint is damaged ({fault}); it was set aside as {aside.name}.")
    return None


def _fault(place: Path) -> str | None:
    """What is wrong with a checkpoint's files, or None."""
    try:
        hashes = read_json(place / _HASHES)
        own = hashes.pop("self")
    except (CastError, KeyError, AttributeError, TypeError):
        return f"{_HASHES} is missing or unreadable"
    if own != sha256_json(hashes) or set(hashes) != {_TENSORS, _RECORD}:
        return f"{_HASHES} has been changed"
    for name, expected in hashes.items():
        if not (place / name).is_file():
            return f"{name} is missing"
        if sha256_file(place / name) != expected:
            return f"{name} has another hash than when it was written"
    return None


def _steps(folder: Path) -> list[Path]:
    """Checkpoint folders by step, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), p) for p in folder.iterdir() if (match := _NAME.fullmatch(p.name))]
    return [path for _, path in sorted(found)]


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
