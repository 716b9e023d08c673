"""Configs from files: a world, a backbone, a method, and the resolved run."""

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from cast.config.arms import BackboneConfig, MethodConfig, RunConfig
from cast.config.reading import parse, read_yaml
from cast.config.sections import CastConfig
from cast.errors import CastError, nearest
from cast.paths import from_root, repository_root

BENCHMARK_VARIABLE = "CAST_GENEVAL2"
QUALITY_VARIABLE = "CAST_QWEN_IMAGE_BENCH"
EMBEDDINGS_VARIABLE = "CAST_EMBEDDINGS"  # set by the workflow from compute.embeddings
Named = TypeVar("Named", BackboneConfig, MethodConfig)


def load_config(path: str | Path, overrides: Mapping[str, Any] | None = None) -> CastConfig:
    """The world config at `path`, with `overrides` (nested mappings) laid over it.

    Keys that the file leaves out take the defaults of `config/mini.yaml`. Every backbone, method
    and vocabulary that it names must have its file. Raises `CastError` for the first fault.
    """
    path = from_root(path)
    place = _short(path)
    values = _overlaid(read_yaml(path), overrides or {})
    config = parse(CastConfig, values, place)
    hard_case = config.evaluation.hard_case.backbone
    studied = config.diagnostics.backbones or ()
    for key, kind, names in (
        ("backbones", "backbones", config.backbones),
        ("diagnostics.backbones", "backbones", studied),
        ("evaluation.hard_case.backbone", "backbones", (hard_case,)),
        ("methods", "methods", config.methods),
        ("ablations", "methods", config.ablations),
        ("vocabulary", "vocabularies", (config.vocabulary,)),
    ):
        for name in names:
            _named_file(kind, name, f"{place}: {key}")
    if config.quality.judge == "mini" and config.vocabulary != "shapes":
        raise CastError(
            f"{place}: quality.judge = mini: is for vocabulary shapes, not {config.vocabulary}; "
            "choose vlm or none."
        )
    for name in {*config.backbones, *studied, hard_case}:
        load_backbone_config(name)
    for name in {*config.methods, *config.ablations}:
        load_method_config(name)
    return config


def load_backbone_config(name: str) -> BackboneConfig:
    """`config/backbones/{name}.yaml`; an unknown name raises `CastError` with the nearest one."""
    return _load_named(BackboneConfig, "backbones", name)


def load_method_config(name: str) -> MethodConfig:
    """`config/methods/{name}.yaml`; an unknown name raises `CastError` with the nearest one."""
    return _load_named(MethodConfig, "methods", name)


def run_config(config: CastConfig, backbone: str, method: str, seed: int) -> RunConfig:
    """The resolved settings of one training run: `null`s that name another setting are filled in.

    Raises `CastError` when the backbone's window is for another number of steps.
    """
    body = load_backbone_config(backbone)
    arm = load_method_config(method)
    window = body.window
    if window.steps != config.sampling.steps:
        raise CastError(
            f"config/backbones/{backbone}.yaml: window.steps = {window.steps}: must be the "
            f"config's sampling.steps ({config.sampling.steps}); the range [{window.low}, "
            f"{window.high}) holds for that many only. Measure it anew, or change the steps."
        )
    if window.high != "measured" and window.high - window.low < config.sde.window_length:
        raise CastError(
            f"config/backbones/{backbone}.yaml: window [{window.low}, {window.high}): must hold "
            f"sde.window_length ({config.sde.window_length}) transitions."
        )
    sde, training = config.sde, config.training
    if sde.noise_level is None:
        sde = sde.model_copy(update={"noise_level": body.noise_level})
    if arm.learning_rate is not None:
        training = training.model_copy(update={"learning_rate": arm.learning_rate})
    return RunConfig(
        world=config.world,
        backbone=body,
        method=arm,
        seed=seed,
        sampling=config.sampling,
        sde=sde,
        verifier=config.verifier,
        preference=config.preference if arm.reward == "preference" else None,
        training=training,
        manifest=f"{config.results}/{config.world}/prompts/manifest.parquet",
    )


def studied_backbones(config: CastConfig) -> tuple[str, ...]:
    """The backbones of the diagnostic studies; those of the mini world where none are named."""
    if config.diagnostics.backbones is not None:
        return config.diagnostics.backbones
    return tuple(sorted(file.stem for file in from_root("config/backbones").glob("mini-*.yaml")))


