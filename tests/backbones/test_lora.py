"""The adapter: what it binds, that it starts and disables as the base, and its file."""

from typing import Any

import pytest
import tiny
import torch
from safetensors import safe_open

from cast.backbones import lora as adapters
from cast.backbones import model_card
from cast.errors import CastError
from cast.flow import rollout

LORA = tiny.LORA

BOUND = {
    "flux2": 2 * 8 + 3 * 2,  # double and single blocks
    "flux1": 2 * 8 + 3 * 4,
    "sd3": 3 * 8 - 1,  # the last block has no text output
    "qwen_image": 2 * 8,
    "z_image": (1 + 1 + 2) * 4,
}
"""Modules bound in the tiny transformers, counted by hand from their architectures."""

LAST_TEXT = {"transformer_blocks.1.attn.add_q_proj", "transformer_blocks.1.attn.to_add_out"}
EXCEPTIONS = {
    "flux2": set(),
    "flux1": set(),
    "sd3": {"transformer_blocks.2.attn.add_q_proj"},
    "qwen_image": LAST_TEXT,
    "z_image": set(),
}
"""Projections of the last block's text stream, whose output nothing reads."""


def velocity(backbone: Any, seed: int = 0, batch: int = 2):
    x = torch.randn(batch, *backbone.latent_shape, generator=torch.Generator().manual_seed(seed))
    conditioning = backbone.encode(["a red circle"]).repeat(batch)
    return backbone.velocity(x, torch.linspace(0.9, 0.3, batch), conditioning)


