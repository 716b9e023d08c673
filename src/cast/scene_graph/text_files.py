"""Strict reading of text files: every fault names the file, the line and the mend.

Shared by all readers of benchmark files. Nothing is repaired in silence: a byte order mark,
Windows line ends, NUL bytes, a second value for one key or a cut last row are refused, since
each of them has made an evaluator read something other than the benchmark.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cast.errors import CastError, nearest

MAX_LINE_BYTES = 1_000_000  # the longest line of GenEval 2 has 900 bytes


def fault(path: Path, line: int | None, message: str) -> CastError:
    """The error for a place in a file."""
    return CastError(f"{path}{'' if line is None else f', line {line}'}: {message}")


def read_lines(path: str | Path, windows: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text with its line end).

    Raises `CastError` for a folder, a missing or unreadable file, a line over 1 MB, anything but
    UTF-8, a byte order mark, NUL bytes, and Windows line ends unless `windows`.
    """
    path = Path(path)
    try:
        file = path.open("rb")
    except IsADirectoryError as error:
        raise fault(path, None, "is a folder; give the file.") from error
    except FileNotFoundError as error:
        raise fault(path, None, "there is no such file.") from error
    except OSError as error:
        raise fault(path, None, f"can't be opened ({error.strerror}).") from error
    with file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            yield number, _decode(path, number, line, windows)


def _decode(path: Path, number: int, line: bytes, windows: bool) -> str:
    if len(line) > MAX_LINE_BYTES:
        raise fault(path, number, f"is longer than {MAX_LINE_BYTES:,} bytes; split or mend it.")
    if number == 1 and line.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise fault(path, number, "starts with a byte order mark; save as UTF-8 without BOM.")
    if b"\x00" in line:
        raise fault(path, number, "holds NUL bytes; save as UTF-8.")
    if b"\r" in line and not windows:
        raise fault(path, number, "has Windows line ends (CRLF); convert it with `dos2unix`.")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{line[error.start]:02x}"
        raise fault(path, number, f"isn't UTF-8 ({byte}); convert it with `iconv`.") from error


def check_keys(value: dict[str, Any], required: dict[str, type], optional: dict[str, type]) -> None:
    """Raise `CastError` for a missing key, an unknown one, or a value of another type."""
    known = required | optional
    for key, kind in known.items():
        if key not in value:
            if key in required:
                raise CastError(f"{key}: is missing; the keys are {', '.join(known)}.")
        elif type(value[key]) is not kind:
            raise CastError(f"{key}: is {value[key]!r:.80}; it must be of type {kind.__name__}.")
    for key in value:
        if key not in known:
            hint = nearest(key, known)
            raise CastError(f"{key}: is unknown; the keys are {', '.join(known)}.{hint}")


def read_json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON-lines file; each line must be one JSON object."""
    path = Path(path)
    for number, text in read_lines(path):
        if not text.strip():
            raise fault(path, number, "is empty; remove it.")
        try:
            value = json.loads(text, object_pairs_hook=_unique_keys)
        except json.JSONDecodeError as error:
            message = f"isn't JSON ({error.msg} at column {error.colno}); is it cut?"
            raise fault(path, number, message) from error
        except CastError as error:
            raise fault(path, number, str(error)) from error
        if not isinstance(value, dict):
            raise fault(path, number, f"is a JSON {type(value).__name__}; it must be an object.")
        yield number, value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise CastError(f"key {twice[0]!r} is given twice; keep one.")
    return value


def read_csv_rows(
    path: str | Path, header: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a CSV file with exactly these columns.

    Windows line ends are allowed, since CSV's own standard asks for them. A last line without
    its line end is refused: nothing else would show that its text is cut.
    """
    path = Path(path)
    last = (0, "\n")

    def text() -> Iterator[str]:
        nonlocal last
        for last in read_lines(path, windows=True):
            yield last[1]

    rows = csv.reader(text(), strict=True)
    try:
        found = tuple(next(rows, ()))
        if found != header:
            message = f"the header is {','.join(found)!r:.200}; it must be {','.join(header)!r}."
            raise fault(path, 1, message)
        for fields in rows:
            if len(fields) != len(header):
                message = f"has {len(fields)} fields; the header names {len(header)}."
                raise fault(path, last[0], message)
            yield last[0], dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise fault(path, last[0], f"isn't CSV ({error}); is it cut?") from error
    if not last[1].endswith("\n"):
        raise fault(path, last[0], "is cut: it has no line end; fetch the file again.")
