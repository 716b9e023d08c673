"""Z-Image: 30 single-stream blocks with two refiners, a Qwen3 text encoder.

Its transformer takes lists of images and of captions, runs on `1 - sigma` and predicts the
velocity with the opposite sign. Guidance is `v + g (v - v_null)`, so a scale g here is one less
than elsewhere; the pipeline keeps latents and time in float32 whatever the weights are.
"""

from typing import Any

import torch
from diffusers.pipelines.z_image.pipeline_z_image import (
    ZImagePipeline,
    get_default_z_image_sigmas,
)
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cast.backbones.conditioning import Conditioning
from cast.backbones.flux1 import dynamic_shift
from cast.backbones.packing import pack_patches, unpack_patches
from cast.backbones.protocol import Backbone
from cast.errors import CastError


class ZImageBackbone(Backbone):
    """Adapter of `ZImagePipeline`."""

    family = "z_image"
    pipeline_class = ZImagePipeline
    block_lists = ("noise_refiner", "context_refiner", "layers")
    lora_targets = (
        r"(noise_refiner|context_refiner|layers)\.\d+\.attention\.(to_q|to_k|to_v|to_out\.0)"
    )

    def _check_guidance(self) -> None:
        if self.config.guidance is not None and self.config.guidance <= 0.0:
            raise CastError(
                f"config/backbones/{self.config.name}.yaml: guidance: {self.config.guidance} is no "
                "guidance for this family; use null, or a scale above 0."
            )

    def _latent_channels(self) -> int:
        return self.pipeline.transformer.config.in_channels

    def _encode(self, prompts: list[str]) -> Conditioning:
        guided = self.config.guidance is not None
        embeds, negative = self.pipeline.encode_prompt(
            prompt=list(prompts),  # the pipeline overwrites the list that it is given
            device=self.device,
            do_classifier_free_guidance=guided,
            max_sequence_length=self.config.max_text_tokens or 512,
        )
        tensors = _padded(embeds, "")
        return Conditioning(tensors | _padded(negative, "negative_") if guided else tensors)

    def _schedule(self, steps: int) -> dict[str, Any]:
        return {"sigmas": get_default_z_image_sigmas(steps), "mu": dynamic_shift(self)}

    def _pack(self, latents: Tensor) -> Tensor:
        return pack_patches(latents)

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        latents = unpack_patches(x.to(self.dtype), self.token_grid)
        time = (1000 - sigma * 1000) / 1000
        captions = _unpadded(conditioning, "")
        if self.config.guidance is not None:
            latents, time = torch.cat([latents] * 2), torch.cat([time] * 2)
            captions += _unpadded(conditioning, "negative_")
        predicted = self.pipeline.transformer(
            list(latents[:, :, None].unbind()), time, captions, return_dict=False
        )[0]
        predicted = torch.stack([one.float() for one in predicted])
        if self.config.guidance is not None:
            conditional, unconditional = predicted.chunk(2)
            predicted = conditional + self.config.guidance * (conditional - unconditional)
        return -pack_patches(predicted[:, :, 0])

    def _decode(self, latents: Tensor) -> Tensor:
        vae = self.pipeline.vae
        grid = unpack_patches(latents, self.token_grid)
        grid = (grid / vae.config.scaling_factor) + vae.config.shift_factor
        return vae.decode(grid, return_dict=False)[0]


def _padded(embeds: list[Tensor], prefix: str) -> dict[str, Tensor]:
    """A list of [L_i, D] as one [B, L, D] with its mask."""
    masks = [torch.ones(len(one), dtype=torch.bool, device=one.device) for one in embeds]
    return {
        f"{prefix}prompt_embeds": pad_sequence(embeds, batch_first=True),
        f"{prefix}prompt_embeds_mask": pad_sequence(masks, batch_first=True),
    }


def _unpadded(conditioning: Conditioning, prefix: str) -> list[Tensor]:
    embeds = conditioning.tensors[f"{prefix}prompt_embeds"]
    masks = conditioning.get(f"{prefix}prompt_embeds_mask")
    if masks is None:  # nothing is padded
        return list(embeds.unbind())
    return [one[mask] for one, mask in zip(embeds, masks, strict=True)]


BACKBONE = ZImageBackbone
