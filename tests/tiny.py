"""Tiny pipelines of every family, built from configs with random weights, for tests.

They have the real classes and the real topology (double and single blocks, several text-encoder
layers, batch-norm statistics of the VAE), at a size that runs in milliseconds.
"""

from importlib import import_module
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from cast.config import BackboneConfig, SamplingSection
from cast.config.arms import WindowSection

diffusers: Any = import_module("diffusers")
transformers: Any = import_module("transformers")

PROMPTS = ["a red circle", "two blue stars above a green cross and a heart", "a star", "six hearts"]
WORDS = sorted({word for prompt in PROMPTS for word in prompt.split()})
SIZE = 32
"""Pixels; the VAEs scale by 4 and tokens are 2x2 latents, so an image has 4x4 tokens."""

CHAT_TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}{{ part['text'] }}{% endfor %}{% endif %}"
    "{% endif %}{% endfor %}"
)


def tokenizer(length: int) -> PreTrainedTokenizerFast:
    """Whole words to ids, then `<end>`, which has the highest id (CLIP pools there)."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", *WORDS, "<end>"])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A <end>", special_tokens=[("<end>", vocabulary["<end>"])]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        model_max_length=length,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


VOCABULARY = len(WORDS) + 3


@torch.no_grad()
def randomised(model: Any, seed: int = 0) -> Any:
    """Random weights everywhere, so that no zero-initialised layer hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim > 1:
            parameter.copy_(drawn * parameter[0].numel() ** -0.5)
        else:
            parameter.add_(0.05 * drawn)
    return model.eval()


def kl_autoencoder() -> Any:
    return randomised(
        diffusers.AutoencoderKL(
            block_out_channels=(8, 16, 16),
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            latent_channels=4,
            norm_num_groups=4,
            layers_per_block=1,
            mid_block_add_attention=False,
            use_quant_conv=False,
            use_post_quant_conv=False,
            shift_factor=0.1,
            scaling_factor=0.7,
        )
    )


def scheduler(**settings: Any) -> Any:
    return diffusers.FlowMatchEulerDiscreteScheduler(**settings)


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


PIPELINES = {"flux2": flux2}


def backbone_config(family: Any, guidance: float | None, **more: Any) -> BackboneConfig:
    """The config of a tiny backbone; text settings fit the tiny encoders."""
    text: dict[str, Any] = {"max_text_tokens": 12}
    if family == "flux2":
        text["text_layers"] = (1, 2, 3)
    return BackboneConfig(
        name=f"tiny-{family.replace('_', '-')}",
        family=family,
        path=f"models/tiny/{family}",
        dtype="float32",
        guidance=guidance,
        noise_level=0.7,
        window=WindowSection(low=0, high=4, steps=6),
        licence="Apache-2.0",
        **(text | more),
    )


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
    return arguments
