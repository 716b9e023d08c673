"""What a person sees of a run: a progress bar, TensorBoard, and lines that stay."""

import sys
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from cast.training.workbench import Group

_SCALARS = ("score_mean", "score_std", "loss", "gradient_norm", "replay_error", "diversity")
_SCALARS += (
    "advantage_rms",
    "advantage_clipped",
    "informative_atoms",
    "learning_rate",
    "ratio",
    "clip_fraction",
    "kl",
)


class Report:
    """Shows a run on the main process; silent on the others. It decides nothing."""

    def __init__(self, folder: Path, name: str, total: int, done: int, shown: bool) -> None:
        self.shown = shown
        if not shown:
            return
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=done)
        interval = 0.5 if sys.stderr.isatty() else 30.0
        self._bar = tqdm(
            total=total, initial=done, desc=name, unit="collection", mininterval=interval
        )

    def say(self, line: str) -> None:
        """A line that stays, above the bar."""
        if self.shown:
            tqdm.write(line, file=sys.stderr)

    def collection(self, row: dict[str, Any]) -> None:
        """Scalars of a collection, and one step of the bar."""
        if not self.shown:
            return
        for name in _SCALARS:
            if row.get(name) is not None:
                self._writer.add_scalar(name, row[name], row["collection"])
        self._bar.set_postfix_str(f"score {row['score_mean']:.3f}", refresh=False)
        self._bar.update()

    def pictures(self, group: Group, advantages: Float[Tensor, "B R C"] | None, step: int) -> None:
        """The group's images, and its advantage map over them (green for, red against)."""
        if not self.shown:
            return
        self._writer.add_image("group", image_grid(group.images), step)
        self._writer.add_text("prompt", group.record.prompt, step)
        if advantages is not None:
            self._writer.add_image("advantage", image_grid(overlay(group.images, advantages)), step)

    def close(self) -> None:
        """End the bar and flush TensorBoard."""
        if self.shown:
            self._bar.close()
            self._writer.close()


def image_grid(images: UInt8[Tensor, "B 3 H W"], columns: int = 8) -> UInt8[Tensor, "3 h w"]:
    """Images in rows of at most `columns`, black where there is none."""
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    padded = images.new_zeros(rows * columns, *images.shape[1:])
    padded[: len(images)] = images
    _, channels, height, width = padded.shape
    tiled = padded.reshape(rows, columns, channels, height, width).permute(2, 0, 3, 1, 4)
    return tiled.reshape(channels, rows * height, columns * width)


def overlay(
    images: UInt8[Tensor, "B 3 H W"], advantages: Float[Tensor, "B R C"]
) -> UInt8[Tensor, "B 3 H W"]:
    """Grey images tinted green where the advantage is positive, red where it is negative."""
    size = images.shape[-2:]
    largest = advantages.abs().amax().clamp_min(1e-12)
    strength = functional.interpolate((advantages / largest)[:, None], size=size).cpu()
    tint = torch.cat([(-strength).clamp_min(0), strength.clamp_min(0), 0 * strength], dim=1)
    grey = images.float().mean(dim=1, keepdim=True).expand(-1, 3, -1, -1)
    return (0.5 * grey + 127.5 * tint).round().to(torch.uint8)
