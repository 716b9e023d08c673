"""Killed at any moment and called again, a run ends with the bytes of an unbroken one."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest
from child_run import FORK, results, started, train_in_child
from tiny_run import COLLECTIONS, run_config

from cast.errors import CastError
from cast.training import Ledger, train


@pytest.fixture(scope="module")
def unbroken(models: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Folder of a run without any accident, and the number of its events."""
    folder = tmp_path_factory.mktemp("unbroken")
    code, events = train_in_child(run_config(models), folder)
    assert code == 0
    return folder, events


def only_checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoints/*/step_*"))


def test_twenty_kills_and_a_run_to_the_end(models: Path, unbroken, tmp_path: Path):
    expected, _ = unbroken
    rng = np.random.default_rng(0)
    kills = 0
    while kills < 20:
        code, _ = train_in_child(run_config(models), tmp_path, at=int(rng.integers(1, 35)))
        if code == 0:  # it got to the end before its kill: damage the checkpoints, begin again
            assert results(tmp_path) == results(expected)
            for place in only_checkpoints(tmp_path):
                (place / "record.json").unlink()
            continue
        assert code == -signal.SIGKILL
        kills += 1
    code, _ = train_in_child(run_config(models), tmp_path)
    assert code == 0
    assert results(tmp_path) == results(expected)
    mine, other = (Ledger.read(f / "ledger.json") for f in (tmp_path, expected))
    same = mine.model_dump(exclude={"phases"})
    assert same == other.model_dump(exclude={"phases"})
    # The cost is what was really spent: all the work that the kills threw away is in it.
    assert mine.phases["generation"].images > other.phases["generation"].images


def test_kills_inside_checkpoint_writing(models: Path, unbroken, tmp_path: Path):
    """Every fsync of the last checkpoint and of the outputs, one after the other."""
    expected, events = unbroken
    code, _ = train_in_child(run_config(models), tmp_path, at=events - 12)
    assert code == -signal.SIGKILL
    remaining = 1
    while True:
        code, seen = train_in_child(run_config(models), tmp_path, at=remaining)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        remaining += max(1, seen // 4)
    assert results(tmp_path) == results(expected)


def test_kills_from_outside_at_any_instruction(models: Path, unbroken, tmp_path: Path):
    expected, _ = unbroken
    for delay in (0.4, 0.9, 1.7):
        child = started(run_config(models), tmp_path, FORK.Value("i", 0), None, 0)
        time.sleep(delay)
        child.kill()
        child.join()
    code, _ = train_in_child(run_config(models), tmp_path)
    assert code == 0 and results(tmp_path) == results(expected)


def test_sigterm_saves_and_asks_to_be_requeued(models: Path, unbroken, tmp_path: Path):
    expected, events = unbroken
    code, _ = train_in_child(run_config(models), tmp_path, at=events // 2, by=signal.SIGTERM)
    assert code == 75
    steps = [int(p.name.removeprefix("step_")) for p in only_checkpoints(tmp_path)]
    assert 0 < max(steps) < COLLECTIONS
    code, _ = train_in_child(run_config(models), tmp_path)
    assert code == 0 and results(tmp_path) == results(expected)


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_checkpoint_costs_only_the_way_back(
    models: Path, unbroken, tmp_path: Path, damage, capsys: pytest.CaptureFixture[str]
):
    expected, events = unbroken
    train_in_child(run_config(models), tmp_path, at=events - 3)
    last = only_checkpoints(tmp_path)[-1] / "tensors.safetensors"
    content = bytearray(last.read_bytes())
    content[-7] ^= 16
    last.write_bytes(bytes(content[:-1] if damage == "truncated" else content))
    train(run_config(models), tmp_path)
    assert "step_" in capsys.readouterr().out
    assert results(tmp_path) == results(expected)


def test_finished_means_finished_and_lost_outputs_come_back(models: Path, unbroken):
    expected, _ = unbroken
    before = results(expected)
    for name in before:
        (expected / name).unlink()
    code, events = train_in_child(run_config(models), expected)
    assert code == 0 and results(expected) == before
    assert events < 20  # no model was called; only the outputs were written


def test_another_config_never_resumes_from_this_ones_checkpoints(models: Path, tmp_path: Path):
    train(run_config(models, collections=2), tmp_path)
    first = results(tmp_path)
    train(run_config(models, collections=2, learning_rate=2e-2), tmp_path)
    second = results(tmp_path)
    assert first != second
    train(run_config(models, collections=2), tmp_path)  # and the first is still there
    assert results(tmp_path) == first
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_a_held_folder_is_refused(models: Path, tmp_path: Path):
    from cast.training.run_folder import locked

    with locked(tmp_path), pytest.raises(CastError, match="another process is training here"):
        train(run_config(models), tmp_path)
