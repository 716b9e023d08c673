"""Text embeddings kept on the disk, each computed once and then read by every job.

`compute.embeddings` names the folder; the workflow's jobs, and whoever works by hand, see it as the
environment variable `CAST_EMBEDDINGS`. A shard is one safetensors file, named by all that decides
what is in it: the text encoder's files, its settings, the libraries, the device, the prompts. So
nothing in the folder is ever out of date, several runs may share it, and it may be deleted at any
time. Values come back bit by bit.
"""

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from cast.config.loading import EMBEDDINGS_VARIABLE
from cast.errors import CastError
from cast.io import sha256_json, sha256_stored, write_safetensors
from cast.paths import from_root

_LIBRARIES = ("torch", "transformers", "diffusers")


def embeddings_folder() -> Path | None:
    """The folder that `CAST_EMBEDDINGS` names; None where embeddings aren't kept."""
    named = os.environ.get(EMBEDDINGS_VARIABLE, "")
    return from_root(named) if named else None


class Embeddings:
    """The shards of one text encoder; `decides` is all but the prompts that decides a value."""

    def __init__(self, folder: Path, decides: Mapping[str, Any], device: torch.device) -> None:
        versions = {name: metadata.version(name) for name in _LIBRARIES}
        self.folder = folder
        self._decides = {**decides, "versions": versions, "device": _device_name(device)}

    def path(self, prompts: Sequence[str]) -> Path:
        """The shard of a list of prompts: what is encoded together is kept together, since its last
        bits depend on it."""
        name = sha256_json([self._decides, list(prompts)])
        return self.folder / name[:2] / f"{name}.safetensors"

    def get(self, prompts: Sequence[str]) -> dict[str, Tensor] | None:
        """The tensors of a list of prompts, on the CPU; None where it wasn't kept.

        Raises `CastError` for a shard that isn't what was written.
        """
        path = self.path(prompts)
        try:
            with safe_open(path, framework="pt") as shard:
                written = (shard.metadata() or {}).get("sha256")
                tensors = {name: shard.get_tensor(name) for name in sorted(shard.keys())}
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError) as error:
            raise CastError(f"{path}: damaged ({error}). Delete it; it is made anew.") from error
        if written != _sha256(tensors):
            raise CastError(f"{path}: damaged (its checksum differs). Delete it; it is made anew.")
        return tensors

    def put(self, prompts: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
        """Keep the tensors of a list of prompts. Jobs that do so at once write the same file, each
        under a name of its own until it is whole."""
        kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_safetensors(self.path(prompts), kept, {"sha256": _sha256(kept)})


def files_sha256(folder: Path, patterns: Sequence[str]) -> str:
    """Hash of a folder's files that match any pattern, by relative name and content.

    Raises `CastError` where none matches.
    """
    files = sorted({file for p in patterns for file in folder.glob(p) if file.is_file()})
    if not files:
        raise CastError(f"{folder}: holds no {' or '.join(patterns)}, so nothing names embeddings.")
    return sha256_json({str(file.relative_to(folder)): sha256_stored(file) for file in files})


def model_folder(path: str) -> Path:
    """A local model's folder, or a hub id's snapshot in the local cache; else `CastError`."""
    folder = from_root(path)
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(path, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise CastError(
            f"{path}: neither a folder nor in the hub's local cache; `hf download {path}` gets it."
        ) from error


def _sha256(tensors: Mapping[str, Tensor]) -> str:
    """Of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _device_name(device: torch.device) -> str:
    """What kind of arithmetic a value came from: a GPU's model, a CPU's instructions."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
