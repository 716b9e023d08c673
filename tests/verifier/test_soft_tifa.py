"""Scores equal the plainly written published evaluator, and depend on nothing but the image."""

from types import SimpleNamespace

import pytest
import torch
from plain_evaluator import plain_score
from tiny_verifier import random_images, record, tiny_processor
from torch.testing import assert_close

from cast.config.sections import HeatmapSection, VerifierSection
from cast.errors import CastError
from cast.verifier.answer_tokens import answer_tokens
from cast.verifier.images import as_pil
from cast.verifier.segments import Segmenter
from cast.verifier.soft_tifa import Verifier


def assert_equal_scores(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert_close(actual, expected, rtol=0.0, atol=1e-6)


def plain_scores(parts, images) -> torch.Tensor:
    model, tokenizer, processor = parts
    rows = [
        [plain_score(model, tokenizer, processor, image, a.probe, a.answer) for a in record().atoms]
        for image in as_pil(images)
    ]
    return torch.tensor(rows)


def test_official_scores_equal_the_plain_evaluator(verifier, parts):
    images = random_images(0, 5)
    plain = plain_scores(parts, images)
    assert plain.std(dim=0).min() > 1e-4, "the comparison must be of scores that differ"
    assert_equal_scores(verifier.score(images, record(), mode="official"), plain.clamp(max=1.0))


def test_official_equals_plain_on_non_square_images(verifier, parts):
    images = random_images(1, 2, height=24, width=40)
    plain = plain_scores(parts, images).clamp(max=1.0)
    assert_equal_scores(verifier.score(images, record(), mode="official"), plain)


def test_the_quirk_adds_the_probability_of_a_space(verifier, parts):
    """Where " 2" is a space and a digit, official - strict is P(space) and nothing else."""
    _, tokenizer, _ = parts
    assert len(tokenizer.encode(" 2")) == 2
    space = tokenizer.encode(" ")[0]
    official = answer_tokens("two", "official", tokenizer.encode).ids
    strict = answer_tokens("two", "strict", tokenizer.encode).ids
    assert space in official and space not in strict
    extra = list(official)
    for token in strict:
        extra.remove(token)

    images = random_images(2, 3)
    strict_score, official_score = verifier.score_modes(images, record())
    prefix_scores = _probabilities(verifier, images)[:, 0]  # atom 0 asks for "two"
    assert_equal_scores(official_score[:, 0] - strict_score[:, 0], prefix_scores[:, extra].sum(-1))
    assert prefix_scores[:, space].min() > 0


def _probabilities(verifier, images) -> torch.Tensor:
    from cast.verifier.shared_prefix import preprocess, stack

    patches = stack(preprocess(as_pil(images), verifier.image_processor))
    return verifier._log_probs(verifier._prefix(patches), record()).exp()


def test_scores_ignore_batch_composition_order_and_size(verifier, parts):
    model, tokenizer, processor = parts
    images = random_images(3, 7)
    together = verifier.score(images, record())
    alone = torch.cat([verifier.score(images[i : i + 1], record()) for i in range(7)])
    assert_equal_scores(together, alone)
    order = torch.tensor([6, 2, 0, 5, 1, 4, 3])
    assert_equal_scores(verifier.score(images[order], record()), together[order])
    other = Verifier(model, Segmenter(tokenizer), processor, batch=3)
    assert_equal_scores(other.score(images, record()), together)


def test_images_of_several_sizes_come_back_in_order(verifier):
    sizes = [(32, 32), (16, 48), (32, 32), (48, 16), (16, 48)]
    images = [as_pil(random_images(i, 1, h, w))[0] for i, (h, w) in enumerate(sizes)]
    together = verifier.score(images, record())
    alone = torch.cat([verifier.score([image], record()) for image in images])
    assert_equal_scores(together, alone)


def test_scores_are_probabilities(verifier):
    for mode in ("strict", "official"):
        scores = verifier.score(random_images(4, 6), record(), mode=mode)
        assert scores.dtype == torch.float32 and scores.shape == (6, 6)
        assert bool(((scores >= 0) & (scores <= 1)).all())


def test_shared_pass_gives_the_same_bits(verifier):
    images = random_images(5, 3)
    scores, maps = verifier.score_and_heatmaps(images, record(), (4, 4))
    assert torch.equal(scores, verifier.score(images, record()))
    assert torch.equal(maps, verifier.heatmaps(images, record(), (4, 4)))


def test_no_state_is_left_over(verifier):
    """A second prompt and size in between changes nothing (positions are explicit)."""
    images = random_images(6, 2)
    before = verifier.score(images, record())
    verifier.score(random_images(7, 3, 16, 48), record())
    assert torch.equal(verifier.score(images, record()), before)


def test_resolution_follows_the_dtype(verifier):
    scores = torch.tensor([[0.5, 0.9, 0.0], [0.5, 0.7, 0.0]])
    assert_equal_scores(verifier.resolution(scores), torch.full((3,), 1e-6))
    verifier.model = SimpleNamespace(dtype=torch.bfloat16)
    expected = torch.tensor([0.125 * 0.25, 0.125 * 0.8 * 0.2, 1e-6])
    assert_equal_scores(verifier.resolution(scores), expected)


def test_load_reads_a_folder(folder):
    section = VerifierSection(path=str(folder), heatmap=HeatmapSection(layers=(1,)))
    verifier = Verifier.load(section, device="cpu")
    assert verifier.score(random_images(0, 1), record()).shape == (1, 6)


def test_load_names_what_is_wrong(tmp_path, folder):
    with pytest.raises(CastError, match="no folder 'models/none/here'"):
        Verifier.load(VerifierSection(path="models/none/here"))
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    with pytest.raises(CastError, match="holds a 'qwen2' model; allowed: qwen3_vl"):
        Verifier.load(VerifierSection(path=str(tmp_path)))
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(CastError, match="can't be loaded"):
        Verifier.load(VerifierSection(path=str(tmp_path)))
    with pytest.raises(CastError, match=r"layers: \[9\] is not allowed.*0\.\.2"):
        heatmap = HeatmapSection(layers=(9,))
        Verifier.load(VerifierSection(path=str(folder), heatmap=heatmap), device="cpu")


def test_a_tokenizer_without_a_template_is_refused(parts):
    _, tokenizer, _ = parts
    template, tokenizer.chat_template = tokenizer.chat_template, None
    try:
        with pytest.raises(CastError, match="no chat template"):
            Segmenter(tokenizer)
    finally:
        tokenizer.chat_template = template


def test_image_out_of_shape_is_named(verifier):
    from PIL import Image

    with pytest.raises(CastError, match=r"image 0: 20000x4 px"):
        verifier.score([Image.new("RGB", (20000, 4))], record())
    assert tiny_processor().merge_size == 2
