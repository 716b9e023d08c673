"""Floating-point operations of the workflow's jobs, from the counts of their models.

Only matrix products, convolutions and attention are counted. Text encoders are left out: a prompt
passes them once, an image's noise the transformer as often as there are steps.
"""

import json
from dataclasses import dataclass

from cast.config import (
    CastConfig,
    RunConfig,
    count_prompts,
    load_backbone_config,
    run_config,
    studied_backbones,
)
from cast.full_size.clip_counts import clip_image_operations
from cast.full_size.counts import BackboneCounts, backbone_counts
from cast.full_size.verifier_counts import VerifierCounts, verifier_counts, vlm_counts
from cast.paths import from_root
from cast.workflow.keys import list_arms, table1_arms

SPEED = 395e12
"""Operations a second that one GPU achieves: 40% of an H200's dense bfloat16 peak (989e12). Ours,
until `benchmarks/gpu.py` has measured it."""
CORE_SPEED = 40e9
"""The same of one CPU core in float32, for the worlds that need no GPU: mini-flux2's rollout of 20
steps at 8 images a second (LOG.md). Cores differ several times over."""

WITH_HEATMAPS = ("aggregate_map", "shuffled_map", "atom_map")
CHECKED = {"collections": 3, "group_size": 4, "micro_batch": 2}  # the runs of X5 and X6


@dataclass(frozen=True)
class Assumptions:
    """What no config says: lengths in verifier tokens, and the benchmark's size.

    A GenEval 2 prompt has 3 to 10 atoms; 800 of them make the benchmark. `speed` is in operations
    a second; None takes `SPEED` for the paper's world and `CORE_SPEED` for the others.
    """

    speed: float | None = None
    probes: float = 6.5
    probe_tokens: float = 24.0
    caption_tokens: float = 48.0
    opening_tokens: int = 4
    judge_tokens: float = 100.0
    answer_tokens: float = 2.0
    benchmark_prompts: int = 800

    def speed_of(self, config: CastConfig) -> float:
        """Operations a second of one device of the config's world."""
        return self.speed or (SPEED if config.world == "paper" else CORE_SPEED)


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
    score = scoring_operations(verifier, *size, assumed)
    if run.preference is not None:
        score = clip_image_operations(run.preference.path, "preference.path")
    stages = {
        "generation": images * (run.sampling.steps * counts.step + counts.decode),
        "scoring": images * score,
        "attention": 0.0,
        "optimisation": rows * counts.update,
    }
    if run.method.kind == "rl":
        stages["optimisation"] *= run.sde.window_length
    if run.method.routing in WITH_HEATMAPS:
        neutral = run.verifier.heatmap.baseline == "neutral"
        stages["attention"] = images * attention_operations(verifier, *size, assumed, neutral)
    return stages


