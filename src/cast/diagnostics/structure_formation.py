"""When objects and layout form (paper 3.1, App. B): tau* and the window that training reads.

A study takes one backbone, one prompt file and one seed. For every prompt it samples one image by
the ODE, decodes the estimate of the clean image before each of the N steps, and measures its CLIP
similarity to the final image and to the prompt, and every few steps its atom scores. That is N
transformer passes and N decodes an image: the estimate before the last step is the final image.
It goes on prompt by prompt where it was killed, and holds one image's trajectory at a time.

tau of the estimate before step i is i / N, the share of the trajectory behind it, so transition i
lies before tau* exactly when i < tau* N: the candidate range ends at ceil(tau* N).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, UInt8
from PIL import Image

from cast.config import CastConfig, load_backbone_config
from cast.diagnostics.knee import Knee, fit_knee
from cast.diagnostics.studies import (
    as_tensor,
    check_models,
    has_oracle,
    identity,
    oracle_answers,
    study_folder,
    study_prompts,
    study_seeds,
)
from cast.errors import CastError
from cast.evaluation.folders import world_folder
from cast.evaluation.generation import generation_noise, to_uint8
from cast.evaluation.store import Parts, progress_bar
from cast.flow import candidate_range, rollout
from cast.io import read_json, sha256_json, write_json, write_parquet, written_whole
from cast.scene_graph import PromptRecord
from cast.training.identity import model_sha256
from cast.training.window import MeasuredWindow
from cast.workflow.digest import code_digest

FILMS = 3  # prompts whose estimates are kept as a film strip
FILM_PIXELS = 128  # longest side of a picture on it
SIMILARITIES = ("image", "prompt")


def structure_study(config: CastConfig, backbone: str, seed: int) -> pd.DataFrame:
    """Run or finish one study; returns its curves, one row a prompt and step.

    Writes, below `results/{world}/{backbone}/structure/seed{seed}`: `curve.parquet` (`step`, `tau`,
    `sigma`, `image_similarity`, `prompt_similarity`), `atoms.parquet` (scores of some estimates),
    `study.json` and `film/*.png`. Raises `CastError` for missing models or prompts before anything
    is sampled.
    """
    check_models(config, backbone, diagnostics__clip=config.diagnostics.clip)
    folder = study_folder(config, backbone, "structure", seed)
    records = study_prompts(config, "structure")
    named = identity(config, backbone) | {"clip_sha256": model_sha256(config.diagnostics.clip)}
    every = config.diagnostics.structure.score_every
    code = code_digest("cast.diagnostics.structure_formation")
    ids = [record.prompt_id for record in records]
    key = sha256_json([named, seed, every, ids, code])
    curves, atoms = (Parts(folder / "parts" / name, key) for name in ("curves", "atoms"))
    films = [folder / "film" / f"{record.prompt_id}.png" for record in records[:FILMS]]
    waiting = [
        index
        for index in range(len(records))
        if curves.get(index) is None
        or atoms.get(index) is None
        or (index < FILMS and not films[index].exists())
    ]
    if waiting:
        bench = _Bench(config, backbone, [records[index] for index in waiting])
        with progress_bar(len(records), "trajectories", True) as bar:
            bar.update(len(records) - len(waiting))
            for index in waiting:
                curve, scores, images = bench.measure(records[index], seed)
                if index < FILMS:
                    _write_film(images, films[index])
                atoms.put(index, scores)
                curves.put(index, curve)
                bar.update()
    for parts in (curves, atoms):
        parts.drop_others()
    table = pd.concat([curves.get(i) for i in range(len(records))], ignore_index=True)
    scores = pd.concat([atoms.get(i) for i in range(len(records))], ignore_index=True)
    write_json(folder / "study.json", {**named, "seed": seed, "films": ids[:FILMS]})
    write_parquet(folder / "atoms.parquet", scores)
    write_parquet(folder / "curve.parquet", table)
    return table


class _Bench:
    """The loaded models; prompts are encoded at once, then the text encoder's memory is freed."""

    def __init__(self, config: CastConfig, backbone: str, records: Sequence[PromptRecord]) -> None:
        from cast.backbones import load_backbone
        from cast.verifier import Verifier
        from cast.verifier.clip_similarity import ClipScorer

        section = config.diagnostics
        self.backbone = load_backbone(load_backbone_config(backbone), config.sampling)
        for record in records:
            self.backbone.encode([record.prompt])
        self.backbone.release_text_encoder()
        self.clip = ClipScorer.load(section.clip, batch=section.batch)
        self.verifier = Verifier.load(config.verifier, batch=section.batch)
        self.sigmas = self.backbone.sigmas(config.sampling.steps)
        self.batch, self.every = section.batch, section.structure.score_every
        self.oracle = has_oracle(config)

    def measure(
        self, record: PromptRecord, seed: int
    ) -> tuple[pd.DataFrame, pd.DataFrame, UInt8[np.ndarray, "N H W 3"]]:
        """Curve, atom scores and decoded estimates of one image."""
        images = decoded_estimates(self.backbone, record, seed, self.sigmas, self.batch)
        steps = len(images)
        tensor = as_tensor(images)
        features = self.clip.image_features(tensor)
        to_prompt = features @ self.clip.text_features([record.prompt])[0]
        where = {"prompt_id": record.prompt_id, "seed": seed}
        curve = pd.DataFrame(
            {
                **where,
                "prompt": record.prompt,
                "step": range(steps),
                "tau": np.arange(steps) / steps,
                "sigma": self.sigmas[:-1].numpy().astype(np.float64),
                "image_similarity": (features @ features[-1]).numpy().astype(np.float64),
                "prompt_similarity": to_prompt.numpy().astype(np.float64),
            }
        )
        scored = sorted({*range(0, steps, self.every), steps - 1})
        scores = self.verifier.score(tensor[scored], record, "strict").numpy()
        truth = np.full(scores.shape, np.nan)
        if self.oracle:
            truth = oracle_answers(images[scored], record)
        rows = [
            {
                **where,
                "step": step,
                "tau": step / steps,
                "atom": k,
                "skill": atom.skill,
                "score": float(scores[i, k]),
                "oracle": float(truth[i, k]),
            }
            for i, step in enumerate(scored)
            for k, atom in enumerate(record.atoms)
        ]
        return curve, pd.DataFrame(rows), images


