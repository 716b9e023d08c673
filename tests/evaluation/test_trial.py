"""Trials: settings from the command line, and a log that keeps every different one."""

import pytest

from cast.config import load_config
from cast.errors import CastError
from cast.evaluation.trial import _append, overrides, run_trial


def test_settings_are_nested_and_typed():
    given = ["training.learning_rate=2e-4", "training.warmup=5", "verifier.path=models/mine"]
    assert overrides(given) == {
        "training": {"learning_rate": 2e-4, "warmup": 5},
        "verifier": {"path": "models/mine"},
    }
    with pytest.raises(CastError, match="must be KEY=VALUE"):
        overrides(["training.warmup"])


def test_the_same_trial_replaces_its_row_and_no_other(tmp_path):
    path = tmp_path / "trials.csv"
    for folder, prompts, score in (("a", 8, 0.1), ("b", 8, 0.2), ("a", 16, 0.3), ("a", 8, 0.4)):
        rows = _append(path, {"folder": folder, "prompts": prompts, "score_am": score})
    kept = {(row.folder, row.prompts): row.score_am for row in rows.itertuples()}
    assert kept == {("b", 8): 0.2, ("a", 16): 0.3, ("a", 8): 0.4}


def test_missing_prompts_are_named_with_the_command(tmp_path):
    config = load_config("config/smoke.yaml", {"results": str(tmp_path)})
    with pytest.raises(CastError, match=r"development.parquet: there is no such file; `snakemake"):
        run_trial(config, "mini-flux2", "base", 0, 4, "")
