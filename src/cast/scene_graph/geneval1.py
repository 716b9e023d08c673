"""GenEval 1's evaluation_metadata.jsonl: what an object detector should find in the image.

    {"tag": "position", "include": [{"class": "dog", "count": 1},
     {"class": "tie", "count": 1, "position": ["right of", 0]}], "prompt": ...}

`include` is a scene graph with open-vocabulary nouns; `exclude` (counting prompts) names counts
that must not be reached. There are no probes, so this is a record of its own.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cast.errors import CastError, nearest
from cast.io import write_text
from cast.scene_graph.graph import Entity, PromptRecord, Relation, SceneGraph
from cast.scene_graph.text_files import check_keys, fault, read_json_lines

TAGS = ("single_object", "two_object", "counting", "colors", "position", "color_attr")


@dataclass(frozen=True)
class GenEval1Prompt:
    """One line: entities in the file's order (a relation's object may precede its subject)."""

    prompt: str
    tag: str
    graph: SceneGraph
    exclude: tuple[tuple[str, int], ...] = ()  # (noun, count that must not be reached)


def read_geneval1(path: str | Path) -> list[GenEval1Prompt]:
    """Read a metadata file; raises `CastError` naming file, line, key and mend."""
    path = Path(path)
    prompts = []
    for number, value in read_json_lines(path):
        try:
            prompts.append(_prompt(value))
        except CastError as error:
            raise fault(path, number, str(error)) from error
    if not prompts:
        raise fault(path, None, "holds no prompt.")
    return prompts


def write_geneval1(path: str | Path, prompts: Iterable[GenEval1Prompt]) -> None:
    """Write a metadata file whole."""
    write_text(path, "".join(json.dumps(_line(prompt)) + "\n" for prompt in prompts))


def geneval1_of(record: PromptRecord) -> GenEval1Prompt:
    """A record in GenEval 1's terms; its tag is the nearest of the six, and the prompt stays."""
    graph = record.graph
    skills = {atom.skill for atom in record.atoms}
    if skills & {"position", "verb"}:
        tag = "position"
    elif "attribute" in skills:
        tag = "colors" if len(graph.entities) == 1 else "color_attr"
    elif any(entity.count > 1 for entity in graph.entities):
        tag = "counting"
    else:
        tag = "single_object" if len(graph.entities) == 1 else "two_object"
    exclude = tuple((e.noun, e.count + 1) for e in graph.entities) if tag == "counting" else ()
    return GenEval1Prompt(record.prompt, tag, graph, exclude)


def _prompt(value: dict[str, Any]) -> GenEval1Prompt:
    check_keys(value, {"tag": str, "include": list, "prompt": str}, {"exclude": list})
    if value["tag"] not in TAGS:
        hint = nearest(value["tag"], TAGS)
        raise CastError(f"tag: is {value['tag']!r}; allowed are {', '.join(TAGS)}.{hint}")
    if not value["prompt"].strip():
        raise CastError("prompt: is empty.")
    entities, relations = [], []
    for index, item in enumerate(value["include"]):
        _check_item("include", item, {"color": str, "position": list})
        entities.append(Entity(item["class"], item["count"], item.get("color")))
        if "position" in item:
            position = item["position"]
            if [type(part) for part in position] != [str, int]:
                raise CastError(f"include: position is {position!r}; it must be [text, index].")
            relations.append(Relation(index, position[0], position[1]))
    excluded = value.get("exclude", [])
    for item in excluded:
        _check_item("exclude", item, {"color": str})
    try:
        graph = SceneGraph(tuple(entities), tuple(relations))
    except CastError as error:
        raise CastError(f"include: {error}") from error
    exclude = tuple((item["class"], item["count"]) for item in excluded)
    return GenEval1Prompt(value["prompt"], value["tag"], graph, exclude)


def _check_item(key: str, item: Any, optional: dict[str, type]) -> None:
    if not isinstance(item, dict):
        raise CastError(f"{key}: {item!r:.80} must be an object.")
    try:
        check_keys(item, {"class": str, "count": int}, optional)
    except CastError as error:
        raise CastError(f"{key}: {error}") from error
    if item["count"] < 1:
        raise CastError(f"{key}: count is {item['count']}; it must be 1 or more.")


def _line(prompt: GenEval1Prompt) -> dict[str, Any]:
    include: list[dict[str, Any]] = []
    for index, entity in enumerate(prompt.graph.entities):
        item: dict[str, Any] = {"class": entity.noun, "count": entity.count}
        if entity.attribute is not None:
            item["color"] = entity.attribute
        for edge in prompt.graph.relations:
            if edge.subject == index:
                item["position"] = [edge.relation, edge.object]
        include.append(item)
    line: dict[str, Any] = {"tag": prompt.tag, "include": include}
    if prompt.exclude:
        line["exclude"] = [{"class": noun, "count": count} for noun, count in prompt.exclude]
    return line | {"prompt": prompt.prompt}
