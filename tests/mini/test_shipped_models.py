"""The shipped zoo: small, whole, and refused by name when a byte has changed."""

import shutil
from pathlib import Path

import pytest

from cast.backbones import load_backbone
from cast.config import SamplingSection, VerifierSection, load_backbone_config
from cast.errors import CastError
from cast.io import read_json
from cast.manifest import check_manifest
from cast.paths import from_root
from cast.verifier.soft_tifa import Verifier

MODELS = from_root("models/mini")
GENERATORS = ("mini-flux2", "mini-qwen-image", "mini-sd3", "mini-zimage")
NAMES = sorted(read_json(MODELS / "MANIFEST.json"))


@pytest.mark.parametrize("name", NAMES)
def test_files_are_as_the_manifest_says_and_small(name):
    check_manifest(MODELS / name)
    size = sum(path.stat().st_size for path in (MODELS / name).rglob("*") if path.is_file())
    assert size <= 8 * 2**20


def test_the_folder_is_at_most_40_mb():
    assert sum(p.stat().st_size for p in MODELS.rglob("*") if p.is_file()) <= 40 * 2**20


def test_a_manifest_entry_says_how_the_model_was_made():
    for name, entry in read_json(MODELS / "MANIFEST.json").items():
        missing = {"parameters", "training", "images_seen", "metrics", "versions"} - entry.keys()
        assert not missing, name


def damaged_copy(name: str, folder: Path) -> Path:
    """The model's folder and its manifest, with one flipped byte in the middle of a weight file."""
    shutil.copytree(MODELS / name, folder / name)
    shutil.copy(MODELS / "MANIFEST.json", folder)
    weights = max((folder / name).rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    return weights


def test_a_changed_byte_of_the_verifier_is_refused_by_name(tmp_path):
    weights = damaged_copy("mini-qwen3-vl", tmp_path)
    with pytest.raises(CastError, match=f"{weights.name} has changed"):
        Verifier.load(VerifierSection(path=str(tmp_path / "mini-qwen3-vl")))


@pytest.mark.parametrize("name", [n for n in GENERATORS if n in NAMES])
def test_a_changed_byte_of_a_generator_is_refused_by_name(name, tmp_path):
    weights = damaged_copy(name, tmp_path)
    config = load_backbone_config(name).model_copy(update={"path": str(tmp_path / name)})
    with pytest.raises(CastError, match=f"{weights.name} has changed"):
        load_backbone(config, SamplingSection())


def test_a_missing_and_an_added_file_are_named(tmp_path):
    damaged_copy("mini-qwen3-vl", tmp_path)
    folder = tmp_path / "mini-qwen3-vl"
    shutil.copytree(MODELS / "mini-qwen3-vl", folder, dirs_exist_ok=True)
    (folder / "config.json").unlink()
    with pytest.raises(CastError, match=r"config\.json is missing"):
        check_manifest(folder)
    shutil.copy(MODELS / "mini-qwen3-vl/config.json", folder)
    (folder / "extra.bin").touch()
    with pytest.raises(CastError, match=r"extra\.bin is not in the manifest"):
        check_manifest(folder)
