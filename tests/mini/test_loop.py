"""The zoo's loop: the same bytes from the same config, however often it was killed."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from cast.io import sha256_file
from cast.mini.zoo import vae
from cast.mini.zoo.loop import LoopConfig, Trainer, rate

SHORT = LoopConfig(steps=8, batch=2, warmup=2, checkpoint_every=2)


def train_autoencoder(folder: Path, kill_at: int | None = None) -> None:
    """The first stage of the real autoencoder with a short config; may kill itself in a step."""
    torch.set_num_threads(1)
    model = vae.build()
    loss = vae._loss(model, SHORT, touching=False)

    def step(index: int) -> dict[str, torch.Tensor]:
        if index == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return loss(index)

    Trainer(nn.ModuleDict({"vae": model}), SHORT, folder, muon=False).run(step)


def in_a_process(folder: Path, kill_at: int | None) -> int | None:
    process = multiprocessing.get_context("fork").Process(
        target=train_autoencoder, args=(folder, kill_at)
    )
    process.start()
    process.join()
    return process.exitcode


def weights(folder: Path) -> str:
    """Hash of the checkpoint, whose metadata (step, wall seconds) is left out."""
    from safetensors.torch import load_file, save

    tensors = load_file(folder / "checkpoint.safetensors")
    path = folder / "plain.safetensors"
    path.write_bytes(save(tensors))
    return sha256_file(path)


def test_five_kills_and_none_end_with_the_same_weights(tmp_path):
    assert in_a_process(tmp_path / "whole", None) == 0
    for kill_at in (1, 3, 2, 5, 7):  # some before the next checkpoint, so steps are done again
        assert in_a_process(tmp_path / "killed", kill_at) == -signal.SIGKILL
    assert in_a_process(tmp_path / "killed", None) == 0
    assert weights(tmp_path / "whole") == weights(tmp_path / "killed")


def test_the_rate_warms_up_stays_and_falls():
    config = LoopConfig(steps=100, batch=1, warmup=10, decay_share=0.5)
    assert rate(0, config) == pytest.approx(0.1)
    assert rate(30, config) == rate(50, config) == 1.0
    assert rate(75, config) == pytest.approx(0.5)
    assert rate(99, config) == pytest.approx(0.02)


def test_a_run_can_be_lengthened_until_the_rate_falls():
    short = LoopConfig(steps=100, batch=1, decay_share=0.3)
    long = LoopConfig(steps=400, batch=1, decay_share=0.3)
    assert all(rate(step, short) == rate(step, long) for step in range(70))
