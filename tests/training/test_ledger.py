from pathlib import Path

import pytest

from cast.errors import CastError
from cast.training.ledger import CostJournal, Device, Ledger

CPU = Device("cpu", "CPU core (x)", 2)
GPU = Device("gpu", "NVIDIA H200", 8)


def ledger(**changes) -> Ledger:
    values = {
        "world": "mini",
        "config_hash": "c",
        "backbone": "mini-flux2",
        "base_sha256": "b",
        "method": "cast",
        "seed": 0,
        "prompt_ids": ["p", "q", "r", "s"],
        "window_starts": [[0, 1], [2, 0], [1, 1], [0, 0]],
        "learning_rates": [0.1, 0.2, 0.2, 0.2],
        "images": 8,
        "updates": 4,
        "phases": {},
    }
    return Ledger.model_validate(values | changes)


def test_round_trip(tmp_path: Path):
    journal = CostJournal(tmp_path / "costs.jsonl", CPU)
    with journal.phase("generation", 16, 1024):
        pass
    written = ledger(phases=journal.totals())
    written.write(tmp_path / "ledger.json")
    assert Ledger.read(tmp_path / "ledger.json") == written
    (tmp_path / "ledger.json").write_text('{"world": "mini"}')
    with pytest.raises(CastError, match=r"ledger\.json: not a training ledger"):
        Ledger.read(tmp_path / "ledger.json")


def test_cost_counts_what_was_spent_torn_line_and_failure_included(tmp_path: Path):
    path = tmp_path / "costs.jsonl"
    with CostJournal(path, CPU).phase("generation", 16, 100):
        pass
    with path.open("a") as file:
        file.write('{"phase": "generation", "wall')  # killed while writing
    with pytest.raises(RuntimeError), CostJournal(path, CPU).phase("generation", 16, 100):
        raise RuntimeError
    with CostJournal(path, CPU).phase("optimisation", 32):
        pass
    totals = CostJournal(path, CPU).totals()
    assert totals["generation"].images == 32 and totals["generation"].tokens == 200
    assert totals["optimisation"].images == 32
    spent = totals["generation"]
    assert spent.device_s == pytest.approx(2 * spent.wall_s, abs=1e-5)
    assert spent.hours == spent.device_s / 3600


def test_only_the_main_process_writes(tmp_path: Path):
    journal = CostJournal(tmp_path / "costs.jsonl", CPU, write=False)
    with journal.phase("scoring", 4):
        pass
    assert not (tmp_path / "costs.jsonl").exists() and journal.totals() == {}


def test_gpu_hours_and_core_hours_are_never_added(tmp_path: Path):
    path = tmp_path / "costs.jsonl"
    for device in (CPU, GPU):
        with CostJournal(path, device).phase("generation", 1):
            pass
    with pytest.raises(CastError, match="never mixed"):
        CostJournal(path, GPU).totals()


def test_a_clock_that_is_set_back_costs_nothing(tmp_path: Path, monkeypatch):
    import time

    journal = CostJournal(tmp_path / "costs.jsonl", CPU)
    with journal.phase("scoring", 4):
        monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= journal.totals()["scoring"].wall_s < 60
