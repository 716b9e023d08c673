"""FLUX.2: 8 double-stream and 48 single-stream blocks, a Mistral text encoder, embedded guidance.

Prompts are padded to a fixed length without a mask; the hidden states of several layers of the
text encoder are concatenated. The VAE's latents are patchified before its batch-norm statistics
are applied, so those statistics have 4 C channels.
"""

from typing import Any

import numpy as np
import torch
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline, compute_empirical_mu
from torch import Tensor

from cast.backbones.conditioning import Conditioning
from cast.backbones.protocol import Backbone, require_guidance


class Flux2Backbone(Backbone):
    """Adapter of `Flux2Pipeline`."""

    family = "flux2"
    pipeline_class = Flux2Pipeline
    block_lists = ("transformer_blocks", "single_transformer_blocks")
    lora_targets = (
        r"transformer_blocks\.\d+\.attn\."
        r"(to_q|to_k|to_v|to_out\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)"
        r"|single_transformer_blocks\.\d+\.attn\.(to_qkv_mlp_proj|to_out)"
    )

    def _check_guidance(self) -> None:
        require_guidance(self.config, self.pipeline.transformer.config.guidance_embeds)

    def _latent_channels(self) -> int:
        return self.pipeline.transformer.config.in_channels // 4

    def _encode(self, prompts: list[str]) -> Conditioning:
        embeds, ids = self.pipeline.encode_prompt(
            prompt=prompts,
            device=self.device,
            max_sequence_length=self.config.max_text_tokens or 512,
            text_encoder_out_layers=self.config.text_layers or (10, 20, 30),
        )
        return Conditioning({"prompt_embeds": embeds, "text_ids": ids})

    def _schedule(self, steps: int) -> dict[str, Any]:
        mu = compute_empirical_mu(image_seq_len=self.latent_shape[0], num_steps=steps)
        return {"sigmas": np.linspace(1.0, 1 / steps, steps), "mu": mu}

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        # This pipeline draws its noise already patchified.
        one, channels, height, width = shape
        patchified = (one, channels * 4, height // 2, width // 2)
        return self._pack(torch.randn(patchified, generator=generator))

    def _pack(self, latents: Tensor) -> Tensor:
        return latents.flatten(2).permute(0, 2, 1)

    def _grid(self, tokens: Tensor) -> Tensor:
        return tokens.permute(0, 2, 1).unflatten(2, self.token_grid)

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        guidance = None
        if self.config.guidance is not None:
            guidance = torch.full((len(x),), self.config.guidance, device=x.device)
        return self.pipeline.transformer(
            hidden_states=x.to(self.dtype),
            timestep=(sigma * 1000).to(self.dtype) / 1000,
            guidance=guidance,
            encoder_hidden_states=conditioning.tensors["prompt_embeds"],
            txt_ids=conditioning.tensors["text_ids"],
            img_ids=self.pipeline._prepare_latent_ids(self._grid(x)).to(x.device),
            return_dict=False,
        )[0]

    def _decode(self, latents: Tensor) -> Tensor:
        vae = self.pipeline.vae
        grid = self._grid(latents)
        mean = vae.bn.running_mean.view(1, -1, 1, 1).to(grid)
        std = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps).to(grid)
        grid = self.pipeline._unpatchify_latents(grid * std + mean)
        return vae.decode(grid, return_dict=False)[0]


BACKBONE = Flux2Backbone
