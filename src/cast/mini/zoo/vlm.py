"""mini-qwen3-vl: a `Qwen3VLForConditionalGeneration` trained on rendered questions and captions.

First the vision tower alone learns which shape, colour and texture covers each image token; then
everything learns to answer, packed as the verifier packs: image first, turns behind it that don't
see each other. The dense labels stay on as a helper; the readout is thrown away afterwards.
"""

import copy
from collections.abc import Callable
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
from cast.rng import numpy_generator, torch_generator
from cast.verifier.images import as_pil
from cast.verifier.segments import Segmenter
from cast.verifier.shared_prefix import ImagePatches, preprocess, stack

VISION = LoopConfig(steps=600, batch=32, learning_rate=1.5e-3, decay_share=0.0, ema=0.99)
ANSWERS = LoopConfig(
    steps=2200, batch=24, learning_rate=1e-3, decay_share=0.4, ema=0.998, checkpoint_every=50
)
BINDING = LoopConfig(
    steps=2000, batch=24, learning_rate=1e-3, decay_share=0.4, ema=0.998, checkpoint_every=50
)
PER_IMAGE = 8
RECALLS = 4
LITTERED = 0.4  # share of stage 3's scenes that hold scrambled objects, too
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
        self.processor = image_processor()
        self.segmenter = Segmenter(qwen_tokenizer())

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
        answer, caption, _, dense = _question_losses(stage, config, "zoo/answers", step)
        return {"answer": answer, "caption": 0.1 * caption, "dense": 0.1 * dense}

    return _train_whole(stage, folder, config, loss)


def train_binding(stage: Stage, folder: Path, config: LoopConfig = BINDING) -> dict[str, float]:
    """Stage 3: mostly attributes and positions, with open questions that teach to look them up.

    After stage 2 the model says yes to every attribute of an object that is there.
    """

    def loss(step: int) -> Losses:
        answer, caption, recall, dense = _question_losses(stage, config, "zoo/binding", step)
        return {
            "answer": answer,
            "caption": 0.3 * caption,
            "recall": 0.5 * recall,
            "dense": 0.1 * dense,
        }

    return _train_whole(stage, folder, config, loss)


def _train_whole(
    stage: Stage, folder: Path, config: LoopConfig, loss: Callable[[int], Losses]
) -> dict[str, float]:
    modules = nn.ModuleDict({"model": stage.model, "readout": stage.readout})
    trainer = Trainer(modules, config, folder)
    losses = trainer.run(loss)
    trainer.load_average()
    return losses


