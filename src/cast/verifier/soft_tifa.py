"""Soft-TIFA: how sure the frozen verifier is that each atom of a prompt holds (paper 4.2).

Per probe, the probability mass of the accepted answers' first tokens, softmax over the whole
vocabulary in float32. One vision pass and one prefix pass an image serve all probes and the
heatmaps. Scores never depend on what else is in the batch, beyond float rounding; a group is
always scored by one path, because in bfloat16 two paths differ by up to 0.014.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from transformers import Qwen2VLImageProcessorPil, Qwen3VLForConditionalGeneration

from cast.config.sections import HeatmapSection, VerifierSection
from cast.errors import CastError
from cast.scene_graph.graph import PromptRecord
from cast.verifier.answer_tokens import NEUTRAL_PROMPT, AnswerMode, answer_tokens
from cast.verifier.attention import (
    Heads,
    Reading,
    chosen_layers,
    finish_map,
    layer_attentions,
    recorded_queries,
)
from cast.verifier.images import Images, as_pil
from cast.verifier.loading import load_parts
from cast.verifier.segments import CaptionSegment, Segmenter
from cast.verifier.shared_prefix import (
    ImagePatches,
    Prefix,
    encode_prefix,
    pack,
    preprocess,
    release,
    run_packed,
    stack,
)

FLOAT32_RESOLUTION = 1e-6
BFLOAT16_RESOLUTION = 0.125


class Verifier:
    """A frozen Qwen3-VL that scores atoms and shows where it looks.

    `answers` is the mode of `score`; `heatmap` says how maps are read; `batch` is the number of
    images that go through the model together (it bounds memory and changes no score).
    """

    def __init__(
        self,
        model: Qwen3VLForConditionalGeneration,
        segmenter: Segmenter,
        image_processor: Qwen2VLImageProcessorPil,
        answers: AnswerMode = "strict",
        heatmap: HeatmapSection | None = None,
        batch: int = 16,
    ):
        self.model = model.eval().requires_grad_(False)
        self.segmenter = segmenter
        self.image_processor = image_processor
        self.answers: AnswerMode = answers
        self.heatmap = heatmap or HeatmapSection()
        self.batch = batch
        self.depth = len(model.model.language_model.layers)
        chosen_layers(self.heatmap, self.depth)

    @classmethod
    def load(
        cls, config: VerifierSection, device: str | torch.device | None = None, batch: int = 16
    ) -> "Verifier":
        """Load from a local folder or hub id; `CastError` when it is missing or no Qwen3-VL.

        `device` defaults to the first GPU, or the CPU where there is none.
        """
        model, tokenizer, processor = load_parts(config.path, config.dtype, device)
        return cls(model, Segmenter(tokenizer), processor, config.answers, config.heatmap, batch)

    def check_image(self, image: Image.Image, name: str) -> None:
        """`CastError` naming an image whose size the image processor refuses."""
        preprocess([image], self.image_processor, name)

    def score(
        self, images: Images, record: PromptRecord, mode: AnswerMode | None = None
    ) -> Float[Tensor, "B K"]:
        """Probability of the accepted answer to each of the record's K probes, in [0, 1].

        `images`: float [B, 3, H, W] in [0, 1] (rounded to 8 bits, as a saved PNG is) or PIL
        images of any sizes. float32, on the CPU. `mode` overrides the configured answer set.
        """
        return self.score_modes(images, record, (mode or self.answers,))[0]

    def score_modes(
        self,
        images: Images,
        record: PromptRecord,
        modes: Sequence[AnswerMode] = ("strict", "official"),
    ) -> list[Float[Tensor, "B K"]]:
        """`score` for several answer sets, from one forward pass."""

        def run(patches: ImagePatches) -> list[Tensor]:
            log_probs = self._log_probs(self._prefix(patches), record)
            return self._sum_answers(log_probs, record, modes)

        return self._over_batches(images, run)

    def heatmaps(
        self, images: Images, record: PromptRecord, grid: tuple[int, int]
    ) -> Float[Tensor, "B K R C"]:
        """Where the verifier looks while it reads each atom's words: mean 1 over the R x C grid."""
        run = lambda patches: [self._maps(self._prefix(patches), record, grid)]  # noqa: E731
        return self._over_batches(images, run)[0]

    def score_and_heatmaps(
        self, images: Images, record: PromptRecord, grid: tuple[int, int]
    ) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K R C"]]:
        """Both, sharing vision and prefix passes; the scores equal `score`'s bit for bit."""

        def run(patches: ImagePatches) -> list[Tensor]:
            prefix = self._prefix(patches)
            scores = self._sum_answers(self._log_probs(prefix, record), record, (self.answers,))
            return [*scores, self._maps(prefix, record, grid)]

        scores, maps = self._over_batches(images, run)
        return scores, maps

    def layer_maps(
        self, images: Images, record: PromptRecord, readings: Sequence[Reading]
    ) -> tuple[list[Float[Tensor, "B L G N"]], tuple[int, int]]:
        """Raw attention of every layer, one tensor a reading, and the image-token grid.

        G is the record's K atoms and then the neutral caption. For sweeps: one forward pass
        serves all readings, and `finish_map` turns any choice of layers into heatmaps. All images
        must have one size.
        """
        grids: set[tuple[int, int]] = set()

        def run(patches: ImagePatches) -> list[Tensor]:
            grids.add(patches.grid)
            layers = tuple(range(self.depth))
            return self._attention(self._prefix(patches), record, layers, readings, True)

        maps = self._over_batches(images, run)
        (grid,) = grids
        return maps, grid

    def image_grid(self, images: Images) -> tuple[int, int]:
        """Rows and columns of image tokens that the first image becomes."""
        return preprocess(as_pil(images)[:1], self.image_processor)[0].grid

    def resolution(self, scores: Float[Tensor, "B K"]) -> Float[Tensor, " K"]:
        """Smallest spread of a group's scores that is more than rounding (paper 4.3).

        float32 weights: 1e-6. bfloat16 logits are spaced 0.125 apart at the sizes that answers
        have (16 to 32), so a score p moves in steps of about 0.125 p (1 - p); p is the mean.
        """
        if self.model.dtype == torch.float32:
            return torch.full((scores.shape[1],), FLOAT32_RESOLUTION)
        p = scores.float().mean(dim=0)
        return (BFLOAT16_RESOLUTION * p * (1 - p)).clamp_min(FLOAT32_RESOLUTION).cpu()

    def _prefix(self, patches: ImagePatches) -> Prefix:
        return encode_prefix(self.model, self.segmenter, patches)

    def _over_batches(
        self, images: Images, run: Callable[[ImagePatches], list[Tensor]]
    ) -> list[Tensor]:
        """Apply `run` to batches of images that share a token grid; rows in the given order."""
        patches = preprocess(as_pil(images), self.image_processor)
        by_grid: dict[tuple[int, int], list[int]] = {}
        for index, image in enumerate(patches):
            by_grid.setdefault(image.grid, []).append(index)
        order: list[int] = []
        parts: list[list[Tensor]] = []
        for indices in by_grid.values():
            for start in range(0, len(indices), self.batch):
                chunk = indices[start : start + self.batch]
                order += chunk
                parts.append(run(stack([patches[index] for index in chunk])))
        back = torch.tensor(order).argsort()
        return [torch.cat(rows)[back] for rows in zip(*parts, strict=True)]

    @torch.no_grad()
    def _log_probs(self, prefix: Prefix, record: PromptRecord) -> Float[Tensor, "B K V"]:
        """Log-softmax over the vocabulary where each answer starts, float32."""
        segments = [self.segmenter.question(atom.probe) for atom in record.atoms]
        packed = pack(segments, self.model.device)
        hidden = run_packed(self.model, prefix, packed)
        release(prefix)
        last = [
            start + len(segment) - 1 for start, segment in zip(packed.starts, segments, strict=True)
        ]
        return self.model.lm_head(hidden[:, last]).float().log_softmax(dim=-1)

    def _sum_answers(
        self, log_probs: Float[Tensor, "B K V"], record: PromptRecord, modes: Sequence[AnswerMode]
    ) -> list[Float[Tensor, "B K"]]:
        """Mass of the accepted tokens, at most 1; a token listed twice counts twice."""

        def mass(index: int, answer: str, mode: AnswerMode) -> Tensor:
            tokens = answer_tokens(answer, mode, self.segmenter.encode_answer)
            return log_probs[:, index, list(tokens.ids)].exp().sum(dim=-1).clamp(max=1.0)

        return [
            torch.stack([mass(k, a.answer, mode) for k, a in enumerate(record.atoms)], dim=1).cpu()
            for mode in modes
        ]

    @torch.no_grad()
    def _attention(
        self,
        prefix: Prefix,
        record: PromptRecord,
        layers: tuple[int, ...],
        readings: Sequence[Reading],
        neutral: bool,
    ) -> list[Float[Tensor, "B L G N"]]:
        """Attention over the image tokens, one tensor a reading, per layer: mean over each atom's
        rows and, last where it is asked for, over the neutral caption's."""
        caption = self.segmenter.caption(record.prompt)
        segments = [caption.ids]
        if neutral:
            segments.append(self.segmenter.caption(NEUTRAL_PROMPT).ids)
        groups = {r.row_offset: self._rows(record, r.row_offset, neutral) for r in readings}
        rows = sorted({row for parts in groups.values() for group in parts for row in group})
        packed = pack(segments, self.model.device)
        index = torch.tensor(rows, device=self.model.device)
        with recorded_queries(self.model, layers, index) as queries:
            run_packed(self.model, prefix, packed)
        mask = packed.mask(prefix.length)[index]
        reductions: set[Heads] = {reading.heads for reading in readings}
        found = {heads: layer_attentions(prefix, queries, mask, heads) for heads in reductions}
        release(prefix)
        result = []
        for heads, row_offset in readings:
            average = _row_averages(groups[row_offset], rows).to(self.model.device)
            result.append(torch.stack([average @ found[heads][i] for i in layers], dim=1).cpu())
        return result

    def _rows(self, record: PromptRecord, row_offset: int, neutral: bool) -> list[list[int]]:
        """Packed rows of each atom's tokens and, last where it is asked for, the neutral's."""
        caption = self.segmenter.caption(record.prompt)
        groups = [_atom_rows(caption, record, k, row_offset) for k in range(len(record.atoms))]
        if neutral:
            rows = self.segmenter.caption(NEUTRAL_PROMPT).all_rows(row_offset)
            groups.append([len(caption.ids) + row for row in rows])
        return groups

    def _maps(
        self, prefix: Prefix, record: PromptRecord, grid: tuple[int, int]
    ) -> Float[Tensor, "B K R C"]:
        settings = self.heatmap
        neutral = settings.baseline == "neutral"
        layers = chosen_layers(settings, self.depth)
        reading = Reading(settings.heads, settings.row_offset)
        attention = self._attention(prefix, record, layers, [reading], neutral)[0].mean(dim=1)
        atoms = attention[:, : len(record.atoms)]
        return finish_map(atoms, attention[:, -1] if neutral else None, prefix.grid, grid, settings)


def _row_averages(groups: list[list[int]], rows: list[int]) -> Float[Tensor, "G n"]:
    """Weights that average the chosen rows over each group's own."""
    weights = torch.zeros(len(groups), len(rows))
    for number, group in enumerate(groups):
        weights[number, [rows.index(row) for row in group]] = 1.0 / len(group)
    return weights


def _atom_rows(
    caption: CaptionSegment, record: PromptRecord, index: int, row_offset: int
) -> list[int]:
    """Rows of an atom's tokens; `CastError` when the atom names no words of the prompt."""
    atom = record.atoms[index]
    rows = caption.rows(atom.spans, row_offset)
    if not rows:
        raise CastError(
            f"prompt {record.prompt!r}, probe {atom.probe!r}: its spans {list(atom.spans)} cover "
            "no word of the prompt, so it has no heatmap."
        )
    return rows
