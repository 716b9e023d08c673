"""A copy of this clone, and the plan that the real Snakefile makes in it."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cast.paths import repository_root

ROOT = repository_root()
LIGHT = ("claims", "qualitative", "table1", "table2", "table3")  # from results, without training
RULES = ("prompts", "hard_case", "train", "evaluate", "checks", "verifier", *LIGHT)


def copy_of_clone(target: Path) -> Path:
    """What git knows or would add: no results, no environment."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        source, copy = ROOT / name, target / name
        if source.exists() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    return target


@dataclass
class Clone:
    """A copy of the clone and the commands that tests run in it."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """The copy's own package before the installed one, and this environment's commands."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PYTHONPATH": str(self.root / "src")}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def dry_run(self, *arguments: str) -> list[str]:
        """The lines of a dry run."""
        done = self.run("snakemake", "--dry-run", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return (done.stdout + done.stderr).splitlines()

    def outputs(self, *arguments: str) -> list[Path]:
        """Every file that a dry run says it would make."""
        lines = [
            line.split("output: ")[1] for line in self.dry_run(*arguments) if "output: " in line
        ]
        return [self.root / name for line in lines for name in line.split(", ")]

    def plan(self, *arguments: str) -> list[str]:
        """Jobs that a dry run lists, as `train mini-flux2 cast 0`."""
        jobs: list[str] = []
        for line in self.dry_run(*arguments):
            if match := re.fullmatch(r"(?:local)?rule (\w+):", line):
                jobs.append(match[1])
            elif (match := re.match(r" +wildcards: (.*)", line)) and jobs:
                jobs[-1] += " " + " ".join(re.findall(r"=([^,]+)", match[1]))
        return sorted(job for job in jobs if job.split()[0] in RULES)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text()
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new, 1))


@pytest.fixture
def clone(tmp_path) -> Clone:
    """A fresh copy of the clone."""
    return Clone(copy_of_clone(tmp_path / "clone"))


@pytest.fixture(scope="session")
def smoke() -> Path:
    """The smoke world's results in this clone; made here where that wasn't done before."""
    command = [sys.executable, "-m", "cast.workflow", "--configfile", "config/smoke.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "results/smoke"
