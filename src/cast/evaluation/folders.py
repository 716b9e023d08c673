"""Where the results of a config lie, and which prompts it evaluates."""

from pathlib import Path
from typing import Any

from cast.config import CastConfig, benchmark_path
from cast.errors import CastError
from cast.io import read_json, sha256_file, sha256_json
from cast.paths import from_root
from cast.scene_graph import PromptRecord, load_vocabulary, read_geneval2

BASE = "base"  # the method without an adapter


def world_folder(config: CastConfig) -> Path:
    """`results/{world}`, where everything of a config lies."""
    return from_root(config.results) / config.world


def arm_folder(config: CastConfig, backbone: str, method: str, seed: int) -> Path:
    """Folder of one arm; the base model has seed 0 only."""
    return world_folder(config) / backbone / method / f"seed{0 if method == BASE else seed}"


def benchmark(config: CastConfig) -> list[PromptRecord]:
    """The benchmark's prompts, cut to `evaluation.limit`, in the file's order."""
    records = read_geneval2(benchmark_path(config), load_vocabulary(config.vocabulary))
    return records[: config.evaluation.limit]


def adapter_sha256(folder: Path) -> str:
    """Hash of an adapter's weights; the model card beside them doesn't count."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CastError(f"{folder}: there is no adapter (*.safetensors); train this arm first.")
    return sha256_json({file.name: sha256_file(file) for file in files})


def read_evaluation(folder: Path) -> dict[str, Any]:
    """An arm's `evaluation.json`, or a `CastError` that says to evaluate it."""
    path = folder / "evaluation.json"
    if not path.is_file():
        raise CastError(f"{path}: there is no such file; this arm hasn't been evaluated yet.")
    return read_json(path)
