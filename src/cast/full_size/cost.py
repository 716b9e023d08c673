"""GPU-hours of a config, from counted operations and a stated speed.

`job_costs(config)` gives them by job, `gpu_hours(config)` by place and stage, at full size in
milliseconds and without any model library. Only what is bound by matrix products is priced:
reading, writing and starting aren't.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cast.config import CastConfig, studied_backbones
from cast.config.diagnostics import STUDIES, Study
from cast.full_size.operations import Assumptions, Operations
from cast.workflow.keys import BASE, list_arms, table1_arms

STAGES = (
    "generation",
    "scoring",
    "attention",
    "optimisation",
    "evaluation",
    "quality",
    "diagnostics",
    "checks",
)
"""The first four are training's. Checks: X1 to X6, the study of the verifier, and figure 1."""


@dataclass(frozen=True)
class JobCost:
    """One job of the workflow that runs a model: its rule, what its results are of, hours by stage.

    `method` is the study's name for a diagnostic study. Jobs of no backbone have neither.
    """

    rule: str
    hours: Mapping[str, float]
    backbone: str = ""
    method: str = ""
    seed: int = 0

    @property
    def total(self) -> float:
        """GPU-hours of the job."""
        return sum(self.hours.values())

    @property
    def place(self) -> str:
        """Where its results lie below the world's folder; the rule where they are one file."""
        return f"{self.backbone}/{self.method}/seed{self.seed}" if self.backbone else self.rule


def job_costs(config: CastConfig, assumed: Assumptions | None = None) -> list[JobCost]:
    """Every job that runs a model, in the order of the workflow; ablations are among the arms.

    The judge grades Table 1's arms only, and the mini judge measures pixels, at no price.
    """
    assumed = assumed or Assumptions()
    work, speed = Operations(config, assumed), assumed.speed_of(config) * 3600
    chosen = config.evaluation
    jobs: list[JobCost] = []

    def add(rule: str, stage: str, operations: float, *of: str, seed: int = 0) -> None:
        jobs.append(JobCost(rule, {stage: operations / speed}, *of, seed=seed))

    hard = chosen.hard_case
    selecting = work.evaluation(hard.backbone, work.prompts * len(hard.seeds))
    add("hard_case", "evaluation", selecting)
    for backbone, method, seed in list_arms(config):
        if method != BASE:
            run = work.training(backbone, method, seed)
            hours = {stage: value / speed for stage, value in run.items()}
            jobs.append(JobCost("train", hours, backbone, method, seed))
        images = work.prompts * len(chosen.seeds)
        evaluated = work.evaluation(backbone, images)
        add("evaluate", "evaluation", evaluated, backbone, method, seed=seed)
        if config.quality.judge == "vlm" and (backbone, method, seed) in table1_arms(config):
            add("quality", "quality", work.quality(backbone), backbone, method, seed=seed)
    for backbone in studied_backbones(config):
        for study in STUDIES:
            for seed in getattr(config.diagnostics, study).seeds:
                add(study, "diagnostics", _study(work, study, backbone), backbone, study, seed=seed)
    add("checks", "checks", work.checks())
    if config.vocabulary == "shapes":  # elsewhere no truth is known
        add("verifier", "checks", work.verifier_study())
    add("qualitative", "checks", work.qualitative())
    return jobs


def _study(work: Operations, study: Study, backbone: str) -> float:
    return {"structure": work.structure, "saturation": work.saturation, "heads": work.heads}[study](
        backbone
    )


def gpu_hours(
    config: CastConfig, assumed: Assumptions | None = None
) -> dict[str, dict[str, float]]:
    """GPU-hours by place ("hard_case", "BACKBONE/METHOD/seedN") and stage (`STAGES`)."""
    table: dict[str, dict[str, float]] = {}
    for job in job_costs(config, assumed):
        stages = table.setdefault(job.place, {})
        for stage, hours in job.hours.items():
            stages[stage] = stages.get(stage, 0.0) + hours
    return table
