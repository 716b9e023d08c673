"""How long the paper takes at full size on 1, 8 and 64 GPUs (5.1, App. E): an estimate.

Nothing here was run: the hours are counted operations at a stated speed, and the jobs are put on
the GPUs by list scheduling (`cast.full_size.simulation`). Every world draws the same figure, that
of config/paper.yaml.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cast.config import CastConfig, load_config
from cast.figures.footer import config_name
from cast.figures.style import PAGE, look, new_figure, note, save_figure
from cast.full_size.operations import Assumptions
from cast.full_size.simulation import Schedule, simulate

KINDS = {
    "hard_case": "Hard Case selection",
    "train": "training",
    "evaluate": "evaluation",
    "quality": "quality",
    "structure": "diagnostics",
    "saturation": "diagnostics",
    "heads": "diagnostics",
    "checks": "checks",
    "verifier": "checks",
    "qualitative": "checks",
}
COLOURS = {
    "Hard Case selection": "#999999",
    "training": "#D55E00",
    "evaluation": "#0072B2",
    "quality": "#56B4E9",
    "diagnostics": "#009E73",
    "checks": "#CC79A7",
}
NAMED = 6  # tasks of a path that are named one by one


def full_size(config: CastConfig) -> CastConfig:
    """The config that is simulated: the paper's, also for a world that needs no GPU."""
    return config if config.world == "paper" else load_config("config/paper.yaml")


def rows(schedules: Mapping[int, Schedule]) -> pd.DataFrame:
    """One row a task and machine: start and end in hours, and whether the end hangs on it."""
    return pd.DataFrame(
        [
            {
                "gpus": gpus,
                "task": name,
                "kind": KINDS[name.split()[0]],
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
            for kind, colour in COLOURS.items():
                part = own.reset_index(drop=True)[lambda t, kind=kind: t["kind"] == kind]
                panel.barh(
                    part.index,
                    part["end_h"] - part["start_h"],
                    left=part["start_h"],
                    color=[to_rgba(colour, 1.0 if c else 0.35) for c in part["critical"]],
                    height=1.0,
                    linewidth=0,
                )
            panel.set_title(f"{gpus} GPU{'s' * (gpus > 1)}: {own['end_h'].max():.1f} h")
            panel.set_xlabel("Hours")
            panel.set_yticks([])
        panels[0].set_ylabel("Jobs")
        shown = [Patch(color=colour, label=kind) for kind, colour in COLOURS.items()]
        panels[-1].legend(handles=shown, loc="upper right", fontsize=6)
        note(figure, foot)
    return figure


def path_in_words(critical: Sequence[str]) -> str:
    """The chain of tasks that decides the end; a long one by its rules, and its last task."""
    if len(critical) <= NAMED:
        return ", then ".join(critical)
    runs = [(rule, len(list(run))) for rule, run in groupby(critical, lambda task: task.split()[0])]
    words = ", then ".join(
        rule if count == 1 else f"{count} {rule}" for rule, count in runs[:NAMED]
    )
    return f"{words}{', and so on' * (len(runs) > NAMED)}; last {critical[-1]}"


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Simulate the paper's jobs at full size and write the figure's files."""
    paper, assumed = full_size(config), Assumptions()
    schedules = simulate(paper, assumed=assumed)
    foot = [
        f"An ESTIMATE: simulated from counted operations at {assumed.speed_of(paper) / 1e12:.0f} "
        "TFLOP/s a GPU (ours); nothing was run. Full colour: the critical path. Config "
        f"{config_name(paper)}.",
        *(
            f"{gpus} GPUs: {path_in_words(one.critical)}."
            for gpus, one in schedules.items()
            if gpus > 1  # alone, a GPU does one job after the other
        ),
    ]
    table = rows(schedules)
    return save_figure(simulation_figure(table, foot), stem, table)
