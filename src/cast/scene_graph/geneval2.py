"""GenEval 2's file format: one JSON object a line, with every prompt read back into its graph.

    {"prompt": ..., "atom_count": ..., "vqa_list": [[probe, answer], ...], "skills": [...]}

A line is accepted only when the graph that its prompt states renders to exactly its probes,
answers, skills and atom count; so a record read from a file and one that was sampled are alike.
"""

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cast.errors import CastError
from cast.io import sha256_file, write_text
from cast.scene_graph.graph import SKILLS, PromptRecord
from cast.scene_graph.parsing import parse_prompt
from cast.scene_graph.rendering import render_prompt
from cast.scene_graph.text_files import check_keys, fault, read_json_lines
from cast.scene_graph.vocabulary import Vocabulary

KEYS: dict[str, type] = {"prompt": str, "atom_count": int, "vqa_list": list, "skills": list}


class BenchmarkVersionWarning(UserWarning):
    """The file was read, but isn't the published version of its benchmark."""


def read_geneval2(path: str | Path, vocabulary: Vocabulary) -> list[PromptRecord]:
    """Read a file of GenEval 2's format; the records are in the file's order.

    Raises `CastError` naming file, line, key and mend for anything that isn't the format or that
    the vocabulary's grammar would not render. Warns where the vocabulary belongs to a published
    benchmark and the file has another sha256.
    """
    path = Path(path)
    records: list[PromptRecord] = []
    seen: dict[str, int] = {}
    for number, value in read_json_lines(path):
        try:
            record = record_of(value, vocabulary)
        except CastError as error:
            raise fault(path, number, str(error)) from error
        if record.prompt in seen:
            first = seen[record.prompt]
            raise fault(path, number, f"prompt: repeats line {first}; remove one of them.")
        seen[record.prompt] = number
        records.append(record)
    if not records:
        raise fault(path, None, "holds no prompt.")
    published = vocabulary.benchmark_sha256
    if published is not None and sha256_file(path) != published:
        message = f"{path}: isn't the published {vocabulary.name} file (sha256 {published})."
        warnings.warn(message, BenchmarkVersionWarning, stacklevel=2)
    return records


def record_of(value: dict[str, Any], vocabulary: Vocabulary) -> PromptRecord:
    """The record of one line; raises `CastError` naming the key that disagrees."""
    _check_form(value, vocabulary)
    try:
        graph = parse_prompt(value["prompt"], vocabulary)
    except CastError as error:
        raise CastError(f"prompt: {error}") from error
    correct = render_prompt(graph, vocabulary, "correct")
    record = render_prompt(graph, vocabulary, "benchmark")
    if _line(correct) == value:
        return correct
    # The message compares with the English that the prompt is written in.
    if correct.prompt == value["prompt"] and record.prompt != value["prompt"]:
        record = correct
    for key, expected in _line(record).items():
        if expected != value[key]:
            raise CastError(f"{key}: is {_shortest_difference(value[key], expected)}")
    return record


def write_geneval2(path: str | Path, records: Iterable[PromptRecord]) -> None:
    """Write records whole, in GenEval 2's format."""
    lines = [json.dumps(_line(record), ensure_ascii=False) + "\n" for record in records]
    write_text(path, "".join(lines))


def _line(record: PromptRecord) -> dict[str, Any]:
    return {
        "prompt": record.prompt,
        "atom_count": record.atom_count,
        "vqa_list": [[atom.probe, atom.answer] for atom in record.atoms],
        "skills": [atom.skill for atom in record.atoms],
    }


def _check_form(value: dict[str, Any], vocabulary: Vocabulary) -> None:
    check_keys(value, KEYS, {})
    if value["atom_count"] < 1:
        raise CastError(f"atom_count: is {value['atom_count']}; it must be 1 or more.")
    probes, skills = value["vqa_list"], value["skills"]
    if not probes:
        raise CastError("vqa_list: is empty; a prompt has at least one probe.")
    if len(probes) != len(skills):
        raise CastError(f"skills: has {len(skills)} entries, vqa_list has {len(probes)}.")
    for skill in skills:
        if skill not in SKILLS:
            known = ", ".join(SKILLS)
            raise CastError(f"skills: {skill!r} is unknown; allowed are {known}.")
    for probe in probes:
        if not (isinstance(probe, list) and [type(part) for part in probe] == [str, str]):
            raise CastError(f"vqa_list: {probe!r:.80} must be a pair [probe, answer] of text.")
        if probe[1] != "Yes" and probe[1] not in vocabulary.counts:
            known = ", ".join(("Yes", *vocabulary.counts))
            raise CastError(f"vqa_list: answer {probe[1]!r} is unknown; allowed are {known}.")


def _shortest_difference(found: Any, expected: Any) -> str:
    """Words for the first place in which two values differ."""
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for index, (a, b) in enumerate(zip(found, expected, strict=True)):
            if a != b:
                return f"{a!r} at entry {index}; the prompt's graph gives {b!r}."
    return f"{found!r:.200}; the prompt's graph gives {expected!r:.200}."
