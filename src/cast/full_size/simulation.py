"""How long a config takes on 1, 8 or 64 GPUs: list scheduling of its jobs, from the cost model.

Simulated, not measured: jobs start as soon as what they need is there and GPUs are free, the
longest way to the end first; reading, queueing and starting cost nothing. A training job may
split its group over several GPUs (App. E) and is taken to lose nothing by it, an evaluation its
prompts over chunks; every other job has one GPU.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from cast.config import CastConfig, load_backbone_config
from cast.errors import CastError
from cast.full_size.cost import JobCost, job_costs
from cast.full_size.operations import Assumptions
from cast.workflow.keys import BASE

TRAINING_GPUS = 8  # of one run: the GPUs of a node
EVALUATION_CHUNKS = 8
CHUNKED = ("hard_case", "evaluate")


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
    """The jobs of a config on `gpus` GPUs, each with what it waits for in the workflow."""
    found: list[Task] = []
    for job in job_costs(config, assumed):
        name, needs = f"{job.rule} {_of(job)}".strip(), _needs(job, config)
        if job.rule == "train":
            width = min(TRAINING_GPUS, gpus, config.training.group_size)
            found.append(Task(name, job.total / width, width, needs))
        elif job.rule in CHUNKED:
            chunks = min(EVALUATION_CHUNKS, gpus)
            one = Task(name, job.total / chunks, 1, needs)
            found += [replace(one, name=f"{name} chunk{chunk}") for chunk in range(chunks)]
        else:
            found.append(Task(name, job.total, 1, needs))
    return _with_chunks(found)


def _of(job: JobCost) -> str:
    """The arm, or backbone and seed of a study, whose name is the rule's."""
    parts = [job.backbone, "" if job.method == job.rule else job.method]
    return " ".join(part for part in [*parts, f"seed{job.seed}"] if part) if job.backbone else ""


def _needs(job: JobCost, config: CastConfig) -> tuple[str, ...]:
    """Beginnings of the names of the tasks that a job waits for."""
    own_prompts = config.diagnostics.prompts is not None
    if job.rule == "train":  # after Hard Case, which is frozen before any training (paper G)
        measured = load_backbone_config(job.backbone).window.high == "measured"
        return ("hard_case", *([f"structure {job.backbone}"] if measured else []))
    if job.rule == "evaluate":
        return (f"train {_of(job)}",) if job.method != BASE else ()
    if job.rule == "quality":  # its images are of other prompts, yet its rule waits for the arm's
        return (f"evaluate {_of(job)}",)
    if job.rule == "heads":
        return () if own_prompts else ("hard_case",)
    if job.rule == "verifier":
        return tuple(f"evaluate {backbone} {BASE}" for backbone in config.backbones)
    if job.rule == "qualitative":
        return ("hard_case", f"evaluate {config.evaluation.hard_case.backbone}")
    return ()


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
