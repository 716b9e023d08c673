"""AuraFlow as a new family: all that `src/cast/backbones/aura_flow.py` would hold."""

from typing import Any

import torch
from diffusers.pipelines.aura_flow.pipeline_aura_flow import AuraFlowPipeline
from torch import Tensor

from cast.backbones.conditioning import Conditioning
from cast.backbones.packing import pack_patches, unpack_patches
from cast.backbones.protocol import Backbone


class AuraFlowBackbone(Backbone):
    family = "aura_flow"
    pipeline_class = AuraFlowPipeline
    block_lists = ("joint_transformer_blocks", "single_transformer_blocks")
    lora_targets = r".*_blocks\.\d+\.attn\.(to_q|to_k|to_v|to_out\.0|add_[qkv]_proj|to_add_out)"

    def _latent_channels(self) -> int:
        return self.pipeline.transformer.config.in_channels

    def _encode(self, prompts: list[str]) -> Conditioning:
        embeds, _, null, _ = self.pipeline.encode_prompt(prompts, device=self.device)
        return Conditioning({"embeds": embeds, "null": null})

    def _schedule(self, steps: int) -> dict[str, Any]:
        return {"num_inference_steps": steps}

    def _pack(self, latents: Tensor) -> Tensor:
        return pack_patches(latents)

    def _velocity(self, x: Tensor, sigma: Tensor, conditioning: Conditioning) -> Tensor:
        latents = torch.cat([unpack_patches(x.to(self.dtype), self.token_grid)] * 2)
        time = torch.cat([sigma * 1000 / 1000] * 2).to(latents)
        text = torch.cat([conditioning.tensors["null"], conditioning.tensors["embeds"]])
        output = self.pipeline.transformer(latents, text, time, return_dict=False)[0]
        null, conditional = output.chunk(2)
        return pack_patches(null + self.config.guidance * (conditional - null))

    def _decode(self, latents: Tensor) -> Tensor:
        vae = self.pipeline.vae
        return vae.decode(unpack_patches(latents, self.token_grid) / vae.config.scaling_factor)[0]


BACKBONE = AuraFlowBackbone
