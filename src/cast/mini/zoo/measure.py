"""How good a model of the zoo is, by the truth that the mini world knows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cast.mini import oracle
from cast.mini.facts import Facts, truths
from cast.mini.zoo import data, questions
from cast.rng import numpy_generator, torch_generator
from cast.scene_graph import PromptRecord, load_vocabulary, render_prompt
from cast.verifier.soft_tifa import Verifier


def by_skill(records: Sequence[PromptRecord], values: Sequence[np.ndarray]) -> dict[str, float]:
    """Mean over all atoms of each skill, and AM: the mean over prompts of the atoms' mean."""
    pooled: dict[str, list[float]] = {}
    for record, row in zip(records, values, strict=True):
        for atom, value in zip(record.atoms, row, strict=True):
            pooled.setdefault(atom.skill, []).append(float(value))
    table = {skill: round(float(np.mean(row)), 4) for skill, row in sorted(pooled.items())}
    return {**table, "am": round(float(np.mean([row.mean() for row in values])), 4)}


def verifier_accuracy(verifier: Verifier, scenes: int, seed: int = 0) -> dict[str, float]:
    """Share of atoms judged right (score above one half where true), own and foreign prompts."""
    rng = numpy_generator(seed, "zoo/measure", "verifier")
    vocabulary = load_vocabulary("shapes")
    records, correct = [], []
    for own, scene in data.scenes(seed, "zoo/held-out", 0, scenes):
        facts = Facts(scene.objects, scene.touching)
        image = torch.from_numpy(scene.image).permute(2, 0, 1)[None].float() / 255
        for record in (own, render_prompt(questions.sample_graph_about(facts, rng), vocabulary)):
            score = verifier.score(image, record, "strict")[0].numpy()
            records.append(record)
            correct.append((score > 0.5) == truths(facts, record))
    return by_skill(records, correct)


def oracle_accuracy(images: np.ndarray, records: Sequence[PromptRecord]) -> dict[str, float]:
    """Share of atoms that the oracle finds true in images [N, 64, 64, 3] of their prompts."""
    values = [oracle.answer(image, r) for image, r in zip(images, records, strict=True)]
    return by_skill(records, values)


@torch.no_grad()
def generate(
    pipe: Any, prompts: Sequence[str], seed: int, batch: int = 32, **arguments: object
) -> np.ndarray:
    """Images uint8 [N, 64, 64, 3]; the noise of image i depends on (seed, i) alone."""
    images = []
    for start in range(0, len(prompts), batch):
        chunk = list(prompts[start : start + batch])
        generators = [
            torch_generator(seed, "zoo/measure", "noise", start + i) for i in range(len(chunk))
        ]
        output = pipe(
            prompt=chunk,
            height=64,
            width=64,
            generator=generators,
            output_type="np",
            **arguments,
        )
        images.append(np.round(output.images * 255).astype(np.uint8))
    return np.concatenate(images)
