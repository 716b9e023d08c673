"""What the three studies share: their prompts, their folders, and what their results depend on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from cast.config import CastConfig, is_local, studied_backbones
from cast.config.diagnostics import Study
from cast.errors import CastError
from cast.evaluation.folders import benchmark, world_folder
from cast.evaluation.hard_case import read_hard_case
from cast.evaluation.making import generation_identity, verifier_identity
from cast.paths import from_root
from cast.scene_graph import PromptRecord, load_vocabulary, read_geneval2, read_prompts

MAIN_TABLES: dict[Study, str] = {
    "structure": "curve.parquet",
    "saturation": "saturation.parquet",
    "heads": "heads.parquet",
}


def study_folder(config: CastConfig, backbone: str, study: Study, seed: int) -> Path:
    """`results/{world}/{backbone}/{study}/seed{seed}`."""
    return world_folder(config) / backbone / study / f"seed{seed}"


def study_seeds(config: CastConfig, study: Study) -> tuple[int, ...]:
    """The seeds of a study's figure."""
    return getattr(config.diagnostics, study).seeds


def run_study(config: CastConfig, study: Study, backbone: str, seed: int) -> Path:
    """Run or finish one study; returns its main table's file."""
    if study == "structure":
        from cast.diagnostics.structure_formation import structure_study as run
    elif study == "saturation":
        from cast.diagnostics.saturation import saturation_study as run
    else:
        from cast.diagnostics.head_sensitivity import head_study as run
    run(config, backbone, seed)
    return study_file(config, backbone, study, seed)


def study_file(config: CastConfig, backbone: str, study: Study, seed: int) -> Path:
    """A study's main table, which it writes last."""
    return study_folder(config, backbone, study, seed) / MAIN_TABLES[study]


def run_missing(
    config: CastConfig, study: Study, backbones: Sequence[str], seeds: Sequence[int]
) -> None:
    """Run the studies whose main table isn't there; the workflow has made them all before."""
    for backbone in backbones:
        for seed in seeds:
            if not study_file(config, backbone, study, seed).is_file():
                run_study(config, study, backbone, seed)


def only(config: CastConfig, study: Study, backbone: str, seed: int) -> CastConfig:
    """The config for one backbone and, from 0 on, one seed; empty and -1 keep the config's."""
    section = config.diagnostics
    if backbone:
        section = section.model_copy(update={"backbones": (backbone,)})
    if seed >= 0:
        own = getattr(section, study).model_copy(update={"seeds": (seed,)})
        section = section.model_copy(update={study: own})
    return config.model_copy(update={"diagnostics": section})


def with_prompts(config: CastConfig, prompts: str) -> CastConfig:
    """The config with another prompt file and a results folder of its own, `own/FILE`.

    An empty name changes nothing.
    """
    if not prompts:
        return config
    section = config.diagnostics.model_copy(update={"prompts": prompts})
    results = f"{config.results}/own/{Path(prompts).stem}"
    return config.model_copy(update={"diagnostics": section, "results": results})


def study_prompts(config: CastConfig, study: Study) -> list[PromptRecord]:
    """The study's prompts: the first of the config's file, or of the study's own set.

    Structure formation takes the development prompts, saturation the benchmark, heads the Hard
    Case in its frozen order (lowest base mean first). Raises `CastError` for fewer than asked.
    """
    wanted = getattr(config.diagnostics, study).prompts
    records, place = _records(config, study)
    if len(records) < wanted:
        raise CastError(
            f"{place}: {len(records)} prompts, and diagnostics.{study}.prompts is {wanted}; lower "
            "that, or name a longer file."
        )
    return records[:wanted]


def _records(config: CastConfig, study: Study) -> tuple[list[PromptRecord], str]:
    named = config.diagnostics.prompts
    if named is not None:
        path = from_root(named)
        if not path.is_file():
            raise CastError(f"diagnostics.prompts = {named}: there is no such file.")
        if path.suffix == ".parquet":
            return list(read_prompts(path)), named
        return list(read_geneval2(path, load_vocabulary(config.vocabulary))), named
    if study == "structure":
        path = world_folder(config) / "prompts" / "development.parquet"
        if not path.is_file():
            raise CastError(f"{path}: there is no such file; run `snakemake {path}` first.")
        return list(read_prompts(path)), str(path)
    if study == "saturation":
        return benchmark(config), "evaluation.benchmark"
    path = world_folder(config) / "hard_case.json"
    if not path.is_file():
        raise CastError(f"{path}: there is no such file; run `snakemake {path}` first.")
    by_id = {record.prompt_id: record for record in benchmark(config)}
    chosen = read_hard_case(path).prompt_ids
    missing = [prompt_id for prompt_id in chosen if prompt_id not in by_id]
    if missing:
        raise CastError(f"{path}: prompt {missing[0]} is not in the benchmark that is configured.")
    return [by_id[prompt_id] for prompt_id in chosen], str(path)


def check_models(config: CastConfig, backbone: str, **paths: str) -> None:
    """Raise `CastError`, before any work, for a backbone or model folder that isn't there.

    `paths` are model folders or hub ids by their config key, with `__` for the dot.
    """
    known = studied_backbones(config)
    if backbone not in (*known, *config.backbones):
        raise CastError(
            f"diagnostics.backbones: {backbone} is not among {', '.join(known)}; add it there."
        )
    for key, path in {"verifier__path": config.verifier.path, **paths}.items():
        if is_local(path) and not from_root(path).is_dir():
            raise CastError(
                f"{key.replace('__', '.')} = {path}: no such folder. `snakemake zoo` trains the "
                "mini models."
            )


def identity(config: CastConfig, backbone: str) -> dict[str, Any]:
    """All that decides a study's images and atom scores, but prompts, seed and code."""
    made = generation_identity(config, backbone, None)
    return {**made, **verifier_identity(config), "steps": config.sampling.steps}


def has_oracle(config: CastConfig) -> bool:
    """Whether the truth of an image can be read off its pixels: in the mini world's vocabulary."""
    return config.vocabulary == "shapes"


def oracle_answers(
    images: UInt8[np.ndarray, "B H W 3"], record: PromptRecord
) -> Float[np.ndarray, "B K"]:
    """1 where an atom is true in an image and 0 elsewhere."""
    from cast.mini import oracle

    return np.stack([np.asarray(oracle.answer(image, record), dtype=float) for image in images])


def as_tensor(images: UInt8[np.ndarray, "B H W 3"]) -> Float[Tensor, "B 3 H W"]:
    """Pixels in [0, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0