def benchmark_path(config: CastConfig) -> Path:
    """The benchmark's file: the config's, or the one that CAST_GENEVAL2 names; not opened here."""
    if config.evaluation.benchmark is not None:
        return from_root(config.evaluation.benchmark)
    return _named_by(BENCHMARK_VARIABLE, "evaluation.benchmark", "geneval2_data.jsonl")


def count_prompts(config: CastConfig) -> int:
    """Prompts of the benchmark that are evaluated: its file has one a line."""
    with benchmark_path(config).open("rb") as file:
        lines = sum(1 for _ in file)
    return min(lines, config.evaluation.limit or lines)


def quality_prompts_path(config: CastConfig) -> Path:
    """Qwen-Image-Bench's prompts for judge vlm; not opened here."""
    if config.quality.prompts is not None:
        return from_root(config.quality.prompts)
    file = "a JSONL with ID and prompt, or choose quality.judge: none"
    return _named_by(QUALITY_VARIABLE, "quality.prompts", file)


def _named_by(variable: str, key: str, file: str) -> Path:
    named = os.environ.get(variable, "")
    if not named:
        raise CastError(
            f"{key} = null: takes the file that the environment variable {variable} names, and "
            f"that isn't set. Set it to {file}."
        )
    return from_root(named)


def is_local(path: str) -> bool:
    """Whether a model path means a folder here (`models/...`, `./x`, `/x`), not a hub id."""
    return path.startswith(("/", "./", "../", "models/")) or from_root(path).is_dir()


def check_files(config: CastConfig, models: bool = True) -> None:
    """Every file and local model folder that a run of this config reads; raises `CastError`.

    `models=False` leaves the model folders out, for a run that makes them. Hub ids are not looked
    up: that needs the network.
    """
    place = f"world {config.world}"
    files = {"evaluation.benchmark": benchmark_path(config)}
    if config.prompts.development_file is not None:
        files["prompts.development_file"] = from_root(config.prompts.development_file)
    if config.quality.judge == "vlm":
        files["quality.prompts"] = quality_prompts_path(config)
    for key, path in files.items():
        if not path.is_file():
            hint = _nearest_entry(path)
            raise CastError(f"{place}: {key} = {_short(path)}: no such file.{hint}")
    if not models:
        return
    folders = {"verifier.path": config.verifier.path}
    arms = map(load_method_config, {*config.methods, *config.ablations})
    if any(arm.reward == "preference" for arm in arms):
        folders["preference.path"] = config.preference.path
    if config.quality.path is not None:
        folders["quality.path"] = config.quality.path
    for name in (*config.backbones, config.evaluation.hard_case.backbone):
        folders[f"config/backbones/{name}.yaml: path"] = load_backbone_config(name).path
    for key, folder in folders.items():
        if is_local(folder) and not from_root(folder).is_dir():
            raise CastError(
                f"{place}: {key} = {folder}: no such folder."
                f"{_nearest_entry(from_root(folder))} `snakemake zoo` trains the mini models."
            )


def _load_named(model: type[Named], kind: str, name: str) -> Named:
    path = _named_file(kind, name, f"config/{kind}: name")
    loaded = _parsed(model, path, path.read_bytes())
    if loaded.name != name:
        raise CastError(f"{_short(path)}: name = {loaded.name}: must be {name}, as its file's.")
    return loaded


@functools.cache  # a plan asks for each name hundreds of times
def _parsed(model: type[Named], path: Path, _content: bytes) -> Named:
    """The file as a `model`; kept as long as the file's content is the same."""
    return parse(model, read_yaml(path), _short(path))


def _named_file(kind: str, name: str, place: str) -> Path:
    """`config/{kind}/{name}.yaml`, which must be there; `place` names file and key."""
    folder = from_root("config") / kind
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in folder.glob("*.yaml"))
        raise CastError(
            f"{place} = {name}: there is no {_short(path)}; known: "
            f"{', '.join(known) or 'none'}.{nearest(name, known)}"
        )
    return path


def _nearest_entry(path: Path) -> str:
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return nearest(path.name, names)


def _overlaid(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for key, value in over.items():
        below = merged.get(key)
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[key] = _overlaid(below, value) if nested else value  # type: ignore[arg-type]
    return merged


def _short(path: Path) -> str:
    """The path as people write it: from the root where it lies under it."""
    root = repository_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
