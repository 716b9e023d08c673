"""The literal `snakemake --profile slurm`, started, watched and killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cast.paths import repository_root

ARM = "results/smoke/mini-flux2/cast/seed0"  # the training that is disturbed
PATIENCE = 900.0  # seconds that something may take on a busy machine before a test gives up


class Driver:
    """A Snakemake that submits to SLURM from `folder`."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder, self.log = folder, folder / "driver.log"
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        source = folder / "src" if (folder / "src").exists() else repository_root() / "src"
        self.environment = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(source),
            "CAST_SITE": str(site),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        quick = ["--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "10"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["snakemake", "--profile", "slurm", *quick, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, *arguments: str, patience: float = PATIENCE) -> int:
        """Start, let every requeued job begin at once, and wait for the end."""
        self.start(*arguments)
        return self.wait(patience)

    def wait(self, patience: float = PATIENCE) -> int:
        assert self.process is not None
        code: int | None = None

        def ended() -> bool:
            nonlocal code
            begin_now()
            code = self.process.poll() if self.process else None
            return code is not None

        until(ended, "the end of Snakemake", self, patience)
        assert code is not None
        self.process = None
        return code

    def kill(self) -> None:
        """SIGKILL, to it alone: its jobs stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


def ask(*command: str) -> list[str]:
    """The words that a command of SLURM prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def squeue(form: str, *arguments: str) -> list[str]:
    """What squeue prints, a word a job."""
    return ask("squeue", "--noheader", f"--format={form}", *arguments)


def begin_now() -> None:
    """Spare requeued jobs the two minutes that SLURM lets them wait."""
    for job in squeue("%i", "--states=PENDING"):
        command = ["scontrol", "update", f"jobid={job}", "starttime=now"]
        subprocess.run(command, capture_output=True)  # it may have begun in between


def until(
    condition: Callable[[], bool], what: str, driver: Driver, patience: float = PATIENCE
) -> None:
    """Wait until something is so; a driver that ended by itself won't make it so."""
    deadline = time.monotonic() + patience
    while not condition():
        ended = driver.process is not None and driver.process.poll() is not None
        dead = ended and not condition()  # it may have become so just before the end
        if dead or time.monotonic() > deadline:
            raise AssertionError(f"waited for {what}:\n{driver.said}\n{squeue('%i|%T|%r|%k')}")
        time.sleep(0.5)
