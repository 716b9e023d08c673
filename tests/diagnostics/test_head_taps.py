"""Taps read what a head hands on, change no bit, and don't depend on hook order or batch size."""

import numpy as np
import pytest
import tiny
import torch
from tiny_study import records
from torch.testing import assert_close

from cast.diagnostics.head_sensitivity import tapped_rollout
from cast.diagnostics.head_taps import HeadTaps

CASES = [
    ("flux2", 4.0),
    ("flux1", 3.5),
    ("qwen_image", None),
    ("qwen_image", 4.0),
    ("sd3", None),
    ("sd3", 4.0),
    ("z_image", None),
    ("z_image", 4.0),
]
BLOCKS = {"flux2": 5, "flux1": 5, "qwen_image": 2, "sd3": 3, "z_image": 3}


def inputs(backbone, count: int = 2):
    noise = backbone.noise([torch.Generator().manual_seed(i) for i in range(count)])
    return noise, torch.full((count,), 0.8), backbone.encode([tiny.PROMPTS[0]]).repeat(count)


@pytest.mark.parametrize(("family", "guidance"), CASES)
@torch.no_grad()
def test_a_tapped_pass_gives_the_same_bits(family, guidance):
    backbone = tiny.backbone(family, guidance)
    taps = HeadTaps(backbone)
    x, sigma, conditioning = inputs(backbone)
    plain = backbone.velocity(x, sigma, conditioning)
    with taps.recording() as read:
        tapped = backbone.velocity(x, sigma, conditioning)
    assert torch.equal(tapped, plain)
    features = taps.features(read, len(x))
    assert features.shape == (2, len(taps.table()), taps.width)
    assert taps.table()["block"].nunique() == BLOCKS[family]
    with taps.recording(list(taps.modules)[::-1]) as again:
        backbone.velocity(x, sigma, conditioning)
    assert torch.equal(taps.features(again, len(x)), features)
    assert not any(module._forward_pre_hooks for module in backbone.transformer.modules())


@pytest.mark.parametrize("family", ["qwen_image", "sd3", "z_image"])
@torch.no_grad()
def test_guidance_is_read_on_its_conditional_pass(family):
    """The features of a guided pass are those of the unguided one."""
    found = []
    for guidance in (None, 4.0):
        backbone = tiny.backbone(family, guidance)
        taps = HeadTaps(backbone)
        with taps.recording() as read:
            backbone.velocity(*inputs(backbone))
        found.append(taps.features(read, 2))
    assert_close(found[0], found[1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_features_of_a_double_block_by_hand():
    """The image stream's attention output, through the block's own projection."""
    backbone = tiny.backbone("flux2", 4.0)
    taps = HeadTaps(backbone)
    module = backbone.transformer.get_submodule("transformer_blocks.0.attn.to_out.0")
    seen = []
    handle = module.register_forward_hook(lambda _m, given, made: seen.append((given[0], made)))
    x, sigma, conditioning = inputs(backbone)
    with taps.recording() as read:
        backbone.velocity(x, sigma, conditioning)
    handle.remove()
    given, made = seen[0]
    assert made.shape[1] == x.shape[1]  # image tokens only
    assert_close(
        taps.features(read, 2)[:, : taps.heads].flatten(1), given.mean(dim=1), atol=1e-6, rtol=1e-5
    )


def test_a_group_does_not_depend_on_its_batch():
    backbone = tiny.backbone("flux2", 4.0, pipeline=tiny.flux2(True))
    taps, sigmas = HeadTaps(backbone), backbone.sigmas(6)
    record = records()[1]
    whole, first = tapped_rollout(backbone, taps, record, 0, 5, sigmas, (1, 3), 5)
    parts, second = tapped_rollout(backbone, taps, record, 0, 5, sigmas, (1, 3), 2)
    assert_close(whole, parts, atol=1e-4, rtol=1e-4)
    for step in (1, 3):
        assert np.isfinite(first[step].numpy()).all()
        assert_close(first[step], second[step], atol=1e-4, rtol=1e-4)
