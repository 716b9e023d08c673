"""How good the shipped zoo is, read from its manifest, and what falls short of its targets."""

from pathlib import Path
from typing import Any

import pandas as pd

from cast.io import read_json

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
    return pd.DataFrame(rows).T


def by_oracle(manifest: Path) -> pd.DataFrame:
    """A row a generator: AM, its spread over four seeds, the share of images that are solved, and
    the share of true atoms by skill."""
    tables: dict[str, Any] = {
        name: entry["metrics"][ORACLE]
        for name, entry in read_json(manifest).items()
        if ORACLE in entry["metrics"]
    }
    return pd.DataFrame(tables).T[["am", "spread", "solved", *SKILLS]]


def shortfalls(table: pd.DataFrame) -> list[str]:
    """A sentence for each value of `by_oracle` that misses its target."""
    missed = []
    for name, row in table.iterrows():
        for bounds, word in ((LEAST, "below"), (MOST, "above")):
            for key, bound in bounds.items():
                if (row[key] < bound) if word == "below" else (row[key] > bound):
                    missed.append(f"{name}: {key} {row[key]:.2f} is {word} {bound:.2f}.")
    return missed
