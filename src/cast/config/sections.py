"""Every setting of a run: its meaning, unit, allowed range and source.

The defaults are the mini world's, and `config/mini.yaml` and `config/schema.json` are generated
from them (`python -m cast.config write`). "Paper" is the paper's summary; "peers" are the public
Flow-GRPO-like trainers; "ours" is what the summary leaves open.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cast.config.diagnostics import DiagnosticsSection
from cast.config.judges import PreferenceSection, QualitySection
from cast.config.model import Name, Section, Seed, setting

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]


class PromptsSection(Section):
    """The prompt sets: sampled from causal scene graphs, disjoint from every evaluation prompt."""

    train: int = setting(1024, "Training prompts", source="paper 4.1, D", ge=1)
    development: int = setting(256, "Held-out prompts, for tuning", source="paper 4.1, D", ge=1)
    development_file: str | None = setting(
        "data/mini/development.jsonl",
        "Shipped held-out prompts that take the place of sampled ones; null samples them",
    )
    manifest: int = setting(
        128, "Prompts of the fixed training manifest, one a collection", source="paper D", ge=1
    )
    atoms_min: int = setting(3, "Fewest atoms of a prompt", source="paper 4.1", ge=1, le=20)
    atoms_max: int = setting(10, "Most atoms of a prompt", source="paper 4.1", ge=1, le=20)
    seed: Seed = setting(0, "Seed of the prompt sampler")
    english: Literal["correct", "benchmark"] = setting(
        "correct", "Plurals and articles of sampled prompts: correct ones, or the benchmark's own"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "PromptsSection":
        if self.atoms_max < self.atoms_min:
            raise ValueError(f"atoms_max must be at least atoms_min ({self.atoms_min})")
        if self.manifest > self.train:
            raise ValueError(f"manifest must be at most train ({self.train})")
        return self


class SamplingSection(Section):
    """How images are sampled, in training and in evaluation alike."""

    steps: int = setting(20, "Steps N of the sampler; the paper's is 50", ge=2, le=1000)
    height: int = setting(64, "Image height", unit="pixels", ge=16, le=4096, multiple_of=8)
    width: int = setting(64, "Image width", unit="pixels", ge=16, le=4096, multiple_of=8)


class SdeSection(Section):
    """The stochastic part of a rollout: two transitions in a window, the ODE elsewhere."""

    kind: Literal["flow_sde", "cps"] = setting(
        "flow_sde",
        "Transition: Flow-GRPO's SDE, or coefficients-preserving sampling",
        source="paper 2.1",
    )
    noise_level: float | None = setting(
        None, "Noise level a; null takes the backbone's own", source="peers", gt=0.0, le=2.0
    )
    window_length: int = setting(
        2, "Contiguous stochastic transitions of a trajectory", source="paper 4.3", ge=1, le=50
    )
    scope: Literal["trajectory", "group"] = setting(
        "trajectory", "Whether each trajectory or each group draws its window", source="paper 4.3"
    )


class HeatmapSection(Section):
    """How an atom's attention heatmap is read from the verifier."""

    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = setting(
        None, "Language layers averaged; null takes all of them"
    )
    heads: Literal["mean", "max"] = setting("mean", "How attention heads are reduced")
    row_offset: Literal[-1, 0] = setting(
        0, "Row read for token t: its own (0) or the one that predicts it (-1)"
    )
    baseline: Literal["neutral", "none"] = setting(
        "neutral",
        "What the map is divided by: the map of a neutral prompt (removes sinks), or nothing",
    )
    floor: float = setting(
        0.0, "Share of the uniform map mixed into every map; the paper's is 0", ge=0.0, le=1.0
    )
    temperature: float = setting(
        1.0, "Maps are raised to 1/temperature; the paper's is 1", gt=0.0, le=100.0
    )


class VerifierSection(Section):
    """The frozen vision-language verifier that scores atoms."""

    path: str = setting(
        "models/mini/mini-qwen3-vl", "Local folder or hub id of a Qwen3-VL", min_length=1
    )
    dtype: Literal["float32", "bfloat16"] = setting("float32", "Number type of the weights")
    answers: Literal["strict", "official"] = setting(
        "strict", "Answer tokens that training counts; the benchmark always reports official"
    )
    heatmap: HeatmapSection = HeatmapSection()


class LoraSection(Section):
    """The adapter, on all attention projections of every block."""

    rank: int = setting(64, "Rank r of the adapter", source="peers", ge=1, le=1024)
    alpha: float = setting(
        128.0, "Scale alpha; updates are scaled by alpha / r", source="peers", gt=0.0
    )


