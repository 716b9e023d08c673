"""The preflight report: what it warns of, and that it needs neither weights nor a library."""

import subprocess
import sys

import pytest

from cast.config import load_backbone_config, load_config
from cast.errors import CastError
from cast.full_size.report import preflight


def test_the_paper_config_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("CAST_GENEVAL2", raising=False)
    text = preflight(load_config("config/paper.yaml"), price=2.0).text()
    assert "black-forest-labs/FLUX.2-dev: 112.6 GB" in text
    assert "https://huggingface.co/black-forest-labs/FLUX.2-dev" in text
    assert "set CAST_GENEVAL2" in text
    assert "flux2-dev/cast/seed0" in text and "at 2 an hour" in text


def test_weights_in_the_hubs_cache_are_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--Qwen--Qwen3-VL-8B-Instruct/snapshots/abc"
    snapshot.mkdir(parents=True)
    with (snapshot / "model.safetensors").open("wb") as file:
        file.truncate(17_540_000_000)  # a sparse file
    report = preflight(load_config("config/paper.yaml"))
    assert any("17.5 GB here" in line for line in report.lines)
    assert not any("verifier.path" in warning for warning in report.warnings)


def test_what_does_not_fit_is_told_with_its_mend():
    config = load_config("config/paper.yaml")
    small = [w for w in preflight(config, memory=100e9).warnings if "don't fit" in w]
    assert len(small) == 1 and "text_encoder: cpu in config/backbones/flux2-dev.yaml" in small[0]
    many = load_config("config/paper.yaml", {"training": {"micro_batch": 16}})
    assert any("lower training.micro_batch (16)" in w for w in preflight(many).warnings)


def test_the_command_reads_no_model_library():
    code = (
        "import sys; from cast.full_size.__main__ import main; main(['preflight']); "
        "assert not {'torch', 'diffusers', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Preflight of the paper config" in done.stdout


def test_small_local_models_are_counted():
    """In core-hours, on the memory of this machine, of models that are here."""
    report = preflight(load_config("config/smoke.yaml"), price=2.0)
    text = report.text()
    assert "models/mini/mini-flux2: " in text and "models/mini/mini-qwen3-vl: " in text
    assert "Core-hours by stage, estimated from counts" in text and "GPU" not in text
    assert "mini-flux2/cast/seed0" in text and "at 2 an hour" in text
    assert not any("of weights are here" in warning for warning in report.warnings)


def test_a_model_that_cannot_be_counted_is_refused(monkeypatch):
    def missing(name):
        return load_backbone_config(name).model_copy(update={"path": "somebody/model"})

    monkeypatch.setattr("cast.full_size.report.load_backbone_config", missing)
    with pytest.raises(CastError, match="there are no counts of it; known: "):
        preflight(load_config("config/paper.yaml"))
