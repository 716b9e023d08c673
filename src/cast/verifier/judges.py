"""A judge for Qwen-Image-Bench's protocol: any Qwen3-VL (the mini world's: cast.mini.zoo.quality).

The benchmark's own judge is a model trained for it; its prompt is not in what we hold, so
`JUDGE_TEXT` is ours, and numbers from another judge are not the paper's.
"""

from typing import Any

import torch
from PIL import Image
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2VLImageProcessorPil,
    Qwen3VLForConditionalGeneration,
)

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
