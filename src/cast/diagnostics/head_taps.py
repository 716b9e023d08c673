"""What every attention head hands to its block's output projection (paper App. F).

Hooks read the projection's input and change nothing, so a tapped pass gives the bits of an
untapped one. In double-stream blocks the input holds the image tokens; in single-stream blocks it
holds text and image, and behind the heads' channels, where projections are fused, the MLP's.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from cast.errors import CastError


class Layout(NamedTuple):
    """Where a family keeps what is read.

    `outputs` matches the output projections of attention that see image tokens, `image_last` says
    that they stand behind the text's, `conditional_last` that guidance runs (negative, positive)
    in one batch; a second pass for the negative prompt comes after the first.
    """

    outputs: str = (
        r"transformer_blocks\.\d+\.attn2?\.to_out\.0"
        r"|single_transformer_blocks\.\d+\.(attn\.to_out|proj_out)"
    )
    image_last: bool = True
    conditional_last: bool = False


LAYOUTS = {
    "sd3": Layout(conditional_last=True),
    "z_image": Layout(r"(noise_refiner|layers)\.\d+\.attention\.to_out\.0", image_last=False),
}
USUAL = Layout()


class HeadTaps:
    """Taps on all attention heads of a backbone, in the transformer's own order of blocks."""

    def __init__(self, backbone: Any) -> None:
        """Find the heads; raises `CastError` for a model that has none where its family has."""
        self.layout = LAYOUTS.get(backbone.family, USUAL)
        self.tokens = int(backbone.latent_shape[0])
        settings = backbone.transformer.config
        heads = settings.get("num_attention_heads") or settings["n_heads"]
        self.heads = int(heads)
        self.width = int(settings.get("attention_head_dim") or settings["dim"] // heads)
        self.modules = {
            name: module
            for name, module in backbone.transformer.named_modules()
            if re.fullmatch(self.layout.outputs, name)
        }
        if not self.modules:
            raise CastError(f"{backbone.name}: no attention output matches {self.layout.outputs}.")

    def table(self) -> pd.DataFrame:
        """One row a head, in the order of `record`: `head`, `block`, `module`, `in_block`."""
        rows = [
            {"block": number, "module": name, "in_block": head}
            for number, name in enumerate(self.modules)
            for head in range(self.heads)
        ]
        return pd.DataFrame(rows).rename_axis("head").reset_index()

    @contextmanager
    def recording(self, order: Sequence[str] | None = None) -> Iterator[dict[str, list[Tensor]]]:
        """Inside the block every forward pass is read into the dictionary, by module name.

        `order` is the order in which hooks are set (any; it changes nothing).
        """
        read: dict[str, list[Tensor]] = {name: [] for name in self.modules}

        def tap(name: str) -> Any:
            return lambda _module, inputs: read[name].append(self._heads(inputs[0]))

        handles = [
            self.modules[name].register_forward_pre_hook(tap(name))
            for name in (order or list(self.modules))
        ]
        try:
            yield read
        finally:
            for handle in handles:
                handle.remove()

    def features(self, read: dict[str, list[Tensor]], batch: int) -> Float[Tensor, "b H D"]:
        """All heads' features of the conditional pass of `batch` samples, float32 on the CPU."""
        parts = []
        for name in self.modules:
            rows = torch.cat(read[name])
            first = len(rows) - batch if self.layout.conditional_last else 0
            parts.append(rows[first : first + batch])
        return torch.cat(parts, dim=1).cpu()

    def _heads(self, inputs: Tensor) -> Float[Tensor, "b h D"]:
        """Mean over the image tokens of what each head hands on (ours: the summary names none)."""
        count = inputs.shape[1]
        first = count - self.tokens if self.layout.image_last else 0
        image = inputs.detach()[:, first : first + self.tokens, : self.heads * self.width]
        return image.float().mean(dim=1).unflatten(-1, (self.heads, self.width))
