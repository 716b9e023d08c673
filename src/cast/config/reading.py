"""YAML into sections: every fault ends in one `CastError` line that names how to mend it."""

import json
import re
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cast.config.model import allowed, choices, section_of
from cast.errors import CastError, nearest

Model = TypeVar("Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain types: `3e-4` is a number, `no` is text, a key given twice is refused."""

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 (the loader's own table)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            line = node.start_mark.line + 1
            raise CastError(f"{node.start_mark.name}, line {line}: {min(twice)} is given twice.")
        return super().construct_mapping(node, deep=True)


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|)$", ["~", "n", ""]),
    ("bool", r"^(?:true|false)$", ["t", "f"]),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    (
        "float",
        r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
        list("-+.0123456789"),
    ),
    ("float", r"^(?:[-+]?\.(?:inf|nan))$", list("-+.")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds; an empty file is an empty mapping."""
    try:
        with path.open(encoding="utf-8") as file:
            value = yaml.load(file, _Loader)
    except OSError as error:
        raise CastError(f"{path}: can't be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise CastError(f"{path}: is not UTF-8 text.") from error
    except yaml.YAMLError as error:
        raise CastError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CastError(f"{path}: must hold keys and values, not {type(value).__name__}.")
    return value


def as_written(value: Any) -> Any:
    """Settings of Snakemake's command line: nested numbers arrive as text; as YAML has them."""
    if isinstance(value, dict):
        return {key: as_written(below) for key, below in value.items()}
    if isinstance(value, list):
        return [as_written(below) for below in value]
    try:
        read = yaml.load(value, _Loader) if isinstance(value, str) else value
    except yaml.YAMLError:
        return value
    return read if isinstance(read, bool | int | float | None) else value


def parse(model: type[Model], values: Any, place: str) -> Model:
    """`values` as a `model`; the first fault raises `CastError`, naming `place` and the key."""
    try:
        return model.model_validate_json(json.dumps(values))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        more = f" ({len(faults) - 1} more after this one.)" if len(faults) > 1 else ""
        raise CastError(f"{place}: {_sentence(model, faults[0])}{more}") from error
    except (TypeError, ValueError) as error:
        raise CastError(f"{place}: holds a value that a config can't hold ({error}).") from error


def _sentence(model: type[BaseModel], fault: ErrorDetails) -> str:
    """`training.group_size = 1: must be a whole number >= 2.` and the nearest known name."""
    section, field, key = _walk(model, fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = list(section.model_fields)
        hint = nearest(str(fault["loc"][-1]), known)
        return f"{key}: unknown key; allowed here: {', '.join(known)}.{hint}"
    if fault["type"] == "missing":
        return f"{key}: is missing; must be {allowed(field)}." if field else f"{key}: is missing."
    value = json.dumps(fault["input"], ensure_ascii=False)
    if fault["type"] == "value_error":
        return f"{key + ': ' if key else ''}{str(fault['msg']).removeprefix('Value error, ')}."
    if field is None:
        return f"must hold keys and values, not {value}."
    hint = nearest(str(fault["input"]), choices(field.annotation))
    return f"{key} = {value}: must be {allowed(field)}.{hint}"


def _walk(
    model: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[type[BaseModel], FieldInfo | None, str]:
    """The section and the field at a location, and its key with dots: `training.betas[1]`."""
    section, field, key = model, None, ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
            continue
        key += f".{part}" if key else str(part)
        if field is not None and typing.get_origin(field.annotation) is dict:
            continue  # a name in a map
        if field is not None and (inner := section_of(field.annotation)) is not None:
            section = inner
        field = section.model_fields.get(part)
    return section, field, key
