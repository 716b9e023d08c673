"""A notebook step says by its exit code what happened, and lets the kernel end in its own way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from cast.training import Preempted
from cast.workflow.step import DIED, FAILED, PREEMPTED

CELLS = {
    "done": "print('all well')",
    "raises": "raise ValueError('the cause')",
    "dies": "import os; os.kill(os.getpid(), 9)",
    "saves": """
import time
from pathlib import Path
from cast.training.run_folder import StopRequest
with StopRequest().listening() as stop:
    Path("begun").touch()
    try:
        while True:
            time.sleep(0.1)
            stop.check()
    finally:
        Path("saved").touch()
""",
}


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    cells = [nbformat.v4.new_code_cell(CELLS[name].strip())]
    metadata = {"language_info": {"name": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.write(notebook, folder / f"{name}.ipynb")
    command = [sys.executable, "-m", "cast.workflow.step", f"{name}.ipynb", "executed.ipynb", "log"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [("done", 0, "all well"), ("raises", FAILED, "ValueError: the cause"), ("dies", DIED, "died")],
)
def test_exit_codes_and_what_is_said(name, code, words, tmp_path):
    process = start(tmp_path, name)
    _, errors = process.communicate()
    assert process.returncode == code
    assert words in (tmp_path / "log").read_text()
    assert (words in errors) == (code != 0)  # only a failure says something on the terminal
    assert (tmp_path / "executed.ipynb").is_file()


def test_sigterm_lets_the_kernel_save_its_state(tmp_path):
    process = start(tmp_path, "saves")
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert (tmp_path / "saved").exists()
    assert process.returncode == PREEMPTED == Preempted.exit_code == os.EX_TEMPFAIL
