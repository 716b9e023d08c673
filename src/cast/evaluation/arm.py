"""One arm of the comparison, evaluated: a backbone with one method's adapter, or without any.

Each call loads what it needs, resumes what was killed, and writes its tables whole at the end.
With `compute.chunks` above 1 the images and scores are made by that many jobs, and only gathered
here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig, benchmark_path, load_method_config
from cast.errors import CastError
from cast.evaluation.chunks import HARD_CASE, Evaluated, gather
from cast.evaluation.folders import BASE, arm_folder, benchmark, world_folder
from cast.evaluation.geneval2 import prompt_means
from cast.evaluation.hard_case import HardCase, read_hard_case, select_hard_case, write_hard_case
from cast.evaluation.making import (
    generate_folder,
    generation_identity,
    score_folder,
    verifier_identity,
)
from cast.io import sha256_file, sha256_json, write_json
from cast.scene_graph import PromptRecord


def generate_arm(config: CastConfig, backbone: str, method: str, seed: int = 0) -> pd.DataFrame:
    """The arm's benchmark images: `images/`, `images.parquet`."""
    folder = arm_folder(config, backbone, method, seed)
    adapter = None if method == BASE else folder / "adapter"
    return generate_folder(
        config, backbone, adapter, benchmark(config), config.evaluation.seeds, folder
    )


def score_arm(config: CastConfig, backbone: str, method: str, seed: int = 0) -> pd.DataFrame:
    """Scores of the arm's images, which must be there: `scores.parquet`, `evaluation.json`."""
    folder = arm_folder(config, backbone, method, seed)
    path = folder / "images.parquet"
    if not path.is_file():
        raise CastError(f"{path}: there is no such file; generate this arm's images first.")
    images = pd.read_parquet(path)
    scores = score_folder(config, benchmark(config), images, folder)
    _write_evaluation(config, backbone, method, seed, images, scores)
    return scores


def _write_evaluation(
    config: CastConfig,
    backbone: str,
    method: str,
    seed: int,
    images: pd.DataFrame,
    scores: pd.DataFrame,
) -> None:
    """`evaluation.json`, when the images are of the models that are there now."""
    folder = arm_folder(config, backbone, method, seed)
    identity = generation_identity(config, backbone, None if method == BASE else folder / "adapter")
    for key in ("base_sha256", "adapter_sha256"):
        if set(images[key]) != {identity[key]}:
            raise CastError(
                f"{folder / 'images.parquet'}: its images were made with {key} "
                f"{images[key].iloc[0]}, and that is now {identity[key]}. Generate them again."
            )
    write_json(
        folder / "evaluation.json",
        {
            **identity,
            **verifier_identity(config),
            "method": method,
            "training_seed": seed,
            "steps": config.sampling.steps,
            "generation_seeds": list(config.evaluation.seeds),
            "benchmark_sha256": sha256_file(benchmark_path(config)),
            "prompts": len(set(scores["prompt_id"])),
        },
    )


def evaluate_arm(config: CastConfig, backbone: str, method: str, seed: int = 0) -> pd.DataFrame:
    """Generate and score one arm; returns its score table.

    Writes `images.parquet`, `scores.parquet` and `evaluation.json` into its folder. A killed
    call goes on where it stopped; scores that depend on nothing that changed are read, not made.
    """
    if method != BASE:
        load_method_config(method)
    if config.compute.chunks > 1:
        images, scores = gather(config, Evaluated.of(config, backbone, method, seed))
        _write_evaluation(config, backbone, method, seed, images, scores)
        return scores
    generate_arm(config, backbone, method, seed)
    return score_arm(config, backbone, method, seed)


def evaluate(
    config: CastConfig,
    backbone: str,
    adapter: Path | None,
    records: Sequence[PromptRecord],
    seeds: Sequence[int],
    folder: Path,
) -> pd.DataFrame:
    """Generate and score one's own prompts with one's own adapter, in any folder."""
    images = generate_folder(config, backbone, adapter, records, seeds, folder)
    return score_folder(config, records, images, folder)


def freeze_hard_case(config: CastConfig) -> HardCase:
    """Select the Hard Case subset on the frozen base model and write `hard_case.json`.

    A subset that is there already is read and checked, never selected anew: it is fixed before
    training, and runs that were trained with it would no longer match.
    """
    chosen = config.evaluation.hard_case
    folder = world_folder(config)
    path = folder / "hard_case.json"
    settings = _hard_case_settings(config)
    if path.exists():
        known = read_hard_case(path)
        if known.settings_sha256 != sha256_json(settings):
            raise CastError(
                f"{path}: it was frozen under other settings (hash {known.settings_sha256[:12]}, "
                f"now {sha256_json(settings)[:12]}). Delete it to select anew, with every run and "
                "table made since."
            )
        return known
    if config.compute.chunks > 1:
        _, scores = gather(config, Evaluated.of(config, chosen.backbone, HARD_CASE, 0))
    else:
        place, records = folder / HARD_CASE, benchmark(config)
        scores = evaluate(config, chosen.backbone, None, records, chosen.seeds, place)
    means = prompt_means(scores)
    prompt_ids = select_hard_case(means, chosen.pool, chosen.keep)
    return write_hard_case(
        path,
        HardCase(
            prompt_ids=tuple(prompt_ids),
            pool=chosen.pool,
            keep=chosen.keep,
            selection_seeds=chosen.seeds,
            evaluation_seeds=config.evaluation.seeds,
            backbone=chosen.backbone,
            base_sha256=settings["base_sha256"],
            world=config.world,
            settings_sha256=sha256_json(settings),
            selection_mean=float(means.loc[prompt_ids].to_numpy().mean()),
        ),
    )


def _hard_case_settings(config: CastConfig) -> dict[str, Any]:
    chosen = config.evaluation.hard_case
    return {
        **generation_identity(config, chosen.backbone, None),
        **verifier_identity(config),
        "steps": config.sampling.steps,
        "evaluation": config.evaluation.model_dump(mode="json", exclude={"batch", "benchmark"}),
        "benchmark_sha256": sha256_file(benchmark_path(config)),
    }
