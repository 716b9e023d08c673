"""What we ask of SLURM: whether a job lives, to queue our own again, what is left in the queue."""

import os
import subprocess
from pathlib import Path

from cast.errors import CastError


def ask(*command: str) -> str | None:
    """What a SLURM command prints; None where it fails, or where there is no SLURM."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def job_state(job: str) -> str | None:
    """SLURM's word for a job's state, such as RUNNING; None for a job that it doesn't know."""
    return ask("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T") or None


def driver_of_job() -> str | None:
    """The run of Snakemake that submitted this process's job: it is the job's name."""
    job = os.environ.get("SLURM_JOB_ID")
    return (job and ask("squeue", "--noheader", f"--jobs={job}", "--format=%j")) or None


def requeue() -> str:
    """Put this process's own job back into the queue; says in one line what came of it.

    Only a running job goes back: a cancelled one is already on its way out. Where SLURM refuses,
    the failure of the job makes Snakemake try it again.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or job_state(job) != "RUNNING":
        return "The step was asked to end, with its job: it isn't queued again."
    if ask("scontrol", "requeue", job) is None:
        return f"The step was asked to end, and SLURM refuses to queue its job {job} again."
    return f"The step was asked to end; its job {job} is queued again and goes on from there."


def check_queue(root: Path) -> None:
    """Raise `CastError` while jobs that a killed Snakemake submitted in `root` are queued or run.

    A new Snakemake knows nothing of them and would submit each a second time.
    """
    listed = ask("squeue", "--me", "--noheader", "--format=%i|%T|%k|%Z") or ""
    jobs = [line.split("|") for line in listed.splitlines() if line.count("|") == 3]
    own = [job for job in jobs if Path(job[3]).resolve() == root.resolve()]
    if own:
        names = ", ".join(f"{number} ({name}, {state})" for number, state, name, _ in own)
        raise CastError(
            f"{root}: SLURM still has jobs of a Snakemake that was killed here: {names}. Let them "
            f"end, or `scancel {' '.join(job[0] for job in own)}`; then the same command goes on "
            "from what they have done."
        )
