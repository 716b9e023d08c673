"""mini-zimage: a `ZImagePipeline`, taught by mini-flux2."""

from typing import Any

import torch
from diffusers.models.transformers.transformer_z_image import ZImageTransformer2DModel
from diffusers.pipelines.z_image.pipeline_z_image import ZImagePipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from transformers import Qwen3Config, Qwen3Model

from cast.mini.zoo import vae
from cast.mini.zoo.flow import WIDTH, Recipe
from cast.mini.zoo.loop import LoopConfig
from cast.mini.zoo.text import Z_IMAGE_TEMPLATE, qwen_tokenizer

TAUGHT = LoopConfig(
    steps=1200,
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
TEXT_WIDTH = 96


def build_text_encoder(tokenizer: Any) -> Qwen3Model:
    """Four layers of width 96, of which the pipeline reads the third's output."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Qwen3Model(config)


def build_transformer() -> ZImageTransformer2DModel:
    """Four single-stream blocks of width 128 behind one refiner each of image and text, 1.8M."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return ZImageTransformer2DModel(
            in_channels=4,
            dim=WIDTH,
            n_layers=4,
            n_refiner_layers=1,
            n_heads=WIDTH // 32,
            n_kv_heads=WIDTH // 32,
            cap_feat_dim=TEXT_WIDTH,
            axes_dims=[8, 12, 12],
            axes_lens=[128, 32, 32],
        )


def build_pipeline(autoencoder: Any) -> ZImagePipeline:
    """The pipeline around untrained text encoder and transformer."""
    tokenizer: Any = qwen_tokenizer()
    tokenizer.chat_template = Z_IMAGE_TEMPLATE
    return ZImagePipeline(
        # The big model's shift of 6 would leave the last of 20 steps a quarter of the path.
        scheduler=FlowMatchEulerDiscreteScheduler(shift=2.0),
        vae=autoencoder,
        text_encoder=build_text_encoder(tokenizer),
        tokenizer=tokenizer,
        transformer=build_transformer(),
    )


RECIPE = Recipe(
    name="mini-zimage",
    autoencoder=lambda shared, folder: vae.plain_autoencoder(shared),
    build=build_pipeline,
    text=lambda pipe: {"text_block": pipe.text_encoder},
    middle=lambda transformer: transformer.layers[1],
    image_tokens=lambda output: output[:, :64],
    purpose="zoo/z_image",
    stages={"taught": TAUGHT, "refine": REFINE},
    teacher="mini-flux2",
)
