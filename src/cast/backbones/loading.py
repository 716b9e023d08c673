"""Loading a pipeline from a local folder or the hub, with one clear message when it can't be,
and placing its parts on devices.

The hub's own settings hold: `HF_HOME` is the cache, `HF_TOKEN` the account, and with
`HF_HUB_OFFLINE=1` nothing is asked of the network.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import dispatch_model, infer_auto_device_map
from accelerate.utils import get_balanced_memory
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from torch import nn

from cast.config import BackboneConfig, is_local
from cast.errors import CastError
from cast.io import read_json
from cast.manifest import check_manifest
from cast.paths import from_root

DISK_OFFLOAD = "results/offload"
"""Where accelerate keeps weights that a device map sends to the disk."""


def load_pipeline(pipeline_class: Any, config: BackboneConfig, left_out: Iterable[str] = ()) -> Any:
    """The pipeline of `config.path` in `config.dtype`, on the CPU, without the parts `left_out`.

    `cast.config.is_local` says whether the path is a folder or a hub id. Raises `CastError` for a
    missing, gated or unreadable model.
    """
    dtype = getattr(torch, config.dtype)
    absent = dict.fromkeys(left_out)
    if not is_local(config.path):
        return _load(pipeline_class, config.path, config, dtype, **absent)
    folder = from_root(config.path)
    if not (folder / "model_index.json").is_file():
        raise CastError(
            f"config/backbones/{config.name}.yaml: path: {config.path!r} holds no pipeline "
            "(no model_index.json); place its folder there, or give a hub id."
        )
    check_manifest(folder)
    return _load(pipeline_class, folder, config, dtype, **(_left_out(folder) | absent))


def _left_out(folder: Path) -> dict[str, None]:
    """Parts that a saved pipeline doesn't have (SD3 without T5): diffusers wants them named."""
    index = read_json(folder / "model_index.json")
    return {name: None for name, kind in index.items() if kind == [None, None]}


def _load(
    pipeline_class: Any, place: str | Path, config: BackboneConfig, dtype: Any, **parts: None
) -> Any:
    try:
        return pipeline_class.from_pretrained(place, dtype=dtype, **parts)
    except (OSError, ValueError, RuntimeError) as error:
        raise CastError(explain(error, config)) from error


def place(pipeline: Any, config: BackboneConfig, device: str, text_encoders: Sequence[str]) -> None:
    """Move a pipeline's parts where `config.text_encoder` and `config.device_map` want them.

    Raises `CastError` for a device map that doesn't name every module of the transformer.
    """
    for name, part in pipeline.components.items():
        if not isinstance(part, nn.Module):
            continue
        if name == "transformer" and config.device_map is not None:
            _spread(part, config, device)
        elif name in text_encoders and config.text_encoder == "cpu":
            part.to("cpu")
        else:
            part.to(device)


def _spread(transformer: Any, config: BackboneConfig, device: str) -> None:
    """Give each module of the transformer its device; accelerate's hooks move what passes."""
    device_map: Any = config.device_map
    whole = getattr(transformer, "_no_split_modules", None)
    try:
        if device_map == "auto":
            memory = get_balanced_memory(transformer, no_split_module_classes=whole)
            device_map = infer_auto_device_map(transformer, memory, no_split_module_classes=whole)
        folder = from_root(DISK_OFFLOAD) / config.name if "disk" in device_map.values() else None
        main = torch.device(device)
        dispatch_model(transformer, device_map, main_device=main, offload_dir=folder)
    except (KeyError, ValueError) as error:
        raise CastError(
            f"config/backbones/{config.name}.yaml: device_map: can't be followed ({error}). Name "
            "every module of the transformer once, or use auto."
        ) from error


def explain(error: BaseException, config: BackboneConfig) -> str:
    """One sentence that says which licence to accept or which file to place."""
    where = f"config/backbones/{config.name}.yaml: path: {config.path!r}"
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(isinstance(cause, GatedRepoError) for cause in causes):
        return (
            f"{where} is gated: accept its licence ({config.licence}) at https://huggingface.co/"
            f"{config.path}, then log in with `hf auth login` or set HF_TOKEN."
        )
    if any(isinstance(cause, RepositoryNotFoundError) for cause in causes):
        return f"{where} is not on the hub (or is private); check the id, or name a local folder."
    if any(isinstance(cause, LocalEntryNotFoundError | OfflineModeIsEnabled) for cause in causes):
        return (
            f"{where} is not in the local cache and the hub can't be reached; run `hf download "
            f"{config.path}` on a machine with a network (licence: {config.licence}), or name a "
            "local folder."
        )
    return f"{where} can't be loaded ({type(error).__name__}: {error})."
