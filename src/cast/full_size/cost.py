"""GPU-hours of a config, from counted operations and a stated speed.

`gpu_hours(config)` gives them by arm and stage, in milliseconds and without any model library.
Only what is bound by matrix products is priced: reading, writing and starting aren't.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cast.config import CastConfig, RunConfig, load_backbone_config, load_method_config, run_config
from cast.full_size.counts import BackboneCounts, backbone_counts
from cast.full_size.verifier_counts import VerifierCounts, verifier_counts

SPEED = 395e12
"""Operations a second that one GPU achieves: 40% of an H200's dense bfloat16 peak (989e12). Ours,
until `benchmarks/gpu.py` has measured it."""

STAGES = ("generation", "scoring", "attention", "optimisation", "evaluation")
WITH_HEATMAPS = ("aggregate_map", "shuffled_map", "atom_map")
BASE = "base"


@dataclass(frozen=True)
class Assumptions:
    """What no config says: lengths in verifier tokens, and the benchmark's size.

    A GenEval 2 prompt has 3 to 10 atoms; 800 of them make the benchmark.
    """

    speed: float = SPEED
    probes: float = 6.5
    probe_tokens: float = 24.0
    caption_tokens: float = 48.0
    opening_tokens: int = 4
    benchmark_prompts: int = 800


@dataclass(frozen=True)
class JobCost:
    """One job of the workflow: `rule` is hard_case, train or evaluate; hours by stage."""

    rule: str
    backbone: str
    method: str
    seed: int
    hours: Mapping[str, float]

    @property
    def total(self) -> float:
        """GPU-hours of the job."""
        return sum(self.hours.values())


def scoring_operations(
    verifier: VerifierCounts, height: int, width: int, assumed: Assumptions
) -> float:
    """Every probe of one image, over a shared prefix."""
    prefix = verifier.image_tokens(height, width) + assumed.opening_tokens
    tokens = assumed.probes * assumed.probe_tokens
    return verifier.prefix(height, width, assumed.opening_tokens) + verifier.packed(
        prefix, tokens, assumed.probes
    )


def attention_operations(
    verifier: VerifierCounts, height: int, width: int, assumed: Assumptions, neutral: bool
) -> float:
    """The teacher-forced caption of one image, and the neutral one, over a prefix of its own."""
    prefix = verifier.image_tokens(height, width) + assumed.opening_tokens
    tokens = assumed.caption_tokens * (2 if neutral else 1)
    return verifier.prefix(height, width, assumed.opening_tokens) + verifier.packed(
        prefix, tokens, 0
    )


def training_operations(
    run: RunConfig, counts: BackboneCounts, verifier: VerifierCounts, assumed: Assumptions
) -> dict[str, float]:
    """Operations of a run by stage. Every method draws the same images and makes the same updates
    (paper D); a supervised update sees each row once, a policy update every window transition."""
    training, size = run.training, (run.sampling.height, run.sampling.width)
    images = training.collections * training.group_size
    rows = images * training.updates_per_collection
    stages = {
        "generation": images * (run.sampling.steps * counts.step + counts.decode),
        "scoring": images * scoring_operations(verifier, *size, assumed),
        "attention": 0.0,
        "optimisation": rows * counts.update,
    }
    if run.method.kind == "rl":
        stages["optimisation"] *= run.sde.window_length
    if run.method.routing in WITH_HEATMAPS:
        neutral = run.verifier.heatmap.baseline == "neutral"
        stages["attention"] = images * attention_operations(verifier, *size, assumed, neutral)
    return stages


def evaluation_operations(
    config: CastConfig, counts: BackboneCounts, images: int, assumed: Assumptions
) -> float:
    """Generate and score `images` images."""
    sampling = config.sampling
    verifier = verifier_counts(config.verifier)
    score = scoring_operations(verifier, sampling.height, sampling.width, assumed)
    return images * (sampling.steps * counts.step + counts.decode + score)


def job_costs(config: CastConfig, assumed: Assumptions | None = None) -> list[JobCost]:
    """Every job that runs a large model, in the order of the workflow."""
    assumed = assumed or Assumptions()
    sampling, chosen = config.sampling, config.evaluation
    verifier = verifier_counts(config.verifier)
    prompts = min(chosen.limit or assumed.benchmark_prompts, assumed.benchmark_prompts)

    def counts_of(name: str) -> BackboneCounts:
        return backbone_counts(load_backbone_config(name), sampling.height, sampling.width)

    def evaluation(name: str, seeds: int) -> dict[str, float]:
        operations = evaluation_operations(config, counts_of(name), prompts * seeds, assumed)
        return {"evaluation": operations / assumed.speed / 3600}

    hard = chosen.hard_case
    jobs = [
        JobCost("hard_case", hard.backbone, BASE, 0, evaluation(hard.backbone, len(hard.seeds)))
    ]
    for backbone in config.backbones:
        evaluated = evaluation(backbone, len(chosen.seeds))
        jobs.append(JobCost("evaluate", backbone, BASE, 0, evaluated))
        for method in config.methods:
            for seed in config.training_seeds:
                run = run_config(config, backbone, method, seed)
                work = training_operations(run, counts_of(backbone), verifier, assumed)
                hours = {stage: value / assumed.speed / 3600 for stage, value in work.items()}
                jobs.append(JobCost("train", backbone, method, seed, hours))
                jobs.append(JobCost("evaluate", backbone, method, seed, evaluated))
    return jobs


def gpu_hours(
    config: CastConfig, assumed: Assumptions | None = None
) -> dict[str, dict[str, float]]:
    """GPU-hours by arm ("hard_case", "BACKBONE/METHOD/seedN") and stage (`STAGES`)."""
    table: dict[str, dict[str, float]] = {}
    for job in job_costs(config, assumed):
        name = f"{job.backbone}/{job.method}/seed{job.seed}"
        stages = table.setdefault("hard_case" if job.rule == "hard_case" else name, {})
        for stage, hours in job.hours.items():
            stages[stage] = stages.get(stage, 0.0) + hours
    return table


def title(method: str) -> str:
    """A method's name in tables."""
    return "base" if method == BASE else load_method_config(method).title
