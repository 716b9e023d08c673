"""Operations of a Qwen3-VL verifier in closed form, from its config dict alone.

A linear layer costs two operations a weight and token; attention of S new tokens over T costs
4 S T H d a layer (scores and weighted sum, H heads of d; masked pairs are computed too). The
shared prefix is paid once an image, a probe or a caption only for its own tokens.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from cast.config import VerifierSection, is_local
from cast.errors import CastError
from cast.full_size.counts import SHAPES
from cast.paths import from_root

Number = int | float


@dataclass(frozen=True)
class VerifierCounts:
    """One verifier; tokens are the language model's, after 2x2 merging of patches."""

    text: Mapping[str, Any]
    vision: Mapping[str, Any]
    tied: bool

    @property
    def _layer(self) -> int:
        """Weights of a language layer's linear maps."""
        t = self.text
        hidden, head = t["hidden_size"], t["head_dim"]
        queries, keys = t["num_attention_heads"] * head, t["num_key_value_heads"] * head
        return 2 * hidden * queries + 2 * hidden * keys + 3 * hidden * t["intermediate_size"]

    @property
    def _vision_layer(self) -> int:
        hidden = self.vision["hidden_size"]
        return 4 * hidden**2 + 2 * hidden * self.vision["intermediate_size"]

    @property
    def _merger(self) -> int:
        merged = self.vision["hidden_size"] * self.vision["spatial_merge_size"] ** 2
        return merged**2 + merged * self.vision["out_hidden_size"]

    @property
    def _patch(self) -> int:
        v = self.vision
        pixels = v.get("in_channels", 3) * v["temporal_patch_size"] * v["patch_size"] ** 2
        return pixels * v["hidden_size"]

    @property
    def parameters(self) -> int:
        """Weights of all linear maps and embeddings; norms and biases (0.1%) are left out."""
        v, t = self.vision, self.text
        embeddings = t["vocab_size"] * t["hidden_size"] * (1 if self.tied else 2)
        vision = v["depth"] * self._vision_layer + self._patch
        vision += (1 + len(v["deepstack_visual_indexes"])) * self._merger
        vision += v["num_position_embeddings"] * v["hidden_size"]
        return embeddings + t["num_hidden_layers"] * self._layer + vision

    def image_tokens(self, height: int, width: int) -> int:
        """Tokens of an image after merging."""
        side = self.vision["patch_size"] * self.vision["spatial_merge_size"]
        return round(height / side) * round(width / side)

    def language(self, new: Number, total: Number) -> Number:
        """`new` tokens that look at `total`, without the head."""
        t = self.text
        attention = 4 * new * total * t["num_attention_heads"] * t["head_dim"]
        return t["num_hidden_layers"] * (2 * new * self._layer + attention)

    def prefix(self, height: int, width: int, opening: int = 0) -> Number:
        """Vision tower, and the language model over `opening` text tokens and the image."""
        v = self.vision
        merged = self.image_tokens(height, width)
        patches = merged * v["spatial_merge_size"] ** 2
        vision = v["depth"] * (2 * patches * self._vision_layer)
        vision += v["depth"] * 4 * patches**2 * v["hidden_size"] + 2 * patches * self._patch
        vision += 2 * merged * (1 + len(v["deepstack_visual_indexes"])) * self._merger
        return vision + self.language(merged + opening, merged + opening)

    def packed(self, prefix_tokens: Number, tokens: Number, answers: Number) -> Number:
        """`tokens` packed behind a prefix, and the head at `answers` of them."""
        head = 2 * answers * self.text["vocab_size"] * self.text["hidden_size"]
        return self.language(tokens, prefix_tokens + tokens) + head


def verifier_counts(section: VerifierSection) -> VerifierCounts:
    """Of the config's verifier."""
    return vlm_counts(section.path, "verifier.path")


def vlm_counts(path: str, key: str) -> VerifierCounts:
    """Of the Qwen3-VL at `path`, which the config names under `key`."""
    shape = model_shape(path, key)
    return VerifierCounts(
        shape["text_config"], shape["vision_config"], bool(shape.get("tie_word_embeddings", False))
    )


@cache
def model_shape(path: str, key: str) -> dict[str, Any]:
    """The config dict of a hub id of shapes.yaml, or of a local folder.

    Raises `CastError`, which names `key`, where there is none.
    """
    if is_local(path):
        file = from_root(path) / "config.json"
        if not file.is_file():
            raise CastError(f"{key} = {path}: holds no config.json.")
        return json.loads(file.read_text(encoding="utf-8"))
    shapes = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))
    if path not in shapes:
        raise CastError(
            f"{key} = {path}: there is no shape of it; add its config to "
            "src/cast/full_size/shapes.yaml."
        )
    return shapes[path]["model"]