class TrainingSection(Section):
    """The budget and the optimizer: the same for every method."""

    collections: int = setting(
        128, "Single-prompt collections of a run", source="paper 5.1, D", ge=1
    )
    group_size: int = setting(16, "Images of a collection", source="paper 5.1, D", ge=2, le=1024)
    micro_batch: int = setting(
        8,
        "Images a forward pass, the same in rollout and replay so that ratios are exact",
        ge=1,
        le=1024,
    )
    learning_rate: float = setting(
        1.0e-4, "AdamW's learning rate", source="ours; peers: 3e-4 at full size", gt=0.0, le=1.0
    )
    betas: tuple[Beta, Beta] = setting((0.9, 0.999), "AdamW's betas", source="peers")
    weight_decay: float = setting(1.0e-4, "AdamW's weight decay", source="peers", ge=0.0, le=1.0)
    gradient_clip: float = setting(1.0, "Largest gradient norm", source="peers", gt=0.0)
    warmup: int = setting(
        5, "Updates of linear warm-up; the rate is constant afterwards", source="peers", ge=0
    )
    lora: LoraSection = LoraSection()
    clip_range_image: float = setting(
        1.0e-4,
        "Clip range of the image-level ratio; inactive on-policy",
        source="peers",
        gt=0.0,
        lt=1.0,
    )
    clip_range_token: float | None = setting(
        None, "Clip range of the per-token ratio; null is the image's times sqrt(P)", gt=0.0, lt=1.0
    )
    kl: float = setting(0.0, "Weight of the KL to the adapter-free model", source="peers", ge=0.0)
    advantage_eps: float = setting(
        1.0e-4, "Added to a group's standard deviation", source="peers", gt=0.0, le=1.0
    )
    advantage_clip: float = setting(5.0, "Largest absolute advantage", source="paper 4.3", gt=0.0)
    initial_noise: Literal["distinct", "shared", "pairs"] = setting(
        "distinct", "Initial noise within a group", source="Flow-GRPO"
    )
    ema: float = setting(0.0, "Decay of the adapter's moving average; 0 is off", ge=0.0, lt=1.0)
    updates_per_collection: int = setting(
        1, "Updates a collection; 1 is on-policy", source="paper 5.1", ge=1, le=100
    )
    replay_tolerance: float = setting(
        1.0e-5, "Largest difference of replayed and stored log_prob, per token", gt=0.0
    )
    checkpoint_every: int = setting(4, "Collections between checkpoints", ge=1)


class HardCaseSection(Section):
    """The Hard Case subset: of the prompts of highest variance, those of lowest mean."""

    backbone: Name = setting("mini-flux2", "Frozen base model that selects", source="paper G")
    pool: int = setting(100, "Prompts of highest score variance", source="paper G", ge=1)
    keep: int = setting(50, "Of those, the prompts of lowest mean", source="paper G", ge=1)
    seeds: tuple[Seed, ...] = setting(
        (200, 201, 202, 203),
        "Generation seeds that select; none evaluates, so that scores don't regress to the mean",
        min_length=2,
    )

    @model_validator(mode="after")
    def _consistent(self) -> "HardCaseSection":
        if self.keep > self.pool:
            raise ValueError(f"keep must be at most pool ({self.pool})")
        return self


class EvaluationSection(Section):
    """The benchmark and its replicates."""

    benchmark: str | None = setting(
        "data/mini/benchmark.jsonl",
        "Benchmark file in GenEval 2's format; null takes the file that CAST_GENEVAL2 names",
    )
    seeds: tuple[Seed, ...] = setting(
        (100, 101, 102, 103),
        "Generation seeds, matched across methods",
        source="paper 5.2, G",
        min_length=1,
    )
    limit: int | None = setting(None, "Only the first so many prompts; null takes all", ge=1)
    hard_case: HardCaseSection = HardCaseSection()
    batch: int = setting(16, "Images generated or scored together", ge=1, le=1024)

    @model_validator(mode="after")
    def _consistent(self) -> "EvaluationSection":
        shared = sorted(set(self.seeds) & set(self.hard_case.seeds))
        if shared:
            raise ValueError(f"hard_case.seeds must not share {shared} with the evaluation's seeds")
        if self.limit is not None and self.hard_case.pool > self.limit:
            raise ValueError(f"hard_case.pool must be at most limit ({self.limit})")
        return self


