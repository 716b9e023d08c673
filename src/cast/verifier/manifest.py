"""Which image belongs to which prompt: GenEval 2's manifest, and ours with several seeds.

GenEval 2's is one JSON object from prompt text to image path. Ours gives each prompt an object
from generation seed to path, or a list of paths (then the seeds are 0, 1, ...).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cast.errors import CastError, nearest
from cast.scene_graph import PromptRecord


@dataclass(frozen=True)
class ImageEntry:
    """One image to be scored."""

    record: PromptRecord
    seed: int
    path: Path


def read_manifest(
    path: str | Path, records: Sequence[PromptRecord], root: str | Path | None = None
) -> list[ImageEntry]:
    """Images of a manifest, prompt by prompt in the benchmark's order, seeds in ascending order.

    Relative image paths are read from `root` (default: the manifest's folder). `CastError` for a
    prompt that is not in the benchmark, a prompt that stands there twice, or another form of
    value. Whether the images exist is not checked here.
    """
    path = Path(path)
    folder = Path(root) if root is not None else path.parent
    known = {record.prompt: record for record in records}
    entries: list[ImageEntry] = []
    manifest = _read(path)
    if not manifest:
        raise CastError(f"{path}: names no image.")
    for prompt, value in manifest.items():
        if prompt not in known:
            raise CastError(
                f"{path}: prompt {prompt!r} is not in the benchmark ({len(known)} prompts)."
                + nearest(prompt, known)
            )
        for seed, name in _seeds(path, prompt, value):
            entries.append(ImageEntry(known[prompt], seed, folder / name))
    order = {prompt: index for index, prompt in enumerate(known)}
    return sorted(entries, key=lambda entry: (order[entry.record.prompt], entry.seed))


def _read(path: Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise CastError(f"{path}: {name!r} stands there twice; remove one of them.")
        return dict(pairs)

    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CastError(f"{path}: can't be read as JSON ({error}).") from error
    if not isinstance(value, dict):
        raise CastError(f"{path}: must be one JSON object from prompt to image path.")
    return value


def _seeds(path: Path, prompt: str, value: Any) -> list[tuple[int, str]]:
    if isinstance(value, str):
        return [(0, value)]
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return list(enumerate(value))
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value.values()):
        try:
            return [(int(seed), name) for seed, name in value.items()]
        except ValueError:
            pass
    raise CastError(
        f"{path}: prompt {prompt!r} has {value!r:.80}; allowed are a path, a list of paths, or an "
        "object from seed (a whole number) to path."
    )
