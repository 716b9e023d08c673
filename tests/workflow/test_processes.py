"""One run a clone: leftovers of killed runs are ended, living runs are respected."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from cast.errors import CastError
from cast.workflow.processes import MARK, clear_the_way, mark

SLEEP = [sys.executable, "-c", "import time; time.sleep(120)"]


def wait_for(condition) -> None:
    while not condition():
        time.sleep(0.05)


@pytest.fixture
def started():
    processes: list[subprocess.Popen] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(processes, marked: str) -> subprocess.Popen:
    process = subprocess.Popen(SLEEP, env={**os.environ, MARK: marked}, start_new_session=True)
    processes.append(process)
    wait_for(lambda: MARK in psutil.Process(process.pid).environ())
    return process


def dead_leader(root) -> str:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    created = psutil.Process(gone.pid).create_time()
    gone.wait()
    return f"{root}|{gone.pid}|{created}"


def test_a_dead_runs_children_are_ended(tmp_path, started):
    left = start(started, dead_leader(tmp_path))
    elsewhere = start(started, dead_leader(tmp_path / "other"))
    clear_the_way(tmp_path)
    assert left.wait(timeout=60) is not None
    assert elsewhere.poll() is None


def test_a_living_run_is_respected(tmp_path, started):
    leader = subprocess.Popen(SLEEP)
    started.append(leader)
    created = psutil.Process(leader.pid).create_time()
    child = start(started, f"{tmp_path}|{leader.pid}|{created}")
    with pytest.raises(CastError, match=f"process {leader.pid}"):
        clear_the_way(tmp_path, wait=0.0)
    assert child.poll() is None
    leader.kill()
    leader.wait()
    clear_the_way(tmp_path)
    assert child.wait(timeout=60) is not None


def test_a_number_that_was_given_again_is_no_living_run(tmp_path, started):
    """The leader's process number belongs to another process now: only the start time tells."""
    child = start(started, f"{tmp_path}|{os.getppid()}|1.0")
    clear_the_way(tmp_path)
    assert child.wait(timeout=60) is not None


def test_our_own_children_are_left_alone(tmp_path, started):
    assert mark(tmp_path)[MARK].startswith(f"{tmp_path}|{os.getpid()}|")
    clear_the_way(tmp_path)
