"""How long the whole of a config takes on 1, 8 and 64 GPUs (paper 5.1, App. E): simulated.

Nothing here was run: the hours are counted operations at a stated speed, and the jobs are put on
the GPUs by list scheduling (`cast.full_size.simulation`).
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from cast.config import CastConfig
from cast.figures.footer import config_name
from cast.figures.style import PAGE, look, new_figure, note, save_figure
from cast.full_size.cost import Assumptions
from cast.full_size.simulation import Schedule, simulate

COLOURS = {"hard_case": "#999999", "train": "#D55E00", "evaluate": "#0072B2"}
TITLES = {"hard_case": "Hard Case selection", "train": "training", "evaluate": "evaluation"}


def rows(schedules: Mapping[int, Schedule]) -> pd.DataFrame:
    """One row a task and machine: start and end in hours, and whether the end hangs on it."""
    return pd.DataFrame(
        [
            {
                "gpus": gpus,
                "task": name,
                "rule": name.split()[0],
                "start_h": begin,
                "end_h": one.end[name],
                "critical": name in one.critical,
            }
            for gpus, one in schedules.items()
            for name, begin in one.start.items()
        ]
    )


def simulation_figure(table: pd.DataFrame, foot: list[str]) -> Figure:
    """One panel a machine, every task a bar over time; the critical path in full colour."""
    machines = sorted(set(table["gpus"]))
    figure = new_figure(PAGE, 2.6)
    with look():
        panels = figure.subplots(1, len(machines), squeeze=False)[0]
        for panel, gpus in zip(panels, machines, strict=True):
            own = table[table["gpus"] == gpus].sort_values(["start_h", "task"], ascending=False)
            for rule, title in TITLES.items():
                part = own.reset_index(drop=True).query("rule == @rule")
                panel.barh(
                    part.index,
                    part["end_h"] - part["start_h"],
                    left=part["start_h"],
                    color=[to_rgba(COLOURS[rule], 1.0 if c else 0.35) for c in part["critical"]],
                    label=title,
                )
            panel.set_title(f"{gpus} GPU{'s' * (gpus > 1)}: {own['end_h'].max():.1f} h")
            panel.set_xlabel("Hours")
            panel.set_yticks([])
        panels[0].set_ylabel("Jobs")
        panels[-1].legend(loc="upper right")
        note(figure, foot)
    return figure


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Simulate the config's jobs and write the figure's files."""
    assumed = Assumptions()
    schedules = simulate(config, assumed=assumed)
    paths = [
        f"{gpus} GPU{'s' * (gpus > 1)}: {', then '.join(one.critical)}."
        for gpus, one in schedules.items()
        if len(one.critical) <= 6
    ]
    foot = [
        f"Simulated from counted operations at {assumed.speed / 1e12:.0f} TFLOP/s a GPU; nothing "
        f"was run. Full colour: the critical path. Config {config_name(config)}.",
        *paths,
    ]
    table = rows(schedules)
    return save_figure(simulation_figure(table, foot), stem, table)
