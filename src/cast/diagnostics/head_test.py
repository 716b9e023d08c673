"""The permutation test of the attention-head diagnostic (paper App. F), in pure numpy.

For one head and step, the statistic is the between-class sum of squares of its features (correct
against incorrect images of one prompt), as a share of their total, summed over the atoms of a skill
and over prompts. With the head's Gram matrix K of one prompt's B images (centred, trace 1) and an
atom's contrast w (`sqrt(n1 n0 / B)` times 1/n1 on correct images and -1/n0 on the others) it is
`w' K w`, so all heads and all permutations are one matrix product.

Labels are permuted within each prompt, one permutation of its images for all its atoms: that
keeps the atoms' own dependence. Adjusted over all tests of a run by Benjamini-Hochberg, at most
the nominal share of runs reports anything when nothing is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64
from scipy.stats import hypergeom
from statsmodels.stats.multitest import multipletests

from cast.errors import CastError
from cast.rng import numpy_generator

SKILLS = ("count", "attribute", "position")
SAME = 1e-6  # relative: a permutation that changes nothing must count as equal


@dataclass(frozen=True)
class PromptHeads:
    """One prompt's part of a study: S steps, H heads, B images, and its atoms' labels by skill.

    `labels[skill]` is bool [A, B]: which images have each of the skill's A atoms right.
    """

    prompt_id: str
    grams: Float[np.ndarray, "S H B B"]
    labels: Mapping[str, Bool[np.ndarray, "A B"]]


def gram(features: Float[np.ndarray, "B H D"]) -> Float[np.ndarray, "H B B"]:
    """Gram matrices of each head's centred features, scaled to trace 1 (0 where all are equal)."""
    centred = (features - features.mean(axis=0)).astype(np.float64)
    products = np.einsum("bhd,chd->hbc", centred, centred, optimize=True)
    trace = np.einsum("hbb->h", products)
    size = np.square(features.astype(np.float64)).sum(axis=(0, 2))
    scale = np.where(trace > 1e-12 * size, trace, np.inf)  # below, it is rounding
    return products / scale[:, None, None]


def contrasts(labels: Bool[np.ndarray, "A B"]) -> Float[np.ndarray, "I B"]:
    """Contrasts of the I atoms that some images have right and some wrong."""
    right = labels.sum(axis=1, keepdims=True).astype(float)
    wrong = labels.shape[1] - right
    told = (right[:, 0] > 0) & (wrong[:, 0] > 0)
    labels, right, wrong = labels[told], right[told], wrong[told]
    scale = np.sqrt(right * wrong / labels.shape[1])
    return scale * np.where(labels, 1 / right, -1 / wrong)


def draw_permutations(
    images: int, count: int, seed: int, prompt_id: str
) -> Int64[np.ndarray, "R B"]:
    """The identity, then `count` random orders of a prompt's images."""
    rng = numpy_generator(seed, "head permutation", prompt_id, images, count)
    orders = rng.permuted(np.tile(np.arange(images), (count, 1)), axis=1)
    return np.concatenate([np.arange(images)[None], orders]).astype(np.int64)


def permuted_statistics(
    grams: Float[np.ndarray, "H B B"],
    weights: Float[np.ndarray, "I B"],
    orders: Int64[np.ndarray, "R B"],
) -> Float[np.ndarray, "H R"]:
    """The statistic of each head under each order of the images."""
    moved = weights[:, orders]
    forms = np.einsum("irb,irc->rbc", moved, moved, optimize=True)
    return grams.reshape(len(grams), -1) @ forms.reshape(len(forms), -1).T