def decoded_estimates(
    backbone: Any, record: PromptRecord, seed: int, sigmas: Float[torch.Tensor, " n"], batch: int
) -> UInt8[np.ndarray, "N H W 3"]:
    """The decoded clean-image estimate before each of the N steps; the last is the final image."""
    conditioning = backbone.encode([record.prompt])
    sampled = rollout(
        lambda x, sigma, _samples: backbone.velocity(x, sigma, conditioning),
        sigmas,
        generation_noise(backbone, record, [seed]),
        micro_batch=1,
        return_x0=True,
    )
    assert sampled.x0_estimates is not None
    decoded = [backbone.decode(part) for part in sampled.x0_estimates[0].split(batch)]
    return to_uint8(torch.cat(decoded))


def _write_film(images: UInt8[np.ndarray, "N H W 3"], path: Path) -> None:
    """All estimates of one image side by side, none wider or higher than `FILM_PIXELS`."""
    height, width = images.shape[1:3]
    shrink = max(1, -(-max(height, width) // FILM_PIXELS))
    pictures = [
        np.asarray(
            Image.fromarray(image).resize((width // shrink, height // shrink), Image.Resampling.BOX)
        )
        for image in images
    ]
    with written_whole(path) as temporary:
        Image.fromarray(np.concatenate(pictures, axis=1)).save(temporary, format="PNG")


def read_film(config: CastConfig, backbone: str, number: int = 0) -> np.ndarray:
    """Film strip [N, H, W, 3] of the study's first seed, of prompt `number` (below `FILMS`)."""
    seed = study_seeds(config, "structure")[0]
    folder = study_folder(config, backbone, "structure", seed)
    name = read_json(folder / "study.json")["films"][number]
    with Image.open(folder / "film" / f"{name}.png") as file:
        strip = np.asarray(file.convert("RGB"))
    return np.stack(np.split(strip, config.sampling.steps, axis=1))


def read_study(config: CastConfig, backbone: str, name: str = "curve") -> pd.DataFrame:
    """`curve` or `atoms` of all the config's seeds; refuses seeds that weren't measured alike."""
    tables, names = [], []
    for seed in study_seeds(config, "structure"):
        folder = study_folder(config, backbone, "structure", seed)
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise CastError(f"{path}: there is no such file; `snakemake {path}` measures it.")
        tables.append(pd.read_parquet(path))
        study = read_json(folder / "study.json")
        names.append({key: study[key] for key in sorted(set(study) - {"seed", "films"})})
        if names[-1] != names[0] or set(tables[-1]["prompt_id"]) != set(tables[0]["prompt_id"]):
            raise CastError(
                f"{folder}: it was measured with other models, settings or prompts than the seeds "
                "before it; measure all seeds under one config."
            )
    return pd.concat(tables, ignore_index=True)


def curves_of(table: pd.DataFrame, similarity: str) -> Float[np.ndarray, "M N"]:
    """One curve a prompt, the mean over its seeds."""
    wide = table.pivot_table(f"{similarity}_similarity", "prompt_id", "step", aggfunc="mean")
    return wide.to_numpy(dtype=float)


def structure_point(table: pd.DataFrame, similarity: str, draws: int) -> Knee:
    """tau* of a study's curves, with its interval over prompts.

    Raises `CastError` when the curve has no rise.
    """
    tau = np.sort(table["tau"].unique())
    return fit_knee(tau, curves_of(table, similarity), draws)


def measure_window(config: CastConfig, backbone: str) -> MeasuredWindow:
    """tau* of the config's seeds, and the candidate range from it: writes `window.json`."""
    section = config.diagnostics.structure
    table = read_study(config, backbone)
    knee = structure_point(table, section.similarity, section.bootstrap)
    steps, low = config.sampling.steps, load_backbone_config(backbone).window.low
    measured = candidate_range(knee.tau_star, steps, low)
    seed = section.seeds[0]
    study = read_json(study_folder(config, backbone, "structure", seed) / "study.json")
    sigmas = table[["step", "sigma"]].drop_duplicates().sort_values("step")["sigma"]
    window = MeasuredWindow(
        backbone=backbone,
        base_sha256=study["base_sha256"],
        steps=steps,
        sigmas=[*map(float, sigmas), 0.0],
        tau_star=knee.tau_star,
        tau_low=knee.low,
        tau_high=knee.high,
        low=measured.low,
        high=measured.high,
        similarity=section.similarity,
        prompts=int(table["prompt_id"].nunique()),
        seeds=list(section.seeds),
    )
    write_json(world_folder(config) / backbone / "window.json", window.model_dump(mode="json"))
    return window


def layout_share(atoms: pd.DataFrame, tau_star: float, column: str = "score") -> pd.DataFrame:
    """How far the layout stands at tau*, one row a prompt: `gained`, of `whole` (claim C03).

    Layout is read off the object and position atoms: `gained` is the rise of their mean score
    from the first estimate to the first scored one at or after tau*, `whole` to the final image.
    """
    layout = atoms[atoms["skill"].isin(["object", "position"])]
    wide = layout.pivot_table(column, "prompt_id", "tau", aggfunc="mean")
    taus = wide.columns.to_numpy(dtype=float)
    at = taus[np.searchsorted(taus, tau_star - 1e-9).clip(max=len(taus) - 1)]
    return pd.DataFrame(
        {"gained": wide[at] - wide[taus[0]], "whole": wide[taus[-1]] - wide[taus[0]]}
    )
