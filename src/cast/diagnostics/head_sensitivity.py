"""Which attention heads tell correct images from incorrect ones (paper App. F, figure 8).

A study takes one backbone, one prompt file (ten hard prompts) and one seed. It samples a group of
images of every prompt by the ODE, reads all heads at a few steps on the way, and asks the verifier,
and in the mini world the oracle, which atoms each image has right. It goes on prompt by prompt
where it was killed, and holds one prompt's group at a time. Training does not use it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from cast.config import CastConfig, load_backbone_config
from cast.diagnostics.head_taps import HeadTaps
from cast.diagnostics.head_test import SKILLS, PromptHeads, gram, head_test
from cast.diagnostics.studies import (
    as_tensor,
    check_models,
    has_oracle,
    identity,
    oracle_answers,
    study_folder,
    study_prompts,
)
from cast.errors import CastError
from cast.evaluation.generation import to_uint8
from cast.evaluation.store import Parts, progress_bar
from cast.flow import rollout
from cast.io import sha256_json, write_json, write_parquet
from cast.rng import torch_generator
from cast.scene_graph import PromptRecord
from cast.verifier.agreement import THRESHOLD
from cast.workflow.digest import code_digest


def head_study(config: CastConfig, backbone: str, seed: int) -> pd.DataFrame:
    """Run or finish one study; returns one row a judge, skill, step and head.

    Writes, below `results/{world}/{backbone}/heads/seed{seed}`: `heads.parquet` (see `head_test`,
    with a column `judge`: verifier or oracle, each tested as a run of its own, and each head's
    block), `prompts.parquet` (z by prompt), `images.parquet` (atom scores) and `study.json`.
    """
    check_models(config, backbone)
    section = config.diagnostics.heads
    folder = study_folder(config, backbone, "heads", seed)
    records = study_prompts(config, "heads")
    named = identity(config, backbone) | {"head_steps": section.steps, "images": section.images}
    code = code_digest("cast.diagnostics.head_sensitivity")
    key = sha256_json([named, seed, [record.prompt_id for record in records], code])
    grams, atoms = (Parts(folder / "parts" / name, key) for name in ("grams", "atoms"))
    waiting = [i for i in range(len(records)) if grams.get(i) is None or atoms.get(i) is None]
    if waiting:
        bench = _Bench(config, backbone, [records[index] for index in waiting])
        with progress_bar(len(records) * section.images, "groups", True) as bar:
            bar.update((len(records) - len(waiting)) * section.images)
            for index in waiting:
                rows, scores = bench.measure(records[index], seed)
                atoms.put(index, scores)
                grams.put(index, rows)
                bar.update(section.images)
    for parts in (grams, atoms):
        parts.drop_others()
    scores = pd.concat([_finished(atoms, i) for i in range(len(records))], ignore_index=True)
    tables, by_prompt = [], []
    for judge in ("verifier", "oracle") if has_oracle(config) else ("verifier",):
        prompts = [
            prompt_heads(_finished(grams, i), _finished(atoms, i), judge)
            for i in range(len(records))
        ]
        found, own = head_test(prompts, section.steps, section.permutations, section.fdr, seed)
        tables.append(found.assign(judge=judge))
        by_prompt.append(own.assign(judge=judge))
    table = pd.concat(tables, ignore_index=True)
    heads = _finished(grams, 0)[["head", "block", "module", "in_block"]].drop_duplicates()
    table = table.merge(heads, on="head", how="left")
    write_json(folder / "study.json", {**named, "seed": seed, "fdr": section.fdr})
    write_parquet(folder / "images.parquet", scores)
    write_parquet(folder / "prompts.parquet", pd.concat(by_prompt, ignore_index=True))
    write_parquet(folder / "heads.parquet", table)
    return table


def _finished(parts: Parts, index: int) -> pd.DataFrame:
    table = parts.get(index)
    if table is None:
        raise CastError(f"{parts.folder}: part {index} went away; run the same command again.")
    return table


def prompt_heads(grams: pd.DataFrame, atoms: pd.DataFrame, judge: str) -> PromptHeads:
    """One prompt's stored rows as the test wants them; a score of at least 0.5 is a yes."""
    steps, heads = grams["step"].nunique(), grams["head"].nunique()
    images = atoms["image"].nunique()
    ordered = grams.sort_values(["step", "head"])
    stacked = np.stack([np.asarray(one) for one in ordered["gram"]]).astype(np.float64)
    column = "score" if judge == "verifier" else "oracle"
    labels = {}
    for skill in SKILLS:
        own = atoms[atoms["skill"] == skill]
        wide = own.pivot_table(column, "atom", "image").to_numpy(dtype=float)
        labels[skill] = wide.reshape(-1, images) >= THRESHOLD
    return PromptHeads(
        prompt_id=str(atoms["prompt_id"].iloc[0]),
        grams=stacked.reshape(steps, heads, images, images),
        labels=labels,
    )


