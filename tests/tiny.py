"""Tiny pipelines of every family, built from configs with random weights, for tests.

They have the real classes and the real topology (double and single blocks, several text-encoder
layers, batch-norm statistics of the VAE), at a size that runs in milliseconds.
"""

from typing import Any

import torch
from tiny_parts import PROMPTS as PROMPTS  # tests write tiny.PROMPTS
from tiny_parts import (
    VOCABULARY,
    clip_text,
    diffusers,
    kl_autoencoder,
    randomised,
    scheduler,
    t5_text,
    tokenizer,
    transformers,
)

from cast.config import BackboneConfig, LoraSection, SamplingSection

SIZE = 32
"""Pixels; the VAEs scale by 4 and tokens are 2x2 latents, so an image has 4x4 tokens."""

LORA = LoraSection(rank=4, alpha=12.0)


def flux2(guidance: bool = True) -> Any:
    vae = randomised(
        diffusers.AutoencoderKLFlux2(
            block_out_channels=(8, 16, 16),
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            latent_channels=4,
            norm_num_groups=4,
            layers_per_block=1,
            mid_block_add_attention=False,
        )
    )
    generator = torch.Generator().manual_seed(1)
    vae.bn.running_mean.copy_(0.3 * torch.randn(16, generator=generator))
    vae.bn.running_var.copy_(0.5 + torch.rand(16, generator=generator))
    text_encoder = transformers.MistralForCausalLM(
        transformers.MistralConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=4,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
        )
    )
    transformer = diffusers.Flux2Transformer2DModel(
        in_channels=16,
        num_layers=2,
        num_single_layers=3,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=48,
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=guidance,
    )
    return diffusers.Flux2Pipeline(
        scheduler=scheduler(use_dynamic_shifting=True),
        vae=vae,
        text_encoder=randomised(text_encoder, 2),
        tokenizer=tokenizer(12),
        transformer=randomised(transformer, 3),
    )


def flux1(guidance: bool = True) -> Any:
    transformer = diffusers.FluxTransformer2DModel(
        in_channels=16,
        num_layers=2,
        num_single_layers=3,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 6, 6),
        guidance_embeds=guidance,
    )
    return diffusers.FluxPipeline(
        scheduler=scheduler(use_dynamic_shifting=True),
        vae=kl_autoencoder(),
        text_encoder=clip_text(False, 2),
        tokenizer=tokenizer(12),
        text_encoder_2=t5_text(16, 4),
        tokenizer_2=tokenizer(12),
        transformer=randomised(transformer, 3),
    )


def sd3(dual_attention: bool = False) -> Any:
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=3,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        caption_projection_dim=32,
        pooled_projection_dim=32,
        pos_embed_max_size=16,
        qk_norm="rms_norm",
        dual_attention_layers=(0,) if dual_attention else (),
    )
    return diffusers.StableDiffusion3Pipeline(
        scheduler=scheduler(shift=3.0),
        vae=kl_autoencoder(),
        text_encoder=clip_text(True, 2),
        tokenizer=tokenizer(12),
        text_encoder_2=clip_text(True, 4),
        tokenizer_2=tokenizer(12),
        text_encoder_3=None,
        tokenizer_3=None,
        transformer=randomised(transformer, 3),
    )


def qwen_image() -> Any:
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 2, 2],
        num_res_blocks=1,
        temperal_downsample=[False, False],
        latents_mean=[0.1, -0.2, 0.3, 0.0],
        latents_std=[1.1, 0.9, 1.3, 0.8],
    )
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2], "rope_type": "default"},
        "bos_token_id": 0,
        "eos_token_id": VOCABULARY - 1,
    }
    vision = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 32}
    text_encoder = transformers.Qwen2_5_VLForConditionalGeneration(
        transformers.Qwen2_5_VLConfig(
            text_config=text, vision_config=vision | {"out_hidden_size": 16}
        )
    )
    transformer = diffusers.QwenImageTransformer2DModel(
        in_channels=16,
        out_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        axes_dims_rope=(4, 6, 6),
    )
    return diffusers.QwenImagePipeline(
        scheduler=scheduler(use_dynamic_shifting=True),
        vae=randomised(vae),
        text_encoder=randomised(text_encoder, 2),
        tokenizer=tokenizer(1024),
        transformer=randomised(transformer, 3),
    )


def z_image() -> Any:
    text_encoder = transformers.Qwen3Model(
        transformers.Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
        )
    )
    transformer = diffusers.ZImageTransformer2DModel(
        in_channels=4,
        dim=32,
        n_layers=2,
        n_refiner_layers=1,
        n_heads=2,
        n_kv_heads=2,
        cap_feat_dim=16,
        axes_dims=[4, 6, 6],
        axes_lens=[128, 32, 32],
    )
    return diffusers.ZImagePipeline(
        scheduler=scheduler(shift=3.0),
        vae=kl_autoencoder(),
        text_encoder=randomised(text_encoder, 2),
        tokenizer=tokenizer(12),
        transformer=randomised(transformer, 3),
    )


PIPELINES = {
    "flux2": flux2,
    "flux1": flux1,
    "sd3": sd3,
    "qwen_image": qwen_image,
    "z_image": z_image,
}


def backbone_config(family: str, guidance: float | None, **more: Any) -> BackboneConfig:
    """The config of a tiny backbone; text settings fit the tiny encoders."""
    settings: dict[str, Any] = {
        "name": f"tiny-{family.replace('_', '-')}",
        "family": family,
        "path": f"models/tiny/{family}",
        "dtype": "float32",
        "guidance": guidance,
        "noise_level": 0.7,
        "window": {"low": 0, "high": 4, "steps": 6},
        "licence": "Apache-2.0",
        "max_text_tokens": 12,
        "text_layers": (1, 2, 3) if family == "flux2" else None,
    }
    return BackboneConfig(**(settings | more))


def sampling(height: int = SIZE, width: int = SIZE, steps: int = 6) -> SamplingSection:
    return SamplingSection(steps=steps, height=height, width=width)


def backbone(
    family: str,
    guidance: float | None = None,
    height: int = SIZE,
    width: int = SIZE,
    pipeline: Any = None,
    **more: Any,
) -> Any:
    """A tiny backbone; `guidance` also decides whether a distilled family embeds it."""
    from cast.backbones import backbone_class

    if pipeline is None:
        embeds = family in ("flux1", "flux2")
        pipeline = PIPELINES[family](guidance is not None) if embeds else PIPELINES[family]()
    config = backbone_config(family, guidance, **more)
    return backbone_class(family)(pipeline, config, height, width)


def call_arguments(
    family: str, prompts: list[str], size: tuple[int, int], guidance: float | None, steps: int
) -> dict[str, Any]:
    """Arguments of the pipeline's own `__call__` for what a tiny backbone does."""
    height, width = size
    arguments: dict[str, Any] = {"height": height, "width": width, "num_inference_steps": steps}
    arguments |= {"prompt": list(prompts), "max_sequence_length": 12}
    if family == "flux2":
        arguments |= {"guidance_scale": guidance or 1.0, "text_encoder_out_layers": (1, 2, 3)}
    elif family == "qwen_image":
        negative = None if guidance is None else [" "] * len(prompts)
        arguments |= {"true_cfg_scale": guidance or 1.0, "negative_prompt": negative}
    else:  # 1 is no guidance everywhere but in Z-Image, where it is 0
        arguments |= {"guidance_scale": guidance or (0.0 if family == "z_image" else 1.0)}
    return arguments
