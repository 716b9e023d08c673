"""Evaluation (paper 5.2, App. G): matched generation, GenEval 2 scores, Hard Case, intervals.

What a rule or a notebook calls, with a `CastConfig` from `load_config`; everything lands under
`results/{world}`, and every call resumes where a killed one stopped:

`evaluate_arm(config, backbone, method, seed)` (or its halves, `generate_arm` and `score_arm`)
    Generates the benchmark's images with the arm's adapter (`method="base"`: none) and scores
    them: `{backbone}/{method}/seed{seed}/images.parquet`, `scores.parquet`, `evaluation.json`.
    Declare these three as a rule's outputs, never `images/` (it is the store it resumes from).
`evaluate_chunk(config, Evaluated.of(config, backbone, method, seed), index)`
    One of the `compute.chunks` jobs that share the above, which then gathers what they made.
`freeze_hard_case(config)`
    Generates and scores the base model on the selection seeds and writes `hard_case.json`;
    its images and scores stay in `hard_case/`.
`load_arms(config, methods=None, backbones=None)`
    Every evaluated arm as `Arm` records, refused unless prompts, seeds, worlds, base models,
    configs and budgets match.

Their parts, for one's own prompts or models: `generate`, `score_images`, `evaluate`,
`select_hard_case`, `check_budgets`, and the pure aggregates of `geneval2` and `replicates`.
"""

from cast.evaluation.arm import (
    evaluate,
    evaluate_arm,
    freeze_hard_case,
    generate_arm,
    score_arm,
)
from cast.evaluation.budget import check_budgets
from cast.evaluation.chunks import Evaluated, evaluate_chunk
from cast.evaluation.folders import BASE, arm_folder, benchmark, world_folder
from cast.evaluation.generation import generate
from cast.evaluation.hard_case import HardCase, read_hard_case, select_hard_case
from cast.evaluation.making import generate_folder, score_folder
from cast.evaluation.replicates import Interval, Replicates, difference, gain_ratio
from cast.evaluation.results import Arm, check_arms, load_arm, load_arms, load_hard_case
from cast.evaluation.scoring import score_images

__all__ = [
    "BASE",
    "Arm",
    "Evaluated",
    "HardCase",
    "Interval",
    "Replicates",
    "arm_folder",
    "benchmark",
    "check_arms",
    "check_budgets",
    "difference",
    "evaluate",
    "evaluate_arm",
    "evaluate_chunk",
    "freeze_hard_case",
    "gain_ratio",
    "generate",
    "generate_arm",
    "generate_folder",
    "load_arm",
    "load_arms",
    "load_hard_case",
    "read_hard_case",
    "score_arm",
    "score_folder",
    "score_images",
    "select_hard_case",
    "world_folder",
]
