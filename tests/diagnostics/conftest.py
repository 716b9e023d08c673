"""A whole small world of the diagnostics: tiny models in folders, a prompt file, a config."""

import sys
from pathlib import Path

import pytest
import tiny

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "verifier"))

from tiny_clip import save_clip
from tiny_study import STEPS, records
from tiny_verifier import tiny_model, tiny_processor, tiny_tokenizer

from cast.config import CastConfig, load_config
from cast.scene_graph import write_prompts


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipeline, verifier, CLIP and prompts, saved as ordinary folders and files."""
    folder = tmp_path_factory.mktemp("tiny-diagnostics")
    tiny.flux2().save_pretrained(folder / "flux2")
    for name in ("verifier", "clip"):
        (folder / name).mkdir()
    tokenizer = tiny_tokenizer(folder / "verifier")
    tokenizer.save_pretrained(folder / "verifier")
    tiny_model(tokenizer).save_pretrained(folder / "verifier")
    tiny_processor().save_pretrained(folder / "verifier")
    save_clip(folder / "clip", [one.prompt for one in records()])
    write_prompts(folder / "prompts.parquet", records())
    return folder


@pytest.fixture
def config(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CastConfig:
    """Settings of a small study of the tiny backbone, which takes mini-flux2's name."""
    backbone = tiny.backbone_config("flux2", 4.0).model_copy(
        update={"name": "mini-flux2", "path": str(models / "flux2")}
    )
    for module in ("structure_formation", "head_sensitivity"):
        monkeypatch.setattr(
            f"cast.diagnostics.{module}.load_backbone_config", lambda name: backbone
        )
    monkeypatch.setattr("cast.evaluation.making.load_backbone_config", lambda name: backbone)
    return load_config(
        "config/mini.yaml",
        {
            "world": "smoke",
            "results": str(tmp_path / "results"),
            "figures": str(tmp_path / "figures"),
            "vocabulary": "geneval2",  # no oracle: it reads the mini world's images only
            "quality": {"judge": "none"},
            "sampling": {"steps": STEPS, "height": tiny.SIZE, "width": tiny.SIZE},
            "verifier": {"path": str(models / "verifier"), "heatmap": {"layers": None}},
            "preference": {"path": str(models / "clip")},
            "diagnostics": {
                "backbones": ["mini-flux2"],
                "prompts": str(models / "prompts.parquet"),
                "clip": str(models / "clip"),
                "batch": 4,
                "structure": {"prompts": 3, "seeds": [0], "score_every": 2, "bootstrap": 100},
                "saturation": {"prompts": 3, "seeds": [0, 1]},
                "heads": {"prompts": 2, "images": 6, "steps": [1, 3], "permutations": 100},
            },
        },
    )
