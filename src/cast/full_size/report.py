"""The preflight report: before anything is spent, what a config needs, costs and lacks.

    make preflight CONFIG=paper
    python -m cast.full_size preflight config/paper.yaml --price 3.50

It reads no weights and asks no network: sizes come from counts, and whether weights are here from
the hub's local cache.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from cast.config import (
    CastConfig,
    benchmark_path,
    is_local,
    load_backbone_config,
    run_config,
)
from cast.config.loading import BENCHMARK_VARIABLE
from cast.errors import CastError
from cast.full_size.cost import STAGES, Assumptions, gpu_hours
from cast.full_size.counts import BackboneCounts, backbone_counts
from cast.full_size.memory import BYTES, GB, H200, mend, training_memory
from cast.full_size.verifier_counts import verifier_counts
from cast.paths import from_root

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
    memory: float = H200,
) -> Report:
    """All sections for GPUs of `memory` bytes; `price` is that of one GPU-hour.

    Raises `CastError` for a model that was never counted.
    """
    report = Report([f"Preflight of the {config.world} config"])
    _models(config, report)
    _disk(config, report)
    _memory(config, report, memory)
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
    for name in dict.fromkeys([*config.backbones, config.evaluation.hard_case.backbone]):
        body = load_backbone_config(name)
        counts = _counts(config, name)
        size = BYTES[body.dtype] * float(sum(counts.parameters.values()))
        wanted[body.path] = (size, body.licence, f"config/backbones/{name}.yaml: path")
    verifier = BYTES[config.verifier.dtype] * float(verifier_counts(config.verifier).parameters)
    wanted[config.verifier.path] = (verifier, "see its page", "verifier.path")
    for path, (size, licence, key) in wanted.items():
        place = from_root(path) if is_local(path) else _cached(path)
        stored = _stored(place) if place is not None and place.is_dir() else 0
        state = f"{stored / GB:.1f} GB here" if stored else "not here"
        report.lines.append(f"  {path}: {size / GB:.1f} GB ({licence}); {state}")
        if stored < 0.9 * size:
            report.warn(
                f"{key} = {path}: {stored / GB:.1f} of {size / GB:.1f} GB of weights are here. "
                f"Accept its licence ({licence}) at https://huggingface.co/{path} if it asks, then "
                f"`hf download {path}`, or name a local folder."
            )
    try:
        found = benchmark_path(config)
        if not found.is_file():
            report.warn(f"evaluation.benchmark = {found}: no such file.")
    except CastError:
        report.warn(f"the benchmark: set {BENCHMARK_VARIABLE} to GenEval 2's geneval2_data.jsonl.")


def _counts(config: CastConfig, name: str) -> BackboneCounts:
    sampling = config.sampling
    return backbone_counts(load_backbone_config(name), sampling.height, sampling.width)


def _disk(config: CastConfig, report: Report) -> None:
    report.heading("Disk for results")
    arms = len(config.backbones) * (1 + len(config.methods) * len(config.training_seeds))
    prompts = config.evaluation.limit or Assumptions().benchmark_prompts
    pixels = config.sampling.height * config.sampling.width
    images = (
        arms * len(config.evaluation.seeds) + len(config.evaluation.hard_case.seeds)
    ) * prompts
    pictures = images * pixels * PNG_BYTES
    adapters = 0.0
    for name in config.backbones:
        counts = _counts(config, name)
        one = 4.0 * config.training.lora.rank * counts.lora_parameters_per_rank
        adapters += len(config.methods) * len(config.training_seeds) * one * (3 * CHECKPOINTS + 1)
    folder = from_root(config.results)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    needed = pictures + adapters
    report.lines.append(
        f"  {needed / GB:.0f} GB: {pictures / GB:.0f} GB of {images:,} images, "
        f"{adapters / GB:.0f} GB of adapters and checkpoints; {free / GB:.0f} GB free"
    )
    if free < needed:
        report.warn(
            f"results = {config.results}: {free / GB:.0f} GB free and {needed / GB:.0f} GB needed; "
            "set `results` to a folder on a larger disk."
        )


def _memory(config: CastConfig, report: Report, available: float) -> None:
    report.heading(f"GPU memory of a training job, of {available / GB:.0f} GB")
    for backbone in config.backbones:
        run = run_config(config, backbone, config.methods[0], config.training_seeds[0])
        memory = training_memory(run)
        for moment, parts in (("encoding", memory.encoding), ("updating", memory.updating)):
            shown = ", ".join(f"{name} {size / GB:.1f}" for name, size in parts.items())
            report.lines.append(
                f"  {backbone}, while {moment} {sum(parts.values()) / GB:.1f} GB: {shown}"
            )
        if not memory.fits(available):
            report.warn(
                f"{backbone}: {memory.peak / GB:.0f} GB don't fit into {available / GB:.0f} GB: "
                f"{mend(run, memory)}."
            )


def _hours(config: CastConfig, report: Report, assumed: Assumptions, price: float | None) -> None:
    table = gpu_hours(config, assumed)
    report.heading(f"GPU-hours by arm and stage, at {assumed.speed / 1e12:.0f} TFLOP/s")
    report.lines.append(f"  {'':40}" + "".join(f"{stage:>14}" for stage in STAGES) + f"{'sum':>10}")
    for arm, stages in table.items():
        cells = "".join(f"{stages.get(stage, 0.0):14.2f}" for stage in STAGES)
        report.lines.append(f"  {arm:40}{cells}{sum(stages.values()):10.1f}")
    total = sum(sum(stages.values()) for stages in table.values())
    cost = f", {total * price:,.0f} at {price:g} an hour" if price is not None else ""
    report.lines.append(f"  All: {total:.0f} GPU-hours{cost}")
