"""Base of every config section, and how a setting says what it means and what it may be."""

import types
import typing
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo


class Section(BaseModel):
    """A frozen config section: unknown keys, wrong types, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def setting(
    default: Any, meaning: str, *, source: str = "ours", unit: str = "", **limits: Any
) -> Any:
    """A field whose description says meaning, unit and source; `limits` are pydantic's (ge, gt...).

    `default=...` (Ellipsis) makes the key required.
    """
    parts = [meaning.rstrip(".")]
    if unit:
        parts.append(f"Unit: {unit}")
    parts.append(f"Source: {source}")
    return Field(default, description=". ".join(parts) + ".", **limits)


NAME_PATTERN = r"^[a-z0-9][a-z0-9_.-]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Seed = Annotated[int, Field(ge=0, le=2_147_483_647)]

_PLAIN = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "multiple_of": "a multiple of"}


def allowed(field: FieldInfo) -> str:
    """What a field accepts, in words: `a number > 0 and <= 2, or null`."""
    return ", or ".join(_kinds(field.annotation, field.metadata))


def choices(annotation: Any) -> list[str]:
    """The names that a `Literal` (alone or in a union) allows; empty for other annotations."""
    if typing.get_origin(annotation) is Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return [name for part in typing.get_args(annotation) for name in choices(part)]
    return []


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, if it holds one."""
    parts = typing.get_args(annotation) or (annotation,)
    found = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
    return found[0] if found else None


def _kinds(annotation: Any, metadata: list[Any] | None = None) -> list[str]:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    limits = _limits(metadata or [])
    if origin is Annotated:
        inner = [entry for part in parts[1:] for entry in getattr(part, "metadata", [part])]
        return _kinds(parts[0], inner)
    if origin in (Union, types.UnionType):
        first, *rest = [kind for part in parts for kind in _kinds(part)]
        return [first + limits, *rest]
    if origin is Literal:
        return ["one of " + ", ".join(map(str, parts))]
    if origin is dict:
        return [f"a map from names to {_kinds(parts[1])[0]}"]
    if origin is tuple:
        many = "a list" if parts[-1] is Ellipsis else f"a list of {len(parts)}"
        return [f"{many}, each {_kinds(parts[0])[0]}{limits}"]
    if (section := section_of(annotation)) is not None:
        return ["a section with " + ", ".join(section.model_fields)]
    return [_PLAIN.get(annotation, str(annotation)) + limits]


def _limits(metadata: list[Any]) -> str:
    """Bounds, least length and pattern of pydantic's constraints, in words."""
    words = [
        f"{sign} {value}"
        for name, sign in _BOUNDS.items()
        for entry in metadata
        if (value := getattr(entry, name, None)) is not None
    ]
    for entry in metadata:
        if getattr(entry, "min_length", None):
            words.append(f"(at least {entry.min_length} long)")
        if getattr(entry, "pattern", None) == NAME_PATTERN:
            words.append("of lower-case letters, digits, '_', '.', '-'")
    return " " + " and ".join(words) if words else ""
