"""`make reproduce`, killed and called again, ends with the bytes of an unbroken run."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

TABLE = "results/smoke/paper_figures/table1.csv"  # what all trainings and evaluations end in
RUN = [sys.executable, "-m", "cast.workflow", "--configfile", "config/smoke.yaml", TABLE]
SAME = [
    "paper_figures/table1.csv",
    "hard_case.json",
    "mini-flux2/cast/seed0/adapter/pytorch_lora_weights.safetensors",
    "mini-flux2/cast/seed0/metrics.parquet",
    "mini-flux2/flow_grpo_g2/seed0/scores.parquet",
]


def hashes(world) -> dict[str, str]:
    return {name: hashlib.sha256((world / name).read_bytes()).hexdigest() for name in SAME}


def kill_when(clone, condition: Callable[[], bool], whole_group: bool) -> None:
    """Start the run and SIGKILL it at a moment: with its children, or alone."""
    process = subprocess.Popen(
        RUN,
        cwd=clone.root,
        env=clone.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not condition():
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


@pytest.mark.workflow
def test_a_killed_run_ends_with_the_same_bytes(smoke, clone):
    arms = clone.root / "results/smoke/mini-flux2"

    def exists(pattern: str) -> Callable[[], bool]:
        return lambda: any(arms.glob(pattern))

    kill_when(clone, exists("*/seed0/checkpoints/*/step_*"), whole_group=True)
    kill_when(clone, exists("cast/seed0/parts/generation/*/*"), whole_group=False)
    resumed = subprocess.run(
        RUN, cwd=clone.root, env=clone.environment, capture_output=True, text=True
    )
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert hashes(clone.root / "results/smoke") == hashes(smoke)

    again = subprocess.run(
        RUN, cwd=clone.root, env=clone.environment, capture_output=True, text=True
    )
    assert "nothing to do" in again.stdout
