"""Counts of a small local backbone: loaded, and its steps counted on it, as they run on a CPU."""

from functools import cache
from typing import Any

from torch import nn

from cast.backbones import load_backbone
from cast.backbones.lora import bound_modules
from cast.config import BackboneConfig, LoraSection, SamplingSection
from cast.errors import CastError
from cast.full_size.counting import Steps, count_operations
from cast.full_size.counts import BackboneCounts, local_parameters

LARGEST = 200_000_000  # parameters of a transformer that is loaded to be counted
PROMPT = "two red circles to the left of a blue star"
RANK = 4


def count_local(config: BackboneConfig, height: int, width: int) -> BackboneCounts:
    """Of one image, without gradient checkpointing, which only GPUs use.

    Raises `CastError` for a large model, of which shapes.yaml wants a description.
    """
    if local_parameters(config) > LARGEST:
        raise CastError(
            f"config/backbones/{config.name}.yaml: path: {config.path!r}: too large to be loaded "
            "and counted, and none of the counted models. Describe it in "
            "src/cast/full_size/shapes.yaml and run `python -m cast.full_size count`."
        )
    return _counted(config.model_dump_json(), height, width)


@cache  # a report asks for each backbone several times
def _counted(config: str, height: int, width: int) -> BackboneCounts:
    settings = BackboneConfig.model_validate_json(config)
    sampling = SamplingSection(height=height, width=width)
    backbone: Any = load_backbone(settings, sampling, "cpu")
    pipeline = backbone.pipeline
    parameters = {
        "transformer": _size(pipeline.transformer),
        "vae": _size(pipeline.vae),
        "text_encoder": sum(_size(getattr(pipeline, name)) for name in backbone.text_encoders),
    }
    backbone.add_lora(LoraSection(rank=RANK, alpha=1.0))
    conditioning = backbone.encode([PROMPT])
    steps = Steps(backbone, conditioning)
    update, activations = steps.count_update(checkpointed=False)
    tensors = conditioning.tensors.values()
    adapter = sum(p.numel() for p in backbone.trainable_parameters().values())
    return BackboneCounts(
        tokens=backbone.latent_shape[0],
        channels=backbone.latent_shape[1],
        step=float(count_operations(steps.step)),
        update=float(update),
        decode=float(count_operations(steps.decode)),
        activations=float(activations),
        parameters=parameters,
        lora_modules=len(bound_modules(backbone.transformer)),
        lora_parameters_per_rank=adapter // RANK,
        conditioning_bytes=sum(t.numel() * t.element_size() for t in tensors),
    )


def _size(module: nn.Module | None) -> int:
    return 0 if module is None else sum(p.numel() for p in module.parameters())
