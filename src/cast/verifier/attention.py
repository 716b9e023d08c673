"""Teacher-forced heatmaps (paper 4.2): where the verifier looks while it reads an atom's words.

The caption is the prompt itself. For each atom, the attention of its tokens' rows over the image
tokens is averaged over tokens, heads and layers, divided by the same map of a neutral caption
(which takes away sinks: positions looked at whatever is said), resized to the latent grid and
scaled to spatial mean 1. Queries are recomputed from hooked inputs for the needed rows only, and
keys are taken from the cache: equal to eager `output_attentions` to 1e-6 without its memory, and
SDPA stays in use.

Which layers, heads, rows and baseline the paper takes is not in the summary: they are settings,
chosen by `sweep.py` against true masks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from transformers import Qwen3VLForConditionalGeneration
from transformers.models.qwen3_vl.modeling_qwen3_vl import rotate_half

from cast.config.sections import HeatmapSection
from cast.errors import CastError
from cast.verifier.shared_prefix import Prefix

Heads = Literal["mean", "max"]
RowOffset = Literal[-1, 0]


class Reading(NamedTuple):
    """How attention is read besides its layers: heads reduced by, row of token t (0) or t-1."""

    heads: Heads = "mean"
    row_offset: RowOffset = 0


def chosen_layers(settings: HeatmapSection, depth: int) -> tuple[int, ...]:
    """Language-model layers that are averaged; `CastError` for one the verifier doesn't have."""
    layers = tuple(range(depth)) if settings.layers is None else settings.layers
    if not layers or any(layer >= depth for layer in layers):
        raise CastError(
            f"verifier.heatmap.layers: {list(layers)} is not allowed; this verifier has layers "
            f"0..{depth - 1}."
        )
    return tuple(sorted(set(layers)))


def rotated(
    norm: Any, projection: Any, layer: Any, hidden: Float[Tensor, "B n c"], angles: Any
) -> Float[Tensor, "B heads n d"]:
    """Queries or keys of an attention layer after RoPE, by its own norm and projection.

    `angles` are the cosines and sines, [B, n, d] each, that the layer is given for these rows.
    """
    shape = (*hidden.shape[:-1], -1, layer.head_dim)
    projected = norm(projection(hidden).view(shape)).transpose(1, 2)
    cos, sin = (part.unsqueeze(1) for part in angles)
    return projected * cos + rotate_half(projected) * sin


@contextmanager
def recorded_queries(
    model: Qwen3VLForConditionalGeneration, layers: Sequence[int], rows: Int[Tensor, " n"]
) -> Iterator[dict[int, Float[Tensor, "B H n d"]]]:
    """Collect the post-RoPE queries of `rows` at `layers` during the forward passes inside."""
    queries: dict[int, Tensor] = {}

    def hook(module: Any, _: Any, inputs: dict[str, Any]) -> None:
        hidden = inputs["hidden_states"][:, rows]
        angles = tuple(part[:, rows] for part in inputs["position_embeddings"])
        queries[module.layer_idx] = rotated(module.q_norm, module.q_proj, module, hidden, angles)

    blocks = model.model.language_model.layers
    handles = [
        blocks[layer].self_attn.register_forward_pre_hook(hook, with_kwargs=True)
        for layer in layers
    ]
    try:
        yield queries
    finally:
        for handle in handles:
            handle.remove()


def image_attention(
    query: Float[Tensor, "B H n d"],
    key: Float[Tensor, "B G T d"],
    mask: Bool[Tensor, "n T"],
    columns: slice,
    heads: Heads,
) -> Float[Tensor, "B n N"]:
    """Attention of the rows over the image columns, softmax over all T keys, float32.

    H query heads share G key heads in groups of H / G, as in grouped-query attention. Logits are
    formed in the model's dtype, as the model itself does, and normalised in float32.
    """
    grouped = query.unflatten(1, (key.shape[1], -1))
    logits = torch.einsum("bghnd,bgtd->bghnt", grouped, key) * query.shape[-1] ** -0.5
    logits.masked_fill_(~mask, torch.finfo(logits.dtype).min)
    weights = logits.softmax(dim=-1, dtype=torch.float32)[..., columns].flatten(1, 2)
    return weights.mean(dim=1) if heads == "mean" else weights.amax(dim=1)


def layer_attentions(
    prefix: Prefix,
    queries: dict[int, Tensor],
    mask: Bool[Tensor, "n T"],
    heads: Heads,
) -> dict[int, Float[Tensor, "B n N"]]:
    """`image_attention` of every recorded layer, keys from the prefix's cache."""
    columns = slice(prefix.image_start, prefix.image_start + prefix.grid[0] * prefix.grid[1])
    cached: Any = prefix.cache.layers
    return {
        layer: image_attention(query, cached[layer].keys, mask, columns, heads)
        for layer, query in queries.items()
    }


def finish_map(
    attention: Float[Tensor, "B K N"],
    neutral: Float[Tensor, "B N"] | None,
    source: tuple[int, int],
    target: tuple[int, int],
    settings: HeatmapSection,
) -> Float[Tensor, "B K R C"]:
    """Baseline, temperature, grid, floor and scale: non-negative, spatial mean exactly 1.

    `CastError` when a map is zero everywhere or not finite: nothing sensible can stand for it.
    """
    ratio = attention.float()
    if neutral is not None:
        ratio = ratio / neutral.float().clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    peak = ratio.amax(dim=-1, keepdim=True)
    if not bool(((peak > 0) & peak.isfinite()).all()):
        raise CastError(
            "heatmap: an atom's attention over the image is zero or not finite; check the "
            "verifier's weights and dtype, or set verifier.heatmap.baseline: none."
        )
    sharpened = (ratio / peak) ** (1.0 / settings.temperature)
    grid = sharpened.unflatten(-1, source)
    if source != target:
        grid = functional.interpolate(grid, target, mode="bilinear", antialias=True)
        grid = grid.clamp_min(0.0)
    unit = grid / grid.mean(dim=(-2, -1), keepdim=True)
    return settings.floor + (1.0 - settings.floor) * unit
