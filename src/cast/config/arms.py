"""One run: its backbone, its method and everything that it resolves to."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cast.config.families import families
from cast.config.judges import PreferenceSection
from cast.config.model import Name, Section, Seed, setting
from cast.config.sections import (
    SamplingSection,
    SdeSection,
    TrainingSection,
    VerifierSection,
)
from cast.errors import nearest


class WindowSection(Section):
    """Candidate range [low, high) of stochastic transitions, for one N (paper 4.3, B)."""

    low: int = setting(..., "First transition that may be stochastic", source="paper B", ge=0)
    high: Annotated[int, Field(ge=1)] | Literal["measured"] = setting(
        ...,
        "One past the last one: ceil(tau* N), tau* the structure-formation point; measured takes "
        "it from results/WORLD/BACKBONE/window.json, which the structure-formation study writes",
        source="paper B",
    )
    steps: int = setting(..., "The N that the range is for", ge=2)

    @model_validator(mode="after")
    def _consistent(self) -> "WindowSection":
        if self.high != "measured" and not self.low < self.high <= self.steps:
            raise ValueError(f"need low < high <= steps, not {self.low}, {self.high}, {self.steps}")
        return self


class BackboneConfig(Section):
    """One text-to-image model: `config/backbones/NAME.yaml`."""

    name: Name = setting(..., "Name of the backbone, that of its file")
    family: str = setting(
        ..., "Which adapter serves it: a file of src/cast/backbones that defines BACKBONE"
    )
    path: str = setting(..., "Local folder or hub id", min_length=1)
    dtype: Literal["float32", "bfloat16"] = setting(..., "Number type of the weights")
    guidance: float | None = setting(
        None,
        "Guidance scale, embedded or true CFG as the family has it; null is none",
        ge=0.0,
        le=100.0,
    )
    noise_level: float = setting(..., "Noise level a of the SDE", source="peers", gt=0.0, le=2.0)
    window: WindowSection = setting(..., "Candidate range of stochastic transitions")
    licence: str = setting(..., "Licence of the weights", min_length=1)
    text_layers: tuple[Annotated[int, Field(ge=0)], ...] | None = setting(
        None, "Text-encoder layers that are concatenated; null is the pipeline's default"
    )
    max_text_tokens: int | None = setting(
        None, "Longest prompt; null is the pipeline's default", unit="tokens", ge=1
    )
    text_encoder: Literal["device", "cpu"] = setting(
        "device",
        "Where the text encoder waits: beside the transformer, or on the CPU, whence it moves to "
        "the device only while it encodes; either way it is released once all prompts are encoded",
    )
    device_map: Literal["auto"] | dict[str, str | int] | None = setting(
        None,
        "How the transformer is spread: null puts it on one device, auto over all GPUs and then "
        "the CPU, or a map from module names to devices (accelerate's)",
    )

    @field_validator("family")
    @classmethod
    def _known_family(cls, value: str) -> str:
        known = families()
        if value not in known:
            raise ValueError(
                f"there is no family {value!r}; known: {', '.join(known)}.{nearest(value, known)} "
                f"A new one is a file src/cast/backbones/{value}.py"
            )
        return value


class MethodConfig(Section):
    """One training method: `config/methods/NAME.yaml`."""

    name: Name = setting(..., "Name of the method, that of its file")
    title: str = setting(..., "Name in tables and figures", min_length=1)
    kind: Literal["rl", "sft"] = setting(..., "Policy gradient, or supervised on the best images")
    reward: Literal["atoms", "preference"] = setting("atoms", "Atom scores, or PickScore")
    routing: Literal["uniform", "per_atom", "aggregate_map", "shuffled_map", "atom_map"] | None = (
        setting(None, "Credit routing of rl", source="paper 4.3, C")
    )
    keep: int | None = setting(None, "sft: images kept of each prompt", source="paper 5.1", ge=1)
    of: int | None = setting(None, "sft: images drawn for each prompt", source="paper 5.1", ge=2)
    learning_rate: float | None = setting(
        None,
        "Only for trials: this arm's own learning rate; null is the shared one",
        gt=0.0,
        le=1.0,
    )

    @model_validator(mode="after")
    def _consistent(self) -> "MethodConfig":
        if self.kind == "rl" and (self.routing is None or self.keep or self.of):
            raise ValueError("kind rl needs routing, and neither keep nor of")
        if self.kind == "sft":
            if self.keep is None or self.of is None or self.routing is not None:
                raise ValueError("kind sft needs keep and of, and no routing")
            if self.keep >= self.of:
                raise ValueError(f"keep must be less than of ({self.of})")
        if self.reward == "preference" and self.routing not in (None, "uniform"):
            raise ValueError(
                "reward preference gives one score an image, so routing must be uniform"
            )
        return self


class RunConfig(Section):
    """Everything that the training of one (backbone, method, seed) needs, resolved."""

    world: Literal["smoke", "mini", "paper"]
    backbone: BackboneConfig
    method: MethodConfig
    seed: Seed
    sampling: SamplingSection
    sde: SdeSection
    verifier: VerifierSection
    preference: PreferenceSection | None = None  # of methods that it rewards
    training: TrainingSection
    manifest: str

    @model_validator(mode="after")
    def _consistent(self) -> "RunConfig":
        if (self.method.reward == "preference") != (self.preference is not None):
            raise ValueError(
                "preference belongs to methods with reward preference, and to no other"
            )
        return self

    @property
    def scorer_path(self) -> str:
        """Weights of the model that rewards this run."""
        return self.verifier.path if self.preference is None else self.preference.path

    def hash(self) -> str:
        """Hex sha256 of the resolved settings: two runs with one hash are the same run."""
        from cast.io import sha256_json  # here, so that reading a config doesn't import torch

        return sha256_json(self.model_dump(mode="json"))
