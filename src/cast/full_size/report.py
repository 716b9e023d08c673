"""The preflight report: before anything is spent, what a config needs, costs and lacks.

    make preflight CONFIG=paper
    python -m cast.full_size preflight config/paper.yaml --price 3.50

Of large models it reads no weights and asks no network: sizes come from counts, and whether weights
are here from the hub's local cache. Small local ones are loaded and counted.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from cast.config import (
    CastConfig,
    benchmark_path,
    is_local,
    load_backbone_config,
    run_config,
    studied_backbones,
)
from cast.config.loading import BENCHMARK_VARIABLE
from cast.errors import CastError
from cast.full_size.cost import STAGES, gpu_hours
from cast.full_size.counts import BackboneCounts, backbone_counts
from cast.full_size.memory import BYTES, GB, H200, mend, training_memory
from cast.full_size.operations import Assumptions, Operations
from cast.full_size.verifier_counts import vlm_counts
from cast.paths import from_root
from cast.workflow.keys import BASE, list_arms

PNG_BYTES = 1.6  # of a pixel of a photograph-like PNG; ours
CHECKPOINTS = 3  # kept by a run, with the one that is being written


@dataclass
class Report:
    """Lines to show, and the warnings among them."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """Start a section."""
        self.lines += ["", text, "-" * len(text)]

    def warn(self, text: str) -> None:
        """Say what won't work, and the mend."""
        self.warnings.append(text)
        self.lines.append(f"  WARNING: {text}")

    def text(self) -> str:
        """The whole report, its warnings repeated at the end."""
        end = [f"{len(self.warnings)} warnings." if self.warnings else "No warnings."]
        return "\n".join([*self.lines, "", *end, *(f"- {warning}" for warning in self.warnings)])


def preflight(
    config: CastConfig,
    assumed: Assumptions | None = None,
    price: float | None = None,
    memory: float | None = None,
) -> Report:
    """All sections for devices of `memory` bytes; `price` is that of one device for an hour.

    The paper's world runs on GPUs, H200s by default; the others on this machine's cores. Raises
    `CastError` for a model that was never counted and can't be.
    """
    report = Report([f"Preflight of the {config.world} config"])
    _models(config, report)
    _disk(config, report)
    _memory(config, report, memory or _memory_of_device(config))
    _hours(config, report, assumed or Assumptions(), price)
    return report


def _cached(path: str) -> Path | None:
    """Where the hub's cache holds a model (not necessarily all of it)."""
    default = Path(os.environ.get("HF_HOME", Path.home() / ".cache/huggingface")) / "hub"
    folder = Path(os.environ.get("HF_HUB_CACHE", default)) / f"models--{path.replace('/', '--')}"
    snapshots = folder / "snapshots"
    return snapshots if snapshots.is_dir() and any(snapshots.iterdir()) else None


def _stored(folder: Path) -> int:
    """Bytes of weights under a folder; the hub's links are followed."""
    return sum(file.stat().st_size for file in folder.rglob("*.safetensors") if file.exists())


def _models(config: CastConfig, report: Report) -> None:
    report.heading("Models")
    wanted: dict[str, tuple[float, str, str]] = {}
    chosen = [*config.backbones, config.evaluation.hard_case.backbone, *studied_backbones(config)]
    for name in dict.fromkeys(chosen):
        body = load_backbone_config(name)
        counts = _counts(config, name)
        size = BYTES[body.dtype] * float(sum(counts.parameters.values()))
        wanted[body.path] = (size, body.licence, f"config/backbones/{name}.yaml: path")
    for key, path, dtype in _scorers(config):
        parameters = float(vlm_counts(path, key).parameters)
        wanted.setdefault(path, (BYTES[dtype] * parameters, "see its page", key))
    for path, (size, licence, key) in wanted.items():
        place = from_root(path) if is_local(path) else _cached(path)
        stored = _stored(place) if place is not None and place.is_dir() else 0
        state = f"{_size(stored)} here" if stored else "not here"
        report.lines.append(f"  {path}: {_size(size)} ({licence}); {state}")
        least = 0.4 if is_local(path) else 0.9  # a small folder may keep float32 in two bytes
        if stored < least * size:
            report.warn(
                f"{key} = {path}: {_size(stored)} of {_size(size)} of weights are here. "
                f"Accept its licence ({licence}) at https://huggingface.co/{path} if it asks, then "
                f"`hf download {path}`, or name a local folder."
            )
    try:
        found = benchmark_path(config)
        if not found.is_file():
            report.warn(f"evaluation.benchmark = {found}: no such file.")
    except CastError:
        report.warn(f"the benchmark: set {BENCHMARK_VARIABLE} to GenEval 2's geneval2_data.jsonl.")


