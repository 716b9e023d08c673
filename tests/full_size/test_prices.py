"""What each kind of job is priced at: against real calls of tiny models, and by proportion."""

from typing import Any

import pytest
import torch
from torch import nn

from cast.backbones.meta import meta_module
from cast.config import load_backbone_config, load_config, run_config
from cast.config.diagnostics import STUDIES
from cast.errors import CastError
from cast.evaluation.checks import short_run
from cast.full_size import counts as counted
from cast.full_size.clip_counts import clip_image_operations
from cast.full_size.cost import STAGES, gpu_hours, job_costs
from cast.full_size.counting import count_operations
from cast.full_size.counts import backbone_counts, local_parameters
from cast.full_size.operations import CHECKED, Assumptions, Operations
from cast.full_size.tables import read_shapes
from cast.workflow.keys import list_arms, table1_arms

PAPER = "config/paper.yaml"


@pytest.mark.parametrize("path", ["yuvalkirstain/PickScore_v1", "openai/clip-vit-large-patch14"])
def test_clips_closed_form_is_torchs_count(path):
    model: Any = meta_module(read_shapes()[path]["model"], "float32").eval()
    pixels = torch.zeros(1, 3, 224, 224, device="meta")
    expected = count_operations(lambda: model.get_image_features(pixel_values=pixels))
    assert clip_image_operations(path, "diagnostics.clip") == pytest.approx(expected, rel=0.005)


def test_every_arm_and_study_has_a_price_in_a_known_stage():
    config = load_config(PAPER)
    jobs = job_costs(config)
    for rule, arms in (("evaluate", list_arms(config)), ("quality", table1_arms(config))):
        assert [(j.backbone, j.method, j.seed) for j in jobs if j.rule == rule] == arms
    for study in STUDIES:
        seeds = getattr(config.diagnostics, study).seeds
        assert len([j for j in jobs if j.rule == study]) == 4 * len(seeds)
    assert {j.rule for j in jobs if not j.backbone} == {"hard_case", "checks", "qualitative"}
    assert len({(j.rule, j.place) for j in jobs}) == len(jobs)
    assert all(j.total > 0 and set(j.hours) <= set(STAGES) for j in jobs)
    total = sum(sum(stages.values()) for stages in gpu_hours(config).values())
    assert total == pytest.approx(sum(j.total for j in jobs))


def changed(**settings: Any) -> Operations:
    return Operations(load_config(PAPER, settings), Assumptions())


def test_prices_follow_their_settings():
    name, base = "flux2-dev", changed()
    twice = changed(diagnostics={"structure": {"prompts": 96}, "heads": {"prompts": 20}})
    assert twice.structure(name) == pytest.approx(2 * base.structure(name))
    assert twice.heads(name) == pytest.approx(2 * base.heads(name))
    # Structure decodes at every step what an image of the evaluation decodes once.
    config = base.config
    steps, prompts = config.sampling.steps, config.diagnostics.structure.prompts
    decodes = prompts * (steps - 1) * base.counts(name).decode
    scores = prompts * 10 * base.score  # 0, 5, ... 45 and the last
    embeds = prompts * steps * clip_image_operations(config.diagnostics.clip, "diagnostics.clip")
    rest = base.structure(name) - base.evaluation(name, prompts) - decodes - scores - embeds
    assert abs(rest) < 1e-6 * base.structure(name)
    # Its images dominate what the judge costs; each facet is a whole forward pass.
    drawn = 4 * 1000 * base.image(name)
    assert drawn < base.quality(name) < 1.2 * drawn
    assert changed(evaluation={"seeds": [100]}).quality(name) == pytest.approx(
        base.quality(name) / 4
    )


def test_the_checks_are_priced_as_they_run():
    config = load_config(PAPER)
    assert {key: getattr(short_run(config).training, key) for key in CHECKED} == CHECKED
    run = run_config(config, "flux2-dev", "cast", 0).training
    images = CHECKED["collections"] * CHECKED["group_size"]
    whole = sum(changed().training("flux2-dev", "cast", 0).values())
    expected = 2 * whole * images / (run.collections * run.group_size)
    assert changed().checks() == pytest.approx(expected)


def test_preference_is_priced_as_a_clip_and_not_as_the_verifier():
    preference = changed().training("flux2-dev", "flow_grpo_g1", 0)["scoring"]
    atoms = changed().training("flux2-dev", "flow_grpo_g2", 0)["scoring"]
    assert preference < 0.05 * atoms


def test_a_local_model_is_counted_on_itself():
    config = load_backbone_config("mini-flux2")
    counts = backbone_counts(config, 64, 64)
    assert counts.parameters["transformer"] == local_parameters(config)
    assert (counts.tokens, counts.channels, counts.lora_modules) == (64, 16, 24)
    # A transformer without an adapter: two operations a weight and token, text tokens among them.
    assert counts.update == pytest.approx(2.1 * counts.step, rel=0.15)
    larger = backbone_counts(config, 128, 128)
    assert larger.tokens == 256 and 2.5 < larger.step / counts.step < 4.5


def test_a_folder_with_a_known_model_takes_its_counts(tmp_path, monkeypatch):
    """By its number of parameters, read from the headers of its weight files."""
    from safetensors.torch import save_file

    (tmp_path / "transformer").mkdir()
    for part, module in enumerate((nn.Linear(3, 5), nn.Linear(7, 2))):
        weights = module.state_dict()
        save_file(weights, tmp_path / f"transformer/model-{part}.safetensors", {"format": "pt"})
    config = load_backbone_config("flux2-dev")
    folder = config.model_copy(update={"path": str(tmp_path)})
    assert local_parameters(folder) == 3 * 5 + 5 + 7 * 2 + 2
    monkeypatch.setattr(counted, "local_parameters", lambda _: 32223281152)
    assert backbone_counts(folder, 1024, 1024) == backbone_counts(config, 1024, 1024)


def test_a_local_model_that_cannot_be_counted_is_refused(tmp_path, monkeypatch):
    folder = load_backbone_config("mini-flux2").model_copy(update={"path": str(tmp_path)})
    with pytest.raises(CastError, match="no weights in its folder transformer"):
        backbone_counts(folder, 64, 64)
    from cast.full_size import local

    monkeypatch.setattr(local, "LARGEST", 1000)
    with pytest.raises(CastError, match="too large to be loaded"):
        backbone_counts(load_backbone_config("mini-flux2"), 64, 64)
