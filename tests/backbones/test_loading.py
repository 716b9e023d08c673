"""Folders and hub ids: what loads, and the one message when something can't."""

import pytest
import tiny
import torch
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from cast.backbones import backbone_class, load_backbone
from cast.backbones.loading import explain
from cast.config import load_backbone_config
from cast.errors import CastError


@pytest.mark.parametrize("family", ["flux2", "sd3"])
def test_a_saved_pipeline_loads_and_draws_the_same(family, tmp_path):
    """SD3 here has no T5, which a saved pipeline must be told when it loads."""
    before = tiny.backbone(family, 4.0)
    before.pipeline.save_pretrained(tmp_path)
    config = before.config.model_copy(update={"path": str(tmp_path)})
    after = load_backbone(config, tiny.sampling(), device="cpu")
    x = after.noise([torch.Generator().manual_seed(0)])
    sigma = torch.tensor([0.6])
    velocities = [b.velocity(x, sigma, b.encode(["a star"])) for b in (before, after)]
    assert torch.equal(*velocities)
    assert torch.equal(before.decode(x), after.decode(x))


def test_a_missing_folder_is_named(tmp_path):
    config = tiny.backbone_config("flux2", 4.0, path=str(tmp_path / "absent"))
    with pytest.raises(CastError, match=r"tiny-flux2\.yaml: path: .*absent.*no model_index\.json"):
        load_backbone(config, tiny.sampling())


def test_offline_a_hub_id_is_asked_of_the_cache_alone(monkeypatch, tmp_path):
    """The tests run with HF_HUB_OFFLINE=1: the message says how to fetch the model."""
    config = load_backbone_config("flux2-dev")
    with pytest.raises(CastError, match=r"hf download black-forest-labs/FLUX\.2-dev"):
        load_backbone(config, tiny.sampling(), device="cpu")


def caused_by(cause: type[Exception]) -> OSError:
    """The hub's error as diffusers passes it on; its response is not needed to tell the kind."""
    error = OSError("diffusers' own words")
    error.__cause__ = cause.__new__(cause)
    return error


def test_a_gated_model_names_the_licence_to_accept():
    config = load_backbone_config("flux2-dev")
    message = explain(caused_by(GatedRepoError), config)
    assert "https://huggingface.co/black-forest-labs/FLUX.2-dev" in message
    assert config.licence in message and "hf auth login" in message
    assert "not on the hub" in explain(caused_by(RepositoryNotFoundError), config)


def test_an_unknown_family_is_refused():
    with pytest.raises(CastError, match="'flux3' is unknown"):
        backbone_class("flux3")
