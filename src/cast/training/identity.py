"""What a run is: its settings, its weights and its code. Another of these is another run."""

import ast
import functools
import hashlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import cast
from cast.config import RunConfig, is_local
from cast.errors import CastError
from cast.io import sha256_file, sha256_json, sha256_stored

_ROOMS = ("scene_graph", "flow", "backbones", "verifier", "credit", "training", "rng.py")
_LIBRARIES = ("torch", "diffusers", "transformers", "peft", "accelerate", "safetensors", "numpy")


def weights_sha256(folder: Path) -> str:
    """Hash of a model folder's weights and configs, by relative name and content.

    Raises `CastError` for a folder without weights.
    """
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".safetensors", ".json"))
    if not any(file.suffix == ".safetensors" for file in files):
        raise CastError(f"{folder}: no safetensors weights there; `snakemake zoo` makes the minis.")
    return sha256_json({str(file.relative_to(folder)): sha256_stored(file) for file in files})


def model_sha256(path: str) -> str:
    """`weights_sha256` of a local folder, or of a hub id's snapshot in the local cache."""
    from cast.paths import from_root

    folder = from_root(path)
    if folder.is_dir():
        return weights_sha256(folder)
    if is_local(path):
        raise CastError(f"{path}: there is no such folder; `snakemake zoo` makes the minis.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return weights_sha256(Path(snapshot_download(path, local_files_only=True)))
    except LocalEntryNotFoundError as error:
        raise CastError(
            f"{path}: neither a folder nor in the hub's local cache; `hf download {path}` gets it."
        ) from error


@functools.cache
def source_sha256() -> str:
    """Hash of the syntax trees of the rooms that make a run's result; comments don't count."""
    root = Path(cast.__file__).parent
    digest = hashlib.sha256()
    for room in _ROOMS:
        place = root / room
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            digest.update(str(file.relative_to(root)).encode())
            digest.update(ast.dump(_without_docstrings(tree)).encode())
    return digest.hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:]
    return tree


def identity(run: RunConfig, manifest: Path) -> dict[str, Any]:
    """The run's identity, with `id` the hash of all of it that decides its result."""
    deciding = {
        "config": run.hash(),
        "source": source_sha256(),
        "backbone": model_sha256(run.backbone.path),
        "scorer": model_sha256(run.scorer_path),
        "manifest": sha256_file(manifest),
    }
    versions = {name: metadata.version(name) for name in _LIBRARIES}
    return {
        **deciding,
        "id": sha256_json(deciding)[:12],
        "versions": {"python": platform.python_version(), **versions},
    }
