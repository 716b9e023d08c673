"""A run's folder: one process at a time, and a polite end on SIGTERM."""

import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from cast.errors import CastError
from cast.slurm import job_state

LOCK_NAME = "run.lock"


class Preempted(CastError):
    """The run was asked to end (SIGTERM) and its state is saved; the same command goes on."""

    exit_code = os.EX_TEMPFAIL  # 75: a scheduler may requeue


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; raises `CastError` naming the holder while another has it.

    The lock is the kernel's (flock): it goes with its process, however that ends, so a dead
    holder's lock is simply free. The file's text says who holds it. A file system may keep locks
    to each machine (Lustre's localflock), so a text that names a job which SLURM still runs, and
    which isn't this one, is a holder too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_NAME
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _held(folder, file.read()) from None
        except OSError as error:
            raise CastError(
                f"{path}: this file system can't lock files ({error}), so two processes could "
                "write one run. Put the results on one that can."
            ) from error
        file.seek(0)
        if _lives_elsewhere(before := file.read()):
            raise _held(folder, before)
        file.truncate(0)
        file.write(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "host": socket.gethostname(),
                    "job": os.environ.get("SLURM_JOB_ID"),
                    "command": sys.argv[:4],
                }
            )
        )
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            fcntl.flock(file, fcntl.LOCK_UN)


def _held(folder: Path, text: str) -> CastError:
    try:
        holder = json.loads(text)
        name = f"process {holder['pid']} on {holder['host']}"
        if holder.get("job"):
            name += f", SLURM job {holder['job']}"
    except (ValueError, KeyError, TypeError, AttributeError):
        name = "its name can't be read"
    return CastError(
        f"{folder}: another process is training here ({name}). Wait for it or end it; the same "
        "command then goes on from its last checkpoint."
    )


def _lives_elsewhere(text: str) -> bool:
    """Whether the text that an earlier holder left names another SLURM job that still runs."""
    try:
        job = json.loads(text)["job"]
    except (ValueError, KeyError, TypeError):
        return False
    if job is None or job == os.environ.get("SLURM_JOB_ID"):
        return False
    return job_state(job) in ("RUNNING", "COMPLETING", "SUSPENDED")


class StopRequest:
    """Set by SIGTERM; the trainer looks at it before every call of the model."""

    def __init__(self) -> None:
        self.asked = False

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True

    def check(self) -> None:
        """Raise `Preempted` once SIGTERM has come."""
        if self.asked:
            raise Preempted("The run was asked to end (SIGTERM).")

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Catch SIGTERM inside the block; the earlier handler is put back after it.

        Only the main thread may set handlers; elsewhere SIGTERM keeps its usual effect, and the
        last checkpoint serves.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = signal.signal(signal.SIGTERM, self._ask)
        try:
            yield self
        finally:
            signal.signal(signal.SIGTERM, before)
