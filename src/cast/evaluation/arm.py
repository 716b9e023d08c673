"""One arm of the comparison, evaluated: a backbone with one method's adapter, or without any.

Each call loads what it needs, resumes what was killed, and writes its tables whole at the end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import (
    BackboneConfig,
    CastConfig,
    benchmark_path,
    load_backbone_config,
    load_method_config,
)
from cast.errors import CastError
from cast.evaluation.folders import BASE, adapter_sha256, arm_folder, benchmark, world_folder
from cast.evaluation.generation import generate
from cast.evaluation.geneval2 import prompt_means
from cast.evaluation.hard_case import HardCase, read_hard_case, select_hard_case, write_hard_case
from cast.evaluation.scoring import score_images
from cast.io import sha256_file, sha256_json, write_json, write_parquet
from cast.scene_graph import PromptRecord

# The models' libraries take seconds to import, and whoever draws a figure needs none of them:
# they are imported by the functions that load a model.


def generation_identity(config: CastConfig, backbone: str, adapter: Path | None) -> dict[str, Any]:
    """All that decides an image but its prompt and seed: weights, sampler, guidance, dtype."""
    from cast.training.identity import model_sha256

    body = load_backbone_config(backbone)
    return {
        "world": config.world,
        "backbone": backbone,
        "base_sha256": model_sha256(body.path),
        "adapter_sha256": BASE if adapter is None else adapter_sha256(adapter),
        "settings": _sampling_settings(body)
        | {"height": config.sampling.height, "width": config.sampling.width},
    }


def _sampling_settings(body: BackboneConfig) -> dict[str, Any]:
    """What a backbone's own file says about sampling; window and noise level are training's."""
    return body.model_dump(mode="json", exclude={"window", "noise_level", "licence", "path"})


def verifier_identity(config: CastConfig) -> dict[str, Any]:
    """All that decides a score but the image: the verifier's weights and their dtype."""
    from cast.training.identity import model_sha256

    section = config.verifier
    return {"verifier_sha256": model_sha256(section.path), "dtype": section.dtype}


def generate_folder(
    config: CastConfig,
    backbone: str,
    adapter: Path | None,
    records: Sequence[PromptRecord],
    seeds: Sequence[int],
    folder: Path,
) -> pd.DataFrame:
    """Images of `records` below `folder` and their `images.parquet`; `adapter=None` is the base."""
    from cast.backbones import load_backbone

    identity = generation_identity(config, backbone, adapter)
    loaded = load_backbone(load_backbone_config(backbone), config.sampling)
    if adapter is not None:
        loaded.load_lora(adapter)
    steps, batch = config.sampling.steps, config.evaluation.batch
    with _costs(folder).phase("generation", len(records) * len(seeds)):
        images = generate(loaded, records, seeds, steps, folder, identity, batch)
    write_parquet(folder / "images.parquet", images)
    return images


def score_folder(
    config: CastConfig, records: Sequence[PromptRecord], images: pd.DataFrame, folder: Path
) -> pd.DataFrame:
    """Scores of a folder's images and their `scores.parquet`."""
    from cast.verifier import Verifier

    verifier = Verifier.load(config.verifier, batch=config.evaluation.batch)
    oracle = config.vocabulary == "shapes"  # the world whose truth can be read off its pixels
    with _costs(folder).phase("scoring", len(images)):
        scores = score_images(verifier, records, images, folder, verifier_identity(config), oracle)
    write_parquet(folder / "scores.parquet", scores)
    return scores


def _costs(folder: Path) -> Any:
    from cast.training.launch import Processes
    from cast.training.ledger import CostJournal

    return CostJournal(folder / "evaluation_costs.jsonl", Processes().describe())


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
    identity = generation_identity(config, backbone, None if method == BASE else folder / "adapter")
    for key in ("base_sha256", "adapter_sha256"):
        if set(images[key]) != {identity[key]}:
            raise CastError(
                f"{path}: its images were made with {key} {images[key].iloc[0]}, and that is now "
                f"{identity[key]}. Generate them again."
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
    return scores


def evaluate_arm(config: CastConfig, backbone: str, method: str, seed: int = 0) -> pd.DataFrame:
    """Generate and score one arm; returns its score table.

    Writes `images.parquet`, `scores.parquet` and `evaluation.json` into its folder. A killed
    call goes on where it stopped; scores that depend on nothing that changed are read, not made.
    """
    if method != BASE:
        load_method_config(method)
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
    records = benchmark(config)
    scores = evaluate(config, chosen.backbone, None, records, chosen.seeds, folder / "hard_case")
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
