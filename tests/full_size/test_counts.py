"""Counts: the released architectures, and the arithmetic behind counts.json on tiny models."""

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from tiny_verifier import random_images, record, tiny_model, tiny_processor, tiny_tokenizer

from cast.backbones.meta import meta_module
from cast.config import VerifierSection, load_backbone_config
from cast.credit import ROUTINGS, needs_heatmaps
from cast.errors import CastError
from cast.full_size.counting import Steps, count_operations
from cast.full_size.counts import backbone_counts
from cast.full_size.operations import WITH_HEATMAPS
from cast.full_size.tables import linear_in_blocks, quadratic, read_shapes
from cast.full_size.verifier_counts import VerifierCounts, verifier_counts
from cast.verifier import Verifier
from cast.verifier.segments import Segmenter


@pytest.mark.parametrize(
    "name, billions, bound, pixels",
    [
        ("flux1-dev", 11.9, 19 * 8 + 38 * 4, 16),
        ("flux2-dev", 32.2, 8 * 8 + 48 * 2, 16),
        ("qwen-image-2512", 20.4, 60 * 8, 16),
        ("sd35-large", 8.1, 38 * 8 - 1, 16),
    ],
)
def test_the_table_holds_the_released_models(name, billions, bound, pixels):
    config = load_backbone_config(name)
    counts = backbone_counts(config, 1024, 1024)
    assert counts.parameters["transformer"] / 1e9 == pytest.approx(billions, abs=0.06)
    assert counts.lora_modules == bound
    for height, width in ((512, 512), (1024, 1024), (768, 1344)):
        tokens = backbone_counts(config, height, width).tokens
        assert tokens == (height // pixels) * (width // pixels)
    with pytest.raises(CastError, match="multiples of 16"):
        backbone_counts(config, 1000, 1024)


def test_flux2_at_1024_costs_what_its_weights_say():
    """Closed form: two operations a weight and token, 4 S^2 H d a block, S with 512 text tokens."""
    counts = backbone_counts(load_backbone_config("flux2-dev"), 1024, 1024)
    attention = 4 * (4096 + 512) ** 2 * 48 * 128 * 56
    linear = 253.37659392e12  # counted by itself, without an adapter
    adapter = 2 * 64 * counts.lora_parameters_per_rank * 4608
    assert counts.step == pytest.approx(linear + attention + adapter, rel=2e-3)
    assert counts.update / counts.step == pytest.approx(3.1, abs=0.15)  # twice forward, once back


def test_the_verifier_has_its_8_8_billion_parameters():
    shape = read_shapes()["Qwen/Qwen3-VL-8B-Instruct"]["model"]
    model = meta_module(shape)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count / 1e9 == pytest.approx(8.8, abs=0.05)
    section = VerifierSection(path="Qwen/Qwen3-VL-8B-Instruct", dtype="bfloat16")
    assert verifier_counts(section).parameters == pytest.approx(count, rel=2e-3)


def test_the_verifiers_closed_form_is_torchs_count(tmp_path):
    """Prefix and packed probes of a real tiny Qwen3-VL that scores real images."""
    tokenizer = tiny_tokenizer(tmp_path)
    model = tiny_model(tokenizer)
    verifier = Verifier(model, Segmenter(tokenizer), tiny_processor())
    config: Any = model.config
    counts = VerifierCounts(config.text_config.to_dict(), config.vision_config.to_dict(), True)
    images, one = random_images(0, 1, 64, 64), record()
    counted = count_operations(lambda: verifier.score(images, one))
    merged = counts.image_tokens(64, 64)
    opening = verifier.segmenter.prefix(merged)[0].numel() - merged
    tokens = sum(len(verifier.segmenter.question(atom.probe)) for atom in one.atoms)
    expected = counts.prefix(64, 64, opening)
    expected += counts.packed(merged + opening, tokens, len(one.atoms))
    assert counted == pytest.approx(expected, rel=0.02)


def test_blocks_and_tokens_enter_as_the_table_supposes():
    """Exact: counted with two and three blocks, a model of five; a quadratic in the tokens."""

    def steps(blocks, side=32) -> int:
        pipeline = tiny.flux2()
        transformer = tiny.diffusers.Flux2Transformer2DModel.from_config(
            {**pipeline.transformer.config, **blocks}
        )
        pipeline.transformer = transformer
        backbone = tiny.backbone("flux2", 4.0, side, side, pipeline=pipeline)
        return count_operations(Steps(backbone, backbone.encode(["a star"])).step)

    whole = {"num_layers": 5, "num_single_layers": 4}
    assert linear_in_blocks(lambda some: np.array([steps(some)]), whole)[0] == steps(whole)
    sides = (16, 32, 48)
    fitted = quadratic([(s // 8) ** 2 for s in sides], np.array([steps({}, s) for s in sides]))
    assert np.polyval(fitted[::-1], 100) == pytest.approx(steps({}, 80), rel=1e-9)


def test_counted_memory_is_the_memory_of_a_real_update():
    """Within 15% of the peak that torch's allocator reports, with and without checkpointing."""
    backbone = tiny.backbone("flux2", 4.0, 128, 128)
    backbone.add_lora(tiny.LORA)
    steps = Steps(backbone, backbone.encode(["a star"]).repeat(8))
    for checkpointed in (True, False):
        _, counted = steps.count_update(checkpointed)
        backbone.transformer.train()
        if checkpointed:
            backbone.transformer.enable_gradient_checkpointing()
        real = allocated_peak(steps.update)
        backbone.transformer.disable_gradient_checkpointing()
        assert counted == pytest.approx(real, rel=0.15), checkpointed


def allocated_peak(function) -> int:
    """Most bytes that the CPU allocator holds during a call, beyond those before it."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    events: Any = profile.profiler
    live = peak = 0
    for event in events.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def test_cost_knows_which_routings_read_heatmaps():
    assert set(WITH_HEATMAPS) == {routing for routing in ROUTINGS if needs_heatmaps(routing)}
