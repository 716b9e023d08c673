"""The tiny models, saved once, and a way to train in a child that may die."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "verifier"))  # tiny_verifier

from tiny_run import save_models

from cast.config import RunConfig
from cast.errors import CastError
from cast.training import Preempted, train
from cast.training.identity import source_sha256
from cast.training.run_folder import StopRequest

FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-models")
    save_models(folder)
    source_sha256()  # kept for the process, so that children are spared it
    return folder


def train_in_child(run: RunConfig, folder: Path, at: int | None = None, by: int = signal.SIGKILL):
    """Train in a forked child that sends itself `by` at its `at`-th event; its exit code.

    An event is a call of the model or an fsync, so some lie inside the writing of a checkpoint.
    Returns the exit code (-9 for a kill, 75 for a preemption) and the events that were seen.
    """
    counter = FORK.Value("i", 0)
    child = FORK.Process(target=_child, args=(run, folder, counter, at, by))
    child.start()
    child.join()
    return child.exitcode, counter.value


def _child(run: RunConfig, folder: Path, counter, at: int | None, by: int) -> None:
    def counted(original: Callable) -> Callable:
        def call(*arguments):
            counter.value += 1
            if counter.value == at:
                os.kill(os.getpid(), by)
            return original(*arguments)

        return call

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
