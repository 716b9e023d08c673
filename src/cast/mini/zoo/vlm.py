"""mini-qwen3-vl: a `Qwen3VLForConditionalGeneration` trained on rendered questions and captions.

First the vision tower alone learns which shape, colour and texture covers each image token; then
everything learns to answer, packed as the verifier packs: image first, turns behind it that don't
see each other. Two more stages teach binding, which a mix of all questions leaves out. The dense
labels stay on as a helper; all readouts are thrown away afterwards.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from cast.mini.facts import Facts
from cast.mini.world import COLOURS, SHAPES, TEXTURES, Scene
from cast.mini.zoo import data, export, questions
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer
from cast.mini.zoo.text import QWEN_SPECIAL, qwen_tokenizer
from cast.mini.zoo.turns import Asked, QuestionLosses, answer_losses, turns
from cast.rng import numpy_generator, torch_generator
from cast.verifier.images import as_pil
from cast.verifier.segments import Segmenter
from cast.verifier.shared_prefix import ImagePatches, preprocess, stack

VISION = LoopConfig(steps=600, batch=32, learning_rate=1.5e-3, decay_share=0.0, ema=0.99)
ANSWERS = LoopConfig(
    steps=2200, batch=24, learning_rate=1e-3, decay_share=0.4, ema=0.998, checkpoint_every=50
)
BINDING = LoopConfig(
    steps=950, batch=24, learning_rate=1e-3, decay_share=0.0, ema=0.998, checkpoint_every=50
)
COMPARING = LoopConfig(
    steps=1500,
    batch=24,
    learning_rate=1e-3,
    warmup=50,
    decay_share=0.5,
    ema=0.998,
    checkpoint_every=50,
)
PLACES = LoopConfig(
    steps=1000,
    batch=24,
    learning_rate=7e-4,
    warmup=50,
    decay_share=0.7,
    ema=0.998,
    checkpoint_every=50,
)
PER_IMAGE = 8
RECALLS = 4
LITTERED = 0.4  # share of scenes that hold scrambled objects, too, from stage 3 on
OWN = 0.3  # share of stage 4's attributes that are the object's own; most of the rest are not true
LABELS = (len(SHAPES) + 1, len(COLOURS) + 1, len(TEXTURES) + 1)


def build() -> Qwen3VLForConditionalGeneration:
    """An untrained model of about 1.7M parameters, weights from a fixed seed."""
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
    """What both stages share: the model, its readout of dense labels, and image preparation."""

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


def train_vision(stage: Stage, folder: Path, config: LoopConfig = VISION) -> None:
    """Stage 1: the vision tower on dense labels of free scenes."""
    modules = nn.ModuleDict({"visual": stage.model.model.visual, "readout": stage.readout})
    trainer = Trainer(modules, config, folder)

    def loss(step: int) -> Losses:
        rng = numpy_generator(config.seed, "zoo/vision", step)
        scenes = [data.free_scene(rng) for _ in range(config.batch)]
        patches = stage.patches(scenes, "zoo/vision", step)
        output = stage.model.model.visual(patches.pixel_values, grid_thw=patches.grid_thw)
        return {"dense": stage.dense_loss(output.pooler_output, scenes)}

    trainer.run(loss)
    trainer.load_average()


def train_answers(stage: Stage, folder: Path, config: LoopConfig = ANSWERS) -> dict[str, float]:
    """Stage 2: questions and captions, dense labels as a helper."""

    def loss(step: int) -> Losses:
        batch = questions.questioned_scenes(
            config.seed, "zoo/answers", step, config.batch, PER_IMAGE, questions.EVEN
        )
        asked = [Asked(scene, record, found, []) for scene, record, found in batch]
        losses = stage.losses(asked, "zoo/answers", step)
        return {
            "answer": losses.answer,
            "caption": 0.1 * losses.caption,
            "dense": 0.1 * losses.dense,
        }

    return _run(Trainer(stage.modules(), config, folder), loss)


def train_binding(stage: Stage, folder: Path, config: LoopConfig = BINDING) -> dict[str, float]:
    """Stage 3: mostly attributes and positions, with open questions that teach to look them up.

    After stage 2 the model says yes to every attribute of an object that is there.
    """

    def loss(step: int) -> Losses:
        asked = _littered_questions(config, "zoo/binding", step, questions.BINDING)
        losses = stage.losses(asked, "zoo/binding", step)
        return {
            "answer": losses.answer,
            "caption": 0.3 * losses.caption,
            "recall": 0.5 * losses.recall,
            "dense": 0.1 * losses.dense,
        }

    return _run(Trainer(stage.modules(), config, folder), loss)


def train_comparing(stage: Stage, folder: Path, config: LoopConfig = COMPARING) -> dict[str, float]:
    """Stage 4: what is looked up and what is asked must meet before they can be compared.

    After stage 3 the model names the colour of any object, and still says yes to any other. Here a
    helper reads what must be looked up off the middle layer, at the token that answers.
    """
    return _compare(stage, folder, config, "zoo/comparing", questions.BINDING, pointing=0.0)


def train_places(stage: Stage, folder: Path, config: LoopConfig = PLACES) -> dict[str, float]:
    """Stage 5: as stage 4, with five positions in eight questions; they come last of all.

    A second helper rewards one layer for looking, at a caption's word, at what the word names. A
    big verifier is taken to do so by itself; in this small one nothing else makes it.
    """
    return _compare(stage, folder, config, "zoo/places", questions.PLACES, pointing=0.2)


def _compare(
    stage: Stage,
    folder: Path,
    config: LoopConfig,
    purpose: str,
    quota: dict[str, int],
    pointing: float,
) -> dict[str, float]:
    modules = stage.modules()
    modules["lookup"] = stage.lookup

    def loss(step: int) -> Losses:
        asked = _littered_questions(config, purpose, step, quota, OWN)
        losses = stage.losses(asked, purpose, step, grounded=pointing > 0)
        targets = torch.tensor(
            [
                questions.looked_up(row.facts, question)
                for row in asked
                for question in row.questions
            ]
        )
        parts = stage.lookup(losses.middle).split(questions.LOOKUPS, dim=-1)
        found = [cross_entropy(part, targets[:, i]) for i, part in enumerate(parts)]
        return {
            "answer": losses.answer,
            "caption": 0.3 * losses.caption,
            "recall": 0.2 * losses.recall,
            "dense": 0.1 * losses.dense,
            "lookup": 0.1 * torch.stack(found).nansum(),  # NaN where no question had a target
            "pointing": pointing * losses.pointing,
        }

    return _run(Trainer(modules, config, folder), loss)


def _run(trainer: Trainer, loss: Callable[[int], Losses]) -> dict[str, float]:
    losses = trainer.run(loss)
    trainer.load_average()
    return losses


def _littered_questions(
    config: LoopConfig, purpose: str, step: int, quota: dict[str, int], own: float = 0.55
) -> list[Asked]:
    """A step's scenes, some with scrambled objects beside, and their questions of both kinds."""
    rng = numpy_generator(config.seed, purpose, "recalls", step)
    asked = []
    for scene, record, found in questions.questioned_scenes(
        config.seed, purpose, step, config.batch, PER_IMAGE, quota, own
    ):
        if rng.random() < LITTERED:
            scene = data.littered(scene, rng)
        facts = Facts(scene.objects, scene.touching)
        asked.append(Asked(scene, record, found, questions.recalls(facts, rng, RECALLS)))
    return asked


def save(stage: Stage, folder: Path) -> None:
    """Write model, tokenizer and image processor as one `from_pretrained` folder, in bfloat16."""

    def write(target: Path) -> None:
        qwen_tokenizer().save_pretrained(target)
        stage.processor.save_pretrained(target)
        copy.deepcopy(stage.model).bfloat16().save_pretrained(target)

    export.save_folder(folder, write)
