"""The text side of a backbone: prompts to conditioning, each encoded once.

The encoders are needed for a moment only, and can be as large as the transformer: they are released
once all prompts are encoded, and where embeddings are kept on the disk (`cast.embeddings`) they
aren't even loaded before a prompt comes that isn't there.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import nn

from cast.backbones.conditioning import Conditioning
from cast.backbones.loading import load_pipeline, place
from cast.config import BackboneConfig
from cast.embeddings import Embeddings, files_sha256, model_folder
from cast.errors import CastError
from cast.io import sha256_file


class TextSide:
    """What `Backbone` does with prompts."""

    pipeline_class: ClassVar[Any]
    text_encoders: ClassVar[tuple[str, ...]] = ("text_encoder",)
    pipeline: Any
    config: BackboneConfig

    def __init__(self) -> None:
        self._encoded: dict[tuple[str, ...], Conditioning] = {}
        self._released = False
        self.embeddings: Embeddings | None = None  # `Backbone.load` says where they are kept

    @property
    def name(self) -> str:
        """Name in configs and results."""
        return self.config.name

    @property
    def device(self) -> torch.device:
        """Where latents and conditioning go: the VAE's device, and the transformer's first."""
        return self.pipeline.vae.device

    def _encode(self, prompts: list[str]) -> Conditioning:
        """Each family's own: what its pipeline's `__call__` does."""
        raise NotImplementedError

    @torch.no_grad()
    def encode(self, prompts: Sequence[str]) -> Conditioning:
        """Encode prompts in one call of the pipeline, with its null prompt where CFG is used.

        Cached by the list of prompts (on the CPU): an encoder's result for a prompt depends, in
        its last bits, on what it is batched with, so the list is what names it. Raises
        `CastError` for a list that wasn't encoded before `release_text_encoder`.
        """
        key = tuple(prompts)
        if key not in self._encoded:
            kept = self.embeddings.get(key) if self.embeddings else None
            self._encoded[key] = self._encode_anew(key) if kept is None else Conditioning(kept)
        return self._encoded[key].to(self.device)

    def _encode_anew(self, prompts: tuple[str, ...]) -> Conditioning:
        """By the text encoders; kept on the disk where there is a place for it."""
        absent = getattr(self.pipeline, self.text_encoders[0]) is None
        if self._released or (absent and self.embeddings is None):
            raise CastError(
                f"{self.name}: the text encoder was released before {list(prompts)[:1]} and the "
                "rest of its list were encoded; encode every list of prompts first."
            )
        self._load_text_encoders()
        with self._text_encoders_at_work():
            made = self._encode(list(prompts)).to("cpu")
        if self.embeddings is not None:
            self.embeddings.put(prompts, made.tensors)
        return made

    def embed(self, prompts: Sequence[str]) -> Conditioning:
        """Encode prompts anew, with gradients: for a text encoder that is in training itself."""
        self._load_text_encoders()
        return self._encode(list(prompts))

    def _load_text_encoders(self) -> None:
        """Those that `load` left out, and only those."""
        if self.embeddings is None or getattr(self.pipeline, self.text_encoders[0]) is not None:
            return
        parts = self.pipeline.components.items()
        here = [name for name, part in parts if isinstance(part, nn.Module)]
        loaded = load_pipeline(self.pipeline_class, self.config, here)
        place(loaded, self.config, str(self.device), self.text_encoders)
        for name in self.text_encoders:
            part = getattr(loaded, name)
            if part is not None:
                setattr(self.pipeline, name, part.requires_grad_(False).eval())

    def text_facts(self) -> dict[str, Any]:
        """All but libraries, device and prompts that decides a conditioning."""
        own = ("family", "dtype", "guidance", "text_layers", "max_text_tokens")
        return {
            "settings": self.config.model_dump(mode="json", include=set(own)),
            "files": files_sha256(
                model_folder(self.config.path), ["text_encoder*/**/*", "tokenizer*/**/*"]
            ),
            "code": sha256_file(str(inspect.getsourcefile(type(self)))),
        }

    @contextmanager
    def _text_encoders_at_work(self) -> Iterator[None]:
        """Those that wait on the CPU lie on the device inside the block."""
        waiting = [getattr(self.pipeline, name) for name in self.text_encoders]
        if self.config.text_encoder == "device" or self.device.type == "cpu":
            waiting = []
        try:
            for part in filter(None, waiting):
                part.to(self.device)
            yield
        finally:
            for part in filter(None, waiting):
                part.to("cpu")

    def release_text_encoder(self) -> None:
        """Free the text encoders' memory; lists encoded before stay available."""
        self._released = True
        for name in self.text_encoders:
            if getattr(self.pipeline, name) is not None:
                setattr(self.pipeline, name, None)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
