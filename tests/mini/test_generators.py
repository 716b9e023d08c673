"""The zoo's generators: one training for all families, exact, resumable; shipped ones draw."""

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save
from torch import nn

from cast.backbones import load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.io import read_json, write_json
from cast.mini import oracle
from cast.mini.zoo import (
    data,
    flow,
    flux2,
    measure,
    qwen_image,
    qwen_vae,
    report,
    sd3,
    vae,
    z_image,
)
from cast.mini.zoo.latents import Latents, rescaling, to_bytes, to_prompts
from cast.mini.zoo.loop import LoopConfig
from cast.mini.zoo.muon import Muon
from cast.paths import from_root
from cast.scene_graph import read_prompts

RECIPES = (flux2.RECIPE, qwen_image.RECIPE, sd3.RECIPE, z_image.RECIPE)
SHIPPED = [r.name for r in RECIPES if r.name in read_json(from_root("models/mini/MANIFEST.json"))]
SHORT = LoopConfig(steps=4, batch=2, warmup=2, checkpoint_every=2)
FLOOR = 0.35  # AM of the weakest, far above blobs of a wrong colour


@pytest.fixture(scope="module")
def autoencoder():
    """Untrained, but with the statistics of its latents."""
    untrained = vae.build().eval().requires_grad_(False)
    latents = vae.patchify(untrained, vae.batch(SHORT, 0))
    untrained.bn.running_mean.copy_(latents.mean((0, 2, 3)))
    untrained.bn.running_var.copy_(latents.var((0, 2, 3)))
    return untrained


class Deadly(Latents):
    """Latents that kill their process when they are asked for batch number `kill_at`."""

    kill_at: int | None = None
    asked = 0

    def rows(self, *arguments, **named):
        if self.asked == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.asked += 1
        return super().rows(*arguments, **named)


def train(recipe: flow.Recipe, folder: Path, latents: Deadly, kill_at: int | None) -> None:
    """The real training with short stages."""
    torch.set_num_threads(1)
    latents.kill_at = kill_at
    flow.train(recipe, folder, latents)


def in_a_process(*arguments) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=train, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def weights(folder: Path) -> bytes:
    """All stages' checkpoints without their metadata (step, wall seconds)."""
    files = sorted(folder.rglob("checkpoint.safetensors"))
    return b"".join(save(load_file(file)) for file in files)


def test_a_generator_killed_three_times_ends_with_the_same_weights(tmp_path, autoencoder):
    latents = Deadly(tmp_path / "shards", autoencoder, size=8)
    recipe = replace(flux2.RECIPE, stages={"flow": SHORT, "refine": SHORT}, shards=1)
    assert in_a_process(recipe, tmp_path / "whole", latents, None) == 0
    for kill_at in (1, 3, 2):  # batches of that run; in both stages
        assert in_a_process(recipe, tmp_path / "killed", latents, kill_at) == -signal.SIGKILL
    assert in_a_process(recipe, tmp_path / "killed", latents, None) == 0
    assert weights(tmp_path / "whole") == weights(tmp_path / "killed")
    assert len(list((tmp_path / "killed").rglob("checkpoint.safetensors"))) == 2


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_generator_learns_a_batch_in_all_its_parts(recipe, tmp_path, autoencoder):
    own = {"autoencoder": lambda shared, folder: qwen_vae.build(shared)}
    recipe = replace(recipe, teacher=None, **(own if recipe.own_autoencoder else {}))
    latents = Latents(tmp_path, autoencoder, size=4)
    pipe = recipe.build(recipe.autoencoder(autoencoder, tmp_path))
    loss = flow.FlowLoss(recipe, pipe, latents)
    loss.config = SHORT
    parts = nn.ModuleDict({**recipe.text(pipe), "transformer": pipe.transformer})
    parts.requires_grad_(True)
    optimizer = torch.optim.Adam([*parts.parameters(), *loss.readout.parameters()], 1e-3)
    totals = []
    for _ in range(6):
        total = torch.stack(list(loss(0).values())).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(float(total.detach()))
    assert totals[-1] < totals[0]
    embeddings = next(p for n, p in parts.named_parameters() if "embed" in n and "token" in n)
    assert embeddings.grad is not None and embeddings.grad.abs().max() > 0


