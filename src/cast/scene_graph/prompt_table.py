"""Prompt sets as Parquet tables, and one reader for them and for benchmark files."""

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from cast.errors import CastError
from cast.io import write_parquet
from cast.paths import from_root
from cast.scene_graph.geneval2 import read_geneval2
from cast.scene_graph.graph import PromptRecord
from cast.scene_graph.parsing import parse_prompt
from cast.scene_graph.text_files import read_json_lines
from cast.scene_graph.vocabulary import Vocabulary
from cast.scene_graph.vocabulary_file import FOLDER, load_vocabulary

COLUMNS = ("prompt_id", "prompt", "atom_count", "canonical", "record")


def write_prompts(path: str | Path, records: Iterable[PromptRecord]) -> None:
    """Write records whole, as Parquet: one row a prompt, the record itself as JSON text."""
    rows = [
        (
            record.prompt_id,
            record.prompt,
            record.atom_count,
            record.graph.canonical(),
            json.dumps(record.to_json(), ensure_ascii=False),
        )
        for record in records
    ]
    write_parquet(path, pd.DataFrame(rows, columns=list(COLUMNS)))


def read_prompts(path: str | Path, vocabulary: Vocabulary | None = None) -> list[PromptRecord]:
    """Read a prompt set: `.parquet` as `write_prompts` writes it, or `.jsonl` as GenEval 2's.

    A `.jsonl` file doesn't say its words: without `vocabulary` it's the one of
    config/vocabularies/ that reads the first prompt. Raises `CastError` naming the file.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        return read_geneval2(path, vocabulary or _vocabulary_of(path))
    if path.suffix != ".parquet":
        raise CastError(f"{path}: is neither .parquet nor .jsonl.")
    try:
        table = pd.read_parquet(path)
    except Exception as error:  # pyarrow raises its own kinds
        raise CastError(f"{path}: can't be read as Parquet ({error}).") from error
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        raise CastError(f"{path}: column {missing[0]!r} is missing; is it a table of prompts?")
    records = []
    for row, text in enumerate(table["record"]):
        try:
            records.append(PromptRecord.from_json(json.loads(text)))
        except (CastError, json.JSONDecodeError, TypeError) as error:
            raise CastError(f"{path}, row {row}: {error}") from error
    return records


def _vocabulary_of(path: Path) -> Vocabulary:
    """The one shipped vocabulary whose grammar reads a file's first prompt."""
    first = next(read_json_lines(path), (1, {}))[1].get("prompt")
    known = [load_vocabulary(file) for file in sorted(from_root(FOLDER).glob("*.yaml"))]
    fitting = [vocabulary for vocabulary in known if _reads(str(first or ""), vocabulary)]
    if len(fitting) != 1:
        names = ", ".join(vocabulary.name for vocabulary in fitting or known)
        number = "more than one vocabulary reads" if fitting else "no vocabulary reads"
        raise CastError(f"{path}, line 1: {number} prompt {first!r:.80} ({names}); name one.")
    return fitting[0]


def _reads(text: str, vocabulary: Vocabulary) -> bool:
    try:
        parse_prompt(text, vocabulary)
    except CastError:
        return False
    return True
