"""DSG/DPG and TIFA files: free-text prompts with questions and dependencies.

DSG-1k and DPG-Bench share one CSV (a row a question, answers are always "yes"); TIFA is one
JSON list (an object a question, with choices). Their prompts are outside any grammar, so they
have no scene graph and no spans; what the verifier needs is in `Question`.
"""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cast.errors import CastError
from cast.io import write_text
from cast.scene_graph.graph import PromptRecord
from cast.scene_graph.text_files import check_keys, fault, read_csv_rows, read_lines

DSG_COLUMNS = (
    "item_id",
    "text",
    "keywords",
    "proposition_id",
    "dependency",
    "category_broad",
    "category_detailed",
    "tuple",
    "question_natural_language",
)
_TIFA_KEYS = {
    "id": str,
    "caption": str,
    "question": str,
    "choices": list,
    "answer": str,
    "element_type": str,
    "element": str,
}


@dataclass(frozen=True)
class Question:
    """One question about an image.

    `category` is (broad, detailed) in DSG, (element type, "") in TIFA; `words` DSG's keywords or
    TIFA's element; `number` DSG's proposition id, which may skip numbers; `depends_on` indices
    of questions of the same prompt; `proposition` DSG's tuple.
    """

    probe: str
    answer: str = "yes"
    choices: tuple[str, ...] = ("yes", "no")
    category: tuple[str, str] = ("", "")
    words: str = ""
    number: int = 1
    depends_on: tuple[int, ...] = ()
    proposition: str = ""


@dataclass(frozen=True)
class QuestionPrompt:
    """A free-text prompt and its questions; `image_id` is TIFA's coco_val_id, where given."""

    item_id: str
    prompt: str
    questions: tuple[Question, ...]
    image_id: str | None = None


def read_dsg(path: str | Path) -> list[QuestionPrompt]:
    """Read a DSG-1k or DPG-Bench CSV; raises `CastError` naming file, line, column and mend."""
    path = Path(path)
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for line, row in read_csv_rows(path, DSG_COLUMNS):
        group = groups.setdefault(row["item_id"], [])
        if group and group[0][1]["text"] != row["text"]:
            raise fault(
                path, line, f"text: {row['item_id']!r} has another text on an earlier line."
            )
        group.append((line, row))
    if not groups:
        raise fault(path, None, "holds no question.")
    return [_dsg_prompt(path, item_id, rows) for item_id, rows in groups.items()]


def _dsg_prompt(path: Path, item_id: str, rows: list[tuple[int, dict[str, str]]]) -> QuestionPrompt:
    index_of: dict[int, int] = {}
    for index, (line, row) in enumerate(rows):
        number = _whole(path, line, "proposition_id", row["proposition_id"])
        if number in index_of:
            raise fault(path, line, f"proposition_id: {number} stands twice for {item_id!r}.")
        index_of[number] = index
    questions = []
    for line, row in rows:
        if not row["question_natural_language"].strip():
            raise fault(path, line, "question_natural_language: is empty.")
        parents = [_whole(path, line, "dependency", p) for p in row["dependency"].split(",")]
        own = int(row["proposition_id"])
        for parent in parents:
            if parent == own or (parent and parent not in index_of):
                known = ", ".join(str(n) for n in index_of if n != own) or "none"
                message = f"dependency: {parent} isn't another question; allowed are 0 and {known}."
                raise fault(path, line, message)
        question = Question(
            probe=row["question_natural_language"],
            category=(row["category_broad"], row["category_detailed"]),
            words=row["keywords"],
            number=own,
            depends_on=tuple(index_of[parent] for parent in parents if parent),
            proposition=row["tuple"],
        )
        questions.append(question)
    return QuestionPrompt(item_id, rows[0][1]["text"], tuple(questions))


