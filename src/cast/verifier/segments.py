"""From chat messages to token ids, split where the image ends.

Every text that the verifier reads about an image begins alike: the template's opening, then the
image. That common beginning is the *prefix*; what follows is a *segment* (a question, or a
caption). One prefix pass serves all segments.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cast.errors import CastError
from cast.verifier.answer_tokens import caption_messages, caption_text, question_messages

VISION_START, VISION_END, IMAGE_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"


@dataclass(frozen=True)
class CaptionSegment:
    """Ids of everything after the image, up to the caption's last token; `offsets[i]` is the
    character span in the caption of token `first + i`."""

    ids: tuple[int, ...]
    first: int
    offsets: tuple[tuple[int, int], ...]

    def rows(self, spans: tuple[tuple[int, int], ...], row_offset: int) -> list[int]:
        """Rows of the tokens that overlap any of `spans`, moved by `row_offset` (0 or -1).

        Byte-level BPE puts a word's leading space into its token, so tokens are matched by
        overlap, not by equal bounds.
        """
        owned = [
            index
            for index, (start, end) in enumerate(self.offsets)
            if any(start < span_end and span_start < end for span_start, span_end in spans)
        ]
        return [self.first + index + row_offset for index in owned]

    def all_rows(self, row_offset: int) -> list[int]:
        """Rows of every caption token, moved by `row_offset`."""
        return [self.first + index + row_offset for index in range(len(self.offsets))]


class Segmenter:
    """Renders messages with the tokenizer's own chat template and cuts them after the image."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        if not tokenizer.chat_template:
            raise CastError(
                f"{tokenizer.name_or_path}: the tokenizer has no chat template; add the model's "
                "chat_template.jinja to its folder."
            )
        for token in (VISION_START, VISION_END, IMAGE_PAD):
            if len(tokenizer.encode(token, add_special_tokens=False)) != 1:
                raise CastError(
                    f"{tokenizer.name_or_path}: {token} is not one token; this is not a Qwen3-VL "
                    "tokenizer."
                )
        self.tokenizer = tokenizer
        self.opening = self._split(question_messages("probe"))[0]
        self.question = lru_cache(maxsize=65536)(self._question)
        self.caption = lru_cache(maxsize=4096)(self._caption)

    def prefix(self, image_tokens: int) -> tuple[Int[Tensor, " P"], int]:
        """Ids of the opening and the image, and the index of the first image token."""
        before, after = self.opening.split(IMAGE_PAD)
        head, tail = self._encode(before), self._encode(after)
        image = self._encode(IMAGE_PAD) * image_tokens
        return torch.tensor(head + image + tail), len(head)

    def encode_answer(self, text: str) -> list[int]:
        """Ids of an answer variant, as it would start the assistant's reply."""
        return self._encode(text)

    def _question(self, probe: str) -> tuple[int, ...]:
        """Ids of a question, up to where the answer's first token is predicted."""
        return tuple(self._encode(self._split(question_messages(probe))[1]))

    def _caption(self, prompt: str) -> CaptionSegment:
        text = self._split(caption_messages(prompt))[1]
        reply = caption_text(prompt)
        start = text.rfind(reply)
        if not reply or start < 0:
            raise CastError(f"prompt {prompt!r}: the chat template does not keep it as it is.")
        encoded = self.tokenizer(
            text[: start + len(reply)], add_special_tokens=False, return_offsets_mapping=True
        )
        spans = [(a - start, b - start) for a, b in encoded["offset_mapping"]]
        first = next(index for index, (_, end) in enumerate(spans) if end > 0)
        return CaptionSegment(tuple(encoded["input_ids"]), first, tuple(spans[first:]))

    def _split(self, messages: list[dict[str, Any]]) -> tuple[str, str]:
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=messages[-1]["role"] == "user"
        )
        assert isinstance(text, str)
        opening, found, rest = text.partition(VISION_END)
        opening += found
        if not found or opening.count(IMAGE_PAD) != 1:
            raise CastError(
                f"{self.tokenizer.name_or_path}: the chat template must write "
                f"{VISION_START}{IMAGE_PAD}{VISION_END} for an image; it wrote {text!r}."
            )
        if opening != getattr(self, "opening", opening):
            raise CastError(
                f"{self.tokenizer.name_or_path}: the chat template writes different text before "
                "the image for different messages, so no prefix can be shared."
            )
        return opening, rest

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))
