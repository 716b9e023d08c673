"""Backbones without trained weights: the real classes from stored config dicts.

They lie on the meta device unless another is named: nothing is computed there, but shapes,
parameters, floating-point operations and adapters are those of the real model, and building 32
billion parameters takes a second and no memory.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import nn

from cast.backbones import backbone_class
from cast.backbones.conditioning import Conditioning
from cast.backbones.protocol import Backbone
from cast.config import BackboneConfig, SamplingSection


@contextmanager
def _made(dtype: str, device: str) -> Iterator[None]:
    """New modules are made on this device, in this number type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def meta_module(
    settings: Mapping[str, Any], dtype: str = "bfloat16", device: str = "meta"
) -> nn.Module:
    """The diffusers or transformers model of a config dict; its weights are random or none.

    `settings` has `_class_name`; transformers' also `model_type`.
    """
    values = dict(settings)
    name, kind = values.pop("_class_name"), values.pop("model_type", None)
    with _made(dtype, device):
        if kind is None:
            return getattr(import_module("diffusers"), name)(**values)
        transformers = import_module("transformers")
        return getattr(transformers, name)(transformers.AutoConfig.for_model(kind, **values))


def meta_backbone(
    config: BackboneConfig,
    sampling: SamplingSection,
    parts: Mapping[str, Mapping[str, Any]],
    device: str = "meta",
) -> Backbone:
    """The adapter around a pipeline of such modules; `parts` holds `transformer` and `vae`.

    It has no text encoder: see `meta_conditioning`.
    """
    adapter = backbone_class(config.family)
    scheduler = import_module("diffusers").FlowMatchEulerDiscreteScheduler()
    components: dict[str, Any] = dict.fromkeys(
        inspect.signature(adapter.pipeline_class.__init__).parameters
    )
    components.pop("self")
    components.pop("is_distilled", None)
    components |= {name: meta_module(part, config.dtype, device) for name, part in parts.items()}
    components["scheduler"] = scheduler
    pipeline = adapter.pipeline_class(**components)
    return adapter(pipeline, config, sampling.height, sampling.width)


def meta_conditioning(
    shapes: Mapping[str, list[int]], dtype: str, batch: int = 1, device: str = "meta"
) -> Conditioning:
    """Embeddings of `batch` prompts, zero where they have values."""
    number = getattr(torch, dtype)
    return Conditioning(
        {
            name: torch.zeros(batch, *shape, dtype=number, device=device)
            for name, shape in shapes.items()
        }
    )
