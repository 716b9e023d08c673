"""What a transformer takes besides latents and noise level, for a batch of samples."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True)
class Conditioning:
    """What a transformer takes besides latents and level: tensors, samples first."""

    tensors: Mapping[str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def get(self, name: str) -> Tensor | None:
        """A tensor by name; None where the family or the prompts don't need it."""
        return self.tensors.get(name)

    def select(self, samples: Int64[Tensor, " b"]) -> "Conditioning":
        """The rows of some samples."""
        return Conditioning(
            {name: tensor[samples.to(tensor.device)] for name, tensor in self.tensors.items()}
        )

    def repeat(self, count: int) -> "Conditioning":
        """Each row `count` times in a row: one prompt's group."""
        return Conditioning(
            {name: tensor.repeat_interleave(count, 0) for name, tensor in self.tensors.items()}
        )

    def to(self, device: torch.device | str) -> "Conditioning":
        """The same on another device."""
        return Conditioning({name: tensor.to(device) for name, tensor in self.tensors.items()})
