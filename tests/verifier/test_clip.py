"""CLIP similarity and PickScore against `CLIPModel`'s own logits, and the truncation warning."""

import math
from pathlib import Path

import pytest
import torch
from tiny_clip import save_clip
from tiny_verifier import random_images, record
from torch.testing import assert_close

from cast.errors import CastError
from cast.training.workbench import Scorer
from cast.verifier.clip_similarity import ClipScorer, PromptTruncatedWarning
from cast.verifier.images import as_pil
from cast.verifier.pickscore import PickScore

PROMPTS = ["two red circles", "a blue star above a square", "a red star"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(tmp_path_factory.mktemp("tiny-clip"), PROMPTS)


@pytest.fixture(scope="module")
def clip(folder) -> ClipScorer:
    return ClipScorer.load(str(folder), device="cpu", batch=2)


def own_logits(clip: ClipScorer, images: torch.Tensor, prompts: list[str]) -> torch.Tensor:
    """`CLIPModel.forward` for each pair by itself: exp(logit_scale) * cos, [B, P]."""
    rows = []
    for image in as_pil(images):
        pixels = clip.image_processor(images=image, return_tensors="pt")["pixel_values"]
        row = []
        for prompt in prompts:
            ids = clip.tokenizer(prompt, return_tensors="pt")
            with torch.no_grad():
                output = clip.model(
                    input_ids=ids["input_ids"],
                    attention_mask=ids["attention_mask"],
                    pixel_values=pixels,
                )
            row.append(float(output.logits_per_image))
        rows.append(row)
    return torch.tensor(rows)


def test_pickscore_is_the_models_own_logit(clip):
    images = random_images(0, 3)
    logits = own_logits(clip, images, PROMPTS)
    raw = PickScore(clip, scale=1.0)
    for j, prompt in enumerate(PROMPTS):
        assert_close(raw.score_prompts(images, [prompt]), logits[:, j], rtol=0.0, atol=1e-5)
    assert_close(raw.score_prompts(images, PROMPTS), logits.diagonal(), rtol=0.0, atol=1e-5)
    assert_close(
        PickScore(clip).score_prompts(images, PROMPTS) * 26, logits.diagonal(), rtol=0.0, atol=1e-4
    )


def test_similarities(clip):
    images = random_images(1, 3)
    assert_close(clip.image_similarity(images, images), torch.ones(3))
    to_last = clip.image_similarity(images, images[2:])
    features = clip.image_features(images)
    assert_close(to_last, features @ features[2], rtol=0.0, atol=1e-6)
    text = clip.text_similarity(images, PROMPTS)
    logits = own_logits(clip, images, PROMPTS).diagonal()
    assert_close(text * clip.logit_scale, logits, rtol=0.0, atol=1e-5)


def test_the_batch_changes_nothing(clip):
    images = random_images(2, 5)
    alone = torch.cat([clip.image_features(images[i : i + 1]) for i in range(5)])
    assert_close(clip.image_features(images), alone, rtol=0.0, atol=1e-6)
    texts = torch.cat([clip.text_features([prompt]) for prompt in PROMPTS])
    assert_close(clip.text_features(PROMPTS), texts, rtol=0.0, atol=1e-6)


def test_long_prompts_are_cut_with_a_warning(clip):
    long = " ".join(["red"] * 40)
    with pytest.warns(PromptTruncatedWarning, match=r"tokens, and CLIP reads 16"):
        cut = clip.text_features([long])
    with pytest.warns(PromptTruncatedWarning):
        longer = clip.text_features([long + " star"])
    assert_close(cut, longer, rtol=0.0, atol=1e-6)


def test_pickscore_serves_the_trainer(clip):
    score = PickScore(clip)
    assert isinstance(score, Scorer)
    values = score.score(random_images(3, 4), record())
    assert values.shape == (4, 1)
    assert 0 < float(score.resolution(values)) < float(values.std())
    assert math.isclose(float(score.resolution(values)), 1e-6 * clip.logit_scale / 26, rel_tol=1e-5)
    with pytest.raises(CastError, match="no heatmaps"):
        score.heatmaps(random_images(3, 4), record(), (4, 4))


def test_bad_settings_are_refused(clip, tmp_path):
    with pytest.raises(CastError, match="scale 0"):
        PickScore(clip, scale=0.0)
    with pytest.raises(CastError, match="no folder 'models/no/clip'"):
        ClipScorer.load("models/no/clip")
    with pytest.raises(CastError, match="can't be loaded"):
        ClipScorer.load(str(tmp_path))


def test_kept_text_features_are_the_same_bits(folder, clip, tmp_path, monkeypatch):
    images = random_images(0, 3, 32, 32)
    expected = PickScore(clip).score_prompts(images, PROMPTS)
    monkeypatch.setenv("CAST_EMBEDDINGS", str(tmp_path))
    first = PickScore.load(str(folder), device="cpu", batch=2)
    assert torch.equal(first.score_prompts(images, PROMPTS), expected)
    again = PickScore.load(str(folder), device="cpu", batch=2)
    monkeypatch.delattr(type(again.clip.model), "get_text_features")  # it isn't asked
    assert torch.equal(again.score_prompts(images, PROMPTS), expected)
