"""Qwen-Image: 60 double-stream blocks, a Qwen2.5-VL text encoder, true classifier-free guidance.

Guidance runs the transformer twice and rescales each token's guided velocity to the norm of the
conditional one. The pipeline switches it off silently without a negative prompt; here a scale
above 1 always means guidance, with `NEGATIVE_PROMPT`.
"""

from typing import Any

import numpy as np
import torch
from diffusers.pipelines.qwenimage.pipeline_qwenimage import QwenImagePipeline
from torch import Tensor

from cast.backbones.conditioning import Conditioning
from cast.backbones.flux1 import dynamic_shift
from cast.backbones.packing import pack_patches, unpack_patches
from cast.backbones.protocol import Backbone
from cast.errors import CastError

NEGATIVE_PROMPT = " "
"""As in the pipeline's documentation; recorded with every run by the backbone's config."""


class QwenImageBackbone(Backbone):
    """Adapter of `QwenImagePipeline`."""

    family = "qwen_image"
    pipeline_class = QwenImagePipeline
    lora_targets = (
        r"transformer_blocks\.\d+\.attn\."
        r"(to_q|to_k|to_v|to_out\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)"
    )
    # Nothing reads the text stream after the last block.
    lora_without_gradient = r"transformer_blocks\.{last}\.attn\.(add_q_proj|to_add_out)"

    def _check_guidance(self) -> None:
        if self.config.guidance is not None and self.config.guidance <= 1.0:
            raise CastError(
                f"config/backbones/{self.config.name}.yaml: guidance: {self.config.guidance} is no "
                "guidance for this family; use null, or a scale above 1."
            )
        if self.pipeline.transformer.config.guidance_embeds:
            raise CastError(f"{self.config.name}: guidance-distilled Qwen-Image isn't supported.")

    def _latent_channels(self) -> int:
        return self.pipeline.transformer.config.in_channels // 4

    def _encode(self, prompts: list[str]) -> Conditioning:
        tensors = self._embed(prompts, "")
        if self.config.guidance is not None:
            tensors |= self._embed([NEGATIVE_PROMPT] * len(prompts), "negative_")
        return Conditioning(tensors)

    def _embed(self, prompts: list[str], prefix: str) -> dict[str, Tensor]:
        embeds, mask = self.pipeline.encode_prompt(
            prompt=prompts,
            device=self.device,
            max_sequence_length=self.config.max_text_tokens or 512,
        )
        tensors = {f"{prefix}prompt_embeds": embeds}
        if mask is not None:  # the pipeline drops a mask that masks nothing
            tensors[f"{prefix}prompt_embeds_mask"] = mask
        return tensors

    def _schedule(self, steps: int) -> dict[str, Any]:
        return {"sigmas": np.linspace(1.0, 1 / steps, steps), "mu": dynamic_shift(self)}

    def _pack(self, latents: Tensor) -> Tensor:
        return pack_patches(latents)

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        conditional = self._forward(x, sigma, conditioning, "")
        if self.config.guidance is None:
            return conditional
        unconditional = self._forward(x, sigma, conditioning, "negative_")
        guided = unconditional + self.config.guidance * (conditional - unconditional)
        norm = torch.norm(conditional, dim=-1, keepdim=True)
        return guided * (norm / torch.norm(guided, dim=-1, keepdim=True))

    def _forward(self, x: Tensor, sigma: Tensor, conditioning: Conditioning, prefix: str) -> Tensor:
        return self.pipeline.transformer(
            hidden_states=x.to(self.dtype),
            timestep=(sigma * 1000).to(self.dtype) / 1000,
            encoder_hidden_states=conditioning.tensors[f"{prefix}prompt_embeds"],
            encoder_hidden_states_mask=conditioning.get(f"{prefix}prompt_embeds_mask"),
            img_shapes=[[(1, *self.token_grid)]] * len(x),
            return_dict=False,
        )[0]

    def _decode(self, latents: Tensor) -> Tensor:
        vae = self.pipeline.vae
        grid = unpack_patches(latents, self.token_grid)[:, :, None]
        shape = (1, vae.config.z_dim, 1, 1, 1)
        mean = torch.tensor(vae.config.latents_mean).view(shape).to(grid)
        inverse_std = 1.0 / torch.tensor(vae.config.latents_std).view(shape).to(grid)
        return vae.decode(grid / inverse_std + mean, return_dict=False)[0][:, :, 0]


BACKBONE = QwenImageBackbone