@torch.no_grad()
def stir(backbone, seed: int = 0) -> None:
    """Give the adapter's B weights as a training would."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in backbone.trainable_parameters().items():
        if "lora_B" in name:
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_every_block_is_bound_and_counted(family):
    backbone = tiny.backbone(family, 4.0)
    names = backbone.add_lora(LORA)
    assert len(names) == BOUND[family]
    for blocks in backbone.block_lists:
        for index in range(len(getattr(backbone.transformer, blocks))):
            assert any(name.startswith(f"{blocks}.{index}.") for name in names)
    parameters = backbone.trainable_parameters()
    assert len(parameters) == 2 * len(names)
    assert {parameter.dtype for parameter in parameters.values()} == {torch.float32}
    with pytest.raises(CastError, match="has an adapter already"):
        backbone.add_lora(LORA)


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_a_new_adapter_and_a_disabled_one_are_the_base_bit_for_bit(family):
    backbone = tiny.backbone(family, 4.0)
    with torch.no_grad():
        base = velocity(backbone)
        with backbone.reference():
            assert torch.equal(velocity(backbone), base)
        backbone.add_lora(LORA)
        assert torch.equal(velocity(backbone), base)
        stir(backbone)
        changed = velocity(backbone)
        assert not torch.equal(changed, base)
        with backbone.reference():
            assert torch.equal(velocity(backbone), base)
        assert torch.equal(velocity(backbone), changed)
    assert backbone.trainable_parameters(), "leaving the reference must leave it trainable"


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_each_tensor_gets_a_gradient_but_for_the_listed_exceptions(family):
    backbone = tiny.backbone(family, 4.0)
    names = backbone.add_lora(LORA)
    stir(backbone)
    velocity(backbone).square().mean().backward()
    backbone.check_lora_gradients()
    silent = {
        name.split(".lora_")[0]
        for name, parameter in backbone.trainable_parameters().items()
        if parameter.grad is None or float(parameter.grad.abs().max()) == 0
    }
    assert silent == EXCEPTIONS[family]
    assert silent < set(names)


def test_dual_attention_blocks_are_bound_too():
    """As in SD3.5-medium: the extra attention has four projections of its own."""
    backbone = tiny.backbone("sd3", None, pipeline=tiny.sd3(dual_attention=True))
    assert len(backbone.add_lora(LORA)) == BOUND["sd3"] + 4


def test_a_module_without_gradient_stops_the_training():
    backbone = tiny.backbone("flux2", 4.0)
    names = backbone.add_lora(LORA)
    stir(backbone)
    velocity(backbone).square().mean().backward()
    module = adapters.bound_modules(backbone.transformer)[names[3]]
    adapters._down_up(module)[1].grad = None
    with pytest.raises(CastError, match="1 bound modules got no gradient"):
        backbone.check_lora_gradients()


def test_a_target_list_that_misses_the_single_blocks_is_refused():
    backbone = tiny.backbone("flux2", 4.0)
    usual = r".*\.(to_q|to_k|to_v|to_out\.0)"
    with pytest.raises(CastError, match=r"single_transformer_blocks\.0 is bound"):
        adapters.add_lora(backbone.transformer, usual, backbone.block_lists, 4, 8.0, 0)
    assert not adapters.bound_modules(backbone.transformer)


def test_initial_weights_come_from_the_seed_alone():
    """Not from the global generator, which is left as it was."""
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(drawn))
        state = torch.get_rng_state()
        backbone = tiny.backbone("flux2", 4.0)
        torch.set_rng_state(state)
        backbone.add_lora(LORA, seed)
        assert torch.equal(torch.get_rng_state(), state)
        drawn.append(torch.cat([p.flatten() for p in backbone.trainable_parameters().values()]))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_fused_equals_unfused(family):
    backbone = tiny.backbone(family, 4.0)
    backbone.add_lora(LORA)
    stir(backbone)
    with torch.no_grad():
        apart = velocity(backbone)
        backbone.transformer.fuse_lora()
        torch.testing.assert_close(velocity(backbone), apart, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_stock_diffusers_reproduces_our_images_from_the_file(family, tmp_path):
    """`pipe.load_lora_weights(folder)` on a fresh base, then its own `__call__`; alpha survives."""
    ours = tiny.backbone(family, 4.0)
    ours.add_lora(LORA)
    stir(ours)
    card = model_card(ours.config, "CAST", {"seed": 0}, {"updates": 128})
    path = ours.save_lora(tmp_path, card)
    latents = rollout(
        ours.velocity_for(ours.encode(["a star"])),
        ours.sigmas(2),
        ours.noise([torch.Generator().manual_seed(5)]),
        micro_batch=1,
    ).latents
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert '"transformer.lora_alpha": 12.0' in metadata["lora_adapter_metadata"]

    stock = tiny.backbone(family, 4.0).pipeline
    stock.load_lora_weights(tmp_path)
    arguments = tiny.call_arguments(family, ["a star"], (tiny.SIZE, tiny.SIZE), 4.0, 2)
    images = stock(
        output_type="pt", generator=[torch.Generator().manual_seed(5)], **arguments
    ).images
    assert torch.equal(ours.decode(latents), images)

    reloaded = tiny.backbone(family, 4.0)
    assert len(reloaded.load_lora(tmp_path)) == BOUND[family]
    with torch.no_grad():
        assert torch.equal(velocity(reloaded), velocity(ours))
        with reloaded.reference():
            assert torch.equal(velocity(reloaded), velocity(tiny.backbone(family, 4.0)))
    assert not reloaded.trainable_parameters()


def test_the_model_card_names_base_licence_run_and_ledger(tmp_path):
    backbone = tiny.backbone("flux2", 4.0, licence="FLUX non-commercial")
    backbone.add_lora(LORA)
    backbone.save_lora(tmp_path, model_card(backbone.config, "CAST", {"seed": 3}, {"updates": 128}))
    card = (tmp_path / "README.md").read_text()
    for part in ("base_model: models/tiny/flux2", "FLUX non-commercial", '"seed": 3', "updates"):
        assert part in card


def test_a_missing_adapter_is_named(tmp_path):
    with pytest.raises(CastError, match="no adapter there"):
        tiny.backbone("flux2", 4.0).load_lora(tmp_path)


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_gradient_checkpointing_changes_no_bit(family):
    gradients = []
    for checkpointing in (False, True):
        backbone = tiny.backbone(family, 4.0)
        backbone.add_lora(LORA)
        stir(backbone)
        if checkpointing:
            backbone.enable_gradient_checkpointing()
        velocity(backbone).square().mean().backward()
        gradients.append([p.grad for p in backbone.trainable_parameters().values()])
    for plain, recomputed in zip(*gradients, strict=True):
        if plain is None or recomputed is None:
            assert plain is recomputed
        else:
            assert torch.equal(plain, recomputed)
