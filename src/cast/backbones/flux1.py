"""FLUX.1: 19 double-stream and 38 single-stream blocks, CLIP and T5, embedded guidance.

The shortest adapter, so the example to start a new one from: each method is one step of
`FluxPipeline.__call__`.
"""

from typing import Any

import numpy as np
import torch
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline, calculate_shift
from torch import Tensor

from cast.backbones.conditioning import Conditioning
from cast.backbones.packing import pack_patches, unpack_patches
from cast.backbones.protocol import Backbone, require_guidance


class Flux1Backbone(Backbone):
    """Adapter of `FluxPipeline`."""

    family = "flux1"
    pipeline_class = FluxPipeline
    text_encoders = ("text_encoder", "text_encoder_2")
    block_lists = ("transformer_blocks", "single_transformer_blocks")
    # A single block's proj_out projects its attention's output and its MLP's together.
    lora_targets = (
        r"transformer_blocks\.\d+\.attn\."
        r"(to_q|to_k|to_v|to_out\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)"
        r"|single_transformer_blocks\.\d+\.(attn\.(to_q|to_k|to_v)|proj_out)"
    )

    def _check_guidance(self) -> None:
        require_guidance(self.config, self.pipeline.transformer.config.guidance_embeds)

    def _latent_channels(self) -> int:
        return self.pipeline.transformer.config.in_channels // 4

    def _encode(self, prompts: list[str]) -> Conditioning:
        embeds, pooled, _ = self.pipeline.encode_prompt(
            prompt=prompts,
            device=self.device,
            max_sequence_length=self.config.max_text_tokens or 512,
        )
        return Conditioning({"prompt_embeds": embeds, "pooled_prompt_embeds": pooled})

    def _schedule(self, steps: int) -> dict[str, Any]:
        return {"sigmas": np.linspace(1.0, 1 / steps, steps), "mu": dynamic_shift(self)}

    def _pack(self, latents: Tensor) -> Tensor:
        return pack_patches(latents)

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        guidance = None
        if self.config.guidance is not None:
            guidance = torch.full((len(x),), self.config.guidance, device=x.device)
        embeds = conditioning.tensors["prompt_embeds"]
        rows, columns = self.token_grid
        return self.pipeline.transformer(
            hidden_states=x.to(self.dtype),
            timestep=(sigma * 1000).to(self.dtype) / 1000,
            guidance=guidance,
            pooled_projections=conditioning.tensors["pooled_prompt_embeds"],
            encoder_hidden_states=embeds,
            txt_ids=torch.zeros(embeds.shape[1], 3).to(embeds),
            img_ids=self.pipeline._prepare_latent_image_ids(
                len(x), rows, columns, x.device, self.dtype
            ),
            return_dict=False,
        )[0]

    def _decode(self, latents: Tensor) -> Tensor:
        vae = self.pipeline.vae
        grid = unpack_patches(latents, self.token_grid)
        grid = (grid / vae.config.scaling_factor) + vae.config.shift_factor
        return vae.decode(grid, return_dict=False)[0]


def dynamic_shift(backbone: Backbone, max_shift: float = 1.15) -> float:
    """The time shift `mu`, linear in the number of tokens, with the scheduler's own constants."""
    config = backbone.pipeline.scheduler.config
    return calculate_shift(
        backbone.latent_shape[0],
        config.get("base_image_seq_len", 256),
        config.get("max_image_seq_len", 4096),
        config.get("base_shift", 0.5),
        config.get("max_shift", max_shift),
    )


BACKBONE = Flux1Backbone
