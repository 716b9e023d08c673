"""mini-qwen3-vl: a `Qwen3VLForConditionalGeneration` of 1.1M parameters.

Here stands what its lessons share: the model, its input, its readouts.

How it is trained, stage by stage, is `cast.mini.zoo.lessons`.
"""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from cast.mini.world import COLOURS, SHAPES, TEXTURES, Scene
from cast.mini.zoo import data, export, questions
from cast.mini.zoo.text import QWEN_SPECIAL, qwen_tokenizer
from cast.mini.zoo.turns import Asked, QuestionLosses, answer_losses, turns
from cast.rng import torch_generator
from cast.verifier.images import as_pil
from cast.verifier.segments import Segmenter
from cast.verifier.shared_prefix import ImagePatches, preprocess, stack

LABELS = (len(SHAPES) + 1, len(COLOURS) + 1, len(TEXTURES) + 1)


def build() -> Qwen3VLForConditionalGeneration:
    """An untrained model, weights from a fixed seed."""
    tokenizer = qwen_tokenizer()
    ids: Any = {token: tokenizer.convert_tokens_to_ids(token) for token in QWEN_SPECIAL}
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [6, 5, 5],
        "mrope_interleaved": True,
    }
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "rope_parameters": rope,
            "max_position_embeddings": 1024,
        },
        vision_config={
            "depth": 3,
            "hidden_size": 64,
            "intermediate_size": 192,
            "num_heads": 4,
            "patch_size": 4,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 128,
            "num_position_embeddings": 256,
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
        return Qwen3VLForConditionalGeneration(config)


def image_processor() -> Qwen2VLImageProcessorPil:
    """64 px become 16x16 patches, merged to 8x8 image tokens."""
    return Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=64 * 64, max_pixels=64 * 64
    )


def blemish(images: Tensor, generator: torch.Generator) -> Tensor:
    """Noise, blur and a colour cast of the strength that generated images have; [B, 3, H, W]."""
    n = len(images)
    cast = 0.08 * (torch.rand(n, 3, 1, 1, generator=generator) - 0.5)
    strength = 0.05 * torch.rand(n, 1, 1, 1, generator=generator)
    noise = strength * torch.randn(images.shape, generator=generator)
    soft = torch.nn.functional.avg_pool2d(images, 3, 1, 1, count_include_pad=False)
    blur = 0.7 * torch.rand(n, 1, 1, 1, generator=generator).square()
    return (images + blur * (soft - images) + cast + noise).clamp(0, 1)


class Stage:
    """What all stages share: the model, its two readouts, and image preparation."""

    def __init__(self) -> None:
        self.model = build()
        self.readout = nn.Linear(128, sum(LABELS))
        nn.init.zeros_(self.readout.weight)
        self.lookup = nn.Linear(128, sum(questions.LOOKUPS))
        nn.init.zeros_(self.lookup.weight)
        self.processor = image_processor()
        self.segmenter = Segmenter(qwen_tokenizer())

    def modules(self) -> nn.ModuleDict:
        """What all later stages train."""
        return nn.ModuleDict({"model": self.model, "readout": self.readout})

    def losses(
        self, asked: list[Asked], purpose: str, step: int, grounded: bool = False
    ) -> QuestionLosses:
        """All losses of a batch of scenes with their questions and captions."""
        scenes = [row.scene for row in asked]
        patches = self.patches(scenes, purpose, step)
        rows = [turns(self.segmenter, row) for row in asked]
        answered = answer_losses(self.model, self.segmenter, patches, rows, grounded)
        return replace(answered, dense=self.dense_loss(answered.features, scenes))

    def patches(self, scenes: list[Scene], purpose: str, step: int) -> ImagePatches:
        """Blemished images as the model's patches."""
        images = data.to_tensor([scene.image for scene in scenes]) / 2 + 0.5
        images = blemish(images, torch_generator(0, purpose, "blemish", step))
        return stack(preprocess(as_pil(images), self.processor))

    def dense_loss(self, features: Tensor, scenes: list[Scene]) -> Tensor:
        """Cross-entropy of shape, colour and texture of every image token; features [B*64, 128]."""
        labels = torch.from_numpy(np.stack([_labels(scene) for scene in scenes]))
        parts = self.readout(features).split(LABELS, dim=-1)
        losses = [
            cross_entropy(part, labels[:, i].flatten(), label_smoothing=0.0)
            for i, part in enumerate(parts)
        ]
        return torch.stack(losses).sum()


def _labels(scene: Scene) -> np.ndarray:
    """Int [3, 8, 8]: shape, colour and texture of each token; 0 where there is none."""
    labels = np.zeros((3, 8, 8), dtype=np.int64)
    shares = scene.object_masks.reshape(-1, 8, 8, 8, 8).sum((2, 4))
    for item, share in zip(scene.objects, shares, strict=True):
        inside = share >= 8  # an eighth of the token's pixels
        texture = 0 if item.texture is None else TEXTURES.index(item.texture) + 1
        labels[:, inside] = np.array(
            [SHAPES.index(item.noun) + 1, list(COLOURS).index(item.colour) + 1, texture]
        )[:, None]
    return labels


def save(stage: Stage, folder: Path) -> None:
    """Write model, tokenizer and image processor as one `from_pretrained` folder, in bfloat16."""

    def write(target: Path) -> None:
        qwen_tokenizer().save_pretrained(target)
        stage.processor.save_pretrained(target)
        copy.deepcopy(stage.model).bfloat16().save_pretrained(target)

    export.save_folder(folder, write)