def _whole(path: Path, line: int, key: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise fault(path, line, f"{key}: is {text!r}; it must be a whole number.")
    return int(text)


def write_dsg(path: str | Path, prompts: Iterable[QuestionPrompt]) -> None:
    """Write the CSV of DSG-1k and DPG-Bench whole. Only yes questions can be written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(DSG_COLUMNS)
    for prompt in prompts:
        for question in prompt.questions:
            if question.answer.lower() != "yes":
                raise CastError(
                    f"{prompt.item_id}: {question.probe!r} is answered {question.answer!r}; DSG "
                    "holds yes questions only."
                )
            parents = [prompt.questions[index].number for index in question.depends_on]
            dependency = ",".join(map(str, parents)) or "0"
            row = (prompt.item_id, prompt.prompt, question.words, question.number, dependency)
            writer.writerow((*row, *question.category, question.proposition, question.probe))
    write_text(path, text.getvalue())


def read_tifa(path: str | Path) -> list[QuestionPrompt]:
    """Read a TIFA question file; raises `CastError` naming file, entry, key and mend."""
    path = Path(path)
    try:
        entries = json.loads("".join(text for _, text in read_lines(path)))
    except json.JSONDecodeError as error:
        raise fault(path, error.lineno, f"isn't JSON ({error.msg}); is it cut?") from error
    if not isinstance(entries, list) or not entries:
        raise fault(path, None, "must be a JSON list of questions, at least one.")
    groups: dict[str, list[dict[str, Any]]] = {}
    for number, entry in enumerate(entries):
        try:
            _check_tifa(entry)
            group = groups.setdefault(entry["id"], [])
            if group and group[0]["caption"] != entry["caption"]:
                raise CastError(
                    f"caption: {entry['id']!r} has another caption in an earlier entry."
                )
            group.append(entry)
        except CastError as error:
            raise fault(path, None, f"entry {number}: {error}") from error
    return [_tifa_prompt(group) for group in groups.values()]


def _check_tifa(entry: Any) -> None:
    if not isinstance(entry, dict):
        raise CastError(f"{entry!r:.80} must be an object.")
    check_keys(entry, _TIFA_KEYS, {"coco_val_id": str})
    choices = entry["choices"]
    if not all(isinstance(choice, str) for choice in choices):
        raise CastError(f"choices: {choices!r:.80} must be text.")
    if entry["answer"] not in choices:
        raise CastError(f"answer: {entry['answer']!r} isn't among the choices {choices!r:.200}.")


def _tifa_prompt(group: list[dict[str, Any]]) -> QuestionPrompt:
    questions = tuple(
        Question(
            probe=entry["question"],
            answer=entry["answer"],
            choices=tuple(entry["choices"]),
            category=(entry["element_type"], ""),
            words=entry["element"],
            number=number,
        )
        for number, entry in enumerate(group, start=1)
    )
    first = group[0]
    return QuestionPrompt(first["id"], first["caption"], questions, first.get("coco_val_id"))


def write_tifa(path: str | Path, prompts: Iterable[QuestionPrompt]) -> None:
    """Write a TIFA question file whole; dependencies aren't part of the format."""
    entries = []
    for prompt in prompts:
        for question in prompt.questions:
            entry = {
                "id": prompt.item_id,
                "caption": prompt.prompt,
                "question": question.probe,
                "choices": list(question.choices),
                "answer": question.answer,
                "element_type": question.category[0],
                "element": question.words,
            }
            if prompt.image_id is not None:
                entry["coco_val_id"] = prompt.image_id
            entries.append(entry)
    write_text(path, json.dumps(entries, indent=4, ensure_ascii=False) + "\n")


def questions_of(record: PromptRecord, count_words: tuple[str, ...]) -> QuestionPrompt:
    """A record's probes as questions; the choices of a count probe are `count_words`."""
    questions = []
    for number, atom in enumerate(record.atoms, start=1):
        counting = atom.skill == "count"
        start, end = atom.spans[0]
        question = Question(
            probe=atom.probe,
            answer=atom.answer if counting else atom.answer.lower(),
            choices=count_words if counting else ("yes", "no"),
            category=(atom.skill, ""),
            words=record.prompt[start:end],
            number=number,
            depends_on=atom.depends_on,
        )
        questions.append(question)
    return QuestionPrompt(record.prompt_id, record.prompt, tuple(questions))
