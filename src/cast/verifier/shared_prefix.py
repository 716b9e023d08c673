"""One vision pass and one prefix pass an image; any number of segments over the shared keys.

Segments are packed one behind another in a single sequence. A block-causal mask lets each see
the prefix and itself, and each starts at the position that follows the prefix, so a packed
segment computes what it would compute alone (to 1e-6 in float32).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from PIL import Image
from torch import Tensor
from transformers import (
    DynamicCache,
    Qwen2VLImageProcessorPil,
    Qwen3VLForConditionalGeneration,
)

from cast.errors import CastError
from cast.verifier.segments import Segmenter


@dataclass(frozen=True)
class ImagePatches:
    """Images of one token grid, preprocessed: patches of all images in a row, and `grid` (h, w)
    in image tokens after merging."""

    pixel_values: Float[Tensor, "patches channels"]
    grid_thw: Int[Tensor, "B 3"]
    grid: tuple[int, int]


@dataclass(frozen=True)
class Prefix:
    """Keys and values of opening and image for B images; `length` tokens, image tokens at
    `[image_start, image_start + h w)`, segments start at position `next_position`."""

    cache: DynamicCache
    batch: int
    length: int
    image_start: int
    grid: tuple[int, int]
    next_position: int


@dataclass(frozen=True)
class Packed:
    """Segments behind one another: ids, positions relative to the segment's start, the segment
    of each token, and each segment's first row."""

    ids: Int[Tensor, " S"]
    offsets: Int[Tensor, " S"]
    owner: Int[Tensor, " S"]
    starts: tuple[int, ...]

    def mask(self, prefix_length: int) -> Bool[Tensor, "S T"]:
        """True where a token may look: the whole prefix, and its own segment up to itself."""
        size = len(self.ids)
        same = self.owner[:, None] == self.owner[None, :]
        causal = torch.ones(size, size, dtype=torch.bool, device=same.device).tril()
        prefix = torch.ones(size, prefix_length, dtype=torch.bool, device=same.device)
        return torch.cat([prefix, same & causal], dim=1)


def pack(segments: Sequence[Sequence[int]], device: torch.device) -> Packed:
    """Pack segments in the order given."""
    lengths = [len(segment) for segment in segments]
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    return Packed(
        ids=torch.tensor([token for segment in segments for token in segment], device=device),
        offsets=torch.cat([torch.arange(length) for length in lengths]).to(device),
        owner=torch.repeat_interleave(torch.tensor(lengths)).to(device),
        starts=tuple(starts),
    )


def preprocess(
    images: Sequence[Image.Image], processor: Qwen2VLImageProcessorPil, name: str = ""
) -> list[ImagePatches]:
    """Patches of each image, one entry an image; `CastError` naming an image it can't take."""
    merge = int(processor.merge_size)
    result = []
    for index, image in enumerate(images):
        try:
            features = processor(images=[image], return_tensors="pt")
        except ValueError as error:
            raise CastError(
                f"{name or f'image {index}'}: {image.width}x{image.height} px can't be read by the "
                f"verifier ({error})."
            ) from error
        _, rows, columns = features["image_grid_thw"][0].tolist()
        grid = (rows // merge, columns // merge)
        result.append(ImagePatches(features["pixel_values"], features["image_grid_thw"], grid))
    return result


def stack(patches: Sequence[ImagePatches]) -> ImagePatches:
    """Images of one grid as one batch."""
    values = torch.cat([image.pixel_values for image in patches])
    return ImagePatches(values, torch.cat([p.grid_thw for p in patches]), patches[0].grid)


@torch.no_grad()
def encode_prefix(
    model: Qwen3VLForConditionalGeneration, segmenter: Segmenter, patches: ImagePatches
) -> Prefix:
    """Run vision tower and prefix; positions are given explicitly, so no state is left over."""
    batch, tokens = len(patches.grid_thw), patches.grid[0] * patches.grid[1]
    row, image_start = segmenter.prefix(tokens)
    ids = row.to(model.device).expand(batch, -1).contiguous()
    is_image = torch.zeros_like(ids)
    is_image[:, image_start : image_start + tokens] = 1
    grid = patches.grid_thw.to(model.device)
    multimodal: Any = model.model
    position_ids, delta = multimodal.get_rope_index(
        ids, mm_token_type_ids=is_image.int(), image_grid_thw=grid
    )
    output = multimodal(
        input_ids=ids,
        pixel_values=patches.pixel_values.to(model.device, model.dtype),
        image_grid_thw=grid,
        mm_token_type_ids=is_image.int(),
        position_ids=position_ids,
        cache=DynamicCache(config=multimodal.language_model.config),
        use_cache=True,
    )
    length = ids.shape[1]
    next_position = length + int(delta[0])
    return Prefix(output.cache, batch, length, image_start, patches.grid, next_position)


@torch.no_grad()
def run_packed(
    model: Qwen3VLForConditionalGeneration, prefix: Prefix, packed: Packed
) -> Float[Tensor, "B S D"]:
    """Final hidden states of the packed tokens. The cache keeps their keys until `release`."""
    positions = (prefix.next_position + packed.offsets).expand(3, prefix.batch, -1)
    output = model.model.language_model(
        input_ids=packed.ids.expand(prefix.batch, -1),
        position_ids=positions,
        attention_mask=packed.mask(prefix.length)[None, None],
        cache=prefix.cache,
        use_cache=True,
    )
    return output.last_hidden_state


def release(prefix: Prefix) -> None:
    """Drop the packed tokens' keys, so that the prefix can serve again."""
    prefix.cache.crop(prefix.length - prefix.cache.get_seq_length())