def _scorers(config: CastConfig) -> list[tuple[str, str, str]]:
    """Key, path and number type of the vision-language models."""
    found = [("verifier.path", config.verifier.path, config.verifier.dtype)]
    if config.quality.judge == "vlm":
        found.append(("quality.path", str(config.quality.path), config.quality.dtype))
    return found


def _counts(config: CastConfig, name: str) -> BackboneCounts:
    sampling = config.sampling
    return backbone_counts(load_backbone_config(name), sampling.height, sampling.width)


def _size(number: int | float) -> str:
    return f"{number / GB:.1f} GB" if number >= 0.1 * GB else f"{number / 1e6:.1f} MB"


def _disk(config: CastConfig, report: Report) -> None:
    report.heading("Disk for results")
    work = Operations(config, Assumptions())
    images, embeddings = work.images(), 0.0
    if config.compute.embeddings is not None:
        bytes_of = (_counts(config, name).conditioning_bytes for name in config.backbones)
        embeddings = float(work.encoded_prompts() * sum(bytes_of))
    pictures = images * config.sampling.height * config.sampling.width * PNG_BYTES
    adapters = 0.0
    for backbone, method, _ in list_arms(config):
        if method != BASE:
            parameters = (
                config.training.lora.rank * _counts(config, backbone).lora_parameters_per_rank
            )
            adapters += 4.0 * parameters * (3 * CHECKPOINTS + 1)
    folder = from_root(config.results)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    needed = pictures + adapters + embeddings
    report.lines.append(
        f"  {_size(needed)}: {_size(pictures)} of {images:,} images, {_size(adapters)} of adapters "
        f"and checkpoints, {_size(embeddings)} of embeddings; {_size(free)} free"
    )
    if free < needed:
        report.warn(
            f"results = {config.results}: {_size(free)} free and {_size(needed)} needed; "
            "set `results` to a folder on a larger disk."
        )


def _memory_of_device(config: CastConfig) -> float:
    return H200 if config.world == "paper" else float(psutil.virtual_memory().total)


def _memory(config: CastConfig, report: Report, available: float) -> None:
    kind = "GPU memory" if config.world == "paper" else "Memory"
    report.heading(f"{kind} of a training job, of {_size(available)}")
    first = {arm[0]: arm for arm in reversed(list_arms(config)) if arm[1] != BASE}
    for backbone, arm in first.items():
        run = run_config(config, *arm)
        memory = training_memory(run)
        for moment, parts in (("encoding", memory.encoding), ("updating", memory.updating)):
            shown = ", ".join(f"{name} {_size(size)}" for name, size in parts.items())
            total = _size(sum(parts.values()))
            report.lines.append(f"  {backbone}, while {moment} {total}: {shown}")
        if not memory.fits(available):
            report.warn(
                f"{backbone}: {_size(memory.peak)} don't fit into {_size(available)}: "
                f"{mend(run, memory)}."
            )


def _hours(config: CastConfig, report: Report, assumed: Assumptions, price: float | None) -> None:
    """By arm and stage, and the sums of the stages."""
    table = gpu_hours(config, assumed)
    unit = "GPU-hours" if config.world == "paper" else "Core-hours"
    speed = assumed.speed_of(config)
    report.heading(f"{unit} by stage, estimated from counts at {speed / 1e12:g} TFLOP/s")
    sums = {stage: sum(row.get(stage, 0.0) for row in table.values()) for stage in STAGES}
    shown = [stage for stage in STAGES if sums[stage]]
    width = max(map(len, table)) + 1
    report.lines.append(_row("", {stage: stage for stage in shown} | {"sum": "sum"}, width))
    for place, stages in {**table, "all": sums}.items():
        cells = {stage: _number(stages[stage]) if stage in stages else "" for stage in shown}
        report.lines.append(_row(place, cells | {"sum": _number(sum(stages.values()))}, width))
    total = sum(sums.values())
    cost = f", {total * price:,.2f} at {price:g} an hour" if price is not None else ""
    report.lines.append(f"  All: {_number(total)} {unit}{cost}")


def _number(hours: float) -> str:
    return f"{hours:,.1f}" if hours >= 1 else f"{hours:.2g}"


def _row(name: str, cells: dict[str, str], width: int) -> str:
    columns = (f"{cell:>{max(len(stage), 7) + 2}}" for stage, cell in cells.items())
    return f"  {name:{width}}{''.join(columns)}"
