"""Low-rank adapters through peft, in the file layout of diffusers.

Faults of others that this guards against: a target list that reaches no single-stream block, a
file that loses alpha, an adapter in bfloat16, and initial weights from the global generator.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from diffusers.training_utils import _collate_lora_metadata
from peft import LoraConfig, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from torch import nn

from cast.config import BackboneConfig
from cast.errors import CastError
from cast.io import write_text, written_whole
from cast.rng import torch_generator

WEIGHTS = "pytorch_lora_weights.safetensors"
ADAPTER = "default"


def bound_modules(transformer: nn.Module) -> dict[str, LoraLayer]:
    """The modules that carry an adapter, by name."""
    return {
        name: module
        for name, module in transformer.named_modules()
        if isinstance(module, LoraLayer)
    }


def _down_up(module: Any) -> tuple[nn.Parameter, nn.Parameter]:
    """A [rank, inputs] and B [outputs, rank] of a bound module."""
    return module.lora_A[ADAPTER].weight, module.lora_B[ADAPTER].weight


def add_lora(
    transformer: Any,
    targets: str,
    block_lists: Sequence[str],
    rank: int,
    alpha: float,
    seed: int,
) -> list[str]:
    """Bind a fresh adapter to the modules whose names match `targets`; their names.

    A is uniform in +-1/sqrt(inputs) (peft's default) from the stream (seed, "lora", module), B is
    0. Raises `CastError` when there is an adapter already, or when a block of `block_lists` got
    none: training would then silently leave that block out.
    """
    if bound_modules(transformer):
        raise CastError("lora: the transformer has an adapter already; load the base anew.")
    names = [name for name, _ in transformer.named_modules() if re.fullmatch(targets, name)]
    _check_every_block(transformer, block_lists, names)
    settings: dict[str, Any] = {"r": rank, "lora_alpha": alpha, "target_modules": targets}
    with torch.random.fork_rng():  # peft draws initial weights from the global generator
        transformer.add_adapter(LoraConfig(**settings), adapter_name=ADAPTER)
    bound = bound_modules(transformer)
    if sorted(bound) != sorted(names):
        raise CastError(f"lora: peft bound {len(bound)} modules where {len(names)} match.")
    for name, module in bound.items():
        down, up = _down_up(module)
        drawn = torch.rand(down.shape, generator=torch_generator(seed, "lora", name))
        down.data = ((2.0 * drawn - 1.0) * down.shape[1] ** -0.5).to(down.device)
        up.data = torch.zeros(up.shape, device=up.device)
    return names


def _check_every_block(
    transformer: nn.Module, block_lists: Sequence[str], names: Sequence[str]
) -> None:
    for blocks in block_lists:
        for index in range(len(getattr(transformer, blocks))):
            if not any(name.startswith(f"{blocks}.{index}.") for name in names):
                raise CastError(f"lora: no module of {blocks}.{index} is bound; refusing to train.")


def check_gradients(transformer: nn.Module, exceptions: str) -> None:
    """Raise `CastError` naming the bound modules whose B has no gradient, or a zero one.

    `exceptions` is a regular expression of names that legitimately get none.
    """
    silent = [
        name
        for name, module in bound_modules(transformer).items()
        if not _has_gradient(_down_up(module)[1])
        and not (exceptions and re.fullmatch(exceptions, name))
    ]
    if silent:
        raise CastError(
            f"lora: {len(silent)} bound modules got no gradient ({', '.join(silent[:4])}, ...); "
            "the adapter doesn't reach the loss through them."
        )


def _has_gradient(parameter: torch.Tensor) -> bool:
    return parameter.grad is not None and bool(parameter.grad.abs().max() > 0)


@contextmanager
def disabled(transformer: Any) -> Iterator[None]:
    """Switch the adapter off inside the block; without one the transformer is the base already.

    What trains and what doesn't is the same afterwards: peft freezes and unfreezes on the way.
    """
    if not bound_modules(transformer):
        yield
        return
    trains = {parameter: parameter.requires_grad for parameter in transformer.parameters()}
    transformer.disable_adapters()
    try:
        yield
    finally:
        transformer.enable_adapters()
        for parameter, flag in trains.items():
            parameter.requires_grad_(flag)


def save_lora(pipeline: Any, folder: str | Path, card: str | None) -> Path:
    """Write `pytorch_lora_weights.safetensors` whole, alpha in its metadata, and `README.md`."""
    folder = Path(folder)
    transformer = pipeline.transformer
    metadata = _collate_lora_metadata({"transformer": transformer})
    layers = get_peft_model_state_dict(transformer, adapter_name=ADAPTER)
    with tempfile.TemporaryDirectory() as scratch, written_whole(folder / WEIGHTS) as temporary:
        pipeline.save_lora_weights(scratch, transformer_lora_layers=layers, **metadata)
        temporary.write_bytes((Path(scratch) / WEIGHTS).read_bytes())
    if card is not None:
        write_text(folder / "README.md", card)
    return folder / WEIGHTS


def load_lora(pipeline: Any, folder: str | Path) -> list[str]:
    """Load an adapter exactly as a user of stock diffusers does; the bound modules' names."""
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise CastError(f"{path}: no adapter there; train it first, or name its folder.")
    if bound_modules(pipeline.transformer):
        raise CastError(f"{path}: the transformer has an adapter already; load the base anew.")
    with torch.random.fork_rng():
        pipeline.load_lora_weights(str(folder), weight_name=WEIGHTS, adapter_name=ADAPTER)
    pipeline.transformer.requires_grad_(False)
    return list(bound_modules(pipeline.transformer))


def model_card(
    backbone: BackboneConfig, title: str, run: Mapping[str, Any], ledger: Mapping[str, Any]
) -> str:
    """The adapter's `README.md`: base and its licence, how to load it, run config and ledger."""
    return f"""---
base_model: {backbone.path}
library_name: diffusers
license: {"apache-2.0" if backbone.licence == "Apache-2.0" else "other"}
license_name: {json.dumps(backbone.licence)}
tags: [lora, text-to-image, cast]
---

# {title} on {backbone.name}

A low-rank adapter of `{backbone.path}`, trained by reinforcement learning on prompts sampled from
scene graphs. It is a derivative of the base model: the base's licence ({backbone.licence})
holds for it.

```python
pipeline = DiffusionPipeline.from_pretrained("{backbone.path}")
pipeline.load_lora_weights("FOLDER", weight_name="{WEIGHTS}")
```

## Configuration

```json
{json.dumps(dict(run), indent=2, sort_keys=True, default=str)}
```

## Ledger

```json
{json.dumps(dict(ledger), indent=2, sort_keys=True, default=str)}
```
"""
