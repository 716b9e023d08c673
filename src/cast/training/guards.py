"""Guards: what must never happen in silence while a run goes on."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cast.errors import CastError

ADAM_EPSILON = 1e-8
_WINDOW = 8


class GuardError(CastError):
    """A run was stopped because going on would waste or spoil it."""


def check_finite(values: Tensor | Sequence[Tensor], what: str, where: str) -> None:
    """Raise `GuardError` when a value is NaN or infinite, saying which and where."""
    tensors = [values] if isinstance(values, Tensor) else values
    bad = sum(int((~torch.isfinite(tensor)).sum()) for tensor in tensors)
    if bad:
        total = sum(tensor.numel() for tensor in tensors)
        raise GuardError(
            f"{where}: {bad} of {total} values of the {what} are NaN or infinite. The usual "
            "causes are a learning rate that is too high and a noise level that is too high for "
            "the model's dtype; either is a new run."
        )


def check_replay(errors: Tensor, tolerance: float, where: str) -> None:
    """Raise `GuardError` unless the replayed log_prob equals the stored one within `tolerance`.

    `errors`: largest absolute difference of a token, [B, T]. On-policy the ratio is 1; another
    value before any update means that rollout and update don't compute the same thing.
    """
    worst = float(errors.max())
    if not worst <= tolerance:
        image, transition = divmod(int(errors.argmax()), errors.shape[1])
        raise GuardError(
            f"{where}: the replayed log_prob of image {image}, transition {transition} differs "
            f"from the stored one by {worst:.3g} (allowed: training.replay_tolerance = "
            f"{tolerance:g}), so the ratio isn't 1 before the update. Rollout and update must use "
            "the same micro-batch shape, dtype, guidance and text embedding; dropout must be off."
        )


def warnings(metrics: Sequence[dict[str, Any]]) -> list[str]:
    """What the last collection shows that a person should know; the run goes on."""
    row, found = metrics[-1], []
    where = f"collection {row['collection']}"
    if row["zero_advantage"]:
        count = sum(bool(r["zero_advantage"]) for r in metrics)
        found.append(
            f"{where}: all images score alike, so its gradient is zero "
            f"({count} of {len(metrics)} collections so far)"
        )
    elif row["gradient_rms"] < 100 * ADAM_EPSILON:
        found.append(
            f"{where}: the gradient's rms {row['gradient_rms']:.1e} is near Adam's epsilon "
            f"({ADAM_EPSILON:g}), which then shrinks the update"
        )
    if len(metrics) >= 2 * _WINDOW and len(metrics) % _WINDOW == 0:
        for key, name in (("score_mean", "mean score"), ("diversity", "image diversity")):
            first = sum(r[key] for r in metrics[:_WINDOW]) / _WINDOW
            last = sum(r[key] for r in metrics[-_WINDOW:]) / _WINDOW
            if last < first / 2:
                found.append(
                    f"{where}: the {name} of the last {_WINDOW} collections is {last:.3g}, less "
                    f"than half of the first {_WINDOW} ({first:.3g}): the policy may collapse"
                )
    return found
