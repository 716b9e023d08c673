"""The commented YAML and the JSON schema, generated from the sections."""

import json
import textwrap
from typing import Any

from pydantic import BaseModel

from cast.config.model import allowed
from cast.config.sections import CastConfig

_HEADER = """\
# Settings of the mini world, and the default of every setting: `make reproduce` reads this file.
# Generated from src/cast/config/sections.py by `python -m cast.config write`: change it there.
# Your own config may leave out what it doesn't change:
#   snakemake paper_figures/table1.pdf --configfile mine.yaml
# "Paper" is the paper's summary, "peers" are the public trainers, "ours" is what both leave open.

"""


def default_yaml() -> str:
    """`config/mini.yaml`: every setting at its default, with meaning, range and source."""
    return _HEADER + _section_yaml(CastConfig(), indent=0)


def schema_json() -> str:
    """`config/schema.json`: the JSON schema of a world's config, for editors."""
    return json.dumps(CastConfig.model_json_schema(), indent=2) + "\n"


def _section_yaml(section: BaseModel, indent: int) -> str:
    lines: list[str] = []
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        if isinstance(value, BaseModel):
            note = (type(value).__doc__ or "").strip().splitlines()[0]
            lines += ["", *_comment(note, indent), f"{' ' * indent}{key}:"]
            lines.append(_section_yaml(value, indent + 2).rstrip("\n"))
            continue
        meaning = (field.description or "").removesuffix(".")
        lines += _comment(f"{meaning}. Allowed: {allowed(field)}.", indent)
        lines.append(f"{' ' * indent}{key}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: int) -> list[str]:
    margin = " " * indent + "# "
    return textwrap.wrap(text, 100, initial_indent=margin, subsequent_indent=margin)


def _scalar(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_scalar, value)) + "]"
    if isinstance(value, float) and 0 < abs(value) < 1e-3:
        return f"{value:.1e}"  # `1.0e-05`: a number for every YAML reader, unlike `1e-05`
    return value if isinstance(value, str) else json.dumps(value)
