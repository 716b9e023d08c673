"""Scenes to train generators on: latents, prompts and labels, drawn once and cached in shards.

All generators of the zoo share the latent space of one autoencoder (`vae.py`), so they also share
these files; each family's pipeline only scales the latents its own way.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from cast.io import write_safetensors
from cast.mini.zoo import data, vae
from cast.mini.zoo.loop import LoopConfig
from cast.rng import numpy_generator

SHARD = 8192  # scenes a file
PROMPT_BYTES = 160  # the longest prompt has 90 letters


class Latents:
    """The scenes' files in a folder; a missing one is made when it is first asked for."""

    def __init__(self, folder: Path, autoencoder: Any, size: int = SHARD) -> None:
        self.folder, self.autoencoder, self.size = folder, autoencoder, size
        self.loaded: tuple[int, dict[str, Tensor]] = (-1, {})

    def rows(self, config: LoopConfig, purpose: str, step: int, shards: int) -> dict[str, Tensor]:
        """A step's rows of the first `shards` files, one after the other, newly ordered each time.

        `latents` [B, 64, 16] normalised, `labels` [B, 2, 8, 8] of shape and colour, `prompts`.
        """
        per_shard = self.size // config.batch
        visit, place = divmod(step, per_shard)
        index = visit % shards
        if self.loaded[0] != index:
            self.loaded = (index, self.shard(index))
        order = numpy_generator(config.seed, f"{purpose}/order", visit).permutation(self.size)
        rows = torch.from_numpy(order[place * config.batch : (place + 1) * config.batch])
        return {name: tensor[rows] for name, tensor in self.loaded[1].items()}

    def shard(self, index: int) -> dict[str, Tensor]:
        """One file's scenes, from the stream (0, "zoo/flux2", index)."""
        path = self.folder / f"shard{index:03d}.safetensors"
        if path.exists():
            return load_file(path)
        drawn = data.scenes(0, "zoo/flux2", index, self.size)
        latents = []
        with torch.no_grad():
            for start in tqdm(range(0, self.size, 64), desc=path.stem, leave=False):
                images = data.to_tensor([scene.image for _, scene in drawn[start : start + 64]])
                latents.append(vae.encode(self.autoencoder, images).half())
        labels = np.stack([data.cell_labels(scene.objects) for _, scene in drawn]).astype(np.uint8)
        made = {
            "latents": torch.cat(latents),
            "labels": torch.from_numpy(labels),
            "prompts": to_bytes([record.prompt for record, _ in drawn]),
        }
        write_safetensors(path, made)
        return made


def to_bytes(prompts: list[str]) -> UInt8[Tensor, "B 160"]:
    """Prompts as rows of bytes, filled up with zeros."""
    padded = b"".join(prompt.encode().ljust(PROMPT_BYTES, b"\0") for prompt in prompts)
    return torch.frombuffer(bytearray(padded), dtype=torch.uint8).reshape(-1, PROMPT_BYTES)


def to_prompts(rows: UInt8[Tensor, "B 160"]) -> list[str]:
    """The inverse of `to_bytes`."""
    return [row.numpy().tobytes().rstrip(b"\0").decode() for row in rows]


def rescaling(autoencoder: Any, own: Any) -> tuple[Tensor | float, Tensor | float]:
    """(scale, shift) from latents as cached to what a pipeline around `own` works on.

    Cached ones are normalised by the 16 statistics of `autoencoder.bn`, which mini-flux2 keeps; the
    other classes normalise the four latent channels.
    """
    if own is autoencoder:
        return 1.0, 0.0
    mean, std = (value.repeat_interleave(4) for value in vae.channel_statistics(autoencoder))
    own_std = torch.sqrt(autoencoder.bn.running_var + autoencoder.config.batch_norm_eps)
    return own_std / std, (autoencoder.bn.running_mean - mean) / std
