"""How good the shipped zoo is, read from its manifest, and what falls short of its targets."""

from pathlib import Path
from typing import Any

import pandas as pd

from cast.io import read_json
from cast.paths import from_root

ORACLE = "oracle on the mini benchmark, seeds 100 to 103"
SKILLS = ("object", "attribute", "count", "position", "verb")
# A generator worth fine-tuning draws what is asked most of the time and fails at composition.
LEAST = {"am": 0.70, "object": 0.85, "attribute": 0.85, "solved": 0.10}
MOST = {"am": 0.85}


def models(manifest: Path) -> pd.DataFrame:
    """A row a model: weights, megabytes, images seen in training, minutes of one shared core."""
    rows = {
        name: {
            "parameters": entry["parameters"],
            "MB": round(sum(file["bytes"] for file in entry["files"].values()) / 1e6, 2),
            "images seen": sum(entry["images_seen"].values()),
            "minutes": round(entry["wall_seconds"] / 60),
        }
        for name, entry in read_json(manifest).items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def generators(manifest: Path) -> list[str]:
    """The manifest's models that config/backbones describes."""
    configs = from_root("config/backbones")
    return [name for name in read_json(manifest) if (configs / f"{name}.yaml").exists()]


def by_oracle(manifest: Path) -> pd.DataFrame:
    """A row a generator: AM, its spread over four seeds, the share of images that are solved, and
    the share of true atoms by skill; empty where it wasn't measured so."""
    entries = read_json(manifest)
    tables: dict[str, Any] = {
        name: entries[name]["metrics"].get(ORACLE, {}) for name in generators(manifest)
    }
    return pd.DataFrame(tables, index=["am", "spread", "solved", *SKILLS]).T


def shortfalls(table: pd.DataFrame) -> list[str]:
    """A sentence for each value of `by_oracle` that misses its target or isn't there."""
    missed = []
    for name, row in table.astype(float).iterrows():
        if row.isna().any():
            missed.append(f"{name} isn't measured with four seeds.")
        missed += [
            f"{name}: {key} {row[key]:.2f} is below {bound:.2f}."
            for key, bound in LEAST.items()
            if row[key] < bound
        ]
        missed += [
            f"{name}: {key} {row[key]:.2f} is above {bound:.2f}."
            for key, bound in MOST.items()
            if row[key] > bound
        ]
    return missed