class Operations:
    """Operations of a config's jobs; each method is a rule of the workflow, or a part of one."""

    def __init__(self, config: CastConfig, assumed: Assumptions) -> None:
        self.config, self.assumed = config, assumed
        self.size = (config.sampling.height, config.sampling.width)
        self.verifier = verifier_counts(config.verifier)
        self.score = scoring_operations(self.verifier, *self.size, assumed)
        if config.evaluation.benchmark is not None:
            self.prompts = count_prompts(config)
        else:  # the paper's, whose plan needs no file
            size = assumed.benchmark_prompts
            self.prompts = min(config.evaluation.limit or size, size)

    def counts(self, backbone: str) -> BackboneCounts:
        """A backbone's counts at the config's image size."""
        return backbone_counts(load_backbone_config(backbone), *self.size)

    def images(self) -> int:
        """Pictures that the whole config keeps on the disk."""
        config, chosen = self.config, self.config.evaluation
        seeds, judged = len(chosen.seeds), config.quality.judge == "vlm"
        evaluated = len(list_arms(config)) * seeds * self.prompts
        graded = len(table1_arms(config)) * seeds * len(_facets()) if judged else 0
        saturation = config.diagnostics.saturation
        studied = min(saturation.prompts, self.prompts) * len(saturation.seeds)
        studied *= len(studied_backbones(config))
        return evaluated + graded + studied + self.prompts * len(chosen.hard_case.seeds)

    def encoded_prompts(self) -> int:
        """Prompts that each backbone encodes: the manifest's, the benchmark's, the judge's."""
        graded = len(_facets()) if self.config.quality.judge == "vlm" else 0
        return self.config.prompts.manifest + self.prompts + graded

    def image(self, backbone: str) -> float:
        """One image by the plain sampler, decoded."""
        counts = self.counts(backbone)
        return self.config.sampling.steps * counts.step + counts.decode

    def evaluation(self, backbone: str, images: int) -> float:
        """Images drawn and scored."""
        return images * (self.image(backbone) + self.score)

    def training(self, backbone: str, method: str, seed: int) -> dict[str, float]:
        """One run, by stage."""
        run = run_config(self.config, backbone, method, seed)
        return training_operations(run, self.counts(backbone), self.verifier, self.assumed)

    def structure(self, backbone: str) -> float:
        """One study: an estimate decoded and embedded at every step, and some of them scored."""
        section, steps = self.config.diagnostics.structure, self.config.sampling.steps
        counts = self.counts(backbone)
        scored = len({*range(0, steps, section.score_every), steps - 1})
        embedded = clip_image_operations(self.config.diagnostics.clip, "diagnostics.clip")
        each_step = counts.step + counts.decode + embedded
        return section.prompts * (steps * each_step + scored * self.score)

    def saturation(self, backbone: str) -> float:
        """One study: an image a prompt, with atom scores and preference."""
        images = min(self.config.diagnostics.saturation.prompts, self.prompts)
        preferred = clip_image_operations(self.config.preference.path, "preference.path")
        return self.evaluation(backbone, images) + images * preferred

    def heads(self, backbone: str) -> float:
        """One study: a group of images a prompt; reading the heads multiplies nothing large."""
        section = self.config.diagnostics.heads
        return self.evaluation(backbone, section.prompts * section.images)

    def quality(self, backbone: str) -> float:
        """Judge vlm on one arm: Qwen-Image-Bench's prompts drawn, and each facet asked by itself,
        which reads the image anew."""
        facets = _facets()
        judge = vlm_counts(str(self.config.quality.path), "quality.path")
        prefix = judge.image_tokens(*self.size) + self.assumed.opening_tokens
        tokens = self.assumed.judge_tokens + self.assumed.answer_tokens
        answer = judge.prefix(*self.size, self.assumed.opening_tokens)
        answer += judge.packed(prefix, tokens, self.assumed.answer_tokens)
        seeds = len(self.config.evaluation.seeds)
        return seeds * (len(facets) * self.image(backbone) + sum(facets) * answer)

    def checks(self) -> float:
        """X1 and X2 on drawn scenes, where the truth is known; X5 trains twice, and X6 once more
        where a job has two devices, which a job with one GPU hasn't."""
        backbone = self.config.evaluation.hard_case.backbone
        run = run_config(self.config, backbone, "cast", 0)
        run = run.model_copy(update={"training": run.training.model_copy(update=CHECKED)})
        work = training_operations(run, self.counts(backbone), self.verifier, self.assumed)
        total = (2 if self.config.world == "paper" else 3) * sum(work.values())
        if self.config.vocabulary == "shapes":
            neutral = run.verifier.heatmap.baseline == "neutral"
            total += self._scenes() * (3 * self.score + self._attention(neutral))
        return total

    def verifier_study(self) -> float:
        """Drawn scenes asked about two prompts each, and their heatmaps read three times; base
        models drawn that no evaluation draws."""
        study = self.config.diagnostics.verifier
        total = self._scenes() * (2 * self.score + 3 * self._attention(neutral=True))
        for backbone in set(studied_backbones(self.config)) - set(self.config.backbones):
            total += self.evaluation(backbone, study.generated)
        return total

    def qualitative(self) -> float:
        """Figure 1's images, scored and read anew."""
        neutral = self.config.verifier.heatmap.baseline == "neutral"
        return len(self.config.evaluation.seeds) * (self.score + self._attention(neutral))

    def _scenes(self) -> int:
        study = self.config.diagnostics.verifier
        return study.prompts * study.images

    def _attention(self, neutral: bool) -> float:
        return attention_operations(self.verifier, *self.size, self.assumed, neutral)


def _facets() -> list[int]:
    """How many facets Qwen-Image-Bench asks of each of its prompts."""
    table = json.loads(from_root("data/qwen_image_bench/facets.json").read_bytes())
    return [len(own) for own in table["prompts"]]
