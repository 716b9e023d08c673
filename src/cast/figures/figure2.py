"""Figure 2 (paper 3.2, 3.3): preference scores saturate, atom scores don't, and they disagree.

Left, the distribution of both scores pooled over backbones; in the middle, within each; right, how
often both rank two images of one prompt alike, with prompt-level standard deviations (the paper's
bars) and 95% intervals, against chance.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cast.config import CastConfig, studied_backbones
from cast.diagnostics.rank_agreement import CHANCE
from cast.diagnostics.saturation import (
    KINDS,
    agreement_table,
    read_saturation,
    spread_table,
)
from cast.evidence import write_evidence
from cast.figures.diagnostic_claims import agreeing, saturated, wider
from cast.figures.footer import WORLDS, config_name
from cast.figures.style import PAGE, look, new_figure, note, save_figure

COLOURS = {"preference": "#E69F00", "atoms": "#0072B2"}
TURNED = {"fontsize": 5.5, "rotation": 30, "ha": "right", "rotation_mode": "anchor"}
NAMES = {"preference": "PickScore", "atoms": "atom scores"}
SIMULATED = (
    "The mini preference model learned from a simulated annotator who looks mostly at rendering "
    "quality."
)


def figure2(
    images: pd.DataFrame, spreads: pd.DataFrame, agreements: pd.DataFrame, foot: Sequence[str]
) -> Figure:
    """The three panels, from the tables of `cast.diagnostics.saturation`."""
    figure = new_figure(PAGE, 2.7)
    with look():
        axes = figure.subplots(1, 3, width_ratios=[1.0, 1.3, 1.0])
        _draw_pooled(axes[0], images, spreads)
        _draw_within(axes[1], images, spreads)
        _draw_agreement(axes[2], agreements)
        note(figure, foot)
    return figure


def _draw_pooled(axis: Axes, images: pd.DataFrame, spreads: pd.DataFrame) -> None:
    low = min(0.0, float(images[list(KINDS)].to_numpy().min()))
    high = max(1.0, float(images[list(KINDS)].to_numpy().max()))
    bins = np.linspace(low, high, 41).tolist()
    pooled = spreads[spreads["backbone"] == "pooled"].set_index("score")
    for kind in KINDS:
        label = f"{NAMES[kind]}: CoV {pooled['cov'][kind]:.3f}"
        axis.hist(images[kind], bins=bins, color=COLOURS[kind], alpha=0.6, label=label, lw=0)
    axis.set(title="All backbones", xlabel="score", ylabel="images")
    axis.set_ylim(top=axis.get_ylim()[1] * 1.25)  # room for the legend
    axis.legend(fontsize=5.5, loc="upper left")


def _draw_within(axis: Axes, images: pd.DataFrame, spreads: pd.DataFrame) -> None:
    names = list(dict.fromkeys(images["backbone"]))
    for place, kind in enumerate(KINDS):
        positions = [number + (place - 0.5) * 0.36 for number in range(len(names))]
        groups = [images.loc[images["backbone"] == name, kind].to_numpy() for name in names]
        boxes = axis.boxplot(
            groups, positions=positions, widths=0.3, patch_artist=True, showfliers=False
        )
        for box in boxes["boxes"]:
            box.set(facecolor=COLOURS[kind], alpha=0.6, linewidth=0.6)
        for line in boxes["medians"]:
            line.set(color="black", linewidth=0.8)
        table = spreads[spreads["score"] == kind].set_index("backbone")
        for position, name in zip(positions, names, strict=True):
            text = f"{table['mean'][name]:.2f}\n{table['cov'][name]:.2f}"
            axis.annotate(
                text, (position, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top",
                fontsize=4.5,
            )  # fmt: skip
    axis.set_ylim(top=axis.get_ylim()[1] + 0.25 * np.ptp(axis.get_ylim()))
    axis.set_xticks(range(len(names)), names, **TURNED)
    axis.set(title="Within each (above: mean, CoV)", ylabel="score")
    axis.grid(visible=False, axis="x")


def _draw_agreement(axis: Axes, agreements: pd.DataFrame) -> None:
    for number, row in enumerate(agreements.to_dict("records")):
        value, sd = float(row["agreement"]), float(row["prompt_sd"])
        low, high = float(row["agreement_low"]), float(row["agreement_high"])
        axis.bar(number, value, 0.6, color="#999999" if row["backbone"] == "pooled" else "#56B4E9")
        axis.errorbar(number, value, sd, color="#BBBBBB", linewidth=0.8, capsize=2)
        axis.errorbar(number, value, [[value - low], [high - value]], color="black", linewidth=1.4)
    axis.axhline(CHANCE, color="#D55E00", linestyle="--", linewidth=0.8)
    axis.set_xticks(range(len(agreements)), agreements["backbone"], **TURNED)
    axis.set(title="Pairs ranked alike", ylim=(0, 1), ylabel="share of pairs")
    axis.grid(visible=False, axis="x")


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Read all studies, write the figure, and what it says of claims C04 to C06."""
    images = read_saturation(config, studied_backbones(config))
    spreads = spread_table(images)
    agreements, pooled = agreement_table(images)
    foot = [
        WORLDS[config.world] + (f" {SIMULATED}" if config.world != "paper" else ""),
        f"{images['prompt_id'].nunique()} prompts, seeds "
        f"{list(config.diagnostics.saturation.seeds)}; PickScore / {config.preference.scale:g}; "
        "atom scores: mean over an image's atoms, official answers; right: thin bars are "
        "prompt-level standard deviations, thick ones 95% intervals over prompts, "
        f"{pooled.ties} of {pooled.pairs} pooled pairs are ties and dropped. Config "
        f"{config_name(config)}.",
    ]
    write_evidence(config, "C04", saturated(spreads))
    write_evidence(config, "C05", wider(images, spreads))
    write_evidence(config, "C06", agreeing(agreements, pooled))
    data = spreads.merge(agreements, on="backbone", how="left")
    return save_figure(figure2(images, spreads, agreements, foot), stem, data)
