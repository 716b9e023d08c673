"""Latent grids to packed tokens and back: 2x2 patches, row-major, channel order (C, 2, 2)."""

from jaxtyping import Float
from torch import Tensor


def pack_patches(latents: Float[Tensor, "B C H W"]) -> Float[Tensor, "B P D"]:
    """[B, C, H, W] to [B, H/2 * W/2, 4 C], as FLUX.1's and Qwen-Image's pipelines pack."""
    batch, channels, height, width = latents.shape
    patches = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
    patches = patches.permute(0, 2, 4, 1, 3, 5)
    return patches.reshape(batch, (height // 2) * (width // 2), channels * 4)


def unpack_patches(tokens: Float[Tensor, "B P D"], grid: tuple[int, int]) -> Tensor:
    """The inverse of `pack_patches` for a grid of (rows, columns) tokens."""
    batch, _, depth = tokens.shape
    rows, columns = grid
    patches = tokens.reshape(batch, rows, columns, depth // 4, 2, 2)
    patches = patches.permute(0, 3, 1, 4, 2, 5)
    return patches.reshape(batch, depth // 4, rows * 2, columns * 2)
