"""Whole tiny runs: one budget for every method, and refusals before anything is spent."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from tiny_run import COLLECTIONS, GROUP, records, run_config

from cast.credit import ROUTINGS
from cast.errors import CastError
from cast.scene_graph import write_prompts
from cast.training import GuardError, Ledger, train
from cast.training.workbench import Workbench

ADAPTER = "adapter/pytorch_lora_weights.safetensors"


@pytest.fixture(scope="module")
def arms(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A short run of every routing."""
    folder = tmp_path_factory.mktemp("arms")
    for routing in ROUTINGS:
        train(run_config(models, routing, collections=2), folder / routing)
    return {routing: folder / routing for routing in ROUTINGS}


def test_all_methods_have_one_budget(arms: dict[str, Path]):
    first, *others = [Ledger.read(folder / "ledger.json") for folder in arms.values()]
    assert first.images == 2 * GROUP and first.updates == 2
    assert first.prompt_ids == [record.prompt_id for record in records(2)]
    for other in others:
        for key in ("prompt_ids", "window_starts", "learning_rates", "images", "updates"):
            assert getattr(other, key) == getattr(first, key)


def test_all_methods_begin_with_the_same_images_and_then_part(arms: dict[str, Path]):
    tables = {name: pd.read_parquet(folder / "metrics.parquet") for name, folder in arms.items()}
    assert len({table["images_sha256"][0] for table in tables.values()}) == 1
    assert len({table["images_sha256"][1] for table in tables.values()}) == len(ROUTINGS)
    for table in tables.values():
        assert (table["replay_error"] <= 1e-5).all() and (table["ratio"] - 1).abs().max() < 1e-5
        assert (table["gradient_norm"] > 0).all() and (table["clip_fraction"] == 0).all()


def test_only_methods_with_maps_pay_for_attention(arms: dict[str, Path]):
    for routing, folder in arms.items():
        phases = Ledger.read(folder / "ledger.json").phases
        assert ("attention" in phases) == routing.endswith("_map")
        assert phases["optimisation"].images == 2 * 2 * GROUP


def test_windows_differ_between_trajectories_and_collections(models: Path, arms: dict[str, Path]):
    """The peers' fault: a re-seeded global generator gives the same window for ever."""
    starts = Ledger.read(arms["uniform"] / "ledger.json").window_starts
    assert len({tuple(row) for row in starts}) == len(starts)
    assert any(len(set(row)) > 1 for row in starts)


def test_flat_scores_leave_the_adapter_where_it_was(models: Path, tmp_path: Path, monkeypatch):
    """No advantage, no gradient: B stays zero, so the model is still the base, bit for bit."""
    from cast.verifier.soft_tifa import Verifier

    def flat(self: Any, images: Any, record: Any) -> torch.Tensor:
        return torch.full((len(images), len(record.atoms)), 0.25)

    monkeypatch.setattr(Verifier, "score", flat)
    train(run_config(models, collections=2), tmp_path)
    table = pd.read_parquet(tmp_path / "metrics.parquet")
    assert table["zero_advantage"].all() and (table["gradient_norm"] == 0).all()
    weights = load_file(tmp_path / ADAPTER)
    assert all((w == 0).all() for n, w in weights.items() if "lora_B" in n)


def test_several_updates_from_one_collection_are_clipped(models: Path, tmp_path: Path):
    train(run_config(models, collections=2, updates_per_collection=3), tmp_path)
    ledger = Ledger.read(tmp_path / "ledger.json")
    table = pd.read_parquet(tmp_path / "metrics.parquet")
    assert ledger.updates == 6 and len(ledger.learning_rates) == 6
    assert (table["replay_error"] <= 1e-5).all()  # the first of the three is on-policy
    assert (table["clip_fraction"] > 0).any() and (table["ratio"] != 1).any()


