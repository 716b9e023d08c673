"""How good a model of the zoo is, by the truth that the mini world knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8

from cast.backbones import Backbone, load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.flow import rollout
from cast.mini import oracle
from cast.mini.zoo import data
from cast.mini.zoo.held_out import held_out, verifier_answers
from cast.paths import from_root
from cast.rng import torch_generator
from cast.scene_graph import PromptRecord, read_prompts
from cast.verifier.agreement import agreement
from cast.verifier.soft_tifa import Verifier

SEEDS = (100, 101, 102, 103)
SOLVED = 0.95


def by_skill(records: Sequence[PromptRecord], values: Sequence[np.ndarray]) -> dict[str, float]:
    """Mean over all atoms of each skill, and AM: the mean over prompts of the atoms' mean."""
    pooled: dict[str, list[float]] = {}
    for record, row in zip(records, values, strict=True):
        for atom, value in zip(record.atoms, row, strict=True):
            pooled.setdefault(atom.skill, []).append(float(value))
    table = {skill: round(float(np.mean(row)), 4) for skill, row in sorted(pooled.items())}
    return {**table, "am": round(float(np.mean([row.mean() for row in values])), 4)}


def verifier_accuracy(verifier: Verifier, scenes: int, seed: int = 0) -> dict[str, Any]:
    """Share of atoms judged right on held-out scenes, own and other prompts, by skill; and the
    balanced one, which a judge that always says yes can't raise above a half."""
    answers = verifier_answers(verifier, held_out(scenes, 1, seed), seed)
    table = agreement(answers, truth="truth", by="kind").set_index("kind").round(4)
    return {name: table[name].to_dict() for name in ("agreement", "balanced")}


def generator_accuracy(name: str, folder: Path, steps: int = 20) -> dict[str, float]:
    """By the oracle on the mini benchmark, with the sampling settings of config/backbones/NAME.

    Mean over `SEEDS` of each skill and AM; `spread` is AM's sample standard deviation over the
    seeds, and `solved` the share of images of whose atoms at least 0.95 are true.
    """
    config = load_backbone_config(name).model_copy(update={"path": str(folder)})
    backbone = load_backbone(config, SamplingSection(), device="cpu")
    records = read_prompts(from_root(data.EVALUATION_FILES[0]))
    prompts = [record.prompt for record in records]
    tables, solved = [], []
    for seed in SEEDS:
        images = generate(backbone, prompts, seed, steps)
        values = [oracle.answer(image, r) for image, r in zip(images, records, strict=True)]
        tables.append(by_skill(records, values))
        solved += [float(row.mean() >= SOLVED) for row in values]
    means = {k: round(float(np.mean([table[k] for table in tables])), 4) for k in tables[0]}
    spread = float(np.std([table["am"] for table in tables], ddof=1))
    return {**means, "spread": round(spread, 4), "solved": round(float(np.mean(solved)), 4)}


def generate(
    backbone: Backbone, prompts: Sequence[str], seed: int, steps: int, batch: int = 32
) -> UInt8[np.ndarray, "N 64 64 3"]:
    """Images by the ODE sampler; the noise of image i depends on (seed, i) alone."""
    conditioning = backbone.encode(prompts)
    noise = backbone.noise(
        [torch_generator(seed, "zoo/measure", "noise", i) for i in range(len(prompts))]
    )
    velocity = backbone.velocity_for(conditioning)
    with torch.no_grad():
        latents = rollout(velocity, backbone.sigmas(steps), noise, micro_batch=batch).latents
    images = torch.cat([backbone.decode(part) for part in latents.split(batch)])
    return (images.permute(0, 2, 3, 1).numpy() * 255).round().astype(np.uint8)
