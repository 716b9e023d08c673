"""Where a pipeline's parts lie: text encoder on the CPU, transformer spread over devices."""

from typing import Any

import pytest
import tiny
import torch

from cast.backbones import load_backbone
from cast.backbones.loading import place
from cast.errors import CastError
from cast.flow import rollout


def images(backbone: Any) -> torch.Tensor:
    latents = rollout(
        backbone.velocity_for(backbone.encode(["a star"])),
        backbone.sigmas(2),
        backbone.noise([torch.Generator().manual_seed(0)]),
        micro_batch=1,
    ).latents
    return backbone.decode(latents)


def test_a_spread_transformer_gives_the_same_images(tmp_path, monkeypatch):
    """Half of it on the disk: accelerate's hooks fetch each block's weights for its turn."""
    monkeypatch.setattr("cast.backbones.loading.DISK_OFFLOAD", str(tmp_path / "offload"))
    tiny.flux2().save_pretrained(tmp_path / "flux2")
    path = str(tmp_path / "flux2")
    whole = load_backbone(tiny.backbone_config("flux2", 4.0, path=path), tiny.sampling(), "cpu")
    names = [name for name, _ in whole.transformer.named_children()]
    spread = {name: "disk" if name == "single_transformer_blocks" else "cpu" for name in names}
    for device_map in (spread, "auto"):
        config = tiny.backbone_config("flux2", 4.0, path=path, device_map=device_map)
        backbone: Any = load_backbone(config, tiny.sampling(), "cpu")
        if device_map != "auto":
            block = backbone.transformer.single_transformer_blocks[0]
            assert {parameter.device.type for parameter in block.parameters()} == {"meta"}
        assert torch.equal(images(backbone), images(whole))


def test_a_device_map_that_forgets_a_module_is_refused(tmp_path):
    tiny.flux2().save_pretrained(tmp_path)
    config = tiny.backbone_config("flux2", 4.0, path=str(tmp_path), device_map={"x_embedder": 0})
    with pytest.raises(CastError, match=r"tiny-flux2\.yaml: device_map: can't be followed"):
        load_backbone(config, tiny.sampling(), "cpu")


def test_the_text_encoder_can_wait_on_the_cpu():
    """The meta device stands for a GPU: what would lie there, and what not."""
    pipeline = tiny.flux2()
    place(pipeline, tiny.backbone_config("flux2", 4.0), "meta", ("text_encoder",))
    assert pipeline.text_encoder.device.type == "meta"
    pipeline = tiny.flux2()
    config = tiny.backbone_config("flux2", 4.0, text_encoder="cpu")
    place(pipeline, config, "meta", ("text_encoder",))
    assert pipeline.text_encoder.device.type == "cpu"
    assert pipeline.transformer.device.type == pipeline.vae.device.type == "meta"


def test_a_waiting_text_encoder_moves_to_the_device_while_it_encodes(monkeypatch):
    pipeline = tiny.flux2()
    backbone = tiny.backbone("flux2", 4.0, pipeline=pipeline, text_encoder="cpu")
    pipeline.vae.to("meta")
    moves: list[str] = []
    monkeypatch.setattr(pipeline.text_encoder, "to", lambda device: moves.append(str(device)))
    with pytest.raises(ZeroDivisionError), backbone._text_encoders_at_work():
        assert moves == ["meta"]
        raise ZeroDivisionError
    assert moves == ["meta", "cpu"], "whatever happens in between"