def head_test(
    prompts: Sequence[PromptHeads],
    steps: Sequence[int],
    permutations: int,
    fdr: float,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test every head at every step for every skill.

    Returns one row a test: `skill`, `step`, `head`, `effect` (share of variance between classes,
    mean over atoms), `z` (standard deviations above its permutations' mean), `p`, `q` (adjusted)
    and `reported`; and one row a prompt, skill and step: `z`, the mean over heads, and `atoms`, how
    many atoms could be told. A skill that no image tells apart has NaN and reports nothing.

    Raises `CastError` for no prompt and for NaN among the features.
    """
    if not prompts:
        raise CastError("heads: no prompt; give at least one.")
    for prompt in prompts:
        if not np.isfinite(prompt.grams).all():
            raise CastError(f"heads: a feature of prompt {prompt.prompt_id} is NaN or infinite.")
    tables, by_prompt = [], []
    for skill in SKILLS:
        rows, own = _test_skill(prompts, skill, steps, permutations, seed)
        tables.append(rows)
        by_prompt += own
    table = pd.concat(tables, ignore_index=True)
    told = table["p"].notna().to_numpy()
    table["q"], table["reported"] = np.nan, False
    if told.any():
        reported, adjusted, *_ = multipletests(table.loc[told, "p"], alpha=fdr, method="fdr_bh")
        table.loc[told, "q"] = adjusted
        table.loc[told, "reported"] = reported
    return table, pd.DataFrame(by_prompt)


def _test_skill(
    prompts: Sequence[PromptHeads], skill: str, steps: Sequence[int], permutations: int, seed: int
) -> tuple[pd.DataFrame, list[dict[str, float | int | str]]]:
    heads = prompts[0].grams.shape[1]
    total = np.zeros((len(steps), heads, permutations + 1))
    atoms, by_prompt = 0, []
    for prompt in prompts:
        weights = contrasts(prompt.labels[skill])
        if not len(weights):
            continue
        atoms += len(weights)
        images = prompt.grams.shape[2]
        orders = draw_permutations(images, permutations, seed, prompt.prompt_id)
        for number, step in enumerate(steps):
            found = permuted_statistics(prompt.grams[number], weights, orders)
            total[number] += found
            by_prompt.append(
                {
                    "prompt_id": prompt.prompt_id,
                    "skill": skill,
                    "step": int(step),
                    "z": float(_standardised(found).mean()),
                    "atoms": len(weights),
                }
            )
    parts = []
    for number, step in enumerate(steps):
        observed, others = total[number, :, :1], total[number, :, 1:]
        p = (1 + (others >= observed * (1 - SAME)).sum(axis=1)) / (permutations + 1)
        parts.append(
            pd.DataFrame(
                {
                    "skill": skill,
                    "step": int(step),
                    "head": range(heads),
                    "effect": observed[:, 0] / atoms if atoms else np.nan,
                    "z": _standardised(total[number]) if atoms else np.nan,
                    "p": p if atoms else np.nan,
                }
            )
        )
    return pd.concat(parts, ignore_index=True), by_prompt


def _standardised(statistics: Float[np.ndarray, "H R"]) -> Float[np.ndarray, " H"]:
    """The first column in standard deviations above the mean of the others; 0 without spread."""
    others = statistics[:, 1:]
    sd = others.std(axis=1)
    away = statistics[:, 0] - others.mean(axis=1)
    return np.where(sd > 0, away / np.where(sd > 0, sd, 1.0), 0.0)


def top_heads(table: pd.DataFrame, share: float) -> dict[str, set[int]]:
    """The most sensitive heads of each skill that was told: largest z, mean over steps.

    `share` of all heads, at least one; ties go to the earlier head.
    """
    means = table.dropna(subset=["z"]).groupby(["skill", "head"])["z"].mean().unstack("head")
    count = max(1, int(np.ceil(share * table["head"].nunique())))
    return {
        str(skill): {int(h) for h in np.argsort(-row.to_numpy(), kind="stable")[:count]}
        for skill, row in means.iterrows()
    }


def overlap_table(table: pd.DataFrame, share: float) -> pd.DataFrame:
    """Overlap of the most sensitive heads of every pair of skills, against chance.

    `shared` of `top` heads, `expected` by chance, `p` of at least as many under the hypergeometric
    distribution (both sets drawn at random), and `excess`, the shared less the expected share,
    with the bounds that leave the observed overlap inside 95% of chance's own scatter.
    """
    top = top_heads(table, share)
    heads = int(table["head"].nunique())
    rows = []
    names = [skill for skill in SKILLS if skill in top]
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            count = len(top[first])
            shared = len(top[first] & top[second])
            chance = hypergeom(heads, count, count)
            low, high = chance.ppf([0.025, 0.975])
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "top": count,
                    "shared": shared,
                    "expected": float(chance.mean()),
                    "p": float(chance.sf(shared - 1)),
                    "excess": (shared - float(chance.mean())) / count,
                    "excess_low": (shared - float(high)) / count,
                    "excess_high": (shared - float(low)) / count,
                }
            )
    return pd.DataFrame(rows)
