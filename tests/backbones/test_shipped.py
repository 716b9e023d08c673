"""The shipped mini backbones: they load offline, and our ODE rollout is their pipeline's output."""

import pytest
import torch

from cast.backbones import load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.flow import rollout
from cast.paths import from_root

PROMPTS = ["two red circles to the left of a blue star", "a green heart"]


@pytest.mark.parametrize("name", ["mini-flux2"])
def test_the_shipped_model_is_its_pipeline_bit_for_bit(name):
    config = load_backbone_config(name)
    if not from_root(config.path).is_dir():
        pytest.skip(f"{config.path} is not made yet")
    backbone = load_backbone(config, SamplingSection(), device="cpu")
    assert backbone.token_grid == (8, 8), "heatmaps and latents share one grid in the mini world"
    generators = [[torch.Generator().manual_seed(i) for i in range(2)] for _ in range(2)]
    ours = rollout(
        backbone.velocity_for(backbone.encode(PROMPTS)),
        backbone.sigmas(3),
        backbone.noise(generators[0]),
        micro_batch=2,
    )
    images = backbone.pipeline(
        prompt=PROMPTS,
        height=64,
        width=64,
        num_inference_steps=3,
        guidance_scale=config.guidance or 1.0,
        generator=generators[1],
        max_sequence_length=config.max_text_tokens or 512,
        text_encoder_out_layers=config.text_layers or (10, 20, 30),
        output_type="pt",
    ).images
    assert torch.equal(backbone.decode(ours.latents), images)