def test_cached_latents_become_each_pipelines_own(autoencoder):
    images = vae.batch(SHORT, 1)
    cached = vae.encode(autoencoder, images)
    plain = vae.plain_autoencoder(autoencoder)
    scale, shift = rescaling(autoencoder, plain)
    own = plain.encode(images).latent_dist.mode()
    packed = own.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5).reshape(2, 64, 16)
    torch.testing.assert_close(cached * scale + shift, packed, rtol=1e-4, atol=1e-4)
    shared = autoencoder.encode(images).latent_dist.mode()
    ours, theirs = (model.decode(x).sample for model, x in ((plain, own), (autoencoder, shared)))
    torch.testing.assert_close(ours, theirs)


def test_one_frame_through_causal_convolutions_is_a_plain_convolution(autoencoder):
    ours = qwen_vae.build(autoencoder).eval()
    images = vae.batch(SHORT, 2)[:, :, None]
    with torch.no_grad():
        expected = ours.decode(ours.encode(images).latent_dist.mode()).sample
        with qwen_vae.single_frame(ours):
            faster = ours.decode(ours.encode(images).latent_dist.mode()).sample
    torch.testing.assert_close(faster, expected, rtol=1e-4, atol=1e-5)
    assert "forward" not in vars(ours.encoder.conv_in)


def test_the_qwen_template_is_the_tokens_that_the_pipeline_drops(autoencoder):
    pipe = qwen_image.build_pipeline(qwen_vae.build(autoencoder))
    before = pipe.prompt_template_encode.split("{}")[0]
    assert len(pipe.tokenizer(before).input_ids) == pipe.prompt_template_encode_start_idx == 34
    embeds, _ = pipe.encode_prompt(["a star"])
    after = pipe.tokenizer("a star<|im_end|>\n<|im_start|>assistant\n").input_ids
    assert embeds.shape[1] == len(after)


def test_prompts_survive_their_bytes():
    prompts = ["a star", "two red circles to the left of a blue star"]
    assert to_prompts(to_bytes(prompts)) == prompts


def test_muon_is_torchs_up_to_its_bfloat16():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((8, 8), (48, 16), (16, 48))]
    gradients = [[torch.randn(p.shape, generator=generator) for p in start] for _ in range(4)]
    ends = []
    for kind in (torch.optim.Muon, Muon):
        parameters = [nn.Parameter(p.clone()) for p in start]
        optimizer = kind(parameters, lr=0.01, adjust_lr_fn="match_rms_adamw")
        for step in gradients:
            for parameter, gradient in zip(parameters, step, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        ends.append(parameters)
    for begun, theirs, ours in zip(start, *ends, strict=True):
        moved = (theirs - begun).norm()
        assert (ours - theirs).norm() < 0.02 * moved


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_generator_draws_what_is_asked(name):
    records = read_prompts(from_root(data.EVALUATION_FILES[0]))[::13]
    backbone = load_backbone(load_backbone_config(name), SamplingSection(), device="cpu")
    images = measure.generate(backbone, [r.prompt for r in records], seed=100, steps=20)
    truth = [oracle.answer(image, r).mean() for image, r in zip(images, records, strict=True)]
    assert np.mean(truth) > FLOOR


def test_the_report_names_what_is_missing_or_misses_its_target(tmp_path):
    good = {"am": 0.8, "spread": 0.01, "solved": 0.2, "object": 0.9, "attribute": 0.9}
    good |= {"count": 0.5, "position": 0.2, "verb": 0.0}
    entries = {
        "mini-flux2": {"metrics": {report.ORACLE: good}},
        "mini-sd3": {"metrics": {report.ORACLE: good | {"object": 0.5}}},
        "mini-zimage": {"metrics": {}},
        "mini-qwen3-vl": {"metrics": {}},
    }
    write_json(tmp_path / "MANIFEST.json", entries)
    table = report.by_oracle(tmp_path / "MANIFEST.json")
    assert report.shortfalls(table) == [
        "mini-sd3: object 0.50 is below 0.85.",
        "mini-zimage isn't measured with four seeds.",
    ]
