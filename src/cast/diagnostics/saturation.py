"""How far preference and atom scores of strong models still differ (paper 3.2, figure 2).

A study takes one backbone, one prompt file and one seed: one image a prompt, its PickScore and its
mean atom score (GenEval 2's official answer set). The figure joins all seeds and backbones. In the
mini world the preference model learned from a simulated annotator.
"""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from cast.config import CastConfig
from cast.diagnostics.rank_agreement import Agreement, rank_agreement
from cast.diagnostics.studies import (
    as_tensor,
    check_models,
    study_folder,
    study_prompts,
    study_seeds,
)
from cast.errors import CastError
from cast.evaluation.arm import evaluate
from cast.evaluation.folders import world_folder
from cast.evaluation.replicates import Interval, interval
from cast.evaluation.store import ImageStore
from cast.io import read_json, write_json, write_parquet
from cast.rng import numpy_generator
from cast.training.identity import model_sha256
from cast.verifier.summary import image_means

KINDS = ("preference", "atoms")
DRAWS = 2000


def saturation_study(config: CastConfig, backbone: str, seed: int) -> pd.DataFrame:
    """Run or finish one study; returns one row an image.

    Writes, below `results/{world}/{backbone}/saturation/seed{seed}`: `saturation.parquet`
    (`prompt_id`, `seed`, `preference`, `atoms`, their resolutions, `oracle`), beside the images
    and atom scores that it is made of. Raises `CastError` for missing models or prompts before
    anything is sampled.
    """
    check_models(config, backbone, preference__path=config.preference.path)
    folder = study_folder(config, backbone, "saturation", seed)
    records = study_prompts(config, "saturation")
    scores = evaluate(config, backbone, None, records, [seed], folder)
    images = pd.read_parquet(folder / "images.parquet")
    preference, resolution = _preference(config, images, ImageStore(folder / "images"))
    means = image_means(scores).set_index("prompt_id")
    oracle = scores.groupby("prompt_id")["oracle"].mean()
    resolutions = _atom_resolution(config, scores)
    order = images["prompt_id"]
    table = pd.DataFrame(
        {
            "prompt_id": order,
            "seed": seed,
            "preference": preference,
            "preference_resolution": resolution,
            "atoms": means["am"].loc[order].to_numpy(),
            "atom_resolution": resolutions.loc[order].to_numpy(),
            "oracle": oracle.loc[order].to_numpy(),
            "atom_count": means["atom_count"].loc[order].to_numpy(),
        }
    )
    write_json(folder / "study.json", _identity(config))
    write_parquet(folder / "saturation.parquet", table)
    return table


def _identity(config: CastConfig) -> dict[str, Any]:
    return {
        "preference_sha256": model_sha256(config.preference.path),
        "preference_scale": config.preference.scale,
        "verifier": config.verifier.path,
        "steps": config.sampling.steps,
    }


def _preference(
    config: CastConfig, images: pd.DataFrame, store: ImageStore
) -> tuple[Float[np.ndarray, " B"], float]:
    """Preference score of every stored image, read back a batch at a time, and its resolution."""
    from cast.verifier.pickscore import PickScore

    section, batch = config.preference, config.diagnostics.batch
    scorer = PickScore.load(section.path, section.processor, batch=batch, scale=section.scale)
    parts = []
    for first in range(0, len(images), batch):
        rows = images.iloc[first : first + batch]
        pixels = np.stack([store.get(name) for name in rows["image_sha256"]])
        parts.append(scorer.score_prompts(as_tensor(pixels), rows["prompt"].tolist()))
    values = np.concatenate([part.numpy() for part in parts]).astype(float)
    return values, float(scorer.resolution(parts[0][:, None])[0])


def _atom_resolution(config: CastConfig, scores: pd.DataFrame) -> pd.Series:
    """Smallest difference of mean atom scores that isn't rounding, by prompt.

    At most the mean of the atoms' own resolutions, as `Verifier.resolution` gives them.
    """
    from cast.verifier.soft_tifa import BFLOAT16_RESOLUTION, FLOAT32_RESOLUTION

    own = pd.Series(FLOAT32_RESOLUTION, index=scores.index)
    if config.verifier.dtype == "bfloat16":
        own = own.clip(lower=BFLOAT16_RESOLUTION * scores["score"] * (1 - scores["score"]))
    return own.groupby(scores["prompt_id"]).mean()


