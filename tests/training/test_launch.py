"""One process and two (gloo) are the same run."""

import json
from pathlib import Path

import pandas as pd
import pytest
from child_run import results
from tiny_run import run_config

from cast.errors import CastError
from cast.training import Ledger, launch
from cast.training.launch import Processes, main


def test_two_processes_give_the_bits_of_one(models: Path, tmp_path: Path):
    """Prompts, windows, noise, images, scores, gradients: equal, to the last update.

    Equal because two ranks hold two of the tree's four leaves each; see `PairwiseSum`.
    """
    run = run_config(models)
    for processes in (1, 2):
        launch(run, tmp_path / str(processes), processes)
    assert results(tmp_path / "1") == results(tmp_path / "2")
    one, two = (Ledger.read(tmp_path / name / "ledger.json") for name in "12")
    assert one.model_dump(exclude={"phases"}) == two.model_dump(exclude={"phases"})
    assert one.phases["generation"].devices == 1 and two.phases["generation"].devices == 2
    spent = two.phases["generation"]
    assert spent.device_s == pytest.approx(2 * spent.wall_s, rel=1e-4)


def test_rows_are_whole_micro_batches_in_order():
    processes = Processes()
    assert processes.rows(16, 8) == range(0, 16)
    shares = []
    for rank in range(3):
        processes.rank, processes.count = rank, 3
        shares += processes.rows(20, 4)
    assert shares == list(range(20))
    with pytest.raises(CastError, match="3 processes for 2 micro-batches"):
        processes.rows(8, 4)


def test_command_line(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = run_config(models, collections=1)
    path = tmp_path / "run.json"
    path.write_text(run.model_dump_json())
    assert main([str(path), str(tmp_path / "out")]) == 0
    assert len(pd.read_parquet(tmp_path / "out" / "metrics.parquet")) == 1
    path.write_text(run_config(models, micro_batch=3).model_dump_json())
    assert main([str(path), str(tmp_path / "bad")]) == 2
    assert "micro_batch = 3" in capsys.readouterr().err
    path.write_text(json.dumps({"world": "smoke"}))
    assert main([str(path), str(tmp_path / "bad")]) == 2
    assert "run.json" in capsys.readouterr().err
