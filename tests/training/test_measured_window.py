"""The measured window: taken by a run that it fits, refused by name by every other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import COLLECTIONS, STEPS, records, run_config

from cast.config import RunConfig
from cast.config.arms import WindowSection
from cast.errors import CastError
from cast.io import read_json, write_json
from cast.scene_graph import write_prompts
from cast.training import Ledger, train
from cast.training.identity import model_sha256
from cast.training.window import (
    check_sampler,
    describe,
    measured_window,
    window_path,
    with_window,
)


@pytest.fixture
def run(models: Path, tmp_path: Path) -> RunConfig:
    """A run whose backbone's window is the measured one, in a world of its own."""
    write_prompts(tmp_path / "prompts/manifest.parquet", records(COLLECTIONS))
    base = run_config(models, "uniform", collections=1)
    window = WindowSection(low=1, high="measured", steps=STEPS)
    backbone = base.backbone.model_copy(update={"window": window})
    manifest = str(tmp_path / "prompts/manifest.parquet")
    return base.model_copy(update={"backbone": backbone, "manifest": manifest})


def found(run: RunConfig, **changes: Any) -> dict[str, Any]:
    """A window as the study writes it: tau* 0.7, so [1, 3) of 4 steps."""
    from cast.backbones import load_backbone

    backbone = load_backbone(run.backbone, run.sampling, "cpu")
    return {
        "backbone": run.backbone.name,
        "base_sha256": model_sha256(run.backbone.path),
        "steps": STEPS,
        "sigmas": backbone.sigmas(STEPS).tolist(),
        "tau_star": 0.7,
        "tau_low": 0.6,
        "tau_high": 0.8,
        "low": 1,
        "high": 3,
        "similarity": "image",
        "prompts": 8,
        "seeds": [0],
    } | changes


def test_a_run_draws_from_the_measured_range(run: RunConfig, tmp_path: Path):
    write_json(window_path(run), found(run))
    window = measured_window(run)
    assert window is not None
    assert "[1, 3) of 4 steps, measured: tau* 0.700" in describe(with_window(run, window), window)
    train(run, tmp_path / "run")
    starts = Ledger.read(tmp_path / "run/ledger.json").window_starts
    assert {start for row in starts for start in row} == {1}  # two transitions fit [1, 3) once
    assert read_json(tmp_path / "run/run.json")["run"]["backbone"]["window"]["high"] == 3


@pytest.mark.parametrize(
    ("changes", "both"),
    [
        ({"backbone": "other"}, ["'other'", "'tiny-flux2'"]),
        ({"steps": 50}, ["50", f"{STEPS}"]),
        ({"base_sha256": "aa"}, ["'aa'", "base_sha256"]),
        ({"tau_star": "early"}, ["tau_star", "early"]),
    ],
)
def test_another_window_is_refused_naming_both_values(run: RunConfig, changes: Any, both: Any):
    write_json(window_path(run), found(run, **changes))
    with pytest.raises(CastError) as refused:
        measured_window(run)
    assert all(part in str(refused.value) for part in [*both, "window.json"])


def test_another_schedule_is_refused_and_nothing_is_trained(run: RunConfig, tmp_path: Path):
    value = found(run)
    value["sigmas"][2] += 0.01
    write_json(window_path(run), value)
    with pytest.raises(CastError, match="sigma of step 2"):
        train(run, tmp_path / "run")
    window = measured_window(run)
    assert window is not None
    with pytest.raises(CastError, match="5 sigmas, and the run's are 3"):
        check_sampler(window, torch.linspace(1, 0, 3), Path("window.json"))
    assert not (tmp_path / "run/ledger.json").exists()


def test_a_missing_window_and_one_too_small_are_refused(run: RunConfig):
    with pytest.raises(CastError, match="no such file, and window"):
        measured_window(run)
    write_json(window_path(run), found(run, tau_star=0.3))
    window = measured_window(run)
    assert window is not None
    with pytest.raises(CastError, match="don't fit the window range"):
        with_window(run, window)
