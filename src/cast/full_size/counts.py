"""Counts of the full-size models, read from counts.json: no model library is imported.

`python -m cast.full_size count` makes that file (see `tables.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cast.config import BackboneConfig
from cast.errors import CastError

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
    """Counts of a full-size backbone; raises `CastError` for a model that isn't in the table or a
    size that doesn't fit its grid."""
    entry = _table().get(config.path)
    if entry is None:
        raise CastError(
            f"config/backbones/{config.name}.yaml: path: {config.path!r}: there are no counts of "
            f"it; known: {', '.join(sorted(_table()))}. Add its config to "
            "src/cast/full_size/shapes.yaml and run `python -m cast.full_size count`."
        )
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
