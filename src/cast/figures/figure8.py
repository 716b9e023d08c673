"""Figure 8 (paper App. F): which attention heads tell correct images from incorrect ones.

Left, a map of all heads of the first backbone and step (z of the permutation test, reported heads
framed), one row a skill; in the middle, mean sensitivity by step for every backbone; right, the
overlap of the most sensitive heads of every two skills against chance.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cast.config import CastConfig, studied_backbones
from cast.diagnostics.head_test import SKILLS, overlap_table
from cast.diagnostics.studies import study_folder
from cast.errors import CastError
from cast.evidence import write_evidence
from cast.figures.diagnostic_claims import overlapping, shift_in_time
from cast.figures.figure7 import COLOURS, SKILL_COLOURS
from cast.figures.footer import WORLDS, config_name
from cast.figures.style import PAGE, look, new_figure, note, save_figure

JUDGE = "verifier"  # of the figure and the claims; the oracle's tests are in the same tables
LINES = ("-", "--", ":", "-.")
NAMES = {"count": "count", "attribute": "attribute", "position": "spatial relation"}


def read_heads(config: CastConfig, backbone: str, name: str = "heads") -> pd.DataFrame:
    """`heads` or `prompts` of the config's first seed, all judges."""
    folder = study_folder(config, backbone, "heads", config.diagnostics.heads.seeds[0])
    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise CastError(f"{path}: there is no such file; `snakemake {path}` measures it.")
    return pd.read_parquet(path)


def sensitivity_rows(heads: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a backbone, skill and step: tests, reported heads, and the mean z."""
    parts = []
    for name, table in heads.items():
        groups = table.groupby(["judge", "skill", "step"], sort=False)
        rows = groups.agg(heads=("head", "size"), reported=("reported", "sum"), z=("z", "mean"))
        parts.append(rows.reset_index().assign(backbone=name))
    return pd.concat(parts, ignore_index=True)


def figure8(heads: Mapping[str, pd.DataFrame], top: float, foot: Sequence[str]) -> Figure:
    """The three panels, from the tables of `cast.diagnostics.head_sensitivity`."""
    first, table = next(iter(heads.items()))
    steps = sorted(table["step"].unique())
    figure = new_figure(PAGE, 3.6)
    with look():
        halves: Any = figure.subfigures(1, 2, width_ratios=[1.5, 1.0])
        left, right = halves
        maps = left.subplots(len(SKILLS), len(steps), squeeze=False, sharex=True, sharey=True)
        limit = float(np.nanmax(np.abs(table["z"].to_numpy()))) if table["z"].notna().any() else 1.0
        for row, skill in zip(maps, SKILLS, strict=True):
            for axis, step in zip(row, steps, strict=True):
                own = table[(table["skill"] == skill) & (table["step"] == step)]
                image = _draw_map(axis, own, limit)
                if skill == SKILLS[0]:
                    axis.set_title(f"step {step}")
                if step == steps[0]:
                    axis.set_ylabel(f"{NAMES[skill]}\nhead", fontsize=6)
                if skill == SKILLS[-1]:
                    axis.set_xlabel("block", fontsize=6)
        left.colorbar(image, ax=maps, shrink=0.6, label="z", aspect=30)
        left.suptitle(f"Heads of {first}; framed: reported", fontsize=7.5)
        above, below = right.subplots(2, 1)
        _draw_steps(above, heads)
        _draw_overlap(below, heads, top)
        note(figure, foot)
    return figure


def _draw_map(axis: Axes, own: pd.DataFrame, limit: float):
    grid = own.pivot_table("z", "in_block", "block", dropna=False)
    image = axis.imshow(grid, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    told = own[own["reported"]]
    axis.scatter(
        told["block"], told["in_block"], s=14, marker="s", facecolors="none", edgecolors="black",
        linewidths=0.7,
    )  # fmt: skip
    axis.grid(visible=False)
    axis.tick_params(labelsize=5.5)
    return image


def _draw_steps(axis: Axes, heads: Mapping[str, pd.DataFrame]) -> None:
    for number, (name, table) in enumerate(heads.items()):
        means = table.pivot_table("z", "step", "skill")
        for skill in SKILLS:
            if skill in means:
                label = NAMES[skill] if number == 0 else None
                line = LINES[number % len(LINES)]
                axis.plot(
                    means.index, means[skill], line, color=SKILL_COLOURS[skill], label=label,
                    marker=".", markersize=4,
                )  # fmt: skip
        axis.plot([], [], LINES[number % len(LINES)], color="#777777", label=name)
    axis.axhline(0.0, color="#777777", linewidth=0.6)
    axis.set(title="Mean over heads", xlabel="step", ylabel="z")
    axis.legend(fontsize=5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.45))


def _draw_overlap(axis: Axes, heads: Mapping[str, pd.DataFrame], top: float) -> None:
    width, ticks = 0.8 / len(heads), {}
    for number, (name, table) in enumerate(heads.items()):
        for pair in overlap_table(table, top).to_dict("records"):
            title = f"{NAMES[pair['first']]},\n{NAMES[pair['second']]}"
            place = ticks.setdefault(title, len(ticks))
            x = place + (number - (len(heads) - 1) / 2) * width
            axis.bar(
                x, pair["shared"] / pair["top"], width * 0.9, color=COLOURS[number % len(COLOURS)]
            )
            axis.plot(
                [x - width / 2, x + width / 2], [pair["expected"] / pair["top"]] * 2, color="black"
            )
        axis.bar(0, 0, color=COLOURS[number % len(COLOURS)], label=name)
    axis.set_xticks(list(ticks.values()), list(ticks), fontsize=5)
    axis.set(title=f"Top {top:.0%} of heads: shared (line: chance)", ylim=(0, 1))
    axis.grid(visible=False, axis="x")
    axis.legend(fontsize=5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.42))


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Read every studied backbone, write the figure, and what it says of claims C24 and C25."""
    section, names = config.diagnostics.heads, studied_backbones(config)
    everything = {name: read_heads(config, name) for name in names}
    heads = {name: table[table["judge"] == JUDGE] for name, table in everything.items()}
    prompts = {name: read_heads(config, name, "prompts") for name in names}
    by_prompt = {name: table[table["judge"] == JUDGE] for name, table in prompts.items()}
    tested = sum(int(table["p"].notna().sum()) for table in heads.values())
    reported = sum(int(table["reported"].sum()) for table in heads.values())
    foot = [
        WORLDS[config.world],
        f"{section.prompts} hard prompts, {section.images} images each, steps "
        f"{list(section.steps)} of {config.sampling.steps}; correct by the verifier; "
        f"{section.permutations:,} permutations within prompts, Benjamini-Hochberg at "
        f"{section.fdr:g} over all tests of a backbone: {reported} of {tested} reported. Config "
        f"{config_name(config)}.",
    ]
    write_evidence(config, "C24", shift_in_time(by_prompt))
    write_evidence(config, "C25", overlapping(heads, section.top))
    return save_figure(figure8(heads, section.top, foot), stem, sensitivity_rows(everything))
