"""Whether two scores rank images of one prompt alike (paper 3.3, figure 2).

For every pair of images of the same prompt: do both scores prefer the same image? A pair that one
of the scores can't tell apart (a difference below its numerical resolution) is a tie; ties are
dropped and counted.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from cast.errors import CastError
from cast.evaluation.replicates import Interval, interval, resampled_means

CHANCE = 0.5
COLUMNS = ("prompt_id", "preference", "atoms", "preference_resolution", "atom_resolution")


@dataclass(frozen=True)
class Agreement:
    """Share of image pairs that two scores rank alike.

    `mean` is over prompts, with its bootstrap interval over prompts; `prompt_sd` the prompt-level
    standard deviation (the paper's error bars; NaN for one prompt). Of `pairs` pairs, `ties` were
    dropped; `silent` prompts had only ties. Where no pair was left, all values are NaN.
    """

    mean: Interval
    prompt_sd: float
    pairs: int
    ties: int
    silent: int


def pair_agreement(
    preference: Float[np.ndarray, " B"],
    atoms: Float[np.ndarray, " B"],
    preference_resolution: float = 0.0,
    atom_resolution: float = 0.0,
) -> tuple[int, int, int]:
    """(agreeing, counted, tied) pairs of B images of one prompt."""
    first, second = np.triu_indices(len(preference), k=1)
    by_preference = preference[first] - preference[second]
    by_atoms = atoms[first] - atoms[second]
    told = (np.abs(by_preference) > preference_resolution) & (np.abs(by_atoms) > atom_resolution)
    alike = np.sign(by_preference) == np.sign(by_atoms)
    return int((alike & told).sum()), int(told.sum()), int((~told).sum())


def rank_agreement(images: pd.DataFrame) -> Agreement:
    """Agreement over all pairs of same-prompt images of a table with one row an image.

    Columns: `prompt_id`, `preference`, `atoms`, `preference_resolution`, `atom_resolution`. Raises
    `CastError` for a missing column, NaN, or a prompt with a single image, which has no pair.
    """
    _check(images)
    rows = []
    for _, group in images.groupby("prompt_id", sort=True):
        values = (group[name].to_numpy(dtype=float) for name in ("preference", "atoms"))
        resolutions = (float(group[name].max()) for name in COLUMNS[3:])
        rows.append(pair_agreement(*values, *resolutions))
    alike, counted, tied = np.array(rows).T
    shares = alike[counted > 0] / counted[counted > 0]
    ties, silent = int(tied.sum()), int((counted == 0).sum())
    if not len(shares):
        nothing = Interval(float("nan"), float("nan"), float("nan"))
        return Agreement(nothing, float("nan"), ties, ties, silent)
    return Agreement(
        mean=interval(float(shares.mean()), resampled_means(shares)[0]),
        prompt_sd=float(shares.std(ddof=1)) if len(shares) > 1 else float("nan"),
        pairs=int(counted.sum()) + ties,
        ties=ties,
        silent=silent,
    )


def _check(images: pd.DataFrame) -> None:
    for name in COLUMNS:
        if name not in images:
            raise CastError(f"agreement: no column {name!r}; it has {sorted(images.columns)}.")
        if images[name].isna().any():
            prompt = images.loc[images[name].isna(), "prompt_id"].iloc[0]
            raise CastError(f"agreement: {name} of an image of prompt {prompt} is NaN; score it.")
    counts = images["prompt_id"].value_counts()
    if images.empty or int(counts.min()) < 2:
        prompt = "any" if images.empty else counts.idxmin()
        raise CastError(
            f"agreement: prompt {prompt} has fewer than two images, so no pair; measure at least "
            "two seeds (diagnostics.saturation.seeds)."
        )
