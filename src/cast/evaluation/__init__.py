"""Evaluation (paper 5.2, App. G): matched generation, GenEval 2 scores, Hard Case, intervals.

What a rule or a notebook calls, with a `CastConfig` from `load_config`; everything lands under
`results/{world}`, and every call resumes where a killed one stopped:

`evaluate_arm(config, backbone, method, seed)`
    Generates the benchmark's images with the arm's adapter (`method="base"`: none) and scores
    them: `{backbone}/{method}/seed{seed}/images.parquet`, `scores.parquet`, `evaluation.json`.
    Declare these three as a rule's outputs, never `images/` (it is the store it resumes from).
`freeze_hard_case(config)`
    Generates and scores the base model on the selection seeds and writes `hard_case.json`;
    its images and scores stay in `hard_case/`.
`load_arms(config, methods=None, backbones=None)`
    Every evaluated arm as `Arm` records, refused unless prompts, seeds, worlds, base models,
    configs and budgets match.

Their parts, for one's own prompts or models: `generate`, `score_images`, `evaluate`,
`select_hard_case`, `check_budgets`, and the pure aggregates of `geneval2` and `replicates`.
"""
