"""A real SLURM for these tests, and drivers in a bare folder or in a copy of the clone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cluster
import pytest
import yaml
from driver import ARM, Driver

from cast.paths import repository_root

SITE = {
    "account": None,
    "partition": "gpu",
    "cpu_partition": None,
    "qos": None,
    "constraint": None,
    "gpu_model": "h200",
    "scratch": None,
    "longest": 30,
    "warning": 60,
    "jobs": 8,
}


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """The cluster, started here unless one of ours runs already.

    `CAST_SLURM_TESTS=1` asks for it: SLURM alone holds a requeued job back two minutes, so these
    tests would take half of CI's time, in which the smoke workflow passes through SLURM anyway.
    """
    if os.environ.get("CAST_SLURM_TESTS") != "1":
        pytest.skip("minutes of waiting for SLURM; CAST_SLURM_TESTS=1 runs it (make test-slurm)")
    if (reason := cluster.missing()) is not None:
        pytest.skip(f"no SLURM here: {reason}")
    cluster.install()
    running = cluster.is_running()
    if not running:
        cluster.start()
    yield
    if not running:
        cluster.stop()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(SITE))
    return path


@pytest.fixture
def bare(slurm, tmp_path: Path, site: Path) -> Driver:
    """A folder with the profile and the rules that it reads: a test puts its Snakefile there."""
    folder = tmp_path / "bare"
    shutil.copytree(repository_root() / "profiles/slurm", folder / "slurm")
    shutil.copytree(repository_root() / "rules", folder / "rules")
    (folder / "config").mkdir()
    (folder / "config/paper.yaml").write_text("{}\n")
    return Driver(folder, site)


@pytest.fixture
def trained_clone(slurm, clone, site: Path) -> Driver:
    """A copy of the clone with the prompts and the Hard Case of a smoke run, ready to train; the
    same training, undisturbed, is there in the clone itself."""
    command = [sys.executable, "-m", "cast.workflow", "--configfile", "config/smoke.yaml"]
    done = subprocess.run(
        [*command, f"{ARM}/ledger.json"], cwd=repository_root(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = repository_root() / "results/smoke"
    for name in ("prompts", "hard_case.json"):
        copy = clone.root / "results/smoke" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        source = made / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy2(source, copy)
    return Driver(clone.root, site)
