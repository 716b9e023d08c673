"""Text-to-image models behind one protocol: one file a family, one YAML a model.

`load_backbone(config, sampling)` gives the adapter of `config.family`, which lives in
`cast/backbones/FAMILY.py` under the name `BACKBONE`; families are imported when they are asked for.
"""

from importlib import import_module

from cast.backbones.conditioning import Conditioning
from cast.backbones.lora import model_card
from cast.backbones.protocol import Backbone
from cast.config import BackboneConfig, SamplingSection
from cast.config.families import families
from cast.errors import CastError

__all__ = ["Backbone", "Conditioning", "backbone_class", "load_backbone", "model_card"]


def backbone_class(family: str) -> type[Backbone]:
    """The adapter class of a family; `CastError` when there is no such file."""
    if family not in families():
        raise CastError(f"family: {family!r} is unknown; there is no cast/backbones/{family}.py.")
    return import_module(f"{__name__}.{family}").BACKBONE


def load_backbone(
    config: BackboneConfig, sampling: SamplingSection, device: str | None = None
) -> Backbone:
    """Load the model that `config` names, for images of `sampling`'s size."""
    return backbone_class(config.family).load(config, sampling, device)