def test_kl_pulls_and_has_a_gradient(models: Path, arms: dict[str, Path], tmp_path: Path):
    train(run_config(models, collections=2, kl=10.0), tmp_path)
    table = pd.read_parquet(tmp_path / "metrics.parquet")
    assert table["kl"][0] == 0 and table["kl"][1] > 0  # the adapter starts as the reference
    held, free = (load_file(folder / ADAPTER) for folder in (tmp_path, arms["atom_map"]))
    assert any(not torch.equal(held[name], free[name]) for name in held)


def test_shared_noise_gives_one_initial_state(models: Path, arms: dict[str, Path], tmp_path: Path):
    """With the window's noise the images still differ, but less than from distinct noise."""
    train(run_config(models, "uniform", collections=1, initial_noise="shared"), tmp_path)
    folders = (tmp_path, arms["uniform"])
    shared, distinct = (pd.read_parquet(f / "metrics.parquet")["diversity"][0] for f in folders)
    assert 0 < shared < distinct


def changed(models: Path, **changes: Any):
    return run_config(models).model_copy(update=changes)


def test_refusals_name_the_setting(models: Path, tmp_path: Path):
    short = tmp_path / "short.parquet"
    write_prompts(short, records(2))
    no_judge = run_config(models, "uniform", preference="models/mini/none")
    missing = {"backbone": run_config(models).backbone.model_copy(update={"path": "no/where"})}
    for run, words in (
        (run_config(models, micro_batch=3), r"training\.micro_batch = 3.*divisor"),
        (changed(models, manifest=str(short)), rf"short\.parquet: 2 prompts.*needs {COLLECTIONS}"),
        (no_judge, r"models/mini/none: there is no such folder; `snakemake zoo`"),
        (changed(models, **missing), "no/where"),
        (run_config(models, None, keep=3, of=64), "of = 64.*whole groups of 64"),
    ):
        with pytest.raises(CastError, match=words):
            train(run, tmp_path / "run")
        assert not (tmp_path / "run" / "ledger.json").exists()


def test_a_full_disk_is_refused_before_anything_is_spent(models: Path, tmp_path: Path, monkeypatch):
    import shutil

    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(CastError, match="free on its disk"):
        train(run_config(models), tmp_path)
    assert not list(tmp_path.glob("checkpoints/*/costs.jsonl"))


def noisy_from(call_number: int, original):
    """A velocity that drifts from a given call on: what rollout and replay must not do."""
    calls = [0]

    def velocity(self: Workbench, conditioning: Any):
        inner = original(self, conditioning)

        def call(x, sigma, samples):
            calls[0] += 1
            drift = 1e-3 * calls[0] if calls[0] >= call_number else 0.0
            return inner(x, sigma, samples) + drift

        return call

    return velocity


@pytest.mark.parametrize("call", [1, 20])
def test_a_replay_that_differs_stops_the_run(models: Path, tmp_path: Path, monkeypatch, call):
    """In the preflight (call 1) or in the middle of the run, where the state is saved first."""
    with monkeypatch.context() as patch:
        patch.setattr(Workbench, "velocity", noisy_from(call, Workbench.velocity))
        with pytest.raises(GuardError, match=r"replayed log_prob .* differs .*replay_tolerance"):
            train(run_config(models), tmp_path)
    assert not (tmp_path / "adapter").exists()
    assert bool(list(tmp_path.glob("checkpoints/*/step_*"))) == (call > 1)


def test_a_nan_stops_the_run_and_saves_what_was(models: Path, tmp_path: Path, monkeypatch):
    from cast.verifier.soft_tifa import Verifier

    original, calls = Verifier.score, [0]

    def spoilt(self: Any, images: Any, record: Any) -> torch.Tensor:
        calls[0] += 1
        scores = original(self, images, record)
        return scores * float("nan") if calls[0] == 4 else scores  # two in preflight, one, this

    monkeypatch.setattr(Verifier, "score", spoilt)
    with pytest.raises(GuardError, match=r"collection 1 .*reward are NaN.*saved.*same command"):
        train(run_config(models), tmp_path)
    (saved,) = tmp_path.glob("checkpoints/*/step_*")
    assert saved.name == "step_000001"
