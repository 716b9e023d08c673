"""How mini-qwen3-vl is trained: rendered scenes, questions and captions, in five stages.

First the vision tower alone learns which shape, colour and texture covers each image token; then
everything learns to answer, packed as the verifier packs: image first, turns behind it that don't
see each other. Three more stages teach binding and positions, which a mix of all questions leaves
out. The dense labels stay on as a helper; all readouts are thrown away afterwards.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cast.mini.facts import Facts
from cast.mini.zoo import data, questions
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer
from cast.mini.zoo.turns import Asked
from cast.mini.zoo.vlm import Stage
from cast.rng import numpy_generator

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