class ComputeSection(Section):
    """How work is spread over devices and jobs; no result depends on it."""

    processes: int = setting(
        1,
        "Processes of one training, one a GPU, that share each group's images; a power of two "
        "gives the bits of one process",
        ge=1,
        le=1024,
    )
    nodes: int = setting(1, "Machines that these processes are spread over evenly", ge=1, le=128)
    chunks: int = setting(
        1, "Jobs that share the images of one evaluation, each a run of prompts", ge=1, le=1000
    )
    embeddings: str | None = setting(
        None,
        "Folder that keeps the prompts' embeddings, so that the text encoders are loaded only for "
        "prompts that no job has encoded yet; null keeps none",
        min_length=1,
    )

    @model_validator(mode="after")
    def _consistent(self) -> "ComputeSection":
        if self.processes % self.nodes:
            raise ValueError(f"processes must be a multiple of nodes ({self.nodes})")
        return self


class CastConfig(Section):
    """Settings of one world."""

    world: Literal["smoke", "mini", "paper"] = setting("mini", "World: names the results' folder")
    results: str = setting("results", "Folder of results, one folder a world inside", min_length=1)
    figures: str = setting("paper_figures", "Folder of tables and figures", min_length=1)
    vocabulary: Name = setting("shapes", "Vocabulary, a file of config/vocabularies")
    backbones: tuple[Name, ...] = setting(
        ("mini-flux2",), "Backbones, files of config/backbones", source="paper 5.1", min_length=1
    )
    methods: tuple[Name, ...] = setting(
        ("sft_3_64", "sft_1_16", "flow_grpo_g1", "flow_grpo_g2", "cast"),
        "Methods of Table 1, files of config/methods; base, the model without an adapter, is "
        "always there",
        source="paper 5.1",
    )
    ablations: tuple[Name, ...] = setting(
        ("flow_grpo_g2", "per_atom", "aggregate_map", "shuffled_map", "cast"),
        "Rows of Table 2, methods on Hard Case's backbone; empty makes no Table 2",
        source="paper 5.3, C",
    )
    training_seeds: tuple[Seed, ...] = setting((0,), "Training seeds of each method", min_length=1)
    more_seeds: dict[Name, tuple[Seed, ...]] = setting(
        {}, "Further training seeds of single methods, such as {cast: [1, 2]}"
    )
    prompts: PromptsSection = PromptsSection()
    sampling: SamplingSection = SamplingSection()
    sde: SdeSection = SdeSection()
    # Notebook 11: on drawn scenes, the setting whose maps peak on their entity most often.
    verifier: VerifierSection = VerifierSection(
        heatmap=HeatmapSection(layers=(2,), baseline="none")
    )
    training: TrainingSection = TrainingSection()
    evaluation: EvaluationSection = EvaluationSection()
    preference: PreferenceSection = PreferenceSection()
    quality: QualitySection = QualitySection()
    diagnostics: DiagnosticsSection = DiagnosticsSection()
    compute: ComputeSection = ComputeSection()

    def seeds_of(self, method: str) -> tuple[int, ...]:
        """Training seeds of a method, without repeats; (0,) of base, which isn't trained."""
        if method == "base":
            return (0,)
        return tuple(dict.fromkeys([*self.training_seeds, *self.more_seeds.get(method, ())]))

    @model_validator(mode="after")
    def _consistent(self) -> "CastConfig":
        for key in ("backbones", "methods", "ablations", "training_seeds"):
            values = getattr(self, key)
            if len(set(values)) < len(values):
                raise ValueError(f"{key} names one twice: {list(values)}")
        for key in ("methods", "ablations"):
            if "base" in getattr(self, key):
                raise ValueError(f"{key} must not list base: it is always there")
        unknown = sorted({*self.more_seeds} - {*self.methods, *self.ablations})
        if unknown:
            raise ValueError(f"more_seeds.{unknown[0]}: neither methods nor ablations list it")
        if self.ablations and "cast" not in self.ablations:
            raise ValueError("ablations must list cast, which the other rows are held against")
        if self.training.collections > self.prompts.manifest:
            raise ValueError(
                f"training.collections must be at most prompts.manifest ({self.prompts.manifest})"
            )
        if self.compute.processes > self.training.group_size // self.training.micro_batch:
            raise ValueError(
                "compute.processes must be at most training.group_size / training.micro_batch, so "
                f"that each has a micro-batch (not {self.compute.processes})"
            )
        if max(self.diagnostics.heads.steps) >= self.sampling.steps:
            raise ValueError(
                f"diagnostics.heads.steps must lie below sampling.steps ({self.sampling.steps})"
            )
        return self
