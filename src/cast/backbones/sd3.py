"""Stable Diffusion 3 and 3.5: joint blocks, two CLIPs and an optional T5, classifier-free guidance.

The transformer takes unpacked latents and patchifies inside, and takes `1000 sigma` as its time;
packing into 2x2 tokens happens here. Guidance runs (negative, positive) in one doubled batch.
"""

from typing import Any

import torch
from diffusers.pipelines.stable_diffusion_3.pipeline_stable_diffusion_3 import (
    StableDiffusion3Pipeline,
)
from torch import Tensor

from cast.backbones.conditioning import Conditioning
from cast.backbones.flux1 import dynamic_shift
from cast.backbones.packing import pack_patches, unpack_patches
from cast.backbones.protocol import Backbone
from cast.errors import CastError


class SD3Backbone(Backbone):
    """Adapter of `StableDiffusion3Pipeline`."""

    family = "sd3"
    pipeline_class = StableDiffusion3Pipeline
    text_encoders = ("text_encoder", "text_encoder_2", "text_encoder_3")
    # attn2 exists in the dual-attention blocks of 3.5-medium.
    lora_targets = (
        r"transformer_blocks\.\d+\.attn2?\."
        r"(to_q|to_k|to_v|to_out\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)"
    )
    # The last block keeps no text stream, so its text queries are read by nothing.
    lora_without_gradient = r"transformer_blocks\.{last}\.attn\.(add_q_proj|to_add_out)"

    def _check_guidance(self) -> None:
        if self.config.guidance is not None and self.config.guidance <= 1.0:
            raise CastError(
                f"config/backbones/{self.config.name}.yaml: guidance: {self.config.guidance} is no "
                "guidance for this family; use null, or a scale above 1."
            )

    def _latent_channels(self) -> int:
        return self.pipeline.transformer.config.in_channels

    def _encode(self, prompts: list[str]) -> Conditioning:
        guided = self.config.guidance is not None
        embeds, negative, pooled, negative_pooled = self.pipeline.encode_prompt(
            prompt=prompts,
            prompt_2=None,
            prompt_3=None,
            device=self.device,
            do_classifier_free_guidance=guided,
            max_sequence_length=self.config.max_text_tokens or 256,
        )
        tensors = {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled}
        if guided:
            tensors["negative_prompt_embeds"] = negative
            tensors["negative_pooled_prompt_embeds"] = negative_pooled
        return Conditioning(tensors)

    def _schedule(self, steps: int) -> dict[str, Any]:
        if self.pipeline.scheduler.config.get("use_dynamic_shifting", None):
            return {"num_inference_steps": steps, "mu": dynamic_shift(self, max_shift=1.16)}
        return {"num_inference_steps": steps}

    def _pack(self, latents: Tensor) -> Tensor:
        return pack_patches(latents)

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        latents = unpack_patches(x.to(self.dtype), self.token_grid)
        time = sigma * 1000
        embeds, pooled = (
            conditioning.tensors[name] for name in ("prompt_embeds", "pooled_prompt_embeds")
        )
        if self.config.guidance is not None:
            latents, time = torch.cat([latents] * 2), torch.cat([time] * 2)
            embeds = torch.cat([conditioning.tensors["negative_prompt_embeds"], embeds])
            pooled = torch.cat([conditioning.tensors["negative_pooled_prompt_embeds"], pooled])
        predicted = self.pipeline.transformer(
            hidden_states=latents,
            timestep=time,
            encoder_hidden_states=embeds,
            pooled_projections=pooled,
            return_dict=False,
        )[0]
        if self.config.guidance is not None:
            unconditional, conditional = predicted.chunk(2)
            predicted = unconditional + self.config.guidance * (conditional - unconditional)
        return pack_patches(predicted)

    def _decode(self, latents: Tensor) -> Tensor:
        vae = self.pipeline.vae
        grid = unpack_patches(latents, self.token_grid)
        grid = (grid / vae.config.scaling_factor) + vae.config.shift_factor
        return vae.decode(grid, return_dict=False)[0]


BACKBONE = SD3Backbone
