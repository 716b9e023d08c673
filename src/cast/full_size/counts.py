"""Counts of backbones. Those of the full-size models are read from counts.json, and no model
library is imported; `python -m cast.full_size count` makes that file (see `tables.py`). A small
local model is loaded and counted (see `local.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from cast.config import BackboneConfig, is_local
from cast.errors import CastError
from cast.paths import from_root

SHAPES = Path(__file__).with_name("shapes.yaml")
COUNTS = Path(__file__).with_name("counts.json")


@dataclass(frozen=True)
class BackboneCounts:
    """One backbone at one image size. Operations are floating-point ones for one image.

    `step`: one sampler step, guidance included. `update`: a replayed transition's forward pass,
    its recomputation (gradient checkpointing) and backward pass. `activations`: peak bytes of an
    update for each image of a micro-batch, gradients apart.
    """

    tokens: int
    channels: int
    step: float
    update: float
    decode: float
    activations: float
    parameters: Mapping[str, int]
    lora_modules: int
    lora_parameters_per_rank: int
    conditioning_bytes: int


@cache
def _table() -> dict[str, Any]:
    return json.loads(COUNTS.read_text(encoding="utf-8"))  # cast.io would import torch


def backbone_counts(config: BackboneConfig, height: int, width: int) -> BackboneCounts:
    """Counts of a backbone, by its hub id or of its local folder.

    Raises `CastError` for a model that isn't in the table and can't be counted here, or a size that
    doesn't fit its grid.
    """
    table = _table()
    entry = table.get(config.path)
    if entry is None and is_local(config.path):
        entry = _copy_of(local_parameters(config), table)
        if entry is None:
            from cast.full_size.local import count_local  # it imports the model libraries

            return count_local(config, height, width)
    if entry is None:
        raise CastError(
            f"config/backbones/{config.name}.yaml: path: {config.path!r}: there are no counts of "
            f"it; known: {', '.join(sorted(table))}. Add its config to "
            "src/cast/full_size/shapes.yaml and run `python -m cast.full_size count`."
        )
    return _at_size(entry, config, height, width)


def local_parameters(config: BackboneConfig) -> int:
    """Numbers in the transformer's weight files of a local folder, from their headers."""
    files = sorted(from_root(config.path).glob("transformer/*.safetensors"))
    if not files:
        raise CastError(
            f"config/backbones/{config.name}.yaml: path: {config.path!r}: there are no weights in "
            "its folder transformer; place the model there (`snakemake zoo` trains the minis)."
        )
    total = 0
    for file in files:
        with file.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        total += sum(prod(part["shape"]) for name, part in header.items() if name != "__metadata__")
    return total


def _copy_of(parameters: int, table: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of the known model that has exactly so many parameters: a folder is its copy."""
    same = (e for e in table.values() if e["parameters"]["transformer"] == parameters)
    return next(same, None)


def _at_size(
    entry: Mapping[str, Any], config: BackboneConfig, height: int, width: int
) -> BackboneCounts:
    pixels = entry["token_pixels"]
    if height % pixels or width % pixels:
        raise CastError(
            f"sampling: {height}x{width} pixels don't fit {config.name}; height and width must be "
            f"multiples of {pixels}."
        )
    tokens = (height // pixels) * (width // pixels)

    def at(name: str) -> float:
        return sum(c * tokens**power for power, c in enumerate(entry[name]))

    return BackboneCounts(
        tokens=tokens,
        channels=entry["latent_channels"],
        step=at("step_operations"),
        update=at("update_operations"),
        decode=at("decode_operations"),
        activations=at("activation_bytes"),
        parameters=entry["parameters"],
        lora_modules=entry["lora_modules"],
        lora_parameters_per_rank=entry["lora_parameters_per_rank"],
        conditioning_bytes=entry["conditioning_bytes"],
    )
