"""What each step of the workflow depends on, as digests of its parts.

A step's key covers the settings that it reads, the code and the notebook that it runs, the data
and weights that it loads, and the steps before it. Snakemake compares keys, so it needs no file
times: what was made from something else is made again, and nothing else is. The parts have names
so that its "params have changed" says which one it was.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from cast.config import (
    CastConfig,
    benchmark_path,
    is_local,
    load_backbone_config,
    quality_prompts_path,
    run_config,
)
from cast.errors import CastError
from cast.paths import from_root
from cast.workflow.digest import code_digest, digest, file_digest, notebook_digest

LARGEST_HASHED = 256 * 2**20  # bytes
BASE = "base"
Key = dict[str, str]
Arm = tuple[str, str, int]  # backbone, method, training seed


class Keys:
    """The keys of one config's steps."""

    def __init__(self, config: CastConfig) -> None:
        self.config = config

    def prompts(self) -> Key:
        """Of the prompt sets."""
        config = self.config
        return key_of(
            settings=config.prompts.model_dump(mode="json"),
            vocabulary=file_digest(f"config/vocabularies/{config.vocabulary}.yaml"),
            development=file_digest(config.prompts.development_file or ""),
            benchmark=_benchmark_digest(config),
            code=code_digest("cast.scene_graph"),
            notebook=notebook_digest("notebooks/01_prompts.ipynb"),
        )

    def hard_case(self) -> Key:
        """Of the Hard Case subset."""
        return key_of(
            **self._evaluated(self.config.evaluation.hard_case.backbone),
            hard_case=self.config.evaluation.hard_case.model_dump(mode="json"),
            notebook=notebook_digest("notebooks/05a_hard_case.ipynb"),
        )

    def training(self, backbone: str, method: str, seed: int) -> Key:
        """Of one training run."""
        run = run_config(self.config, backbone, method, seed)
        window = {}
        if run.backbone.window.high == "measured":
            from cast.workflow.diagnostic_keys import window_key  # it needs Keys

            window = {"window": window_key(self, backbone)}
        return key_of(
            settings=run.model_dump(mode="json"),
            **window,
            weights=[weights_digest(run.backbone.path), weights_digest(run.scorer_path)],
            prompts=self.prompts(),
            hard_case=self.hard_case(),
            code=code_digest("cast.training"),
            notebook=notebook_digest("notebooks/04_training.ipynb"),
        )

    def evaluation(self, backbone: str, method: str, seed: int) -> Key:
        """Of one arm's images and scores; method "base" is the model without an adapter."""
        return key_of(
            **self._evaluated(backbone),
            training=None if method == BASE else self.training(backbone, method, seed),
            notebook=notebook_digest("notebooks/05_evaluation.ipynb"),
        )

    def quality(self, backbone: str, method: str, seed: int) -> Key:
        """Of the judge's grades of one arm's images."""
        section, judge = self.config.quality, self.config.quality.path
        return key_of(
            settings=section.model_dump(mode="json"),
            judge=None if judge is None else weights_digest(judge),
            bench=_quality_prompts(self.config),
            images=self.evaluation(backbone, method, seed),
            code=code_digest("cast.evaluation.quality"),
            notebook=notebook_digest("notebooks/05d_quality.ipynb"),
        )

    def artefact(self, notebook: str, arms: Sequence[Arm]) -> Key:
        """Of tables and figures that a light notebook makes from the results of some arms."""
        return key_of(
            arms=arms,
            scores=[self.evaluation(*arm) for arm in arms],
            quality=self.config.quality.model_dump(mode="json"),
            hard_case=self.hard_case(),
            code=code_digest("cast.figures"),
            notebook=notebook_digest(f"notebooks/{notebook}.ipynb"),
        )

    def checks(self) -> Key:
        """Of what is checked by itself: verifier, heatmaps, resuming, processes."""
        run = run_config(self.config, self.config.evaluation.hard_case.backbone, "cast", 0)
        return key_of(
            settings=run.model_dump(mode="json", exclude={"method", "training"}),
            training=self.config.training.model_dump(mode="json"),
            scenes=self.config.diagnostics.verifier.model_dump(mode="json"),
            weights=[weights_digest(run.backbone.path), weights_digest(run.verifier.path)],
            prompts=self.prompts(),
            code=code_digest("cast.evaluation.checks"),
            notebook=notebook_digest("notebooks/10a_checks.ipynb"),
        )

    def _evaluated(self, backbone: str) -> dict[str, Any]:
        """What all images and scores of a backbone depend on."""
        config, body = self.config, load_backbone_config(backbone)
        settings = config.evaluation.model_dump(mode="json", exclude={"hard_case"})
        return {
            "settings": [config.world, settings, config.sampling.model_dump(mode="json")],
            "backbone": body.model_dump(mode="json"),
            "verifier": config.verifier.model_dump(mode="json", exclude={"heatmap"}),
            "weights": [weights_digest(body.path), weights_digest(config.verifier.path)],
            "prompts": self.prompts(),
            "code": code_digest("cast.evaluation"),
        }


def table1_arms(config: CastConfig) -> list[Arm]:
    """Every arm of Table 1, the base model of each backbone first."""
    arms: list[Arm] = []
    for backbone in config.backbones:
        arms += _arms(config, backbone, config.methods)
    return arms


def table2_arms(config: CastConfig) -> list[Arm]:
    """Every arm of Table 2, the base model first; none when the config lists no ablation."""
    backbone = config.evaluation.hard_case.backbone
    return _arms(config, backbone, config.ablations) if config.ablations else []


def list_arms(config: CastConfig) -> list[Arm]:
    """Every arm of a config, once."""
    return list(dict.fromkeys([*table1_arms(config), *table2_arms(config)]))


def _arms(config: CastConfig, backbone: str, methods: Sequence[str]) -> list[Arm]:
    return [(backbone, m, s) for m in (BASE, *methods) for s in config.seeds_of(m)]


@cache
def weights_digest(path: str) -> str:
    """Of a small local folder, its files' bytes; of a large one, their sizes; else the hub id."""
    folder = from_root(path)
    if not is_local(path) or not folder.is_dir():
        return path
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in files}
    if sum(sizes.values()) > LARGEST_HASHED:
        return digest(sizes)
    return digest({name: file_digest(str(folder / name)) for name in sizes})


def key_of(**parts: Any) -> Key:
    """Each part as a digest; a digest stays as it is."""
    return {name: part if isinstance(part, str) else digest(part) for name, part in parts.items()}


def _benchmark_digest(config: CastConfig) -> str | None:
    """None where no benchmark is named: the check before a run says so, a dry run goes on."""
    try:
        return file_digest(str(benchmark_path(config)))
    except CastError:
        return None


def _quality_prompts(config: CastConfig) -> str | None:
    """Content of the judge's prompts; None while no file is named, as in a plan without data."""
    if config.quality.judge != "vlm":
        return None
    try:
        return file_digest(str(quality_prompts_path(config)))
    except CastError:
        return None
