"""A new family is one file and one YAML: an example, from the file to the pipeline's own images."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

import cast.backbones
from cast.backbones import backbone_class, load_backbone
from cast.config import BackboneConfig, load_backbone_config
from cast.config.reading import parse
from cast.errors import CastError
from cast.flow import rollout

EXAMPLE = Path(__file__).parent / "example_family" / "aura_flow.py"
YAML = """
name: tiny-aura-flow
family: aura_flow
path: {path}
dtype: float32
guidance: 3.5
noise_level: 0.7
window: {{low: 0, high: 4, steps: 6}}
licence: Apache-2.0
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A clone in which the two files lie where they belong."""
    (tmp_path / "config/backbones").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    folder = tmp_path / "backbones"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder)
    cast.backbones.__path__.append(str(folder))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    cast.backbones.__path__.remove(str(folder))


def tiny_aura_flow() -> Any:
    transformer = tiny.diffusers.AuraFlowTransformer2DModel(
        sample_size=8,
        num_mmdit_layers=2,
        num_single_dit_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=32,
        pos_embed_max_size=64,
    )
    return tiny.diffusers.AuraFlowPipeline(
        tokenizer=tiny.tokenizer(256),
        text_encoder=tiny.t5_text(16, 2),
        vae=tiny.kl_autoencoder(),
        transformer=tiny.randomised(transformer, 3),
        scheduler=tiny.scheduler(shift=1.73),
    )


def test_a_new_family_is_one_file_and_one_yaml(house):
    assert len(EXAMPLE.read_text().splitlines()) - 12 < 40, "but for the imports"
    tiny_aura_flow().save_pretrained(house / "aura")
    (house / "config/backbones/tiny-aura-flow.yaml").write_text(YAML.format(path=house / "aura"))
    backbone: Any = load_backbone(load_backbone_config("tiny-aura-flow"), tiny.sampling(), "cpu")
    ours = rollout(
        backbone.velocity_for(backbone.encode(tiny.PROMPTS)),
        backbone.sigmas(3),
        backbone.noise([torch.Generator().manual_seed(i) for i in range(4)]),
        micro_batch=4,
    )
    images = backbone.pipeline(
        prompt=tiny.PROMPTS,
        height=tiny.SIZE,
        width=tiny.SIZE,
        num_inference_steps=3,
        guidance_scale=3.5,
        generator=[torch.Generator().manual_seed(i) for i in range(4)],
        output_type="pt",
    ).images
    assert torch.equal(backbone.decode(ours.latents), images)
    with torch.no_grad():
        base = backbone.velocity(ours.latents, torch.full((4,), 0.5), backbone.encode(tiny.PROMPTS))
    names = backbone.add_lora(tiny.LORA)
    assert len(names) == 2 * 8 + 2 * 4
    again = backbone.velocity(ours.latents, torch.full((4,), 0.5), backbone.encode(tiny.PROMPTS))
    assert torch.equal(again, base)


def test_without_its_file_the_family_is_unknown():
    values = tiny.backbone_config("flux2", 4.0).model_dump(mode="json")
    with pytest.raises(CastError, match=r"no family 'flux3'; known: flux1, flux2, .*flux2"):
        parse(BackboneConfig, {**values, "family": "flux3"}, "x.yaml")
    with pytest.raises(CastError, match="'aura_flow' is unknown"):
        backbone_class("aura_flow")
    with pytest.raises(CastError, match="'packing' is unknown"):
        backbone_class("packing")
