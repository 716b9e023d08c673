"""mini-sd3: a `StableDiffusion3Pipeline` without T5, taught by mini-flux2."""

from typing import Any

import torch
from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel
from diffusers.pipelines.stable_diffusion_3.pipeline_stable_diffusion_3 import (
    StableDiffusion3Pipeline,
)
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

from cast.mini.zoo import vae
from cast.mini.zoo.flow import WIDTH, Recipe
from cast.mini.zoo.loop import LoopConfig
from cast.mini.zoo.text import CLIP_LENGTH, clip_tokenizer

TAUGHT = LoopConfig(
    steps=1500,
    batch=32,
    learning_rate=2e-3,
    warmup=40,
    decay_share=0.5,
    ema=0.99,
    checkpoint_every=50,
)
# A second round from the first one's average, the noise renewed.
REFINE = LoopConfig(
    steps=3000, batch=32, warmup=40, decay_share=0.7, ema=0.995, checkpoint_every=50
)
TEXT_WIDTH = 64  # of each of the two encoders; the transformer sees them side by side


def build_text_encoder(tokenizer: Any, seed: int) -> CLIPTextModelWithProjection:
    """Three layers of width 64; the pipeline reads the second's output and the pooled third's."""
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=CLIP_LENGTH,
        projection_dim=TEXT_WIDTH,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return CLIPTextModelWithProjection(config)


def build_transformer() -> SD3Transformer2DModel:
    """Five joint blocks of width 128, 2.8M parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return SD3Transformer2DModel(
            sample_size=16,
            patch_size=2,
            in_channels=4,
            out_channels=4,
            num_layers=5,
            attention_head_dim=32,
            num_attention_heads=WIDTH // 32,
            joint_attention_dim=2 * TEXT_WIDTH,
            caption_projection_dim=WIDTH,
            pooled_projection_dim=2 * TEXT_WIDTH,
            pos_embed_max_size=8,
            qk_norm="rms_norm",
        )


def build_pipeline(autoencoder: Any) -> StableDiffusion3Pipeline:
    """The pipeline around untrained text encoders and transformer."""
    tokenizer: Any = clip_tokenizer()
    nothing: Any = None
    return StableDiffusion3Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=autoencoder,
        text_encoder=build_text_encoder(tokenizer, 1),
        tokenizer=tokenizer,
        text_encoder_2=build_text_encoder(tokenizer, 4),
        tokenizer_2=tokenizer,
        text_encoder_3=nothing,
        tokenizer_3=nothing,
        transformer=build_transformer(),
    )


RECIPE = Recipe(
    name="mini-sd3",
    autoencoder=lambda shared, folder: vae.plain_autoencoder(shared),
    build=build_pipeline,
    text=lambda pipe: {"text_block": pipe.text_encoder, "text_block_2": pipe.text_encoder_2},
    middle=lambda transformer: transformer.transformer_blocks[2],
    image_tokens=lambda output: output[1],
    purpose="zoo/sd3",
    stages={"taught": TAUGHT, "refine": REFINE},
    teacher="mini-flux2",
)
