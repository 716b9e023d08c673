"""Measure a trained model, save it as an ordinary `from_pretrained` folder, enter the manifest."""

import json
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from cast.manifest import drop_entry, write_entry
from cast.mini.zoo.loop import LoopConfig

LIBRARIES = ("torch", "diffusers", "transformers", "tokenizers", "numpy")


def save_folder(target: Path, save: Any) -> None:
    """Let `save(folder)` write into a temporary folder, then put it in the target's place."""
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    save(temporary)
    for file in temporary.rglob("*.json"):
        _strip_paths(file)
    drop_entry(target)
    shutil.rmtree(target, ignore_errors=True)
    temporary.replace(target)


def _strip_paths(file: Path) -> None:
    """Drop `_name_or_path`-like entries: a saved model must not remember where it was made."""
    value = json.loads(file.read_text())
    if isinstance(value, dict) and "_name_or_path" in value:
        del value["_name_or_path"]
        file.write_text(json.dumps(value, indent=2) + "\n")


def enter(
    target: Path, stages: dict[str, LoopConfig], seconds: float, metrics: dict[str, Any], count: int
) -> None:
    """Write the model's manifest entry: training, cost, quality, versions and file hashes."""
    write_entry(
        target,
        {
            "parameters": count,
            "training": {name: asdict(config) for name, config in stages.items()},
            "images_seen": {name: c.steps * c.batch for name, c in stages.items()},
            "wall_seconds": round(seconds),
            "metrics": metrics,
            "versions": {name: version(name) for name in LIBRARIES},
            "licence": "Apache-2.0; trained on scenes rendered by this package alone",
        },
    )


def parameters(*modules: nn.Module) -> int:
    """Number of weights."""
    return sum(p.numel() for module in modules for p in module.parameters())
