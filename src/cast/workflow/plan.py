"""What a dry run at full size says at its end: jobs and GPU-hours, by rule.

The hours are `cast.full_size.cost`'s, counted and not measured, of the jobs that are left to do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.config.diagnostics import STUDIES
from cast.full_size.cost import job_costs
from cast.workflow.keys import BASE

CHUNKS = {"chunk_of_evaluation": "evaluate", "chunk_of_hard_case": "hard_case"}


@dataclass(frozen=True)
class PlannedJob:
    """A job of the workflow: its rule, its wildcards, the GPUs that it asks for."""

    rule: str
    wildcards: Mapping[str, str]
    gpus: int


def left_to_do(workflow: Any) -> list[PlannedJob]:
    """The jobs that Snakemake's plan holds, once it has one."""
    return [
        PlannedJob(job.rule.name, dict(job.wildcards_dict), int(job.resources.get("gpu") or 0))
        for job in (workflow.dag.needrun_jobs(exclude_finished=False) if workflow.dag else [])
    ]


def plan(config: CastConfig, jobs: Iterable[PlannedJob]) -> str:
    """A table of the jobs with GPUs, one line a rule, and their sum; other jobs in one line.

    A rule that the cost model doesn't know has no hours, and the sum says so.
    """
    jobs = list(jobs)
    costs = _costs(config, jobs)
    rows, others = [], 0
    for job in jobs:
        if job.gpus:
            hours = costs.get(_key(job))
            share = config.compute.chunks if job.rule in CHUNKS else 1
            rows.append((job.rule, 1, job.gpus, None if hours is None else hours / share))
        else:
            others += 1
    if not rows:
        return f"Nothing that needs a GPU is left to do; {others} other jobs."
    table = pd.DataFrame(rows, columns=["rule", "jobs", "GPUs a job", "GPU-hours"])
    grouped = table.groupby("rule", sort=False)
    lines = [f"{'rule':20} {'jobs':>5} {'GPUs a job':>10} {'GPU-hours':>10}"]
    for rule, group in grouped:
        hours = group["GPU-hours"].sum() if group["GPU-hours"].notna().all() else None
        lines.append(_line(str(rule), len(group), str(group["GPUs a job"].max()), hours))
    lines.append(_line("all of these", len(table), "", float(table["GPU-hours"].sum())))
    unknown = sorted(set(table.loc[table["GPU-hours"].isna(), "rule"]))
    if unknown:
        lines.append(f"Not in the sum, since the cost model has no {', '.join(unknown)}.")
    lines.append(
        f"and {others} jobs without a GPU. GPU-hours by count, not measured: `make preflight "
        f"CONFIG={config.world}` says what they assume."
    )
    return "\n".join(lines)


def _costs(config: CastConfig, jobs: Sequence[PlannedJob]) -> dict[tuple, float]:
    """Hours of every arm that the jobs name: ablations are none of the config's own methods."""
    named = {job.wildcards["method"] for job in jobs if "method" in job.wildcards} - {BASE}
    seeds = {int(job.wildcards["seed"]) for job in jobs if "seed" in job.wildcards}
    every = {
        "methods": tuple(sorted({*config.methods, *named})),
        "training_seeds": tuple(sorted({*config.training_seeds, *seeds})),
    }
    return {
        (c.rule, c.backbone, c.method, c.seed): c.total
        for c in job_costs(config.model_copy(update=every))
    }


def _key(job: PlannedJob) -> tuple:
    """A study's method is its name, which is its rule's; jobs of no backbone have only a rule."""
    rule, names = CHUNKS.get(job.rule, job.rule), job.wildcards
    study = rule if rule in STUDIES else ""
    return (
        rule,
        names.get("backbone", ""),
        names.get("method", study),
        int(names.get("seed", 0)),
    )


def _line(rule: str, jobs: int, gpus: str, hours: float | None) -> str:
    return f"{rule:20} {jobs:5d} {gpus:>10} {'?' if hours is None else f'{hours:.1f}':>10}"
