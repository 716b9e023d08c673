"""Files are written whole: to a temporary name beside the target, fsynced, then renamed.

A reader sees the old file or the new one, never half of either. Tables are Parquet, records
JSON, weights safetensors; no pickle is ever loaded.
"""

import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file

from cast.errors import CastError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; rename it to `path` when the block ends without an exception."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Machines that share a disk may give one process number each.
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text whole."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON whole, keys in order, one final newline: equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a missing or malformed one raises `CastError` naming it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CastError(f"{path}: can't be read as JSON ({error}).") from error


def write_parquet(path: str | Path, table: pd.DataFrame) -> None:
    """Write a table whole, as Parquet, without its index."""
    with written_whole(path) as temporary:
        table.to_parquet(temporary, index=False)


def write_safetensors(
    path: str | Path, tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors whole, contiguous, as safetensors."""
    with written_whole(path) as temporary:
        contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, temporary, metadata=metadata)


def sha256_file(path: str | Path) -> str:
    """Hex sha256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_stored(path: Path) -> str:
    """Hex sha256 of a file's bytes. A file of the hub's cache links to a blob that is named by it,
    so tens of gigabytes needn't be read."""
    blob = path.resolve().name
    named = len(blob) == 64 and not set(blob) - set("0123456789abcdef")
    return blob if named else sha256_file(path)


def sha256_json(value: Any) -> str:
    """Hex sha256 of a JSON value in canonical form; names a config or a record by content."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
