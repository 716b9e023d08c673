"""Images and scores of some prompts by one model, below one folder.

Each call loads what it needs, resumes what was killed, and writes its table whole at the end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import BackboneConfig, CastConfig, load_backbone_config
from cast.evaluation.folders import BASE, adapter_sha256
from cast.evaluation.generation import generate
from cast.evaluation.scoring import score_images
from cast.io import write_parquet
from cast.scene_graph import PromptRecord

# The models' libraries take seconds to import, and whoever draws a figure needs none of them:
# they are imported by the functions that load a model.

COSTS = "evaluation_costs.jsonl"


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
    work: Path | None = None,
) -> pd.DataFrame:
    """Images of `records` below `folder` and their `images.parquet`; `adapter=None` is the base.

    The table, and what a killed call goes on from, lie in `work`, by default `folder` too: several
    jobs may fill one folder with images.
    """
    from cast.backbones import load_backbone

    identity = generation_identity(config, backbone, adapter)
    loaded = load_backbone(load_backbone_config(backbone), config.sampling)
    if adapter is not None:
        loaded.load_lora(adapter)
    steps, batch, work = config.sampling.steps, config.evaluation.batch, work or folder
    with _costs(work).phase("generation", len(records) * len(seeds)):
        images = generate(
            loaded, records, seeds, steps, folder, identity, batch, parts_folder=work / "parts"
        )
    write_parquet(work / "images.parquet", images)
    return images


def score_folder(
    config: CastConfig,
    records: Sequence[PromptRecord],
    images: pd.DataFrame,
    folder: Path,
    work: Path | None = None,
) -> pd.DataFrame:
    """Scores of a folder's images and their `scores.parquet`; `work` as in `generate_folder`."""
    from cast.verifier import Verifier

    verifier = Verifier.load(config.verifier, batch=config.evaluation.batch)
    oracle = config.vocabulary == "shapes"  # the world whose truth can be read off its pixels
    identity, work = verifier_identity(config), work or folder
    with _costs(work).phase("scoring", len(images)):
        scores = score_images(
            verifier, records, images, folder, identity, oracle, parts_folder=work / "parts"
        )
    write_parquet(work / "scores.parquet", scores)
    return scores


def _costs(folder: Path) -> Any:
    from cast.training.launch import Processes
    from cast.training.ledger import CostJournal

    return CostJournal(folder / COSTS, Processes().describe())
