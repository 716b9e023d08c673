"""An evaluation in several jobs: each makes and scores a run of prompts, and one job gathers.

An image and its scores depend on model, prompt and seed alone, so the gathered tables have the
same bytes for any number of chunks. All chunks fill one store of images; each has its tables, and
what a killed job goes on from, in `chunks/INDEX-of-COUNT` beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.errors import CastError
from cast.evaluation.budget import differences
from cast.evaluation.folders import BASE, arm_folder, benchmark, world_folder
from cast.evaluation.generation import IMAGES
from cast.evaluation.geneval2 import check_scores
from cast.evaluation.making import (
    COSTS,
    generate_folder,
    generation_identity,
    score_folder,
    verifier_identity,
)
from cast.evaluation.store import ImageStore
from cast.io import read_json, write_json, write_parquet, write_text
from cast.scene_graph import PromptRecord

HARD_CASE = "hard_case"


@dataclass(frozen=True)
class Evaluated:
    """What is evaluated on the benchmark: a backbone, its adapter (None: without), the generation
    seeds, and the folder that all of its images lie below."""

    backbone: str
    adapter: Path | None
    seeds: tuple[int, ...]
    folder: Path

    @classmethod
    def of(cls, config: CastConfig, backbone: str, method: str, seed: int) -> "Evaluated":
        """Of an arm; method "hard_case" is the base model on the seeds that select that subset."""
        if method == HARD_CASE:
            chosen = config.evaluation.hard_case
            return cls(chosen.backbone, None, chosen.seeds, world_folder(config) / HARD_CASE)
        folder = arm_folder(config, backbone, method, seed)
        adapter = None if method == BASE else folder / "adapter"
        return cls(backbone, adapter, config.evaluation.seeds, folder)


def chunk_folder(config: CastConfig, evaluated: Evaluated, index: int) -> Path:
    """Where the tables of one chunk lie; chunks count from 0."""
    count = config.compute.chunks
    if not 0 <= index < count:
        raise CastError(f"compute.chunks = {count}: there is no chunk {index}; the first is 0.")
    return evaluated.folder / "chunks" / f"{index}-of-{count}"


def evaluate_chunk(config: CastConfig, evaluated: Evaluated, index: int) -> pd.DataFrame:
    """Generate and score one chunk's prompts; writes its tables and `chunk.json`, resumes."""
    work, records = chunk_folder(config, evaluated, index), _records(config, index)
    images = generate_folder(
        config,
        evaluated.backbone,
        evaluated.adapter,
        records,
        evaluated.seeds,
        evaluated.folder,
        work,
    )
    scores = score_folder(config, records, images, evaluated.folder, work)
    write_json(work / "chunk.json", _description(config, evaluated, records))
    return scores


def gather(config: CastConfig, evaluated: Evaluated) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The images and scores of all chunks, in the benchmark's order, as one job writes them.

    Writes both tables and the account of what the chunks cost. Raises `CastError` for a chunk that
    isn't there, that was made from something else, or that lacks an image or a score.
    """
    images, scores, costs = [], [], ""
    for index in range(config.compute.chunks):
        work = chunk_folder(config, evaluated, index)
        records = _records(config, index)
        _check_description(work, _description(config, evaluated, records))
        images.append(pd.read_parquet(work / "images.parquet"))
        scores.append(pd.read_parquet(work / "scores.parquet"))
        _check_complete(work, evaluated, records, images[-1], scores[-1])
        costs += (work / COSTS).read_text(encoding="utf-8")
    tables = pd.concat(images, ignore_index=True), pd.concat(scores, ignore_index=True)
    write_parquet(evaluated.folder / "images.parquet", tables[0])
    write_parquet(evaluated.folder / "scores.parquet", tables[1])
    write_text(evaluated.folder / COSTS, costs)
    return tables


def _records(config: CastConfig, index: int) -> list[PromptRecord]:
    """The chunk's prompts: consecutive, and as many as in any other chunk, give or take one."""
    records, count = benchmark(config), config.compute.chunks
    if count > len(records):
        raise CastError(
            f"compute.chunks = {count}: the benchmark has {len(records)} prompts; allowed are 1 to "
            f"{len(records)}."
        )
    return records[index * len(records) // count : (index + 1) * len(records) // count]


def _description(
    config: CastConfig, evaluated: Evaluated, records: Sequence[PromptRecord]
) -> dict[str, Any]:
    return {
        **generation_identity(config, evaluated.backbone, evaluated.adapter),
        **verifier_identity(config),
        "steps": config.sampling.steps,
        "seeds": list(evaluated.seeds),
        "prompts": [record.prompt_id for record in records],
    }


def _check_description(work: Path, expected: dict[str, Any]) -> None:
    path = work / "chunk.json"
    if not path.is_file():
        raise CastError(f"{path}: this chunk isn't evaluated; `snakemake {path}` does it.")
    for place, made, now in differences(read_json(path), expected):
        raise CastError(
            f"{path}: the chunk was made with {place} {made!r}, and that is now {now!r}. Delete "
            f"{work} and evaluate it again."
        )


def _check_complete(
    work: Path,
    evaluated: Evaluated,
    records: Sequence[PromptRecord],
    images: pd.DataFrame,
    scores: pd.DataFrame,
) -> None:
    wanted = {(record.prompt_id, seed) for record in records for seed in evaluated.seeds}
    check_scores(scores, "score", where=str(work / "scores.parquet"))
    for name, table in (("images", images), ("scores", scores)):
        found = set(zip(table["prompt_id"], table["generation_seed"], strict=True))
        if found != wanted or (name == "images" and len(table) != len(wanted)):
            raise CastError(
                f"{work / name}.parquet: {len(found & wanted)} of {len(wanted)} images are there. "
                f"Delete {work} and evaluate it again."
            )
    store = ImageStore(evaluated.folder / IMAGES)
    lost = [name for name in images["image_sha256"] if not store.path(name).is_file()]
    if lost:
        raise CastError(
            f"{store.path(lost[0])}: {len(lost)} images of {work.name} aren't there. Delete {work} "
            "and evaluate it again."
        )
