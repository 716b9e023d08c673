"""What every text-to-image model offers to the rest of the package.

A backbone wraps a diffusers pipeline and takes it apart into the steps of its `__call__`, so that
`decode(rollout(...))` without a stochastic window equals the pipeline's own output bit for bit.

To add a family, write `cast/backbones/FAMILY.py` with a subclass named `BACKBONE`: its class
attributes, and the methods that raise `NotImplementedError` here and in `text`, each a few lines
that do what the pipeline's `__call__` does. Then describe a model of it in
`config/backbones/NAME.yaml`.
`tests/backbones/example_family/aura_flow.py` does it in under 40 lines, and
`tests/backbones/test_new_family.py` puts it through the acceptance test: images equal the
pipeline's own bit for bit.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cast.backbones import lora as adapters
from cast.backbones.conditioning import Conditioning
from cast.backbones.loading import load_pipeline, place
from cast.backbones.text import TextSide
from cast.config import BackboneConfig, LoraSection, SamplingSection
from cast.embeddings import Embeddings, embeddings_folder
from cast.errors import CastError
from cast.flow import Velocity


class Backbone(TextSide):
    """A frozen pipeline with an optional adapter; see the subclasses for each family's facts.

    Shapes: B samples, P = R * C packed tokens of D channels in row-major order, images of
    H x W pixels. Latents are float32 everywhere outside the transformer.
    """

    family: ClassVar[str]
    lora_targets: ClassVar[str]
    """Regular expression over the transformer's module names: every attention projection."""
    block_lists: ClassVar[tuple[str, ...]] = ("transformer_blocks",)
    """The transformer's lists of blocks; each block must hold at least one bound module."""
    lora_without_gradient: ClassVar[str] = ""
    """Names ({last}: the last block) that can't influence the output, so get no gradient."""

    def __init__(self, pipeline: Any, config: BackboneConfig, height: int, width: int) -> None:
        """Take over a loaded pipeline, for images of one size.

        Raises `CastError` when the size doesn't fit the latent grid, or when a guidance scale is
        missing or meaningless for this model.
        """
        self.pipeline, self.config, self.height, self.width = pipeline, config, height, width
        super().__init__()
        pipeline.set_progress_bar_config(disable=True)
        for part in pipeline.components.values():
            if isinstance(part, nn.Module):
                part.requires_grad_(False).eval()
        pixels = self.token_pixels
        if height % pixels or width % pixels:
            raise CastError(
                f"sampling: {height}x{width} pixels don't fit {config.name}; height and width must "
                f"be multiples of {pixels}."
            )
        self._check_guidance()

    @classmethod
    def load(
        cls, config: BackboneConfig, sampling: SamplingSection, device: str | None = None
    ) -> "Backbone":
        """Load the pipeline from a local folder or the hub, onto `device` (a GPU if there is one).

        Where embeddings are kept (`cast.embeddings`), the text encoders wait until a prompt comes
        that isn't there. Raises `CastError` for a missing or gated model, saying what to place or
        accept.
        """
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        folder = embeddings_folder()
        left_out = () if folder is None else cls.text_encoders
        pipeline = load_pipeline(cls.pipeline_class, config, left_out)
        place(pipeline, config, device, cls.text_encoders)
        backbone = cls(pipeline, config, sampling.height, sampling.width)
        if folder is not None:
            backbone.embeddings = Embeddings(folder, backbone.text_facts(), backbone.device)
        return backbone

    # Facts

    @property
    def transformer(self) -> nn.Module:
        """The denoiser, the only part that ever trains."""
        return self.pipeline.transformer

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the transformer's weights (an adapter's are float32)."""
        return self.pipeline.vae.dtype

    @property
    def token_pixels(self) -> int:
        """Side of one packed token in pixels."""
        return self.pipeline.vae_scale_factor * 2

    @property
    def token_grid(self) -> tuple[int, int]:
        """Rows and columns of packed tokens, row-major."""
        return self.height // self.token_pixels, self.width // self.token_pixels

    @property
    def latent_shape(self) -> tuple[int, int]:
        """(P, D): packed tokens and their channels."""
        rows, columns = self.token_grid
        return rows * columns, 4 * self._latent_channels()

    # Sampling

    def sigmas(self, steps: int) -> Float[Tensor, " n"]:
        """The `steps + 1` levels that the pipeline's scheduler gives for this image size."""
        own = self.pipeline.scheduler
        scheduler = type(own).from_config(own.config)
        scheduler.set_timesteps(device="cpu", **self._schedule(steps))
        return scheduler.sigmas.float()

    def noise(self, generators: Sequence[torch.Generator]) -> Float[Tensor, "B P D"]:
        """Standard normal packed latents; each sample from its own generator, as the pipeline's."""
        rows, columns = self.token_grid
        shape = (1, self._latent_channels(), 2 * rows, 2 * columns)
        drawn = [self._draw(shape, generator) for generator in generators]
        return torch.cat(drawn).to(self.device)

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return self._pack(torch.randn(shape, generator=generator))

    def velocity(
        self, x: Float[Tensor, "B P D"], sigma: Float[Tensor, " B"], conditioning: Conditioning
    ) -> Float[Tensor, "B P D"]:
        """Predicted velocity `eps - x0` at each sample's own level, guidance included; float32.

        The transformer sees latents and level in its own dtype, as in the pipeline: in bfloat16
        neighbouring levels can round to one, so rollout and replay must both come through here.
        """
        return self._velocity(x, sigma.to(x), conditioning).float()

    def velocity_for(self, conditioning: Conditioning) -> Velocity:
        """The callable that `cast.flow.rollout` wants, for a batch with this conditioning."""
        return lambda x, sigma, samples: self.velocity(x, sigma, conditioning.select(samples))

    @torch.no_grad()
    def decode(self, latents: Float[Tensor, "B P D"]) -> Float[Tensor, "B 3 H W"]:
        """Images in [0, 1], float32."""
        image = self._decode(latents.to(self.dtype))
        return self.pipeline.image_processor.postprocess(image, output_type="pt").float()

    # Adapter

    def add_lora(self, lora: LoraSection, seed: int = 0) -> list[str]:
        """Bind a fresh adapter to every attention projection; the bound modules' names.

        A new adapter changes nothing (its B is 0). Raises `CastError` when a block got none.
        """
        return adapters.add_lora(
            self.transformer, self.lora_targets, self.block_lists, lora.rank, lora.alpha, seed
        )

    def trainable_parameters(self) -> dict[str, nn.Parameter]:
        """The adapter's parameters by name; empty without one."""
        return {n: p for n, p in self.transformer.named_parameters() if p.requires_grad}

    def check_lora_gradients(self) -> None:
        """After a backward pass: raise `CastError` when a bound module was never reached."""
        adapters.check_gradients(self.transformer, self._silent_names())

    def _silent_names(self) -> str:
        last = len(getattr(self.transformer, self.block_lists[0])) - 1
        return self.lora_without_gradient.replace("{last}", str(last))

    @contextmanager
    def reference(self) -> Iterator[None]:
        """The reference policy: inside the block the adapter is off (paper 2.1's pi_ref)."""
        with adapters.disabled(self.transformer):
            yield

    def save_lora(self, folder: str | Path, card: str | None = None) -> Path:
        """Write the adapter as stock diffusers reads it, with alpha; and a model card beside it."""
        return adapters.save_lora(self.pipeline, folder, card)

    def load_lora(self, folder: str | Path) -> list[str]:
        """Read an adapter with stock diffusers (`pipeline.load_lora_weights`); the bound names."""
        return adapters.load_lora(self.pipeline, folder)

    def enable_gradient_checkpointing(self) -> None:
        """Recompute each block's activations in the backward pass: less memory, the same bits."""
        self.pipeline.transformer.enable_gradient_checkpointing()

    # Each family's own

    def _check_guidance(self) -> None:
        """Raise `CastError` unless `config.guidance` makes sense for this model."""

    def _latent_channels(self) -> int:
        """Channels of the unpacked latents."""
        raise NotImplementedError

    def _schedule(self, steps: int) -> dict[str, Any]:
        """Arguments of the scheduler's `set_timesteps`, as in the pipeline's `__call__`."""
        raise NotImplementedError

    def _pack(self, latents: Tensor) -> Tensor:
        """Unpacked latents, as the pipeline draws them, to [B, P, D]."""
        raise NotImplementedError

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        raise NotImplementedError

    def _decode(self, latents: Tensor) -> Tensor:
        """Packed latents to images in [-1, 1]."""
        raise NotImplementedError


def require_guidance(config: BackboneConfig, embedded: bool) -> None:
    """For guidance-distilled families: a scale exactly where the model embeds one."""
    if embedded and config.guidance is None:
        raise CastError(
            f"config/backbones/{config.name}.yaml: guidance: null is not allowed, the model embeds "
            "a guidance scale; give a number (the pipeline's default is 3.5 or 4)."
        )
    if not embedded and config.guidance is not None:
        raise CastError(
            f"config/backbones/{config.name}.yaml: guidance: {config.guidance} has no effect, the "
            "model embeds no guidance scale; use null."
        )
