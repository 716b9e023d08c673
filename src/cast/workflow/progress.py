"""How far a run is and how long it will still take, read from Snakemake's log as it grows."""

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cast.config import CastConfig

PRIOR = 60.0  # seconds that the nominal speed counts as much as the measured one
_TAIL = 4096  # bytes of a job's log that are looked at
_BAR = re.compile(r"(\d+)/(\d+) \[")

# Seconds an image on one core in the mini world; only their ratio matters after the first minutes.
_TRAINED, _EVALUATED = 0.25, 0.15


def nominal_seconds(config: CastConfig, prompts: int) -> dict[str, float]:
    """Expected seconds of one job of each rule; a rule that isn't here takes a few seconds."""
    evaluation = config.evaluation
    images = config.training.collections * config.training.group_size
    return {
        "train": 15 + _TRAINED * images,
        "evaluate": 15 + _EVALUATED * prompts * len(evaluation.seeds),
        "hard_case": 15 + _EVALUATED * prompts * len(evaluation.hard_case.seeds),
        "checks": 60.0,
        "all": 0.0,
    }


@dataclass
class Job:
    """A job that runs: its rule, what it works on, and the text log that its bar is in."""

    rule: str
    name: str = ""
    log: str = ""
    seen: float = 0.0

    def fraction(self) -> float:
        """Done share by the last progress bar in its log; two bars in turn count half each."""
        text = _tail(Path(self.log)) if self.log else ""
        found = list(_BAR.finditer(text))
        if found:
            done, total = map(int, found[-1].groups())
            share = done / total if total else 0.0
            if self.rule in ("evaluate", "hard_case"):
                scoring = "scoring" in text[: found[-1].start()]
                share = 0.5 + share / 2 if scoring else share / 2
            self.seen = max(self.seen, share)
        return self.seen


class Progress:
    """Fed with Snakemake's log lines; `line()` is what a person reads."""

    def __init__(self, seconds: Mapping[str, float], cores: int, default: float = 10.0) -> None:
        self.seconds, self.cores, self.default = seconds, cores, default
        self.planned: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.running: dict[str, Job] = {}
        self.failed: list[Job] = []
        self.start = time.monotonic()
        self._stats = False
        self._job: Job | None = None

    def feed(self, line: str) -> str | None:
        """Take in one line; what is worth a line of its own comes back."""
        text = line.strip()
        if text == "Job stats:":
            self.planned, self._stats = Counter(), True
        elif self._stats:
            self._count(text)
        elif match := re.fullmatch(r"(?:local)?rule (\w+):", text):
            self._job = Job(match[1])
        elif match := re.fullmatch(r"Error in rule (\w+):", text):
            self._job = Job(match[1])
            self.failed.append(self._job)
        elif self._job is not None and text.startswith("log: "):
            self._job.log = text.removeprefix("log: ").split(" (")[0].split(", ")[-1]
        elif self._job is not None and text.startswith("wildcards: "):
            self._job.name = ", ".join(re.findall(r"=([^,]+)", text))
        elif self._job is not None and text.startswith("jobid: ") and not self.failed:
            self.running[text.removeprefix("jobid: ")] = self._job
        elif match := re.match(r"Finished jobid: (\d+) \(Rule: (\w+)\)", text):
            self.done[match[2]] += 1
            job = self.running.pop(match[1], Job(match[2]))
            return None if job.rule == "all" else f"finished {self._label(job)}"
        return None

    def _count(self, text: str) -> None:
        """A line of the table `job count`; its end is the total."""
        parts = text.split()
        if len(parts) == 2 and parts[1].isdigit():
            if parts[0] == "total":
                self._stats = False
            else:
                self.planned[parts[0]] = int(parts[1])

    def line(self) -> str:
        """`12:40  37%, about 21 min left: train mini-flux2, cast, 0 (45%)`."""
        elapsed = time.monotonic() - self.start
        jobs = [(job, job.fraction()) for job in self.running.values() if job.rule != "all"]
        total = sum(self._cost(rule) * count for rule, count in self.planned.items())
        done = sum(self._cost(rule) * count for rule, count in self.done.items())
        done += sum(self._cost(job.rule) * fraction for job, fraction in jobs)
        speed = (done + self.cores * PRIOR) / (elapsed + PRIOR)
        left = max(0.0, total - done) / speed
        doing = ", ".join(f"{self._label(job)} {fraction:.0%}" for job, fraction in jobs)
        share = done / total if total else 0.0
        return f"{clock(elapsed)}  {share:4.0%}, about {spoken(left)} left: {doing or 'planning'}"

    def reasons(self, lines: int = 12) -> str:
        """Why jobs failed: the last lines of each one's own log."""
        parts = []
        for job in self.failed:
            last = _tail(Path(job.log)).rstrip().splitlines()[-lines:] if job.log else []
            parts.append(
                "\n".join([f"{job.rule} failed; the end of {job.log or 'no log'}:", *last])
            )
        return "\n".join(parts)

    def _cost(self, rule: str) -> float:
        return self.seconds.get(rule, self.default)

    @staticmethod
    def _label(job: Job) -> str:
        return f"{job.rule} ({job.name})" if job.name else job.rule


def clock(seconds: float) -> str:
    """Minutes and seconds: `12:40`."""
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"


def spoken(seconds: float) -> str:
    """`40 s`, `21 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
