"""Group normalisation: what a score is worth compared with the same prompt's other images."""

import torch
from jaxtyping import Float
from torch import Tensor


def group_advantages(
    scores: Float[Tensor, "B K"],
    resolution: float | Float[Tensor, " K"],
    eps: float = 1e-4,
) -> Float[Tensor, "B K"]:
    """Advantage of each image for each atom (paper 2.2, 4.3).

    `A_ik = (s_ik - mean_i s_ik) / (std_i s_ik + eps)` with the population standard deviation,
    as in Flow-GRPO. An atom whose scores differ by no more than `resolution` (max - min over the
    group) tells nothing about the images: its advantages are exactly zero, since dividing a
    rounding residue by `eps` would make thousands of times too much of it. That the rule
    compares the range, not the standard deviation, is ours: one image in sixteen that differs
    clearly is a signal, though the deviation is then a quarter of the difference.

    Args:
        scores: per-atom scores of one prompt's B images.
        resolution: numerical resolution of the scorer, one for all atoms or one an atom.
        eps: added to the standard deviation; in units of the score.

    Raises:
        ValueError: `eps` or `resolution` below zero, or a score that is not finite.
    """
    if not bool(torch.isfinite(scores).all()):
        raise ValueError("a score is NaN or infinite: it can't be normalised")
    limit = torch.as_tensor(resolution, dtype=scores.dtype, device=scores.device)
    if eps < 0 or bool((limit < 0).any()):
        raise ValueError(f"eps ({eps}) and resolution ({resolution}) can't be negative")
    centred = scores - scores.mean(dim=0)
    std = scores.std(dim=0, correction=0)
    spread = scores.amax(dim=0) - scores.amin(dim=0)
    informative = spread > limit
    # The inner `where` keeps 0 / 0 out of the flat atoms when eps is 0.
    divisor = torch.where(informative, std + eps, torch.ones_like(std))
    return torch.where(informative, centred / divisor, torch.zeros_like(centred))


def image_advantages(
    scores: Float[Tensor, "B K"],
    resolution: float | Float[Tensor, " K"],
    eps: float = 1e-4,
) -> Float[Tensor, " B"]:
    """One advantage an image: that of its mean atom score, the reward of Flow-GRPO (G2).

    The mean of K scores, each known to within its resolution, is known to within the mean of
    the resolutions: that is the rule's limit here.
    """
    limit = float(torch.as_tensor(resolution, dtype=torch.float64).mean())
    return group_advantages(scores.mean(dim=1, keepdim=True), limit, eps)[:, 0]
