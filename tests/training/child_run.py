"""Training in a forked child that may die at a chosen moment."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from cast.config import RunConfig
from cast.errors import CastError
from cast.training import Preempted, setup, train
from cast.training.run_folder import StopRequest
from cast.verifier.soft_tifa import Verifier

FORK = multiprocessing.get_context("fork")


def started(run: RunConfig, folder: Path, counter: Any, at: int | None, by: int) -> ForkProcess:
    """The child, running."""
    _load(run)
    child = FORK.Process(target=_child, args=(run, folder, counter, at, by))
    child.start()
    return child


def train_in_child(run: RunConfig, folder: Path, at: int | None = None, by: int = signal.SIGKILL):
    """Train in a forked child that sends itself `by` at its `at`-th event; its exit code.

    The child inherits models that were loaded once; each life has its own copy of them.
    An event is a call of the model or an fsync, so some lie inside the writing of a checkpoint.
    Returns the exit code (-9 for a kill, 75 for a preemption) and the events that were seen.
    """
    counter = FORK.Value("i", 0)
    child = started(run, folder, counter, at, by)
    child.join()
    return child.exitcode, counter.value


LOADED: dict[str, Any] = {}


def _load(run: RunConfig) -> None:
    """Load the run's models in the parent, for children to inherit."""
    key = run.backbone.path
    if key not in LOADED:
        LOADED[key] = setup.load_backbone(run.backbone, run.sampling, "cpu")
        LOADED[run.verifier.path] = Verifier.load(run.verifier, "cpu", run.training.micro_batch)


def _child(run: RunConfig, folder: Path, counter, at: int | None, by: int) -> None:
    def counted(original: Callable) -> Callable:
        def call(*arguments):
            counter.value += 1
            if counter.value == at:
                os.kill(os.getpid(), by)
            return original(*arguments)

        return call

    setup.load_backbone = lambda config, sampling, device: LOADED[config.path]
    setup.load_scorer = lambda run, processes: LOADED[run.verifier.path]
    os.fsync = counted(os.fsync)
    StopRequest.check = counted(StopRequest.check)
    code = 0
    try:
        train(run, folder)
    except Preempted as stop:
        code = stop.exit_code
    except CastError:
        code = 2
    os._exit(code)


def results(folder: Path) -> dict[str, bytes]:
    """The bytes of a run that must not depend on how it came about."""
    names = ("adapter/pytorch_lora_weights.safetensors", "metrics.parquet")
    return {name: (folder / name).read_bytes() for name in names}
