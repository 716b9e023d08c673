"""Load a Qwen3-VL's three parts: model, tokenizer, image processor.

The parts are loaded one by one, because the joint processor needs torchvision for videos. The
image processor is the PIL one on every machine, so an image is resized alike everywhere.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    Qwen2VLImageProcessorPil,
    Qwen3VLForConditionalGeneration,
)

from cast.errors import CastError
from cast.manifest import check_manifest
from cast.paths import from_root


def load_parts(
    path: str, dtype: str, device: str | torch.device | None = None
) -> tuple[Qwen3VLForConditionalGeneration, PreTrainedTokenizerBase, Qwen2VLImageProcessorPil]:
    """Parts of the verifier at `path` (a local folder or a hub id), on `device`.

    A relative folder is read from the repository's root, as every path of a config.

    `CastError` names the path when it is missing, gated, incomplete, or another model.
    """
    place = from_root(path)
    if place.is_dir():
        path = str(place)
    elif Path(path).is_absolute() or path.count("/") != 1:
        raise CastError(
            f"verifier.path: there is no folder {path!r}. Build the mini verifier with "
            "`snakemake zoo`, or name a hub id such as Qwen/Qwen3-VL-8B-Instruct."
        )
    check_manifest(place)
    target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        kind = AutoConfig.from_pretrained(path).model_type
        if kind != "qwen3_vl":
            raise CastError(f"verifier.path: {path!r} holds a {kind!r} model; allowed: qwen3_vl.")
        tokenizer = AutoTokenizer.from_pretrained(path)
        processor = Qwen2VLImageProcessorPil.from_pretrained(path)
        model: Any = Qwen3VLForConditionalGeneration.from_pretrained(
            path, dtype=getattr(torch, dtype), attn_implementation="sdpa"
        )
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CastError(
            f"verifier.path: {path!r} can't be loaded ({reason}). It must be a folder with "
            "config.json, safetensors weights, tokenizer and preprocessor_config.json, or a hub id "
            "that this machine can download."
        ) from error
    return model.to(target), tokenizer, processor
