"""mini-qwen-image: a `QwenImagePipeline`, taught by mini-flux2.

A tenth of the prompts in training is the null prompt, so true classifier-free guidance works.
"""

from typing import Any

import torch
from diffusers.models.transformers.transformer_qwenimage import QwenImageTransformer2DModel
from diffusers.pipelines.qwenimage.pipeline_qwenimage import QwenImagePipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from cast.backbones.qwen_image import NEGATIVE_PROMPT
from cast.mini.zoo import qwen_vae
from cast.mini.zoo.flow import WIDTH, Recipe
from cast.mini.zoo.loop import LoopConfig
from cast.mini.zoo.text import qwen_tokenizer

TAUGHT = LoopConfig(
    steps=2500,
    batch=32,
    learning_rate=2e-3,
    warmup=40,
    decay_share=0.5,
    ema=0.995,
    checkpoint_every=50,
)
# A second round from the first one's average, the noise renewed.
REFINE = LoopConfig(
    steps=3600, batch=32, warmup=40, decay_share=0.7, ema=0.995, checkpoint_every=50
)
TEXT_WIDTH = 96


def build_text_encoder(tokenizer: Any) -> Qwen2_5_VLForConditionalGeneration:
    """Three layers of width 96; the vision tower that the class insists on is a stump."""
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": TEXT_WIDTH,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 128,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [4, 4, 4],
            },
            "bos_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
            "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "num_heads": 2,
            "intermediate_size": 16,
            "out_hidden_size": TEXT_WIDTH,
            "patch_size": 4,
        },
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Qwen2_5_VLForConditionalGeneration(config)


def build_transformer() -> QwenImageTransformer2DModel:
    """Five double-stream blocks of width 128, 3.0M parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return QwenImageTransformer2DModel(
            in_channels=16,
            out_channels=4,
            num_layers=5,
            attention_head_dim=32,
            num_attention_heads=WIDTH // 32,
            joint_attention_dim=TEXT_WIDTH,
            axes_dims_rope=(8, 12, 12),
        )


def build_pipeline(autoencoder: Any) -> QwenImagePipeline:
    """The pipeline around untrained text encoder and transformer."""
    nothing: Any = None
    empty = QwenImagePipeline(nothing, nothing, nothing, nothing, nothing)
    # With its words in the vocabulary, the template is the 34 tokens that the pipeline drops.
    tokenizer = qwen_tokenizer([empty.prompt_template_encode])
    return QwenImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True,
            base_shift=0.5,
            max_shift=0.9,
            max_image_seq_len=8192,
            shift_terminal=0.02,
        ),
        vae=autoencoder,
        text_encoder=build_text_encoder(tokenizer),
        tokenizer=tokenizer,
        transformer=build_transformer(),
    )


RECIPE = Recipe(
    name="mini-qwen-image",
    autoencoder=lambda shared, folder: qwen_vae.train(folder, shared),
    build=build_pipeline,
    text=lambda pipe: {"text_block": pipe.text_encoder.model.language_model},
    middle=lambda transformer: transformer.transformer_blocks[2],
    image_tokens=lambda output: output[1],
    purpose="zoo/qwen_image",
    stages={"taught": TAUGHT, "refine": REFINE},
    own_autoencoder=qwen_vae.CONFIG,
    null_prompt=NEGATIVE_PROMPT,
    dropout=0.1,
    teacher="mini-flux2",
)
