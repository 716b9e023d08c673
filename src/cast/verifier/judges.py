"""Two judges for Qwen-Image-Bench's protocol: any Qwen3-VL, and a simulated one for the mini world.

The benchmark's own judge is a model trained for it; its prompt is not in what we hold, so
`JUDGE_TEXT` is ours, and numbers from another judge are not the paper's. The mini judge looks at
pixels only and knows four facets: say so wherever its numbers appear.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2VLImageProcessorPil,
    Qwen3VLForConditionalGeneration,
)

from cast.verifier.images import to_rgb
from cast.verifier.loading import load_parts
from cast.verifier.quality_judge import Facet
from cast.verifier.segments import IMAGE_PAD

JUDGE_TEXT = (
    "The image was made for this prompt: {prompt}\n"
    "Grade one aspect of it: {facet}.\n"
    "Answer 2 if it is good, 1 if it is acceptable, 0 if it fails, and N/A if the aspect does not "
    "apply. Answer with the grade only."
)


class VlmJudge:
    """Asks a Qwen3-VL for a grade, greedily decoded."""

    def __init__(
        self,
        model: Qwen3VLForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase,
        image_processor: Qwen2VLImageProcessorPil,
        max_new_tokens: int = 16,
    ):
        self.model: Any = model.eval().requires_grad_(False)
        self.tokenizer: Any = tokenizer
        self.image_processor = image_processor
        self.max_new_tokens = max_new_tokens

    @classmethod
    def load(
        cls, path: str, dtype: str = "bfloat16", device: str | torch.device | None = None
    ) -> "VlmJudge":
        """Load from a local folder or hub id; `CastError` when it is missing or another model."""
        return cls(*load_parts(path, dtype, device))

    @torch.no_grad()
    def ask(self, image: Image.Image, prompt: str, facet: Facet) -> str:
        """The model's answer as text, special tokens left out."""
        inputs = self._inputs(image, JUDGE_TEXT.format(prompt=prompt, facet=facet))
        output = self.model.generate(**inputs, max_new_tokens=self.max_new_tokens, do_sample=False)
        answer = output[0, inputs["input_ids"].shape[1] :]
        return self.tokenizer.decode(answer, skip_special_tokens=True).strip()

    def _inputs(self, image: Image.Image, text: str) -> dict[str, Any]:
        features = self.image_processor(images=[image], return_tensors="pt")
        tokens = int(features["image_grid_thw"].prod()) // self.image_processor.merge_size**2
        content = [{"type": "image"}, {"type": "text", "text": text}]
        rendered = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        rendered = rendered.replace(IMAGE_PAD, IMAGE_PAD * tokens, 1)
        ids = torch.tensor([self.tokenizer.encode(rendered, add_special_tokens=False)])
        is_image = (ids == self.tokenizer.convert_tokens_to_ids(IMAGE_PAD)).int()
        device = self.model.device
        return {
            "input_ids": ids.to(device),
            "attention_mask": torch.ones_like(ids).to(device),
            "mm_token_type_ids": is_image.to(device),
            "pixel_values": features["pixel_values"].to(device, self.model.dtype),
            "image_grid_thw": features["image_grid_thw"].to(device),
        }


EDGES = "Quality / Detail / Edge Clarity"
NOISE = "Quality / Detail / Noise"
COLOURS = "Aesthetics / Color Harmony / Color Harmony"
COMPOSITION = "Aesthetics / Composition / Composition"
MINI_FACETS = (EDGES, NOISE, COLOURS, COMPOSITION)

# Two bounds a facet: what earns a 2 and what earns a 1. Measured on 100 drawn scenes, which earn
# a 2 in all four: edges are at least 0.36 (0.19 after a Gaussian blur of 1 px), colours 0.32.
_BOUNDS = {
    EDGES: (0.35, 0.2),
    NOISE: (0.008, 0.03),
    COLOURS: (0.3, 0.2),
    COMPOSITION: (0.0, 0.08),
}


class MiniJudge:
    """Simulated annotator of the mini world: dark-edged shapes on a light, even ground."""

    def ask(self, image: Image.Image, prompt: str, facet: Facet) -> str:
        """A grade for the facets of `MINI_FACETS`, `N/A` for all others."""
        name = str(facet)
        if name not in _BOUNDS:
            return "N/A"
        pixels = np.asarray(to_rgb(image, "image"), dtype=np.float64) / 255.0
        value = _MEASURES[name](pixels)
        good, acceptable = _BOUNDS[name]
        more_is_better = good > acceptable
        reached = [value >= bound if more_is_better else value <= bound for bound in _BOUNDS[name]]
        return str(2 if reached[0] else int(reached[1]))


def edge_clarity(pixels: Float[np.ndarray, "H W 3"]) -> float:
    """99th percentile of the step in luminance between neighbouring pixels."""
    luminance = pixels.mean(axis=2)
    steps = [np.abs(np.diff(luminance, axis=axis)).ravel() for axis in (0, 1)]
    return float(np.percentile(np.concatenate(steps), 99))


def ground_noise(pixels: Float[np.ndarray, "H W 3"]) -> float:
    """Spread of the luminance about the ground's, in standard deviations of a Gaussian (1.48 times
    the median distance, so that edges don't count)."""
    distance = np.abs(pixels.mean(axis=2) - np.median(pixels.mean(axis=2)))
    return float(1.4826 * np.median(distance[distance < 0.15]))


def saturation(pixels: Float[np.ndarray, "H W 3"]) -> float:
    """Median colourfulness (largest minus smallest channel) of pixels that have any colour."""
    spread = pixels.max(axis=2) - pixels.min(axis=2)
    coloured = spread[spread > 0.15]
    return float(np.median(coloured)) if coloured.size else 0.0


def cut_off(pixels: Float[np.ndarray, "H W 3"]) -> float:
    """Share of the border's pixels that are not ground: objects that leave the picture."""
    luminance = pixels.mean(axis=2)
    border = np.concatenate([luminance[0], luminance[-1], luminance[:, 0], luminance[:, -1]])
    return float(np.mean(np.abs(border - np.median(luminance)) > 0.2))


_MEASURES = {EDGES: edge_clarity, NOISE: ground_noise, COLOURS: saturation, COMPOSITION: cut_off}
