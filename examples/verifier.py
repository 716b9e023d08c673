"""Your own verifier: any object with these four methods. This one reads the mini world's pixels.

Let `load_scorer` in src/cast/training/setup.py return it, and every method trains on it; give it to
`cast.evaluation.score_images`, and it scores images that are stored already.
"""

from typing import Any

import numpy as np
import torch

from cast.credit import pool_to_grid
from cast.mini import oracle


class PixelVerifier:
    def score(self, images: Any, record: Any) -> torch.Tensor:
        """Is each atom true? Images [B, 3, 64, 64] in [0, 1] give scores [B, K]."""
        answers = [oracle.answer(image, record) for image in _as_uint8(images)]
        return torch.from_numpy(np.stack(answers)).float()

    def score_modes(self, images: Any, record: Any, modes: Any) -> list[torch.Tensor]:
        """The same for each of GenEval 2's answer sets; pixels have but one answer."""
        return [self.score(images, record)] * len(modes)

    def resolution(self, scores: torch.Tensor) -> torch.Tensor:
        """[K]: a group whose scores spread less than this teaches nothing."""
        return torch.full((scores.shape[1],), 1e-6)

    def heatmaps(self, images: Any, record: Any, grid: tuple[int, int]) -> torch.Tensor:
        """Where each atom's entities are: [B, K, rows, columns] of spatial mean 1."""
        masks = [oracle.entity_masks(image, record) for image in _as_uint8(images)]
        maps = [[mask[list(a.entities)].any(axis=0) for a in record.atoms] for mask in masks]
        return pool_to_grid(torch.from_numpy(np.array(maps)).float(), grid)


def _as_uint8(images: torch.Tensor) -> np.ndarray:
    return (images * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
