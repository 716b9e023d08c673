"""The clipped policy-gradient objective, per token or per image (paper 4.3)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from cast.flow import image_log_prob

RatioLevel = Literal["token", "image"]


@dataclass(frozen=True)
class PolicyLoss:
    """Loss of each image for one transition; its ratios and the share of them that was clipped
    (both without gradient)."""

    loss: Float[Tensor, " b"]
    ratio: Float[Tensor, "b n"]
    clipped: Float[Tensor, " b"]


def policy_loss(
    log_prob: Float[Tensor, "b P"],
    old_log_prob: Float[Tensor, "b P"],
    advantages: Float[Tensor, "b P"],
    clip_range: float,
    level: RatioLevel = "token",
) -> PolicyLoss:
    """`-mean_p min(r A, clip(r, 1 - c, 1 + c) A)` of each image (paper 4.3).

    `r = exp(log_prob - log_prob_old)` per token, or (`image`, Flow-GRPO's) one ratio of the
    tokens' mean log_prob for the whole image. On-policy r is 1 and both levels have the gradient
    `-mean_p A grad log_prob`; they part only when a collection is used for several updates, and
    a token's ratio is then noisier by sqrt(P), hence the two clip ranges.
    """
    if level == "image":
        change = (image_log_prob(log_prob) - image_log_prob(old_log_prob.detach()))[:, None]
    else:
        change = log_prob - old_log_prob.detach()
    ratio = change.exp()
    limited = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    objective = torch.minimum(ratio * advantages, limited * advantages)
    clipped = (objective < ratio * advantages).to(ratio.dtype).mean(dim=-1)
    return PolicyLoss(-objective.mean(dim=-1), ratio.detach(), clipped.detach())


def ratio_level(routing: str) -> RatioLevel:
    """`image` for Flow-GRPO's one advantage an image, `token` for every other routing."""
    return "image" if routing == "uniform" else "token"


def clip_range(level: RatioLevel, image: float, token: float | None, tokens: int) -> float:
    """The level's clip range; a token's is the image's times sqrt(P) when the config has none."""
    if level == "image":
        return image
    return image * tokens**0.5 if token is None else token
