"""Evaluated arms, read back and held against each other before they meet in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig, load_method_config
from cast.errors import CastError
from cast.evaluation.budget import check_budgets, differences
from cast.evaluation.folders import BASE, arm_folder, read_evaluation, world_folder
from cast.evaluation.geneval2 import check_scores, prompt_means, report
from cast.evaluation.hard_case import HardCase, read_hard_case
from cast.evaluation.replicates import mean_by_prompt
from cast.io import read_json

EVALUATION_OWN = (
    "adapter_sha256",
    "method",
    "training_seed",
    "base_sha256",
    "backbone",
    "settings",
)
BUDGET = ("world", "images", "updates")  # what all backbones share


@dataclass(frozen=True)
class Arm:
    """One method on one backbone, with the scores of each of its training seeds.

    `scores` maps a training seed to a score table; `ledgers`, `runs` and `evaluations` to what
    its `ledger.json`, `run.json` and `evaluation.json` hold, `quality` to the judge's grades where
    they were made. The base model has seed 0 only and
    neither ledger nor run.
    """

    backbone: str
    method: str
    title: str
    kind: str
    scores: Mapping[int, pd.DataFrame]
    ledgers: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    runs: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    evaluations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    quality: Mapping[int, pd.DataFrame] = field(default_factory=dict)
    _means: dict[str, dict[int, pd.DataFrame]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def means(
        self, column: str = "score", prompts: Sequence[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Each training seed's `prompt_means`, optionally of some prompts only.

        Raises `CastError` for an incomplete table, and for a prompt that was never scored.
        """
        if column not in self._means:
            self._means[column] = {s: prompt_means(t, column) for s, t in self.scores.items()}
        tables = self._means[column]
        if prompts is None:
            return tables
        unknown = sorted({p for table in tables.values() for p in set(prompts) - set(table.index)})
        if unknown:
            raise CastError(
                f"{self.backbone} {self.method}: {len(unknown)} of {len(prompts)} prompts of the "
                f"subset were not scored, the first is {unknown[0]}; the subset must be of the "
                "benchmark that is evaluated."
            )
        return {seed: table.loc[list(prompts)] for seed, table in tables.items()}

    def by_prompt(self, column: str = "score", prompts: Sequence[str] | None = None) -> pd.Series:
        """Mean score of each prompt over replicates and training seeds."""
        means = [mean_by_prompt(table) for table in self.means(column, prompts).values()]
        return pd.concat(means, axis=1).mean(axis=1)

    def overall(self, column: str = "score", prompts: Sequence[str] | None = None) -> pd.Series:
        """AM overall of each generation seed, mean over training seeds."""
        means = [table.mean() for table in self.means(column, prompts).values()]
        return pd.concat(means, axis=1).mean(axis=1)

    def overall_by_training_seed(
        self, column: str = "score", prompts: Sequence[str] | None = None
    ) -> dict[int, float]:
        """AM overall of each training seed, mean over its replicates."""
        tables = self.means(column, prompts)
        return {seed: float(table.to_numpy().mean()) for seed, table in tables.items()}

    def report(self, column: str = "score") -> dict[str, pd.Series]:
        """The protocol's numbers, each a series over generation seeds, mean over training seeds."""
        reports = [report(table, column) for table in self.scores.values()]
        return {
            name: pd.concat([one[name] for one in reports], axis=1).mean(axis=1)
            for name in reports[0]
        }

    def has(self, column: str) -> bool:
        """Whether every score of that column is there (the oracle's aren't, outside mini)."""
        return all(column in t.columns and t[column].notna().all() for t in self.scores.values())


def load_arms(
    config: CastConfig,
    methods: Sequence[str] | None = None,
    backbones: Sequence[str] | None = None,
) -> list[Arm]:
    """Every arm of the config (base first), or of the named methods; checked by `check_arms`."""
    methods = config.methods if methods is None else methods
    arms = []
    for backbone in config.backbones if backbones is None else backbones:
        arms.append(load_arm(config, backbone, BASE))
        arms += [load_arm(config, backbone, method) for method in methods if method != BASE]
    check_arms(arms)
    return arms


