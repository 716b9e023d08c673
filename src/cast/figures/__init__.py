"""Tables and figures: one pure function each, data in, figure out, and one front for the rules.

`make(item, config)` makes one artefact of `ITEMS` from what the workflow left under
`results/{world}` and writes it below `config.figures`: tables as `.pdf` (typst), `.png`, `.tex`
and `.csv`, figures as `.pdf`, `.png` and `.csv`. Regenerating from the same results gives the
same bytes.
"""

from collections.abc import Callable
from pathlib import Path

from cast.config import CastConfig
from cast.errors import CastError, nearest
from cast.figures import (
    claims,
    figure1,
    figure2,
    figure4,
    figure5,
    figure7,
    figure8,
    simulation,
    table1,
    table2,
    table3,
)
from cast.paths import from_root

ITEMS: dict[str, Callable[[CastConfig, Path], list[Path]]] = {
    "table1": table1.make,
    "table2": table2.make,
    "table3": table3.make,
    "figure1": figure1.make,
    "figure2": figure2.make,
    "figure4": figure4.make,
    "figure5": figure5.make,
    "figure6": figure5.make6,
    "figure7": figure7.make,
    "figure8": figure8.make,
    "claims": claims.make,
    "simulation": simulation.make,
}


def make(item: str, config: CastConfig) -> list[Path]:
    """Make one artefact of the config's world; returns the files that were written."""
    if item not in ITEMS:
        known = ", ".join(ITEMS)
        raise CastError(f"figures: there is no {item!r}; known: {known}.{nearest(item, ITEMS)}")
    return ITEMS[item](config, from_root(config.figures) / item)
