"""Checks before anything is spent: a run that can't end well is refused in its first seconds."""

import os
import shutil
from pathlib import Path

import torch

from cast.credit import needs_heatmaps
from cast.errors import CastError
from cast.flow import micro_batches, replay_log_prob
from cast.training.checkpoint import KEPT
from cast.training.gradients import take_gradients
from cast.training.guards import check_finite, check_replay
from cast.training.state import TrainingState
from cast.training.workbench import Group, Workbench

GIB = 2**30


def preflight(bench: Workbench, state: TrainingState, folder: Path) -> list[str]:
    """Check disk, memory, scorer, heatmaps, replay and adapter; returns what it measured.

    One micro-batch of images of the next prompt a process, from random streams of its own: the
    run itself is not changed by it. Raises `CastError` for the first fault.
    """
    lines = [check_disk(state, folder), check_memory(bench, state)]
    size = bench.run.training.micro_batch * bench.processes.count
    record = bench.records[state.collection]
    group = bench.generate(record, state.collection, size, stochastic=True, purpose="preflight ")
    check_scorer(bench, group)
    lines.append(check_replay_and_adapter(bench, state, group))
    return lines


def check_disk(state: TrainingState, folder: Path) -> str:
    """Room for one checkpoint more than are kept, and the adapter."""
    adapter = sum(p.numel() * p.element_size() for p in state.parameters.values())
    copies = 3 + bool(state.ema)  # the adapter, Adam's two moments, the average
    needed = adapter * (copies * (KEPT + 1) + 1)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CastError(
            f"{folder}: {free / GIB:.2f} GiB free on its disk, and the run needs "
            f"{needed / GIB:.2f} GiB for checkpoints and adapter. Free some, or set `results` to a "
            "folder on another disk."
        )
    return f"disk: {needed / GIB:.2f} GiB needed, {free / GIB:.1f} GiB free"


def check_memory(bench: Workbench, state: TrainingState) -> str:
    """Weights, optimizer and stored states against the device's memory.

    Activations depend on the model and aren't counted, so this is a lower bound.
    """
    weights = sum(p.numel() * p.element_size() for p in bench.backbone.transformer.parameters())
    adapter = sum(p.numel() * 4 for p in state.parameters.values())
    training = bench.run.training
    tokens, channels = bench.backbone.latent_shape
    states = training.group_size * (bench.run.sde.window_length + 2) * tokens * channels * 4
    needed = weights + 4 * adapter + states
    total = device_memory(bench.device)
    if needed > total:
        raise CastError(
            f"backbone {bench.run.backbone.name}: at least {needed / GIB:.1f} GiB are needed for "
            f"weights, optimizer and states, and {bench.device} has {total / GIB:.1f} GiB. Use a "
            "larger device, a smaller training.lora.rank or bfloat16 weights."
        )
    return f"memory: at least {needed / GIB:.2f} of {total / GIB:.1f} GiB"


def device_memory(device: torch.device) -> int:
    """All memory of the device, in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_scorer(bench: Workbench, group: Group) -> None:
    """The scorer must give the same images the same scores, and maps that carry credit."""
    again = bench.scorer.score(group.local_images, group.record).float().cpu()
    mine = group.scores[group.rows.start : group.rows.stop]
    if not torch.equal(again, mine):
        raise CastError(
            f"scorer {bench.run.scorer_path}: two passes over the same images differ by up to "
            f"{float((again - mine).abs().max()):.2g}; a reward must be deterministic."
        )
    if not needs_heatmaps(bench.run.method.routing or "uniform"):
        return
    maps = bench.heatmaps(group)
    check_finite(maps, "heatmaps", "preflight")
    means = maps.mean(dim=(-2, -1))
    if bool((maps < 0).any()) or float((means - 1).abs().max()) > 1e-3:
        raise CastError(
            f"verifier {bench.run.verifier.path}: heatmaps must be non-negative with spatial mean "
            f"1; their means are {float(means.min()):.3g} to {float(means.max()):.3g}."
        )


def check_replay_and_adapter(bench: Workbench, state: TrainingState, group: Group) -> str:
    """Replay gives the stored log_prob, and every bound module's gradient is fed."""
    training, rolled = bench.run.training, group.rollout
    samples, _ = next(micro_batches(len(group.rows), training.micro_batch))
    errors = []
    for index in range(rolled.log_probs.shape[1]):
        replay = replay_log_prob(
            bench.velocity(group.conditioning),
            rolled,
            bench.sigmas,
            index,
            samples,
            kind=bench.run.sde.kind,
            noise_level=bench.run.sde.noise_level or bench.run.backbone.noise_level,
            micro_batch=training.micro_batch,
        )
        errors.append((replay.log_prob.detach() - rolled.log_probs[samples, index]).abs().amax(-1))
        replay.log_prob.mean().backward()
    check_replay(torch.stack(errors, dim=1), training.replay_tolerance, "preflight")
    bench.backbone.check_lora_gradients()
    take_gradients(list(state.parameters.values()))  # and drop them
    return f"replay: log_prob equal within {float(torch.stack(errors).max()):.1e} a token"
