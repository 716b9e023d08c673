"""What the README offers for one's own prompts, verifier and routing runs, and fits on a screen."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch

from cast.config import load_config, run_config
from cast.figures.__main__ import main as figures
from cast.io import read_json
from cast.mini.world import render_scene
from cast.paths import from_root
from cast.scene_graph import load_vocabulary, read_prompts, write_prompts
from cast.training import setup, train, trainer
from cast.training.workbench import Scorer

PROMPTS = from_root("examples/prompts.jsonl")


def example(name: str) -> ModuleType:
    path = from_root(f"examples/{name}.py")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def records():
    return read_prompts(PROMPTS, load_vocabulary("shapes"))


@pytest.mark.parametrize("path", sorted(from_root("examples").iterdir()), ids=lambda p: p.name)
def test_an_example_has_less_than_forty_lines(path: Path):
    assert len(path.read_text().splitlines()) < 40


def test_own_prompts_become_scores_and_a_picture(tmp_path, capsys, records):
    asked = ["--config", "config/smoke.yaml", "own", str(PROMPTS), "--out", str(tmp_path)]
    assert figures(asked) == 0
    assert "GenEval 2 AM overall" in capsys.readouterr().out
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    seeds = load_config("config/smoke.yaml").evaluation.seeds
    atoms = [len(record.atoms) for record in records]
    assert len(scores) == sum(atoms) * len(seeds)
    assert scores["score"].between(0, 1).all()
    assert (tmp_path / "own_prompts.pdf").read_bytes().startswith(b"%PDF")


def drawn(record) -> tuple[torch.Tensor, np.ndarray]:
    """Two drawn scenes of a prompt as images [2, 3, 64, 64], and the masks of the first's."""
    scenes = [render_scene(record.graph, np.random.default_rng(seed)) for seed in (0, 1)]
    images = np.stack([scene.image for scene in scenes])
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0, scenes[0].object_masks


def test_the_verifier_knows_what_is_drawn_and_where(records):
    verifier = example("verifier").PixelVerifier()
    assert isinstance(verifier, Scorer)
    for record in records:
        images, masks = drawn(record)
        scores = verifier.score(images, record)
        assert torch.equal(scores, torch.ones(2, len(record.atoms)))
        maps = verifier.heatmaps(images, record, (8, 8))
        torch.testing.assert_close(maps.mean(dim=(-2, -1)), torch.ones(2, len(record.atoms)))
        tokens = masks.any(axis=0).reshape(8, 8, 8, 8).any(axis=(1, 3))
        assert float(maps[0].sum(dim=0)[~torch.from_numpy(tokens)].sum()) == 0.0
    other = verifier.score(drawn(records[0])[0], records[1])
    assert float(other.max()) == 0.0, "no hearts stand in a scene of circles and a square"


def test_the_routing_credits_the_hardest_atom_that_teaches():
    route = example("routing").hardest_atom_map
    scores = torch.tensor([[0.9, 0.2, 0.1], [0.7, 0.4, 0.1]])  # the third atom never differs
    maps = torch.ones(2, 3, 2, 2)
    maps[:, 1] = torch.tensor([[4.0, 0.0], [0.0, 0.0]])
    found = route(scores, maps, (2, 2))
    assert found[:, 0, 0].tolist() == pytest.approx([-found[1, 0, 0].item(), found[1, 0, 0].item()])
    assert found[1, 0, 0] > 0 and float(found.abs().sum()) == float(found[:, 0, 0].abs().sum())
    assert float(route(scores[:1].repeat(2, 1), maps, (2, 2)).abs().sum()) == 0.0


def test_the_trainer_takes_both_as_they_are(tmp_path, monkeypatch, records):
    """One collection of the smoke world's model, rewarded by pixels, credited by the example."""
    route, calls = example("routing").hardest_atom_map, []

    def routed(_routing, scores, maps, grid, resolution, clip, **_others):
        calls.append(scores)
        return route(scores, maps, grid, resolution, clip)

    monkeypatch.setattr(setup, "load_scorer", lambda *_: example("verifier").PixelVerifier())
    monkeypatch.setattr(trainer, "advantage_map", routed)
    config = load_config("config/smoke.yaml", {"training": {"collections": 1}})
    write_prompts(tmp_path / "manifest.parquet", records)
    run = run_config(config, "mini-flux2", "cast", 0)
    train(run.model_copy(update={"manifest": str(tmp_path / "manifest.parquet")}), tmp_path / "run")
    assert len(calls) == 1 and set(calls[0].unique().tolist()) <= {0.0, 1.0}
    assert read_json(tmp_path / "run/ledger.json")["updates"] == 1