def load_arm(config: CastConfig, backbone: str, method: str) -> Arm:
    """One arm with all training seeds of the config."""
    trained = method != BASE
    loaded = load_method_config(method) if trained else None
    folders = {s: arm_folder(config, backbone, method, s) for s in config.seeds_of(method)}
    return Arm(
        backbone=backbone,
        method=method,
        title=loaded.title if loaded else "Base",
        kind=loaded.kind if loaded else BASE,
        scores={seed: read_scores(folder) for seed, folder in folders.items()},
        ledgers={s: read_json(f / "ledger.json") for s, f in folders.items() if trained},
        runs={s: read_json(f / "run.json")["run"] for s, f in folders.items() if trained},
        evaluations={seed: read_evaluation(folder) for seed, folder in folders.items()},
        quality={
            seed: pd.read_parquet(folder / "quality.parquet")
            for seed, folder in folders.items()
            if config.quality.judge != "none" and (folder / "quality.parquet").is_file()
        },
    )


def read_scores(folder: Path) -> pd.DataFrame:
    """An arm's `scores.parquet`, checked for completeness."""
    path = folder / "scores.parquet"
    try:
        scores = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise CastError(f"{path}: can't be read ({error}); evaluate this arm first.") from error
    check_scores(scores, "score", where=str(path))
    return scores


def load_hard_case(config: CastConfig) -> HardCase:
    """The config's frozen subset, refused where its evaluation seeds or world aren't ours."""
    path = world_folder(config) / "hard_case.json"
    hard_case = read_hard_case(path)
    for key, own in (("world", config.world), ("evaluation_seeds", config.evaluation.seeds)):
        if getattr(hard_case, key) != own:
            raise CastError(
                f"{path}: {key} is {getattr(hard_case, key)!r}, the config's is {own!r}; the "
                "subset was frozen for another evaluation. Delete it to select anew."
            )
    return hard_case


def check_arms(arms: Sequence[Arm]) -> None:
    """Raise `CastError` unless all arms were evaluated alike and, per backbone, trained alike.

    Different backbones may differ in model and settings, not in world and budget.
    """
    evaluations = {
        (arm.backbone, arm.method, seed): evaluation
        for arm in arms
        for seed, evaluation in arm.evaluations.items()
    }
    _same(evaluations, EVALUATION_OWN, "evaluated")
    for backbone in {arm.backbone for arm in arms}:
        own = {key: value for key, value in evaluations.items() if key[0] == backbone}
        _same(own, ("adapter_sha256", "method", "training_seed"), "evaluated")
        trained = [arm for arm in arms if arm.backbone == backbone and arm.ledgers]
        for seed in sorted({seed for arm in trained for seed in arm.ledgers}):
            lacking = [arm.method for arm in trained if seed not in arm.ledgers]
            if lacking:
                raise CastError(
                    f"{backbone}: training seed {seed} of {lacking[0]} is missing, while "
                    f"{trained[0].method} has it. Train and evaluate it too."
                )
            check_budgets(
                {arm.method: arm.ledgers[seed] for arm in trained},
                {arm.method: arm.runs[seed] for arm in trained if seed in arm.runs} or None,
                {arm.method: arm.kind for arm in trained},
            )
            _check_base(evaluations, trained, seed)
    budgets = {
        (arm.backbone, arm.method, seed): {key: ledger.get(key) for key in BUDGET}
        for arm in arms
        for seed, ledger in arm.ledgers.items()
    }
    _same(budgets, (), "trained")


def _same(
    evaluations: Mapping[tuple[str, str, int], Mapping[str, Any]],
    own: tuple[str, ...],
    what: str,
) -> None:
    shared = {
        name: {key: value for key, value in evaluation.items() if key not in own}
        for name, evaluation in evaluations.items()
    }
    names = list(shared)
    for name in names[1:]:
        for place, one, other in differences(shared[names[0]], shared[name]):
            first, second = (" ".join(map(str, key)) for key in (names[0], name))
            raise CastError(
                f"{first} and {second} weren't {what} alike: {place} is {one!r} for {first} and "
                f"{other!r} for {second}. Make both under one config."
            )


def _check_base(
    evaluations: Mapping[tuple[str, str, int], Mapping[str, Any]],
    trained: Sequence[Arm],
    seed: int,
) -> None:
    """The weights that were trained on must be the weights that were evaluated."""
    for arm in trained:
        evaluated = evaluations.get((arm.backbone, arm.method, seed), {}).get("base_sha256")
        used = arm.ledgers[seed]["base_sha256"]
        if evaluated is not None and evaluated != used:
            raise CastError(
                f"{arm.backbone} {arm.method} seed {seed}: base_sha256 is {used!r} in its ledger "
                f"and {evaluated!r} in its evaluation; the base model was changed in between."
            )
