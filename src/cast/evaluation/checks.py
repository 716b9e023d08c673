"""What can be checked by itself, without the paper's runs: each check is one claim's evidence.

X1 and X2 hold the verifier against drawn scenes whose truth is known, X5 and X6 train the config's
own backbone at a few images, C26 and C27 are properties of the mathematics.
"""

import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from cast.config import CastConfig, RunConfig, run_config
from cast.credit import group_advantages
from cast.errors import CastError
from cast.evaluation.folders import world_folder
from cast.evaluation.replicates import interval, resampled_means
from cast.evidence import Measured, write_evidence
from cast.flow import flow_sde
from cast.io import sha256_file, write_json
from cast.training import launch

COLLECTIONS, GROUP, MICRO_BATCH = 3, 4, 2  # of the runs of X5 and X6
BYTES = ("adapter/pytorch_lora_weights.safetensors", "metrics.parquet")


def run_checks(config: CastConfig) -> dict[str, Measured]:
    """Run every check that this world allows and write its evidence; returns what was measured."""
    measured = {"C26": flat_scores(), "C27": marginal_error()}
    if config.vocabulary == "shapes":
        measured |= {"X1": verifier_accuracy(config), "X2": pointing_accuracy(config)}
    run, whole = short_run(config), scratch(config, "whole")
    launch(run, whole)
    measured["X5"] = resume_exactness(run, whole, scratch(config, "killed"))
    measured["X6"] = process_invariance(run, whole, scratch(config, "two"))
    for claim, found in measured.items():
        write_evidence(config, claim, found)
    return measured


def verifier_accuracy(config: CastConfig) -> Measured:
    """X1: share of probes that the verifier answers rightly (strict, a yes from 0.5 on), about
    each scene's own prompt and another one; the interval is over prompts."""
    from cast.mini.zoo.held_out import held_out, verifier_answers
    from cast.verifier import Verifier
    from cast.verifier.agreement import agreement

    verifier = Verifier.load(config.verifier)
    study = config.diagnostics.verifier
    drawn = held_out(study.prompts, study.images, study.seed)
    answers = verifier_answers(verifier, drawn, study.seed)
    right = (answers["score_strict"] >= 0.5) == (answers["truth"] == 1)
    by_prompt = answers.assign(right=right.astype(float)).pivot_table("right", "prompt_id")
    table = agreement(answers, truth="truth").set_index("skill")
    words = ", ".join(
        f"{skill} {row['agreement']:.3f} (balanced {row['balanced']:.3f})"
        for skill, row in table.drop(index="all").iterrows()
    )
    text = f"{len(answers):,} probes of {study.prompts * study.images} scenes: {words}"
    return _mean(by_prompt.to_numpy()[:, 0], text)


