"""mini-flux2: a `Flux2Pipeline` trained from nothing on rendered scenes."""

from typing import Any

import torch
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from transformers import Mistral3Config, Mistral3ForConditionalGeneration

from cast.mini.zoo.flow import Recipe
from cast.mini.zoo.loop import LoopConfig
from cast.mini.zoo.text import mistral_tokenizer

CONFIG = LoopConfig(steps=4400, batch=32, decay_share=0.4, ema=0.9995, checkpoint_every=100)
# A second round from the first one's average, the noise renewed.
REFINE = LoopConfig(
    steps=3000, batch=64, warmup=100, decay_share=0.5, ema=0.999, checkpoint_every=50
)
TEXT_LAYERS = (1, 2, 3)  # as text_layers in config/backbones/mini-flux2.yaml


def build_text_encoder() -> Mistral3ForConditionalGeneration:
    """Three layers of width 96; the vision tower that the class insists on is a stump."""
    tokenizer = mistral_tokenizer()
    config = Mistral3Config(
        text_config={
            "model_type": "mistral",
            "vocab_size": len(tokenizer),
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 24,
            "max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "model_type": "pixtral",
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "head_dim": 8,
            "image_size": 16,
            "patch_size": 16,
        },
        image_token_index=len(tokenizer) - 1,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Mistral3ForConditionalGeneration(config)


def build_transformer() -> Flux2Transformer2DModel:
    """Two double-stream and four single-stream blocks of width 128, 2.1M parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return Flux2Transformer2DModel(
            in_channels=16,
            num_layers=2,
            num_single_layers=4,
            attention_head_dim=32,
            num_attention_heads=4,
            joint_attention_dim=len(TEXT_LAYERS) * 96,
            axes_dims_rope=(8, 8, 8, 8),
            guidance_embeds=False,
        )


def build_pipeline(autoencoder: Any) -> Flux2Pipeline:
    """The pipeline around untrained text encoder and transformer."""
    tokenizer: Any = mistral_tokenizer()  # the class asks for a processor; its own use is this
    return Flux2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True,
            # The pipeline's shift for 64 tokens is 1.8 at 20 steps; taken as an exponent it would
            # leave the last step a quarter of the path.
            time_shift_type="linear",
        ),
        vae=autoencoder,
        text_encoder=build_text_encoder(),
        tokenizer=tokenizer,
        transformer=build_transformer(),
    )


RECIPE = Recipe(
    name="mini-flux2",
    autoencoder=lambda shared, folder: shared,
    build=build_pipeline,
    text=lambda pipe: {"text_block": pipe.text_encoder.model.language_model},
    middle=lambda transformer: transformer.single_transformer_blocks[1],
    image_tokens=lambda output: output[:, -64:],
    purpose="zoo/flux2",
    stages={"flow": CONFIG, "refine": REFINE},
    shards=24,
)
