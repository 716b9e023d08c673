"""The shipped mini backbones: they load offline, and our ODE rollout is their pipeline's output."""

import pytest
import tiny
import torch

from cast.backbones import load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.flow import rollout
from cast.io import read_json
from cast.paths import from_root

SHIPPED = set(read_json(from_root("models/mini/MANIFEST.json")))
NAMES = [n for n in ("mini-flux2", "mini-qwen-image", "mini-sd3", "mini-zimage") if n in SHIPPED]
PROMPTS = ["two red circles to the left of a blue star", "a green heart"]


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_model_is_its_pipeline_bit_for_bit(name):
    config = load_backbone_config(name)
    backbone = load_backbone(config, SamplingSection(), device="cpu")
    assert backbone.token_grid == (8, 8), "heatmaps and latents share one grid in the mini world"
    generators = [[torch.Generator().manual_seed(i) for i in range(2)] for _ in range(2)]
    ours = rollout(
        backbone.velocity_for(backbone.encode(PROMPTS)),
        backbone.sigmas(3),
        backbone.noise(generators[0]),
        micro_batch=2,
    )
    arguments = tiny.call_arguments(config.family, PROMPTS, (64, 64), config.guidance, 3)
    arguments["max_sequence_length"] = config.max_text_tokens or 512
    images = backbone.pipeline(**arguments, generator=generators[1], output_type="pt").images
    assert torch.equal(backbone.decode(ours.latents), images)
