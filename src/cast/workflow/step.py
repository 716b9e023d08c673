"""A notebook step: run the notebook, and end so that a scheduler knows what to do next.

    python -m cast.workflow.step NOTEBOOK EXECUTED LOG -r seed 0

The text log and the executed copy stay where they are whatever happens. Exit codes: 0 done; 1 a
cell raised; 71 its kernel was killed; 75 it was asked to end (SIGTERM: a preemption, a time limit
that comes near) and the same step goes on from there. SIGTERM goes to the kernel, where the trainer
saves its state; papermill's own answer to it, which is to shut the kernel down, would lose that.

On a cluster two more things (`--scheduled`): a step that was asked to end puts its job back into
the queue, under the same job id; and a step whose cell raised isn't run again by an attempt that
Snakemake makes for the failures of machines.
"""

import argparse
import contextlib
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from cast.slurm import driver_of_job, requeue

FAILED = 1  # a cell raised
DIED = os.EX_OSERR  # the kernel did, without a word: killed, out of memory
PREEMPTED = os.EX_TEMPFAIL  # asked to end; as `cast.training.Preempted.exit_code`
SHOWN = 20  # lines of the log that a failure shows


def main(arguments: Sequence[str] | None = None) -> int:
    """One of the exit codes above."""
    parser = argparse.ArgumentParser(prog="python -m cast.workflow.step", description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("executed", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("-r", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"))
    parser.add_argument("--scheduled", action="store_true", help="this is a job of a cluster")
    chosen = parser.parse_args(arguments)
    failed = chosen.log.with_suffix(".failed")  # names the Snakemake in whose run a cell raised
    driver = driver_of_job() if chosen.scheduled else None
    texts = [
        (path, path.with_suffix(f".failed{path.suffix}")) for path in (chosen.log, chosen.executed)
    ]
    if driver is not None and failed.exists() and failed.read_text(encoding="utf-8") == driver:
        for path, kept in texts:  # Snakemake emptied them for this attempt
            shutil.copyfile(kept, path)
        print(
            f"{chosen.log}: this step failed by itself, so it isn't tried again in this run. "
            "Mend what its log says, and start Snakemake anew.",
            file=sys.stderr,
        )
        return FAILED
    for path in (failed, *(kept for _, kept in texts)):
        path.unlink(missing_ok=True)
    code = run(chosen.notebook, chosen.executed, chosen.log, dict(chosen.r))
    if code == 0:
        return 0
    last = chosen.log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-SHOWN:]
    print("\n".join(last), file=sys.stderr)
    if code == PREEMPTED and chosen.scheduled:
        print(requeue(), file=sys.stderr)
    elif code == FAILED and driver is not None:
        for path, kept in texts:
            shutil.copyfile(path, kept)
        failed.write_text(driver, encoding="utf-8")
    return code


def run(notebook: Path, executed: Path, log: Path, parameters: dict[str, str]) -> int:
    """Run the notebook, its output in `log`; returns one of the exit codes above."""
    asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda _signal, _frame: asked.set())
    errors: list[Exception] = []
    told: set[int] = set()

    def execute() -> None:  # imports papermill late: SIGTERM may come before that is done
        import papermill

        try:
            papermill.execute_notebook(
                str(notebook),
                str(executed),
                parameters=parameters,
                kernel_name="python3",
                progress_bar=False,
                log_output=True,
            )
        except Exception as error:
            errors.append(error)

    # Progress is text here; tqdm would have each notebook say that it misses ipywidgets.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
    # Not in the main thread, so that papermill can't put its own handler in this one's place.
    worker = threading.Thread(target=execute)
    try:
        with _into(log):
            worker.start()
            while worker.is_alive():
                worker.join(timeout=0.5)
                if asked.is_set():
                    _tell_children(told)
            if not errors:
                return 0
            logging.error("%s", errors[0])
    finally:
        signal.signal(signal.SIGTERM, before)
    name = getattr(errors[0], "ename", None)  # of the exception that a cell raised
    if asked.is_set() or name == "Preempted":
        return PREEMPTED
    return DIED if name is None else FAILED


def _tell_children(told: set[int]) -> None:
    """SIGTERM to the kernel, once, and as soon as there is one."""
    for child in psutil.Process().children():
        if child.pid not in told:
            told.add(child.pid)
            with contextlib.suppress(psutil.NoSuchProcess):
                child.terminate()


@contextlib.contextmanager
def _into(log: Path) -> Iterator[None]:
    """Let the file have all that this process and its children say."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    with log.open("w", encoding="utf-8") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
        try:
            yield
        finally:
            for descriptor, before in zip((1, 2), kept, strict=True):
                os.dup2(before, descriptor)
                os.close(before)


if __name__ == "__main__":
    sys.exit(main())
