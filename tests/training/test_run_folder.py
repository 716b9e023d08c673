import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cast.errors import CastError
from cast.training.run_folder import LOCK_NAME, Preempted, StopRequest, locked

FORK = multiprocessing.get_context("fork")


def hold(folder: Path, held: Any) -> None:
    with locked(folder):
        held.set()
        signal.pause()


def test_the_second_is_refused_while_the_first_lives_and_a_dead_ones_lock_is_free(tmp_path: Path):
    held = FORK.Event()
    holder = FORK.Process(target=hold, args=(tmp_path, held))
    holder.start()
    held.wait()
    with pytest.raises(CastError, match=f"process {holder.pid} on"), locked(tmp_path):
        pass
    holder.kill()
    holder.join()
    assert (tmp_path / LOCK_NAME).read_text()  # its name is still in the file
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK_NAME).read_text()
    with locked(tmp_path):  # and it is given back
        pass


def test_sigterm_is_heard_only_inside():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest().listening() as stop:
        stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Preempted, match="SIGTERM"):
            stop.check()
    assert signal.getsignal(signal.SIGTERM) is before
    assert Preempted.exit_code == 75