def read_saturation(config: CastConfig, backbones: tuple[str, ...]) -> pd.DataFrame:
    """The studies of all the config's seeds and the backbones, with a column `backbone`.

    Refuses studies that were scored by other models or of other prompts than the first.
    """
    tables: list[pd.DataFrame] = []
    first: dict[str, Any] | None = None
    for backbone in backbones:
        for seed in study_seeds(config, "saturation"):
            folder = study_folder(config, backbone, "saturation", seed)
            path = folder / "saturation.parquet"
            if not path.is_file():
                raise CastError(f"{path}: there is no such file; `snakemake {path}` measures it.")
            study, table = read_json(folder / "study.json"), pd.read_parquet(path)
            first = first or study
            if study != first or set(table["prompt_id"]) != set(
                (tables or [table])[0]["prompt_id"]
            ):
                raise CastError(
                    f"{folder}: it was measured with other scorers, settings or prompts than "
                    f"{world_folder(config) / backbones[0]}; measure all under one config."
                )
            tables.append(table.assign(backbone=backbone))
    return pd.concat(tables, ignore_index=True)


def spread(values: Float[np.ndarray, " B"]) -> dict[str, float]:
    """`mean`, sample `sd` and `cov` (sd over the absolute mean) of an array of scores.

    Raises `CastError` for NaN, a single value, or a mean of 0, which has no CoV.
    """
    if len(values) < 2 or not np.isfinite(values).all():
        raise CastError(f"saturation: {len(values)} scores, some perhaps NaN; a spread needs two.")
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    if mean == 0:
        raise CastError("saturation: the mean score is 0, so its coefficient of variation isn't.")
    return {"mean": mean, "sd": sd, "cov": sd / abs(mean)}


def spread_table(images: pd.DataFrame) -> pd.DataFrame:
    """Mean, sd and CoV of both scores: a row a backbone and score, then pooled over backbones.

    `cov_low`, `cov_high`: 95% bootstrap interval over prompts.
    """
    rows = []
    for name, group in [*images.groupby("backbone", sort=False), ("pooled", images)]:
        for kind in KINDS:
            found = interval(0.0, bootstrap_cov(group, kind))
            rows.append(
                {"backbone": name, "score": kind, "images": len(group)}
                | spread(group[kind].to_numpy(dtype=float))
                | {"cov_low": found.low, "cov_high": found.high}
            )
    return pd.DataFrame(rows)


def bootstrap_cov(images: pd.DataFrame, kind: str) -> Float[np.ndarray, " D"]:
    """CoV under bootstrap samples of the prompts, the same draws for every score and backbone."""
    values = images.assign(square=images[kind] ** 2, one=1.0).groupby("prompt_id")
    sums = values[[kind, "square", "one"]].sum().to_numpy(dtype=float)
    count = len(sums)
    rng = numpy_generator(0, "saturation bootstrap", count)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=DRAWS)
    total, square, size = (weights @ sums).T
    variance = (square - total**2 / size) / (size - 1)
    return np.sqrt(variance.clip(min=0)) / np.abs(total / size)


def spread_gap(images: pd.DataFrame) -> Interval:
    """CoV of atom scores less CoV of preference scores, pooled, with its paired interval."""
    covs = [spread(images[kind].to_numpy(dtype=float))["cov"] for kind in KINDS]
    draws = bootstrap_cov(images, "atoms") - bootstrap_cov(images, "preference")
    return interval(covs[1] - covs[0], draws)


def agreement_table(images: pd.DataFrame) -> tuple[pd.DataFrame, Agreement]:
    """Agreement within each backbone (pairs of seeds), and over all images pooled.

    The pooled one also compares images of different backbones for one prompt; with one backbone
    it is that backbone's own.
    """
    found = {str(name): rank_agreement(g) for name, g in images.groupby("backbone", sort=False)}
    pooled = rank_agreement(images)
    rows = [
        {
            "backbone": name,
            "agreement": one.mean.value,
            "agreement_low": one.mean.low,
            "agreement_high": one.mean.high,
            "prompt_sd": one.prompt_sd,
            "pairs": one.pairs,
            "ties": one.ties,
            "silent_prompts": one.silent,
        }
        for name, one in [*found.items(), ("pooled", pooled)]
    ]
    return pd.DataFrame(rows), pooled
