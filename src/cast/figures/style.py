"""One look for all figures: seaborn, colour-blind safe, readable in print at column width."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from cast.io import write_text, written_whole

COLUMN = 3.3  # inches: one column of a two-column page
PAGE = 6.9  # inches: the full width of a page
DPI = 200

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.4,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "cast",
}

# One colour and marker for each method, the same in every figure (Okabe-Ito's palette, which
# readers with any colour vision tell apart, but for its yellow, too pale for a line; the markers
# serve grey prints).
METHOD_COLOURS = {
    "base": "#000000",
    "sft_3_64": "#E69F00",
    "sft_1_16": "#882255",
    "flow_grpo_g1": "#56B4E9",
    "flow_grpo_g2": "#0072B2",
    "per_atom": "#CC79A7",
    "aggregate_map": "#009E73",
    "shuffled_map": "#999999",
    "cast": "#D55E00",
}
METHOD_MARKERS = {
    "base": "o",
    "sft_3_64": "v",
    "sft_1_16": "^",
    "flow_grpo_g1": "s",
    "flow_grpo_g2": "D",
    "per_atom": "P",
    "aggregate_map": "h",
    "shuffled_map": "X",
    "cast": "*",
}
FOR, AGAINST = "#0072B2", "#D55E00"  # signed maps: credit for and against


def method_colour(method: str) -> str:
    """A method's colour; one that isn't listed (a reader's own) gets one from its name."""
    spare = sns.color_palette("colorblind", 10).as_hex()
    return METHOD_COLOURS.get(method) or str(spare[sum(method.encode()) % len(spare)])


def new_figure(width: float = COLUMN, height: float = 2.2) -> Figure:
    """An empty figure in the house's look; `width` and `height` in inches."""
    # No pyplot: it keeps every figure alive and picks a backend.
    with matplotlib.rc_context(_rc()):
        return Figure(figsize=(width, height), layout="constrained")


def _rc() -> Any:
    return {**sns.axes_style("whitegrid"), **sns.plotting_context("paper"), **RC}


@contextmanager
def look() -> Iterator[None]:
    """Context in which axes are drawn and saved, so that the caller's settings don't leak in."""
    with matplotlib.rc_context(_rc()):
        yield


def save_figure(figure: Figure, stem: Path, data: pd.DataFrame) -> list[Path]:
    """Write `stem.pdf`, `.png` and `.csv`, the same bytes for the same figure and data."""
    written = [stem.with_suffix(suffix) for suffix in (".pdf", ".png", ".csv")]
    with look():
        for path, metadata in zip(written[:2], (PDF_METADATA, PNG_METADATA), strict=True):
            with written_whole(path) as temporary:
                figure.savefig(temporary, format=path.suffix[1:], dpi=DPI, metadata=metadata)
    write_csv(written[2], data)
    return written


PDF_METADATA = {"CreationDate": None, "Producer": None, "Creator": None}
PNG_METADATA = {"Software": None}


def write_csv(path: Path, table: pd.DataFrame, digits: int = 6) -> None:
    """Write a table as CSV, numbers to `digits` decimals, lines ended by a single newline."""
    write_text(path, table.to_csv(index=False, float_format=f"%.{digits}f", lineterminator="\n"))


def note(figure: Figure, lines: Sequence[str]) -> None:
    """Say below the figure in which world it was made; long lines are broken to its width."""
    fitting = int(figure.get_figwidth() * 22)  # characters at this size
    text = "\n".join(fill(line, fitting) for line in lines)
    figure.supxlabel(text, fontsize=5.5, color="#555555")
