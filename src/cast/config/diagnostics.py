"""Settings of the diagnostic studies (paper 3.1 to 3.3, App. B and F), and of the verifier's."""

from typing import Annotated, Literal

from pydantic import Field

from cast.config.model import Name, Section, Seed, setting

Step = Annotated[int, Field(ge=0)]
Study = Literal["structure", "saturation", "heads"]
STUDIES: tuple[Study, ...] = ("structure", "saturation", "heads")


class StructureSection(Section):
    """When objects and layout form: the structure-formation point tau*."""

    prompts: int = setting(48, "Prompts, the first of the file", ge=2)
    seeds: tuple[Seed, ...] = setting((0, 1), "Generation seeds, one image a prompt", min_length=1)
    similarity: Literal["image", "prompt"] = setting(
        "image",
        "CLIP similarity that gives tau*: to the final image, or to the prompt; both are measured",
        source="ours; the paper says CLIP similarity only",
    )
    score_every: int = setting(
        2, "The verifier scores every so many-th decoded estimate, and the last", ge=1
    )
    bootstrap: int = setting(1000, "Bootstrap draws of tau*'s interval", ge=100, le=100_000)


class SaturationSection(Section):
    """How far preference and atom scores of strong images still differ."""

    prompts: int = setting(64, "Prompts, the first of the file", ge=2)
    seeds: tuple[Seed, ...] = setting(
        (0, 1, 2, 3), "Generation seeds, one image a prompt; pairs need two", min_length=1
    )


class HeadsSection(Section):
    """Which attention heads differ between correct and incorrect images."""

    prompts: int = setting(
        10, "Prompts: the first of Hard Case, or of the file", source="paper F", ge=1
    )
    images: int = setting(24, "Images a prompt, some correct and some not", ge=4, le=1024)
    seeds: tuple[Seed, ...] = setting((0,), "Seeds of the study, each a study", min_length=1)
    steps: tuple[Step, ...] = setting(
        (1, 3, 6, 8),
        "Steps at which heads are read, below sampling.steps",
        source="paper F: 3, 7, 14, 21 of 50",
        min_length=1,
    )
    permutations: int = setting(
        10_000, "Permutations of the labels within each prompt", ge=100, le=1_000_000
    )
    fdr: float = setting(0.05, "False-discovery rate (Benjamini-Hochberg)", gt=0.0, lt=1.0)
    top: float = setting(
        0.2, "Share of heads that count as the most sensitive ones of a skill", gt=0.0, le=0.5
    )


class VerifierStudySection(Section):
    """The verifier against drawn scenes whose truth and masks are known; mini world only."""

    prompts: int = setting(160, "Held-out prompts", ge=1)
    images: int = setting(4, "Scenes drawn of each", ge=1, le=1024)
    seed: Seed = setting(0, "Seed of prompts, scenes and questions")
    generated: int = setting(
        64, "Benchmark prompts drawn by a backbone whose base model isn't evaluated", ge=1
    )


class DiagnosticsSection(Section):
    """The diagnostic studies: what motivates the window, the atoms and their maps."""

    backbones: tuple[Name, ...] | None = setting(
        ("mini-flux2", "mini-qwen-image", "mini-sd3", "mini-zimage"),
        "Backbones studied, files of config/backbones; null takes every mini-* file",
        source="paper 3.1, 3.2",
        min_length=1,
    )
    prompts: str | None = setting(
        None,
        "Prompt file (GenEval 2's format); null: structure takes the development prompts, "
        "saturation the benchmark, heads the Hard Case",
    )
    clip: str = setting("models/mini/mini-clip", "CLIP: a local folder or hub id", min_length=1)
    batch: int = setting(20, "Images decoded, embedded or scored together", ge=1, le=1024)
    structure: StructureSection = StructureSection()
    saturation: SaturationSection = SaturationSection()
    heads: HeadsSection = HeadsSection()
    verifier: VerifierStudySection = VerifierStudySection()
