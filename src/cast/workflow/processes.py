"""One run a clone: what a killed run left behind is ended, a living one is respected.

SIGKILL takes one process, not its children. Each run marks its children's environment with the
clone and with itself; the next run finds the marked processes whose own run is dead.
"""

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from cast.errors import CastError

MARK = "CAST_RUN"
GRACE = 20.0  # seconds that a process has to end by itself


def mark(root: Path) -> dict[str, str]:
    """The environment of this run's children."""
    own = psutil.Process()
    return {MARK: f"{root}|{own.pid}|{own.create_time()}"}


def clear_the_way(root: Path, wait: float = GRACE) -> None:
    """End what killed runs left in this clone; raise `CastError` while another run lives."""
    deadline = time.monotonic() + wait
    while (holder := _living_run(root)) is not None:
        if time.monotonic() > deadline:  # a run whose terminal was killed ends within seconds
            raise CastError(
                f"{root}: another run works here (process {holder.pid}: {_command(holder)}). "
                "Wait for it, or end it; this command then goes on from where it was."
            )
        time.sleep(0.5)
    left = [process for process in psutil.process_iter() if _marked(process, root)]
    if left:
        print(f"Ending {len(left)} processes of a run that was killed.", file=sys.stderr)
        end(left)


def end(processes: list[psutil.Process], grace: float = GRACE) -> None:
    """SIGTERM, and SIGKILL for those that are still there after the grace."""
    for process in processes:
        _signal(process, "terminate")
    _gone, alive = psutil.wait_procs(processes, timeout=grace)
    for process in alive:
        _signal(process, "kill")
    psutil.wait_procs(alive, timeout=5)


def _signal(process: psutil.Process, name: str) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        getattr(process, name)()


def _living_run(root: Path) -> psutil.Process | None:
    """Another run of this clone: one of ours, or a Snakemake that was started by hand."""
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        if process.pid in mine:
            continue
        leader = _leader(process, root)
        if leader is not None:
            return leader
        if _is_snakemake(process, root) and not _marked(process, root):
            return process
    return None


def _leader(process: psutil.Process, root: Path) -> psutil.Process | None:
    """The living run that a process was started by, unless that is this one."""
    parts = _environment(process).get(MARK, "").rsplit("|", 2)
    if len(parts) != 3 or parts[0] != str(root) or int(parts[1]) == os.getpid():
        return None
    try:
        leader = psutil.Process(int(parts[1]))
        same = abs(leader.create_time() - float(parts[2])) < 0.05
        return leader if same and leader.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def _marked(process: psutil.Process, root: Path) -> bool:
    return _environment(process).get(MARK, "").startswith(f"{root}|")


def _is_snakemake(process: psutil.Process, root: Path) -> bool:
    try:
        runs = any(Path(word).name == "snakemake" for word in process.cmdline()[:2])
        return runs and process.cwd() == str(root)
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return {}


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:100]
    except psutil.NoSuchProcess:
        return "just ended"