def _question_losses(
    stage: Stage, config: LoopConfig, purpose: str, step: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses of a step: answers, captions, recalls (0 where none is asked), dense labels."""
    binding = purpose == "zoo/binding"
    quota = questions.BINDING if binding else questions.EVEN
    batch = questions.questioned_scenes(config.seed, purpose, step, config.batch, PER_IMAGE, quota)
    rng = numpy_generator(config.seed, purpose, "recalls", step)
    scenes, turns = [], []
    for scene, caption, asked in batch:
        if binding and rng.random() < LITTERED:
            scene = data.littered(scene, rng)
        facts = Facts(scene.objects, scene.touching)
        recalls = questions.recalls(facts, rng, RECALLS) if binding else []
        scenes.append(scene)
        turns.append(_turns(stage.segmenter, caption, asked, recalls))
    patches = stage.patches(scenes, purpose, step)
    features, *losses = answer_losses(stage, patches, turns)
    answer, caption, recall = losses
    return answer, caption, recall, stage.dense_loss(features, scenes)


ANSWER, CAPTION, RECALL = 1, 2, 3  # what a turn's last tokens are trained as
Turn = tuple[list[int], int, int]  # token ids, how many of the last are targets, and as what


def _turns(
    segmenter: Segmenter,
    caption: str | None,
    asked: list[questions.Question],
    recalls: list[questions.Question],
) -> list[Turn]:
    turns = [
        ([*segmenter.question(probe), segmenter.encode_answer(word)[0]], 1, kind)
        for kind, pairs in ((ANSWER, asked), (RECALL, recalls))
        for probe, word in pairs
    ]
    if caption is not None:
        segment = segmenter.caption(caption)
        turns.append((list(segment.ids), len(segment.ids) - segment.first, CAPTION))
    return turns


def answer_losses(
    stage: Stage, patches: ImagePatches, turns: list[list[Turn]]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vision features, and the mean loss of answers, of caption tokens and of recalls."""
    prefix, image_start = stage.segmenter.prefix(64)
    rows = [_row(row, len(prefix)) for row in turns]
    size = max(len(ids) for ids, _, _, _ in rows)
    pad = [size - len(ids) for ids, _, _, _ in rows]
    ids = torch.tensor([[*row[0], *[0] * n] for row, n in zip(rows, pad, strict=True)])
    owner = torch.tensor([[*row[1], *[-1] * n] for row, n in zip(rows, pad, strict=True)])
    offset = torch.tensor([[*row[2], *[0] * n] for row, n in zip(rows, pad, strict=True)])
    weight = torch.tensor([[*row[3], *[0] * n] for row, n in zip(rows, pad, strict=True)])
    batch = len(rows)
    ids = torch.cat([prefix.expand(batch, -1), ids], dim=1)
    image = torch.zeros_like(ids)
    image[:, image_start : image_start + 64] = 1
    core: Any = stage.model.model
    start, delta = core.get_rope_index(
        ids[:, : len(prefix)],
        mm_token_type_ids=image[:, : len(prefix)].int(),
        image_grid_thw=patches.grid_thw,
    )
    follow = (len(prefix) + delta[:, 0, None] + offset).expand(3, -1, -1)
    output = core(
        input_ids=ids,
        pixel_values=patches.pixel_values,
        image_grid_thw=patches.grid_thw,
        mm_token_type_ids=image.int(),
        position_ids=torch.cat([start, follow], dim=2),
        attention_mask=_mask(owner, len(prefix)),
        use_cache=False,
    )
    # A token is predicted from the one before it.
    hidden = output.last_hidden_state[:, len(prefix) :][:, :-1]
    target, kind = ids[:, len(prefix) :][:, 1:], weight[:, 1:]
    answer, caption, recall = (
        cross_entropy(stage.model.lm_head(hidden[kind == k]), target[kind == k])
        if (kind == k).any()
        else torch.zeros(())
        for k in (ANSWER, CAPTION, RECALL)
    )
    return torch.cat(output.image_outputs.pooler_output), answer, caption, recall


def _row(turns: list[Turn], prefix: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Ids, turn number, position in the turn and target kind (0 for none) of tokens."""
    ids, owner, offset, kind = [], [], [], []
    for number, (tokens, targets, trained_as) in enumerate(turns):
        ids += tokens
        owner += [number] * len(tokens)
        offset += range(len(tokens))
        kind += [0] * (len(tokens) - targets) + [trained_as] * targets
    return ids, owner, offset, kind


def _mask(owner: Tensor, prefix: int) -> Tensor:
    """Bool [B, 1, T, T]: the prefix is causal; a turn sees the prefix and its own past."""
    owner = torch.cat([torch.full((len(owner), prefix), -2), owner], dim=1)
    size = owner.shape[1]
    same = owner[:, :, None] == owner[:, None, :]
    sees = same | (owner == -2)[:, None, :]
    causal = torch.ones(size, size, dtype=torch.bool).tril()
    return (sees & causal)[:, None]


def save(stage: Stage, folder: Path) -> None:
    """Write model, tokenizer and image processor as one `from_pretrained` folder, in bfloat16."""

    def write(target: Path) -> None:
        qwen_tokenizer().save_pretrained(target)
        stage.processor.save_pretrained(target)
        copy.deepcopy(stage.model).bfloat16().save_pretrained(target)

    export.save_folder(folder, write)
