"""Parts of the tiny pipelines (tiny.py): tokenizer, text encoders, autoencoder, scheduler."""

from importlib import import_module
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

diffusers: Any = import_module("diffusers")
transformers: Any = import_module("transformers")

PROMPTS = ["a red circle", "two blue stars above a green cross and a heart", "a star", "six hearts"]
WORDS = sorted({word for prompt in PROMPTS for word in prompt.split()})
SPECIAL = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>"]
VOCABULARY = len(SPECIAL) + len(WORDS) + 1
CHAT_TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}{{ part['text'] }}{% endfor %}{% endif %}"
    "{% endif %}{% endfor %}"
)


def tokenizer(length: int) -> PreTrainedTokenizerFast:
    """Words, signs and newlines to ids, then `<end>`, where CLIP pools.

    It splits Qwen-Image's prompt template into as many tokens as the real one: 34 before the text.
    """
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS, "<end>"])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words = Regex(r"\w+|\n|[^\w\s]")
    backend.pre_tokenizer = pre_tokenizers.Split(words, behavior="removed", invert=True)
    backend.post_processor = processors.TemplateProcessing(
        single="$A <end>", special_tokens=[("<end>", vocabulary["<end>"])]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=SPECIAL[2:],
        model_max_length=length,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


@torch.no_grad()
def randomised(model: Any, seed: int = 0) -> Any:
    """Random weights everywhere, so that no zero-initialised layer hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim > 1:
            parameter.copy_(drawn * parameter[0].numel() ** -0.5)
        else:
            parameter.copy_(0.05 * drawn + (0.0 if name.endswith("bias") else 1.0))
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


def clip_text(projection: bool, seed: int) -> Any:
    settings = transformers.CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=12,
        projection_dim=16,
        eos_token_id=VOCABULARY - 1,
        bos_token_id=0,
        pad_token_id=0,
    )
    kind = transformers.CLIPTextModelWithProjection if projection else transformers.CLIPTextModel
    return randomised(kind(settings), seed)


def t5_text(hidden: int, seed: int) -> Any:
    settings = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=hidden, d_kv=8, d_ff=32, num_layers=2, num_heads=2
    )
    return randomised(transformers.T5EncoderModel(settings), seed)
