"""Heatmaps equal those of eager attention, and keep their promises for any input."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_evaluator import plain_inputs
from tiny_verifier import random_images, record
from torch.testing import assert_close
from transformers import Qwen3VLForConditionalGeneration

from cast.config.sections import HeatmapSection
from cast.errors import CastError
from cast.scene_graph.graph import Atom, PromptRecord
from cast.verifier.attention import finish_map
from cast.verifier.images import as_pil
from cast.verifier.segments import Segmenter
from cast.verifier.soft_tifa import Verifier
from cast.verifier.sweep import READINGS


@pytest.fixture(scope="module")
def eager(folder):
    return Qwen3VLForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def eager_attention(model, tokenizer, processor, images, caption: str) -> list[torch.Tensor]:
    """Per image [L, H, tokens of the caption + 1, image tokens], from one left-padded batch; row
    0 is the one before the caption, so row i + 1 belongs to caption token i."""
    text = f"Describe the image.<|im_end|>\n<|im_start|>assistant\n{caption}"
    inputs = [plain_inputs(tokenizer, processor, image, text) for image in images]
    longest = max(entry["input_ids"].shape[1] for entry in inputs)

    def padded(key: str) -> torch.Tensor:
        rows = [entry[key] for entry in inputs]
        pad = [torch.zeros(1, longest - row.shape[1], dtype=row.dtype) for row in rows]
        return torch.cat([torch.cat(pair, 1) for pair in zip(pad, rows, strict=True)])

    with torch.no_grad():
        output = model(
            input_ids=padded("input_ids"),
            attention_mask=padded("attention_mask"),
            mm_token_type_ids=padded("mm_token_type_ids"),
            pixel_values=torch.cat([entry["pixel_values"] for entry in inputs]),
            image_grid_thw=torch.cat([entry["image_grid_thw"] for entry in inputs]),
            output_attentions=True,
        )
    attention = torch.stack(output.attentions)
    rows = len(tokenizer.encode(caption)) + 1
    is_image = padded("mm_token_type_ids").bool()
    return [attention[:, i, :, -rows:][..., is_image[i]] for i in range(len(images))]


# tokens of "two red circles above a square" that each atom of `record()` owns
TOKENS = [[0, 2], [1, 2], [2], [3], [4], [5]]


def test_heatmaps_equal_eager_attention(verifier, parts, eager):
    """A padded batch of a square and two non-square images, per layer, to 1e-6; both row offsets
    and both head reductions come from one forward pass."""
    _, tokenizer, processor = parts
    assert tokenizer.tokenize(record().prompt) == ["two", *(f"Ġ{w}" for w in _words()[1:])]
    images = [as_pil(random_images(9, 1, *size))[0] for size in ((32, 32), (16, 48), (40, 24))]
    atoms = eager_attention(eager, tokenizer, processor, images, record().prompt)
    neutral = eager_attention(eager, tokenizer, processor, images, "an image")
    for image, atom_heads, neutral_heads in zip(images, atoms, neutral, strict=True):
        ours, grid = verifier.layer_maps([image], record(), READINGS)
        assert grid == (image.height // 8, image.width // 8)
        for (heads, row_offset), found in zip(READINGS, ours, strict=True):
            reduce = torch.mean if heads == "mean" else torch.amax
            atom_rows, neutral_rows = reduce(atom_heads, dim=1), reduce(neutral_heads, dim=1)
            rows = [[t + 1 + row_offset for t in tokens] for tokens in TOKENS]
            theirs = torch.stack([atom_rows[:, r].mean(dim=1) for r in rows], dim=1)
            keep = slice(1 + row_offset, neutral_rows.shape[1] + row_offset)
            assert_close(found[0, :, :-1], theirs, rtol=0.0, atol=1e-6)
            assert_close(found[0, :, -1], neutral_rows[:, keep].mean(dim=1), rtol=0.0, atol=1e-6)


def _words() -> list[str]:
    return record().prompt.split()


def test_heatmap_is_the_ratio_to_the_neutral_caption(parts, eager):
    model, tokenizer, processor = parts
    section = HeatmapSection(layers=(0, 2))
    verifier = Verifier(model, Segmenter(tokenizer), processor, heatmap=section)
    images = as_pil(random_images(10, 2))
    ours = verifier.heatmaps(images, record(), (4, 4))
    atoms = eager_attention(eager, tokenizer, processor, images, record().prompt)
    neutral = eager_attention(eager, tokenizer, processor, images, "an image")
    for index in range(2):
        top = atoms[index][[0, 2]][:, :, 2 + 1].mean(dim=(0, 1))  # atom 2 owns token 2
        ratio = top / neutral[index][[0, 2], :, 1:].mean(dim=(0, 1, 2))
        assert_close(ours[index, 2].flatten(), ratio / ratio.mean(), rtol=1e-4, atol=1e-5)


def test_heatmaps_ignore_the_batch(verifier):
    images = random_images(11, 5)
    together = verifier.heatmaps(images, record(), (4, 4))
    alone = torch.cat([verifier.heatmaps(images[i : i + 1], record(), (4, 4)) for i in range(5)])
    assert_close(together, alone, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    source=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    target=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    floor=st.sampled_from([0.0, 0.3, 1.0]),
    temperature=st.sampled_from([0.5, 1.0, 3.0]),
    baseline=st.booleans(),
)
def test_maps_are_non_negative_with_mean_one(seed, source, target, floor, temperature, baseline):
    generator = torch.Generator().manual_seed(seed)
    cells = source[0] * source[1]
    attention = torch.rand(2, 3, cells, generator=generator) * 1e-3 + 1e-9
    neutral = torch.rand(2, cells, generator=generator) + 1e-6 if baseline else None
    section = HeatmapSection(floor=floor, temperature=temperature)
    maps = finish_map(attention, neutral, source, target, section)
    assert maps.shape == (2, 3, *target)
    assert bool((maps >= 0).all())
    assert_close(maps.mean(dim=(-2, -1)), torch.ones(2, 3), rtol=0.0, atol=1e-5)
    if floor == 1.0:
        assert_close(maps, torch.ones_like(maps))


def test_same_grid_is_only_scaled():
    attention = torch.rand(1, 2, 12, generator=torch.Generator().manual_seed(0))
    maps = finish_map(attention, None, (3, 4), (3, 4), HeatmapSection())
    assert_close(maps.flatten(2), attention / attention.mean(-1, keepdim=True))


def test_halving_the_grid_keeps_mass_in_its_quarter():
    attention = torch.zeros(1, 1, 64)
    attention.view(8, 8)[:4, 4:] = 1.0
    maps = finish_map(attention, None, (8, 8), (2, 2), HeatmapSection())
    assert maps[0, 0].argmax() == 1 and maps[0, 0, 0, 1] > 2.5


def test_a_map_of_zeros_is_an_error():
    with pytest.raises(CastError, match="zero or not finite"):
        finish_map(torch.zeros(1, 1, 4), None, (2, 2), (2, 2), HeatmapSection())


def test_an_atom_without_words_is_named(verifier):
    atom = Atom("object", "Are there any stars in the image?", "Yes", (), (0,))
    lacking = PromptRecord(record().prompt, record().graph, (atom,), 1)
    with pytest.raises(CastError, match=r"any stars.*cover no word"):
        verifier.heatmaps(random_images(0, 1), lacking, (4, 4))


def test_hooks_are_gone_afterwards(verifier):
    verifier.heatmaps(random_images(0, 1), record(), (4, 4))
    blocks = verifier.model.model.language_model.layers
    assert not any(block.self_attn._forward_pre_hooks for block in blocks)
