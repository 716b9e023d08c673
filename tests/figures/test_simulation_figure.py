"""The estimate of the paper's hours: whose it is, what it says, and that it covers every job."""

import pandas as pd

from cast.config import load_config
from cast.figures.simulation import COLOURS, KINDS, make, path_in_words
from cast.full_size.cost import job_costs
from cast.full_size.simulation import simulate

PAPER = load_config("config/paper.yaml")


def test_every_priced_rule_has_a_colour():
    assert {job.rule for job in job_costs(PAPER)} <= set(KINDS)
    assert set(KINDS.values()) == set(COLOURS)


def test_a_critical_path_is_named_in_words():
    assert path_in_words(["a x", "b y"]) == "a x, then b y"
    long = [*(f"train {i}" for i in range(6)), "evaluate q chunk1", "quality q"]
    assert path_in_words(long) == "6 train, then evaluate, then quality; last quality q"


def test_the_mini_world_draws_the_papers_estimate(tmp_path):
    paths = make(load_config("config/mini.yaml"), tmp_path / "simulation")
    assert {path.suffix for path in paths} == {".pdf", ".png", ".csv"}
    table = pd.read_csv(tmp_path / "simulation.csv")
    ends = table.groupby("gpus")["end_h"].max()
    assert {gpus: round(one.hours, 3) for gpus, one in simulate(PAPER).items()} == {
        int(gpus): round(float(end), 3) for gpus, end in ends.items()
    }
    last = table.sort_values("end_h").groupby("gpus").tail(1)
    assert last["critical"].all()
