"""CLIP similarity of images to images and to texts (paper 3.1, App. B).

The structure-formation point is read from the similarity of a decoded estimate to the final
image, or to the prompt; the summary does not say which, so both are here.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn import functional
from transformers import AutoTokenizer, CLIPImageProcessorPil, CLIPModel, PreTrainedTokenizerBase

from cast.embeddings import Embeddings, embeddings_folder, files_sha256, model_folder
from cast.errors import CastError
from cast.io import sha256_file
from cast.manifest import check_manifest
from cast.paths import from_root
from cast.verifier.images import Images, as_pil

References: TypeAlias = Float[Tensor, "R 3 h w"] | Sequence[Image.Image]


class PromptTruncatedWarning(UserWarning):
    """A prompt is longer than CLIP reads; what lies behind is not scored."""


class ClipScorer:
    """A frozen CLIP in float32: unit features of images and texts."""

    def __init__(
        self,
        model: CLIPModel,
        tokenizer: PreTrainedTokenizerBase,
        image_processor: CLIPImageProcessorPil,
        batch: int = 16,
    ):
        self.model: Any = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.batch = batch
        self.limit = int(self.model.config.text_config.max_position_embeddings)
        self.embeddings: Embeddings | None = None  # `load` says where text features are kept

    @classmethod
    def load(
        cls,
        path: str,
        processor_path: str | None = None,
        device: str | torch.device | None = None,
        batch: int = 16,
    ) -> "ClipScorer":
        """Load a `CLIPModel` from a local folder or hub id, in float32.

        `processor_path` is where tokenizer and image processor lie, when that is elsewhere (as
        for PickScore). `CastError` when something is missing.
        """
        path, parts = _place(path), _place(processor_path or path)
        target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        try:
            model: Any = CLIPModel.from_pretrained(path, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(parts)
            processor = CLIPImageProcessorPil.from_pretrained(parts)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise CastError(f"CLIP: {path!r} can't be loaded ({reason}).") from error
        scorer = cls(model.to(target), tokenizer, processor, batch)
        folder = embeddings_folder()
        if folder is not None:
            decides = {
                "clip": files_sha256(model_folder(path), ["*.safetensors", "*.json"]),
                "tokenizer": files_sha256(model_folder(parts), ["*.json", "*.txt"]),
                "code": sha256_file(__file__),
            }
            scorer.embeddings = Embeddings(folder, decides, target)
        return scorer

    @property
    def logit_scale(self) -> float:
        """The learned inverse temperature, `exp(logit_scale)`."""
        return float(self.model.logit_scale.exp())

    @torch.no_grad()
    def image_features(self, images: Images) -> Float[Tensor, "B D"]:
        """Unit vectors, on the CPU."""
        parts = []
        for chunk in _chunks(as_pil(images), self.batch):
            pixels = self.image_processor(images=chunk, return_tensors="pt")["pixel_values"]
            features = self.model.get_image_features(pixel_values=pixels.to(self.model.device))
            parts.append(functional.normalize(features.pooler_output, dim=-1).cpu())
        return torch.cat(parts)

    @torch.no_grad()
    def text_features(self, prompts: Sequence[str]) -> Float[Tensor, "B D"]:
        """Unit vectors, on the CPU; warns (`PromptTruncatedWarning`) of prompts that are cut."""
        parts = []
        for chunk in _chunks(list(prompts), self.batch):
            self._warn_of_cuts(chunk)
            kept = self.embeddings.get(chunk) if self.embeddings else None
            parts.append(self._embed(chunk) if kept is None else kept["text_features"])
        return torch.cat(parts)

    def _embed(self, prompts: list[str]) -> Float[Tensor, "B D"]:
        """By the text tower; kept on the disk where there is a place for it."""
        inputs = self.tokenizer(
            prompts, padding=True, truncation=True, max_length=self.limit, return_tensors="pt"
        ).to(self.model.device)
        features = self.model.get_text_features(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        )
        made = functional.normalize(features.pooler_output, dim=-1).cpu()
        if self.embeddings is not None:
            self.embeddings.put(prompts, {"text_features": made})
        return made

    def image_similarity(self, images: Images, references: References) -> Float[Tensor, " B"]:
        """Cosine of each image with its reference; one reference serves all images."""
        features, others = self.image_features(images), self.image_features(references)
        return (features * others).sum(dim=-1)

    def text_similarity(self, images: Images, prompts: Sequence[str]) -> Float[Tensor, " B"]:
        """Cosine of each image with its prompt; one prompt serves all images."""
        return (self.image_features(images) * self.text_features(prompts)).sum(dim=-1)

    def _warn_of_cuts(self, prompts: Sequence[str]) -> None:
        for prompt in prompts:
            length = len(self.tokenizer.encode(prompt))
            if length > self.limit:
                message = (
                    f"prompt {prompt[:60]!r}...: {length} tokens, and CLIP reads {self.limit}; its "
                    "end is not scored."
                )
                warnings.warn(message, PromptTruncatedWarning, stacklevel=3)


def _place(path: str) -> str:
    """A folder's full path, or a hub id as it is; `CastError` for what can be neither."""
    place = from_root(path)
    if place.is_dir():
        check_manifest(place)
        return str(place)
    if Path(path).is_absolute() or path.count("/") != 1:
        raise CastError(f"CLIP: there is no folder {path!r}; give a folder or a hub id.")
    return path


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
