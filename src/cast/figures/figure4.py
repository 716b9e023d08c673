"""Figure 4 (paper 5.3): training dynamics, from the metrics that every run writes.

Above, the mean atom score of the images that a run draws while it trains; below, how varied the
images of a group are, which shows a collapse. Both against the images generated so far, the
budget that all methods share. A supervised run draws from the frozen model, so its curve shows
the prompts' difficulty and no progress.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cast.config import CastConfig, load_method_config
from cast.errors import CastError
from cast.evaluation.folders import arm_folder
from cast.evaluation.results import load_arms
from cast.figures.footer import WORLDS, config_name
from cast.figures.style import COLUMN, look, method_colour, new_figure, note, save_figure

PANELS = {"score_mean": "Mean atom score", "diversity": "Pixel sd within a group"}
SMOOTH = 16  # collections in a rolling mean: one prompt a collection, and prompts differ
COLUMNS = ["method", "title", "training_seed", "collection", "images", *PANELS]


def dynamics(
    metrics: Mapping[tuple[str, str, int], tuple[pd.DataFrame, int]], smooth: int = SMOOTH
) -> pd.DataFrame:
    """Rows of the figure: each run's metrics, smoothed by a trailing mean of `smooth` groups.

    `metrics` maps (method, title, training seed) to a run's `metrics.parquet` and its images.
    """
    tables = []
    for (method, title, seed), (table, images) in metrics.items():
        missing = [name for name in ("collection", *PANELS) if name not in table.columns]
        if missing or table.empty:
            raise CastError(f"{method}, seed {seed}: its metrics have no {missing or 'rows'}.")
        ordered = table.sort_values("collection")
        each = images / len(ordered)
        window = max(1, min(smooth, len(ordered) // 2))
        smoothed = ordered[list(PANELS)].rolling(window, min_periods=window).mean()
        tables.append(
            smoothed.assign(
                method=method,
                title=title,
                training_seed=seed,
                collection=ordered["collection"],
                images=(ordered["collection"] + 1) * each,
            )[COLUMNS].dropna(subset="diversity")
        )
    return pd.concat(tables, ignore_index=True)


def figure4(rows: pd.DataFrame, foot: list[str]) -> Figure:
    """One line a method (mean over training seeds, range as a band), one panel a measure."""
    figure = new_figure(COLUMN, 3.4)
    with look():
        axes = figure.subplots(len(PANELS), 1, sharex=True)
        for axis, (name, label) in zip(axes, PANELS.items(), strict=True):
            for (method, title), own in rows.groupby(["method", "title"], sort=False):
                runs = own.pivot_table(name, "images", "training_seed", aggfunc="mean")
                colour = method_colour(str(method))
                axis.plot(runs.index, runs.mean(axis=1), color=colour, label=str(title))
                if runs.shape[1] > 1:
                    axis.fill_between(
                        runs.index,
                        runs.min(axis=1),
                        runs.max(axis=1),
                        color=colour,
                        alpha=0.2,
                        lw=0,
                    )
            axis.set_ylabel(label)
        axes[-1].set_xlabel("Images generated")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
        note(figure, foot)
    return figure


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Read the metrics of the Hard Case's backbone and write the figure's files.

    A run that is rewarded by preference records no atom scores while it trains, so it has a line
    below only.
    """
    backbone = config.evaluation.hard_case.backbone
    metrics = {}
    for arm in load_arms(config, backbones=[backbone]):
        for seed, ledger in arm.ledgers.items():
            table = pd.read_parquet(
                arm_folder(config, backbone, arm.method, seed) / "metrics.parquet"
            )
            if load_method_config(arm.method).reward == "preference":
                table["score_mean"] = np.nan
            metrics[arm.method, arm.title, seed] = (table, int(ledger["images"]))
    rows = dynamics(metrics)
    foot = [WORLDS[config.world], f"{backbone}; trailing mean; config {config_name(config)}."]
    return save_figure(figure4(rows, foot), stem, rows)
