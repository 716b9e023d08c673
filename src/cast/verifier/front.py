"""Score other people's images from a manifest: resumable, and honest about failures.

Every scored image is appended to a journal beside the output (a hidden `.jsonl` file) and
fsynced; a killed run that is called again scores only what is missing. The journal belongs to
one verifier and one set of probes: for another it is refused. It is removed when all is done.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image
from tqdm import tqdm

from cast.errors import CastError
from cast.io import sha256_file, sha256_json, write_parquet
from cast.verifier.images import load_image
from cast.verifier.manifest import ImageEntry
from cast.verifier.soft_tifa import Verifier


def score_manifest(
    verifier: Verifier,
    entries: Sequence[ImageEntry],
    out: str | Path,
    identity: str,
    progress: bool = True,
) -> tuple[pd.DataFrame, list[str]]:
    """Score every image and write the table; returns it with one line per image that failed.

    Columns: `prompt_id`, `prompt`, `generation_seed`, `atom`, `skill`, `atom_count`, `probe`,
    `answer`, `score` (official answer set), `score_strict`, `image`. Failed images have no rows,
    and a table of none is not written. `identity` names the verifier (weights and dtype).
    """
    out = Path(out)
    key = sha256_json([identity, [[e.record.to_json(), e.seed, str(e.path)] for e in entries]])
    journal = Journal(out.with_name(f".{out.name}.journal.jsonl"), key)
    done, failures = journal.read(), []
    with (
        tqdm(total=len(entries), unit="image", disable=not progress) as bar,
        journal.writing() as write,
    ):
        for _, group in groupby(entries, key=lambda entry: entry.record.prompt_id):
            members = list(group)
            for start in range(0, len(members), verifier.batch):
                chunk = members[start : start + verifier.batch]
                failures += _score_chunk(verifier, chunk, done, write)
                bar.update(len(chunk))
    rows = [row for entry in entries for row in _rows(entry, done.get(_key(entry)))]
    table = pd.DataFrame(rows)
    if rows:
        write_parquet(out, table)
    if not failures:
        journal.remove()
    return table, failures


class Journal:
    """Scores by image, one JSON line each, under a first line that says what they are of."""

    def __init__(self, path: Path, key: str):
        self.path, self.key = path, key

    def read(self) -> dict[str, dict[str, Any]]:
        """Entries written so far; a torn last line is dropped. `CastError` for another run's."""
        if not self.path.is_file():
            return {}
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        if not lines:
            return {}
        if json.loads(lines[0]) != {"key": self.key}:
            raise CastError(
                f"{self.path}: belongs to a run with another verifier, benchmark or manifest. "
                "Choose another --out, or delete this file to start again."
            )
        return {entry["image"]: entry for entry in map(json.loads, lines[1:])}

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Yield a function that appends one entry and makes it durable."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._drop_torn_line()
        with self.path.open("a", encoding="utf-8") as file:

            def write(value: dict[str, Any]) -> None:
                file.write(json.dumps(value) + "\n")
                file.flush()
                os.fsync(file.fileno())

            if file.tell() == 0:
                write({"key": self.key})
            yield write

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _drop_torn_line(self) -> None:
        if self.path.is_file():
            data = self.path.read_bytes()
            if not data.endswith(b"\n"):
                with self.path.open("r+b") as file:
                    file.truncate(data.rfind(b"\n") + 1)


def _key(entry: ImageEntry) -> str:
    return f"{entry.record.prompt_id}/{entry.seed}"


def _score_chunk(
    verifier: Verifier, chunk: list[ImageEntry], done: dict[str, dict[str, Any]], write: Any
) -> list[str]:
    """Score what the journal lacks (or holds of other bytes); returns the failures' messages."""
    fresh: list[tuple[ImageEntry, str, Image.Image]] = []
    failures = []
    for entry in chunk:
        try:
            image = load_image(entry.path)
            digest = sha256_file(entry.path)
            if done.get(_key(entry), {}).get("sha256") == digest:
                continue
            verifier.check_image(image, str(entry.path))
            fresh.append((entry, digest, image))
        except CastError as error:
            done.pop(_key(entry), None)
            failures.append(str(error))
    if fresh:
        images = [image for _, _, image in fresh]
        strict, official = verifier.score_modes(images, chunk[0].record)
        for index, (entry, digest, _) in enumerate(fresh):
            scores = {"official": official[index].tolist(), "strict": strict[index].tolist()}
            done[_key(entry)] = {"image": _key(entry), "sha256": digest, **scores}
            write(done[_key(entry)])
    return failures


def _rows(entry: ImageEntry, scored: dict[str, Any] | None) -> list[dict[str, Any]]:
    if scored is None:
        return []
    return [
        {
            "prompt_id": entry.record.prompt_id,
            "prompt": entry.record.prompt,
            "generation_seed": entry.seed,
            "atom": k,
            "skill": atom.skill,
            "atom_count": entry.record.atom_count,
            "probe": atom.probe,
            "answer": atom.answer,
            "score": scored["official"][k],
            "score_strict": scored["strict"][k],
            "image": str(entry.path),
        }
        for k, atom in enumerate(entry.record.atoms)
    ]
