"""The real architectures on the meta device: parameter counts and what a LoRA would bind."""

import re
from typing import Any

import pytest
import tiny
import torch

from cast.backbones import backbone_class

diffusers: Any = tiny.diffusers

SD35_LARGE = {
    "num_layers": 38,
    "num_attention_heads": 38,
    "attention_head_dim": 64,
    "joint_attention_dim": 4096,
    "caption_projection_dim": 2432,
    "pooled_projection_dim": 2048,
    "pos_embed_max_size": 192,
    "sample_size": 128,
    "in_channels": 16,
    "out_channels": 16,
    "qk_norm": "rms_norm",
}

# family: transformer class, its config (defaults are the released model's), billions of
# parameters, blocks in each list, modules that the adapter binds.
FULL_SIZE = {
    "flux2": ("Flux2Transformer2DModel", {}, 32.2, (8, 48), 8 * 8 + 48 * 2),
    "flux1": ("FluxTransformer2DModel", {"guidance_embeds": True}, 11.9, (19, 38), 19 * 8 + 38 * 4),
    "qwen_image": ("QwenImageTransformer2DModel", {}, 20.4, (60,), 60 * 8),
    "sd3": ("SD3Transformer2DModel", SD35_LARGE, 8.1, (38,), 38 * 8 - 1),
    "z_image": ("ZImageTransformer2DModel", {}, 6.2, (2, 2, 30), 34 * 4),
}


@pytest.mark.parametrize("family", FULL_SIZE)
def test_the_released_architecture_is_bound_in_every_block(family):
    name, config, billions, blocks, bound = FULL_SIZE[family]
    with torch.device("meta"):
        transformer = getattr(diffusers, name)(**config)
    count = sum(parameter.numel() for parameter in transformer.parameters())
    assert count / 1e9 == pytest.approx(billions, abs=0.06)
    adapter = backbone_class(family)
    assert tuple(len(getattr(transformer, list_)) for list_ in adapter.block_lists) == blocks
    matches = [n for n, _ in transformer.named_modules() if re.fullmatch(adapter.lora_targets, n)]
    assert len(matches) == bound
    linear = [n for n in matches if isinstance(transformer.get_submodule(n), torch.nn.Linear)]
    assert linear == matches
