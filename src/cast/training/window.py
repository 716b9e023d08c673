"""A run's candidate range: the explicit one of its backbone's YAML, or the measured one.

`window.high: measured` in config/backbones/NAME.yaml takes the range from
`results/{world}/NAME/window.json`, which the structure-formation study writes (paper 4.3, App. B).
Measured for another model, another N or another schedule it says nothing about this run, so it is
refused.
"""

from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from cast.config import RunConfig
from cast.config.model import Section
from cast.config.reading import parse
from cast.errors import CastError
from cast.flow import WindowRange, candidate_range
from cast.io import read_json
from cast.paths import from_root
from cast.training.identity import model_sha256

SIGMA_TOLERANCE = 1e-6


class MeasuredWindow(Section):
    """What the structure-formation study found for one model and one sampler: `window.json`.

    `sigmas` are the `steps + 1` levels that it sampled with, `tau_low` and `tau_high` bound tau*
    (95%), `low` and `high` are the candidate range, `similarity` says to what CLIP similarity was
    taken, `prompts` and `seeds` what was averaged.
    """

    backbone: str
    base_sha256: str
    steps: int
    sigmas: list[float]
    tau_star: float
    tau_low: float
    tau_high: float
    low: int
    high: int
    similarity: str
    prompts: int
    seeds: list[int]


def window_path(run: RunConfig) -> Path:
    """Where the study leaves the backbone's window, in the run's own world."""
    return Path(run.manifest).parent.parent / run.backbone.name / "window.json"


def measured_window(run: RunConfig) -> MeasuredWindow | None:
    """The measured window of the run's backbone; None where the YAML gives an explicit one.

    Raises `CastError` for a missing or malformed file, and for a window of another backbone,
    other weights or another number of steps; the message names both values and the mend.
    """
    if run.backbone.window.high != "measured":
        return None
    path, name = window_path(run), run.backbone.name
    mend = f"Measure it with `snakemake {path}`, or give a number in config/backbones/{name}.yaml."
    if not from_root(path).is_file():
        raise CastError(f"{path}: there is no such file, and window.high is measured. {mend}")
    window = parse(MeasuredWindow, read_json(from_root(path)), str(path))
    for key, own in (
        ("backbone", name),
        ("steps", run.sampling.steps),
        ("base_sha256", model_sha256(run.backbone.path)),
    ):
        found = getattr(window, key)
        if found != own:
            raise CastError(f"{path}: {key} is {found!r}, and the run's is {own!r}. {mend}")
    return window


def with_window(run: RunConfig, window: MeasuredWindow) -> RunConfig:
    """The run with the measured range in place of `measured`.

    Raises `CastError` when the range holds too few transitions for the SDE window.
    """
    own = run.backbone.window
    measured = candidate_range(window.tau_star, window.steps, own.low)
    measured.starts(run.sde.window_length)
    section = own.model_copy(update={"high": measured.high})
    backbone = run.backbone.model_copy(update={"window": section})
    return run.model_copy(update={"backbone": backbone})


def window_range(run: RunConfig) -> WindowRange:
    """The range that windows are drawn from; `train` has put a number for `measured` by then."""
    own = run.backbone.window
    if own.high == "measured":
        raise CastError(f"{run.backbone.name}: window.high = measured has not been resolved yet.")
    return WindowRange(own.low, own.high)


def check_sampler(window: MeasuredWindow, sigmas: Float[Tensor, " n"], path: Path) -> None:
    """Raise `CastError` unless the window was measured with this sampler's levels."""
    own = sigmas.tolist()
    if len(own) != len(window.sigmas):
        raise CastError(
            f"{path}: it holds {len(window.sigmas)} sigmas, and the run's are {len(own)}."
        )
    for step, (theirs, mine) in enumerate(zip(window.sigmas, own, strict=True)):
        if abs(theirs - mine) > SIGMA_TOLERANCE:
            raise CastError(
                f"{path}: it was measured with another schedule: sigma of step {step} is "
                f"{theirs:.6f} there and {mine:.6f} in this run (scheduler or shift differ). "
                f"Measure it anew: delete it and run `snakemake {path}`."
            )


def describe(run: RunConfig, window: MeasuredWindow | None) -> str:
    """One line for the report: the range, and whether it is explicit or measured."""
    own = run.backbone.window
    line = f"window: [{own.low}, {own.high}) of {own.steps} steps, "
    if window is None:
        return line + f"explicit (config/backbones/{run.backbone.name}.yaml)"
    bounds = f"[{window.tau_low:.3f}, {window.tau_high:.3f}]"
    return line + f"measured: tau* {window.tau_star:.3f} {bounds} ({window_path(run)})"
