"""The shipped mini verifier, held against the plainly written published evaluator."""

import pytest
import torch
from plain_evaluator import plain_score
from torch.testing import assert_close

from cast.config import VerifierSection
from cast.mini.zoo.held_out import HeldOut, held_out
from cast.verifier import Verifier
from cast.verifier.images import as_pil
from cast.verifier.loading import load_parts
from cast.verifier.segments import Segmenter


@pytest.fixture(scope="module")
def parts():
    """In float64: in float32 two ways through a trained model differ by 1.1e-6, by rounding."""
    model, tokenizer, processor = load_parts(VerifierSection().path, "float32", "cpu")
    return model.double(), tokenizer, processor


@pytest.fixture(scope="module")
def drawn() -> list[HeldOut]:
    return held_out(2, 1)


def test_official_scores_equal_the_plain_evaluators(parts, drawn):
    model, tokenizer, processor = parts
    verifier = Verifier(model, Segmenter(tokenizer), processor)
    others = drawn[::-1]  # their scenes are asked about, too, so that some answers are no
    scores = []
    for item, other in zip(drawn, others, strict=True):
        pixels = torch.cat([item.images, other.images]).permute(0, 3, 1, 2) / 255
        plain = [
            [
                plain_score(model, tokenizer, processor, image, a.probe, a.answer)
                for a in item.record.atoms
            ]
            for image in as_pil(pixels)
        ]
        ours = verifier.score(pixels, item.record, mode="official")
        assert_close(ours, torch.tensor(plain).clamp(max=1.0), rtol=0.0, atol=1e-6)
        scores.append(ours.flatten())
    found = torch.cat(scores)
    assert bool(((found >= 0) & (found <= 1)).all())
    assert found.min() < 0.5 < found.max(), "both answers must be among them"
