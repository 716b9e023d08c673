"""The checks that become evidence: they measure, and see a planted fault."""

import pytest

from cast.config import load_config
from cast.evaluation import checks
from cast.evaluation.replicates import interval, resampled_means


def test_mathematics():
    """C26 and C27: exactly none, and a half within the tolerance that the claim states."""
    assert checks.flat_scores().value == 0.0
    ratio = checks.marginal_error().value
    assert ratio is not None and 0.45 < ratio < 0.55


@pytest.mark.parametrize("name", checks.BYTES)
def test_one_changed_byte_is_seen(tmp_path, name):
    for folder in ("one", "other"):
        for file in checks.BYTES:
            path = tmp_path / folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"the same")
    assert checks._compared(tmp_path / "one", tmp_path / "other", "two runs").passed is True
    (tmp_path / "other" / name).write_bytes(b"the sane")
    found = checks._compared(tmp_path / "one", tmp_path / "other", "two runs")
    assert found.passed is False and found.text == f"two runs: {name} differ"


def test_a_mean_comes_with_its_interval_over_prompts():
    import numpy as np

    values = np.array([0.0, 1.0, 1.0, 1.0])
    found, expected = checks._mean(values, "four"), interval(0.75, resampled_means(values)[0])
    assert (found.value, found.low, found.high) == (0.75, expected.low, expected.high)


def test_the_short_run_is_small_and_knows_no_trial(monkeypatch):
    config = load_config("config/mini.yaml")
    run = checks.short_run(config)
    assert (run.training.collections, run.training.group_size) == (3, 4)
    assert run.training.learning_rate == config.training.learning_rate
    trial = run.method.model_copy(update={"learning_rate": 0.1})
    monkeypatch.setattr("cast.config.loading.load_method_config", lambda name: trial)
    assert checks.short_run(config) == run
