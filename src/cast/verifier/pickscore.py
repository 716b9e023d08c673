"""PickScore: the preference reward that saturates (paper 3.2; ours as the reward of G1).

`exp(logit_scale) * cos(image, text)` of a CLIP trained on human choices
(`yuvalkirstain/PickScore_v1`, processor of `laion/CLIP-ViT-H-14-laion2B-s32B-b79K`). Flow-GRPO
divides by 26, which brings strong models to about 0.9: the scale of the paper's figure 2. In the
mini world the model learned from a simulated annotator: say so wherever its numbers appear.
"""

from collections.abc import Sequence
from typing import NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from cast.errors import CastError
from cast.scene_graph.graph import PromptRecord
from cast.verifier.clip_similarity import ClipScorer
from cast.verifier.images import Images

FLOW_GRPO_SCALE = 26.0
RELATIVE_RESOLUTION = 1e-6  # float32, relative to the logit scale


class PickScore:
    """A preference model with the verifier's interface and K = 1.

    `scale` divides the score: 26 as in Flow-GRPO and the paper's figure, 1 for the raw score.
    """

    def __init__(self, clip: ClipScorer, scale: float = FLOW_GRPO_SCALE):
        if not scale > 0:
            raise CastError(f"PickScore: scale {scale} is not allowed; allowed: > 0.")
        self.clip = clip
        self.scale = scale

    @classmethod
    def load(
        cls,
        path: str,
        processor_path: str | None = None,
        device: str | torch.device | None = None,
        batch: int = 16,
        scale: float = FLOW_GRPO_SCALE,
    ) -> "PickScore":
        """Load from a local folder or hub id; `CastError` when something is missing."""
        return cls(ClipScorer.load(path, processor_path, device, batch), scale)

    def score_prompts(self, images: Images, prompts: Sequence[str]) -> Float[Tensor, " B"]:
        """Score of each image for its prompt; one prompt serves all images."""
        cosine = self.clip.text_similarity(images, prompts)
        return self.clip.logit_scale * cosine / self.scale

    def score(self, images: Images, record: PromptRecord) -> Float[Tensor, "B 1"]:
        """Score of each image for the record's prompt."""
        return self.score_prompts(images, [record.prompt])[:, None]

    def resolution(self, scores: Float[Tensor, "B 1"]) -> Float[Tensor, " 1"]:
        """Spread below which scores differ by rounding only: 1e-6 of the logit scale."""
        return torch.full(
            (scores.shape[1],), RELATIVE_RESOLUTION * self.clip.logit_scale / self.scale
        )

    def heatmaps(self, images: Images, record: PromptRecord, grid: tuple[int, int]) -> NoReturn:
        """A preference has no atoms: `CastError`."""
        raise CastError(
            "method.reward: preference gives one score an image and no heatmaps; use routing: "
            "uniform, or reward: atoms."
        )
