"""A tiny random Qwen3-VL of the real classes, with a byte-level tokenizer trained on the spot."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Qwen2Tokenizer,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from cast.scene_graph.graph import Atom, Entity, PromptRecord, Relation, SceneGraph
from cast.verifier.answer_tokens import CAPTION_INSTRUCTION, NEUTRAL_PROMPT, question_text

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def record() -> PromptRecord:
    """`two red circles above a square`: all skills but verb, K = 6."""
    prompt = "two red circles above a square"
    graph = SceneGraph(
        (Entity("circle", 2, "red"), Entity("square", 1)), (Relation(0, "above", 1),)
    )
    atoms = (
        Atom("count", "How many circles are in the image?", "two", ((0, 3), (8, 15)), (0,), (2,)),
        Atom("attribute", "Are the circles red?", "Yes", ((4, 7), (8, 15)), (0,), (2,)),
        Atom("object", "Are there any circles in the image?", "Yes", ((8, 15),), (0,)),
        Atom("position", "Are the circles above the square?", "Yes", ((16, 21),), (0, 1), (2, 5)),
        Atom("count", "How many squares are in the image?", "one", ((22, 23),), (1,), (5,)),
        Atom("object", "Are there any squares in the image?", "Yes", ((24, 30),), (1,)),
    )
    return PromptRecord(prompt, graph, atoms, 5)


def tiny_tokenizer(folder: Path) -> Qwen2Tokenizer:
    """Byte-level BPE over the room's own texts; digits stay single, so " 3" is two tokens."""
    texts = [question_text(atom.probe) for atom in record().atoms]
    texts += [record().prompt, NEUTRAL_PROMPT, CAPTION_INSTRUCTION, "user", "assistant"]
    texts += ["Yes yes No no", " Yes yes", "one One two Two three Three", " one One two Two three"]
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        min_frequency=1,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(texts * 4, trainer)
    trained.save(str(folder / "bpe.json"))
    model = json.loads((folder / "bpe.json").read_text())["model"]
    merges: Any = [tuple(pair) for pair in model["merges"]]
    tokenizer = Qwen2Tokenizer(vocab=model["vocab"], merges=merges)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL[1:]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny_model(tokenizer: Qwen2Tokenizer) -> Qwen3VLForConditionalGeneration:
    ids: dict[str, Any] = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [3, 3, 2],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 64,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen3VLForConditionalGeneration(config)
        for parameter in model.parameters():  # wide enough that answers and attention differ
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.3 / parameter.shape[-1] ** 0.25)
        model.model.language_model.norm.weight.data.mul_(4.0)  # answers from 0 to nearly 1
    return model.eval()


def tiny_processor() -> Qwen2VLImageProcessorPil:
    return Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=8 * 8, max_pixels=128 * 128
    )


def random_images(seed: int, count: int, height: int = 32, width: int = 32) -> torch.Tensor:
    """Blocky noise with detail in every image token."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, height // 4, width // 4, generator=generator)
    return coarse.repeat_interleave(4, -1).repeat_interleave(4, -2)
