"""How long a config takes on 1, 8 or 64 GPUs: list scheduling of its jobs, from the cost model.

Simulated, not measured: jobs start as soon as what they need is there and GPUs are free, the
longest way to the end first; reading, queueing and starting cost nothing. A training job may
split its group over several GPUs (App. E) and is taken to lose nothing by it, an evaluation its
prompts over any number of chunks.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from cast.config import CastConfig
from cast.errors import CastError
from cast.full_size.cost import Assumptions, JobCost, job_costs

TRAINING_GPUS = 8  # of one run: the GPUs of a node
EVALUATION_CHUNKS = 8


@dataclass(frozen=True)
class Task:
    """A job that holds `gpus` GPUs for `hours`, after the tasks that it needs."""

    name: str
    hours: float
    gpus: int = 1
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """Start and end of every task in hours, and the chain that decides the end."""

    start: Mapping[str, float]
    end: Mapping[str, float]
    critical: tuple[str, ...]

    @property
    def hours(self) -> float:
        """Wall-clock hours of all of it."""
        return max(self.end.values(), default=0.0)


def tasks(config: CastConfig, gpus: int, assumed: Assumptions | None = None) -> list[Task]:
    """The jobs of a config on `gpus` GPUs: Hard Case, then training, then each arm's evaluation."""
    found: list[Task] = []
    for job in job_costs(config, assumed):
        name = f"{job.rule} {job.backbone} {job.method} seed{job.seed}"
        needs = _needs(job)
        if job.rule == "train":
            width = min(TRAINING_GPUS, gpus, config.training.group_size)
            found.append(Task(name, job.total / width, width, needs))
            continue
        chunks = min(EVALUATION_CHUNKS, gpus)
        one = Task(name, job.total / chunks, 1, needs)
        found += [replace(one, name=f"{name} chunk{chunk}") for chunk in range(chunks)]
    return _with_chunks(found)


def _needs(job: JobCost) -> tuple[str, ...]:
    arm = f"{job.backbone} {job.method} seed{job.seed}"
    if job.rule == "train":
        return ("hard_case",)  # frozen before any training (paper G)
    return (f"train {arm}",) if job.rule == "evaluate" and job.method != "base" else ()


def _with_chunks(found: Sequence[Task]) -> list[Task]:
    """Needs by a job's beginning become needs of all tasks that begin so."""

    def named(need: str) -> tuple[str, ...]:
        return tuple(
            task.name for task in found if task.name.startswith(f"{need} ") or task.name == need
        )

    return [
        replace(task, needs=tuple(name for need in task.needs for name in named(need)))
        for task in found
    ]


def schedule(jobs: Sequence[Task], gpus: int) -> Schedule:
    """List scheduling by the longest remaining chain; raises `CastError` for a cycle, an unknown
    need or a task wider than the machine."""
    by_name = {job.name: job for job in jobs}
    for job in jobs:
        unknown = [need for need in job.needs if need not in by_name]
        if unknown or job.gpus > gpus:
            raise CastError(f"{job.name}: needs {unknown or job.gpus}, and there are {gpus} GPUs.")
    rank = _ranks(by_name)
    waiting = sorted(jobs, key=lambda job: (-rank[job.name], job.name))
    start: dict[str, float] = {}
    end: dict[str, float] = {}
    running: list[tuple[float, int, Task]] = []
    before: dict[str, str | None] = {}
    now, free, order, last = 0.0, gpus, count(), None
    while waiting or running:
        for job in list(waiting):
            done = all(need in end and end[need] <= now for need in job.needs)
            if done and job.gpus <= free:
                waiting.remove(job)
                start[job.name], end[job.name] = now, now + job.hours
                before[job.name] = last
                free -= job.gpus
                heapq.heappush(running, (now + job.hours, next(order), job))
        now, _, finished = heapq.heappop(running)
        free, last = free + finished.gpus, finished.name
        while running and running[0][0] <= now:
            also = heapq.heappop(running)[2]
            free += also.gpus
    return Schedule(start, end, _critical(end, before))


def _ranks(by_name: Mapping[str, Task]) -> dict[str, float]:
    """Hours from a task's start to the end of the longest chain behind it."""
    following: dict[str, list[str]] = {name: [] for name in by_name}
    for name, job in by_name.items():
        for need in job.needs:
            following[need].append(name)
    ranks: dict[str, float] = {}

    def rank(name: str, above: tuple[str, ...]) -> float:
        if name in above:
            raise CastError(f"tasks need each other in a circle: {' -> '.join([*above, name])}.")
        if name not in ranks:
            behind = [rank(other, (*above, name)) for other in following[name]]
            ranks[name] = by_name[name].hours + max(behind, default=0.0)
        return ranks[name]

    for name in by_name:
        rank(name, ())
    return ranks


def _critical(end: Mapping[str, float], before: Mapping[str, str | None]) -> tuple[str, ...]:
    """Back from the last task, each time to the one whose end let it start."""
    name: str | None = max(end, key=lambda task: (end[task], task), default=None)
    chain: list[str] = []
    while name is not None:
        chain.append(name)
        name = before[name]
    return tuple(reversed(chain))


def simulate(
    config: CastConfig, machines: Sequence[int] = (1, 8, 64), assumed: Assumptions | None = None
) -> dict[int, Schedule]:
    """A schedule for each number of GPUs."""
    return {gpus: schedule(tasks(config, gpus, assumed), gpus) for gpus in machines}