def pointing_accuracy(config: CastConfig) -> Measured:
    """X2: share of heatmaps that peak on what their atom speaks of; interval over prompts."""
    from cast.mini.zoo.held_out import held_out
    from cast.verifier import Verifier
    from cast.verifier.sweep import atom_regions, pointing, touched_cells

    verifier = Verifier.load(config.verifier)
    hits: dict[str, list[float]] = {}
    study, by_prompt, areas = config.diagnostics.verifier, [], []
    for item in held_out(study.prompts, study.images, study.seed):
        scene = item.masked()
        images = scene.images.permute(0, 3, 1, 2).float() / 255.0
        grid = (config.sampling.height // 8, config.sampling.width // 8)
        _, maps = verifier.score_and_heatmaps(images, scene.record, grid)
        regions = atom_regions(touched_cells(scene.masks, grid), scene.record)
        found = pointing(maps, regions).float()
        areas.append(float(regions.float().mean()))
        by_prompt.append(float(found.mean()))
        for atom, hit in zip(scene.record.atoms, found.T, strict=True):
            hits.setdefault(atom.skill, []).extend(hit.tolist())
    words = ", ".join(f"{skill} {np.mean(own):.3f}" for skill, own in sorted(hits.items()))
    scenes = study.prompts * study.images
    return _mean(np.asarray(by_prompt), f"{scenes} scenes, by chance {np.mean(areas):.3f}: {words}")


def _mean(values: np.ndarray, text: str) -> Measured:
    found = interval(float(values.mean()), resampled_means(values)[0])
    said = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return Measured(text=f"{said}; {text}", value=found.value, low=found.low, high=found.high)


def resume_exactness(run: RunConfig, whole: Path, folder: Path) -> Measured:
    """X5: a run that SIGKILL ended after its first checkpoint, and was called again, against the
    one in `whole` that nothing disturbed: adapter and metrics, byte by byte."""
    kept = _kill_after_a_checkpoint(run, folder)
    launch(run, folder)
    text = f"killed after {kept} of {run.training.collections} collections and called again"
    return _compared(whole, folder, text)


def process_invariance(run: RunConfig, whole: Path, folder: Path) -> Measured:
    """X6: the run of one process in `whole` against two, which split each group, byte by byte."""
    if torch.cuda.is_available() and torch.cuda.device_count() < 2:
        return Measured(text=f"needs two GPUs; there is {torch.cuda.device_count()}")
    launch(run, folder, processes=2)
    return _compared(whole, folder, "one process and two")


def short_run(config: CastConfig) -> RunConfig:
    """CAST on Hard Case's backbone under the shared settings, at a few images and with a checkpoint
    a collection."""
    run = run_config(config, config.evaluation.hard_case.backbone, "cast", 0)
    small = {
        "collections": COLLECTIONS,
        "group_size": GROUP,
        "micro_batch": MICRO_BATCH,
        "checkpoint_every": 1,
    }
    # A trial's own learning rate says nothing here, so it reruns nothing.
    method = run.method.model_copy(update={"learning_rate": None})
    training = config.training.model_copy(update=small)
    return run.model_copy(update={"method": method, "training": training})


def scratch(config: CastConfig, name: str) -> Path:
    """An empty folder for a check's run."""
    folder = world_folder(config) / "claims" / "runs" / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _kill_after_a_checkpoint(run: RunConfig, folder: Path) -> int:
    """Train in a child until its first checkpoint is there, then SIGKILL it; the collections that
    were kept. `CastError` where the child ended before it could be killed."""
    path = folder / "short_run.json"
    write_json(path, run.model_dump(mode="json"))
    command = [sys.executable, "-m", "cast.training.launch", str(path), str(folder)]
    child = subprocess.Popen(command)
    while child.poll() is None and not _checkpoints(folder):
        time.sleep(0.01)
    child.kill()
    if child.wait() != -signal.SIGKILL:
        raise CastError(
            f"{folder}: the run that was to be killed ended by itself with code {child.returncode};"
            " if that isn't 0, the cause stands above."
        )
    return max(_checkpoints(folder))


def _checkpoints(folder: Path) -> list[int]:
    """Collections after which the run was kept."""
    return [int(p.name.removeprefix("step_")) for p in folder.glob("checkpoints/*/step_*")]


def _compared(one: Path, other: Path, what: str) -> Measured:
    equal = {name: sha256_file(one / name) == sha256_file(other / name) for name in BYTES}
    if all(equal.values()):
        return Measured(text=f"{what}: the same bytes", passed=True)
    names = ", ".join(name for name, same in equal.items() if not same)
    return Measured(text=f"{what}: {names} differ", passed=False)


def flat_scores() -> Measured:
    """C26: largest advantage of a group whose scores differ by less than the scorer resolves."""
    scores = 0.7 + 1e-7 * torch.rand(16, 6, generator=torch.Generator().manual_seed(0))
    largest = float(group_advantages(scores, resolution=1e-6).abs().max())
    return Measured(text=f"largest advantage {largest:g}", value=largest)


def marginal_error() -> Measured:
    """C27: whether Flow-SDE's marginal error vanishes with the step; the continuous SDE has none.

    On one-dimensional Gaussian data (sd 0.5) the exact velocity is linear, so a step's mean and
    spread give the variance in closed form. The number is the error for 240 steps from sigma 0.8
    to 0.2 over that for 120: a half for a first-order method. Nearer the noise, where g is
    singular, the error doesn't vanish with the step; it is measured and said beside.
    """
    ratio = _variance_error(240, 0.8, 0.2) / _variance_error(120, 0.8, 0.2)
    near = ", ".join(
        f"{_variance_error(n, 1 - 1 / n, 1 / n):.1%} at N = {n}" for n in (20, 50, 200)
    )
    text = f"error halves with the step (ratio {ratio:.3f}); near the noise it stays: {near}"
    return Measured(text=text, value=ratio)


def _variance_error(
    steps: int, high: float, low: float, data: float = 0.5, noise_level: float = 0.7
) -> float:
    """Largest relative error of the variance over `steps` Flow-SDE steps from `high` to `low`."""
    sigmas = torch.linspace(high, low, steps + 1)
    variance, worst = (1 - high) ** 2 * data**2 + high**2, 0.0
    for now, following in pairwise(sigmas):
        exact = (1 - now) ** 2 * data**2 + now**2
        slope = (now - (1 - now) * data**2) / exact  # v = slope x, for Gaussian data
        one = torch.ones(1, 1, 1)
        levels = now.reshape(1), following.reshape(1)
        mean, std = flow_sde(one, one * slope, *levels, float(following), noise_level)
        variance = float(mean) ** 2 * variance + float(std) ** 2
        wanted = float((1 - following) ** 2 * data**2 + following**2)
        worst = max(worst, abs(variance / wanted - 1))
    return worst
