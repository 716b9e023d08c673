"""Figure 7 (paper 3.1, App. B): when images take shape, and the window that follows.

Above, CLIP similarity of the decoded estimate to the final image and to the prompt, by backbone,
with the fitted rise and tau*; the atom scores of the estimates, by skill; below, estimates along
one trajectory of each backbone, the one at tau* framed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cast.config import CastConfig, load_backbone_config, studied_backbones
from cast.diagnostics.knee import Knee
from cast.diagnostics.structure_formation import (
    curves_of,
    read_film,
    read_study,
    structure_point,
)
from cast.errors import CastError
from cast.evidence import write_evidence
from cast.figures.diagnostic_claims import candidate_ranges, layout_at_tau, layout_times
from cast.figures.footer import WORLDS, config_name
from cast.figures.style import PAGE, look, new_figure, note, save_figure
from cast.flow import candidate_range

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # of backbones
SHOWN = 10  # estimates on a film strip
PANELS = {"image": "similarity to final image", "prompt": "similarity to prompt"}
SKILL_COLOURS = {
    "object": "#000000",
    "count": "#0072B2",
    "attribute": "#D55E00",
    "position": "#009E73",
    "verb": "#CC79A7",
}


@dataclass(frozen=True)
class Formation:
    """One backbone's study: its curves and atom scores, its knees, a film strip.

    `knees[name]` is None where that curve has no rise; then there is no tau*. `similarity` is the
    one that the window comes from.
    """

    backbone: str
    curves: pd.DataFrame
    atoms: pd.DataFrame
    knees: Mapping[str, Knee | None]
    similarity: str
    film: UInt8[np.ndarray, "N H W 3"]


def load_formation(config: CastConfig, backbone: str) -> Formation:
    """A backbone's studies of all seeds, fitted."""
    curves = read_study(config, backbone)
    section = config.diagnostics.structure
    knees: dict[str, Knee | None] = {}
    for similarity in PANELS:
        try:
            knees[similarity] = structure_point(curves, similarity, section.bootstrap)
        except CastError:
            if similarity == section.similarity:
                raise  # the window comes from this one
            knees[similarity] = None
    atoms = read_study(config, backbone, "atoms")
    film = read_film(config, backbone)
    return Formation(backbone, curves, atoms, knees, section.similarity, film)


def formation_rows(formations: Sequence[Formation], lows: Mapping[str, int]) -> pd.DataFrame:
    """Numbers of the figure: a row a backbone and similarity, then the paper's two as they are."""
    rows = []
    for one in formations:
        steps = len(one.film)
        for similarity, knee in one.knees.items():
            row = {"backbone": one.backbone, "similarity": similarity, "steps": steps}
            if knee is not None:
                row |= {
                    "tau_star": knee.tau_star,
                    "tau_low": knee.low,
                    "tau_high": knee.high,
                    "kneedle": knee.kneedle,
                    "residual": knee.residual,
                    "range": _range(knee.tau_star, steps, lows[one.backbone]),
                    "range_50": _range(knee.tau_star, 50, lows[one.backbone]),
                }
            rows.append(row)
    return pd.DataFrame(rows)


def _range(tau_star: float, steps: int, low: int) -> str:
    found = candidate_range(tau_star, steps, low)
    return f"[{found.low}, {found.high})"


def figure7(formations: Sequence[Formation], foot: Sequence[str]) -> Figure:
    """Curves above, one film strip a backbone below."""
    strips = 0.78 * len(formations)
    figure = new_figure(PAGE, 2.3 + strips + 0.4)
    with look():
        halves: Any = figure.subfigures(2, 1, height_ratios=[2.3, strips + 0.1])
        above, below = halves
        axes = above.subplots(1, 3)
        for axis, (similarity, title) in zip(axes, PANELS.items(), strict=False):
            _draw_curves(axis, formations, similarity, title)
        _draw_atoms(axes[2], formations[0])
        grid = below.subplots(len(formations), SHOWN, squeeze=False)
        for row, one in zip(grid, formations, strict=True):
            _draw_film(row, one)
        note(figure, foot)
    return figure


def _draw_curves(axis: Axes, formations: Sequence[Formation], similarity: str, title: str) -> None:
    for number, one in enumerate(formations):
        colour = COLOURS[number % len(COLOURS)]
        curves = curves_of(one.curves, similarity)
        tau = np.arange(curves.shape[1]) / curves.shape[1]
        knee = one.knees[similarity]
        axis.plot(tau, curves.mean(axis=0), ".", color=colour, markersize=3)
        if knee is None:
            axis.plot([], [], color=colour, label=f"{one.backbone}: no rise")
            continue
        label = f"{one.backbone}: τ* {knee.tau_star:.2f} [{knee.low:.2f}, {knee.high:.2f}]"
        fine = np.linspace(tau[0], tau[-1], 201)
        axis.plot(fine, knee.curve(fine), color=colour, linewidth=1.0, label=label)
        axis.axvspan(knee.low, knee.high, color=colour, alpha=0.15, linewidth=0)
        axis.axvline(knee.tau_star, color=colour, linewidth=0.8, linestyle="--")
    axis.set(title=f"CLIP {title}", xlabel="τ (share of the steps)")
    axis.legend(fontsize=5.5, loc="upper center", bbox_to_anchor=(0.5, -0.3))


def _draw_atoms(axis: Axes, one: Formation) -> None:
    means = one.atoms.pivot_table("score", "tau", "skill", aggfunc="mean")
    for skill, colour in SKILL_COLOURS.items():
        if skill in means:
            axis.plot(means.index, means[skill], color=colour, label=skill, marker=".", ms=3)
    axis.set(title=f"Atom scores, {one.backbone}", xlabel="τ", ylim=(0, 1))
    axis.legend(fontsize=5.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.3))


def _draw_film(row: np.ndarray, one: Formation) -> None:
    steps = len(one.film)
    knee = one.knees[one.similarity]
    shown = np.linspace(0, steps - 1, SHOWN).round().astype(int)
    if knee is not None:  # the estimate before the first step at or after tau*, in its place
        at = min(int(np.ceil(round(knee.tau_star * steps, 9))), steps - 1)
        shown[np.abs(shown - at).argmin()] = at
    for place, (axis, step) in enumerate(zip(row, shown, strict=True)):
        axis.imshow(one.film[step], interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        framed = knee is not None and step == at
        for spine in axis.spines.values():
            spine.set(linewidth=2.0 if framed else 0.3, color="#D55E00" if framed else "#777777")
        axis.set_xlabel(f"τ {step / steps:.2f}" + (" = τ*" if framed else ""), fontsize=5.5)
        if place == 0:
            axis.set_ylabel(one.backbone, fontsize=5.5)


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Fit every studied backbone, write the figure, and what it says of claims C01 to C03."""
    names = studied_backbones(config)
    formations = [load_formation(config, name) for name in names]
    rows = formation_rows(formations, {n: load_backbone_config(n).window.low for n in names})
    section = config.diagnostics.structure
    foot = [
        WORLDS[config.world],
        f"{section.prompts} prompts, seeds {list(section.seeds)}, {config.sampling.steps} steps; "
        "bands: 95% over prompts; lines: fitted rise; dashed: its largest curvature. Atom scores "
        f"by the verifier; film strips: the first prompt. Config {config_name(config)}.",
    ]
    write_evidence(config, "C01", layout_times(formations, rows, config))
    write_evidence(config, "C02", candidate_ranges(rows, section.similarity))
    write_evidence(config, "C03", layout_at_tau(formations, section.similarity))
    return save_figure(figure7(formations, foot), stem, rows)