class _Bench:
    """The loaded models and the taps on the transformer's heads."""

    def __init__(self, config: CastConfig, backbone: str, records: Sequence[PromptRecord]) -> None:
        from cast.backbones import load_backbone
        from cast.verifier import Verifier

        self.section, self.batch = config.diagnostics.heads, config.diagnostics.batch
        self.backbone = load_backbone(load_backbone_config(backbone), config.sampling)
        for record in records:
            self.backbone.encode([record.prompt])
        self.backbone.release_text_encoder()
        self.verifier = Verifier.load(config.verifier, batch=self.batch)
        self.sigmas = self.backbone.sigmas(config.sampling.steps)
        self.oracle = has_oracle(config)
        self.taps = HeadTaps(self.backbone)

    def measure(self, record: PromptRecord, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Gram matrices of every head and step, and the atom scores of the group."""
        latents, features = tapped_rollout(
            self.backbone,
            self.taps,
            record,
            seed,
            self.section.images,
            self.sigmas,
            self.section.steps,
            min(self.batch, self.section.images),
        )
        decoded = torch.cat([self.backbone.decode(part) for part in latents.split(self.batch)])
        pixels = to_uint8(decoded)
        rows = []
        for step, found in features.items():
            matrices = gram(found.numpy()).astype(np.float32)
            flat = matrices.reshape(len(matrices), -1)
            rows.append(self.taps.table().assign(step=step, gram=list(flat)))
        scores = self.verifier.score(as_tensor(pixels), record, "strict").numpy()
        truth = oracle_answers(pixels, record) if self.oracle else np.full(scores.shape, np.nan)
        atoms = [
            {
                "prompt_id": record.prompt_id,
                "image": i,
                "atom": k,
                "skill": atom.skill,
                "score": float(scores[i, k]),
                "oracle": float(truth[i, k]),
            }
            for i in range(len(pixels))
            for k, atom in enumerate(record.atoms)
        ]
        return pd.concat(rows, ignore_index=True), pd.DataFrame(atoms)


def tapped_rollout(
    backbone: Any,
    taps: HeadTaps,
    record: PromptRecord,
    seed: int,
    images: int,
    sigmas: Float[Tensor, " n"],
    steps: Sequence[int],
    micro_batch: int,
) -> tuple[Float[Tensor, "B P C"], dict[int, Float[Tensor, "B H D"]]]:
    """Final latents of a group by the ODE, and all heads' features at the chosen steps.

    An image's noise is its own stream, so neither depends on the batch beyond float rounding.
    """
    conditioning = backbone.encode([record.prompt]).repeat(micro_batch)
    noise = backbone.noise(
        [torch_generator(seed, "head noise", record.prompt_id, i) for i in range(images)]
    )
    at = {float(sigmas[step]): step for step in steps}
    found: dict[int, Tensor] = {}

    def velocity(x: Tensor, sigma: Tensor, samples: Tensor) -> Tensor:
        step = at.get(float(sigma[0]))
        if step is None:
            return backbone.velocity(x, sigma, conditioning)
        with taps.recording() as read:
            v = backbone.velocity(x, sigma, conditioning)
        features = taps.features(read, len(x))
        if step not in found:
            found[step] = features.new_zeros(images, *features.shape[1:])
        found[step][samples.cpu()] = features  # a padding row repeats a sample's own
        return v

    sampled = rollout(velocity, sigmas, noise, micro_batch=micro_batch)
    return sampled.latents, {step: found[step] for step in steps}


def shift_by_step(by_prompt: pd.DataFrame) -> pd.Series:
    """How far sensitivity moves as the paper says, one value a prompt (claim C24).

    Ours: position's z at the first step less its mean at the later ones, plus attribute's mean at
    the later steps less its z at the first, halved. Prompts that told only one of the two are left
    to that one; count has a peak and no direction, so it is shown and not summed.
    """
    first = by_prompt["step"].min()
    late = by_prompt["step"] != first
    gaps = []
    for skill, sign in (("position", 1.0), ("attribute", -1.0)):
        own = by_prompt["skill"] == skill
        early = by_prompt[own & ~late].set_index("prompt_id")["z"]
        later = by_prompt[own & late].groupby("prompt_id")["z"].mean()
        gaps.append(sign * (early - later))
    return pd.concat(gaps, axis=1).mean(axis=1)
