import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cast.errors import CastError
from cast.training.run_folder import LOCK_NAME, Preempted, StopRequest, locked

HOLDER = """
import sys, time
from pathlib import Path
from cast.training.run_folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_second_is_refused_while_the_first_lives_and_a_dead_ones_lock_is_free(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(CastError, match=f"process {holder.pid} on"), locked(tmp_path):
        pass
    holder.kill()
    holder.wait()
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
