from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from child_run import results, train_in_child
from tiny_run import records, run_config

from cast.errors import CastError
from cast.training import Ledger, train
from cast.training.budget import Budget
from cast.training.sft import best_images


def test_the_best_are_the_best_and_ties_go_to_the_first():
    scores = torch.tensor([[0.2, 0.4], [0.9, 0.9], [0.5, 0.5], [0.9, 0.9]])
    assert best_images(scores, 1).tolist() == [1]
    assert best_images(scores, 3).tolist() == [1, 3, 2]


def test_budgets_of_the_paper(models: Path):
    """128 x 16 images and 128 updates, however they are grouped (5.1, D)."""
    paper: dict[str, Any] = {"collections": 128, "group_size": 16}
    assert Budget.of(run_config(models, **paper)) == Budget(128, 16, 1)
    assert Budget.of(run_config(models, None, keep=3, of=64, **paper)) == Budget(32, 64, 4)
    assert Budget.of(run_config(models, None, keep=1, of=16, **paper)) == Budget(128, 16, 1)
    with pytest.raises(CastError, match="whole groups of 48"):
        Budget.of(run_config(models, None, keep=1, of=48, **paper))


def test_a_run_spends_the_same_and_trains_on_base_images(models: Path, tmp_path: Path):
    """Larger groups, fewer prompts, as many updates; resumed like any other run."""
    run = run_config(models, None, keep=2, of=8)
    train(run, tmp_path / "a")
    ledger = Ledger.read(tmp_path / "a" / "ledger.json")
    assert ledger.images == 16 and ledger.updates == 4
    assert ledger.prompt_ids == [record.prompt_id for record in records(2)]
    assert ledger.window_starts == [[], []] and "attention" not in ledger.phases
    table = pd.read_parquet(tmp_path / "a" / "metrics.parquet")
    assert (table["gradient_norm"] > 0).all() and not table["zero_advantage"].any()
    # The images are the base model's: another learning rate changes none of them.
    train(run_config(models, None, keep=2, of=8, learning_rate=1e-4), tmp_path / "b")
    other = pd.read_parquet(tmp_path / "b" / "metrics.parquet")
    assert (table["images_sha256"] == other["images_sha256"]).all()
    assert table["loss"][1] != other["loss"][1]
    train_in_child(run, tmp_path / "c", at=24)
    code, _ = train_in_child(run, tmp_path / "c")
    assert code == 0 and results(tmp_path / "c") == results(tmp_path / "a")
