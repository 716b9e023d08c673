"""What the claims are measured from: this world's results, loaded once and only when asked for."""

from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import pandas as pd

from cast.config import CastConfig, load_method_config
from cast.evaluation.folders import BASE, arm_folder, world_folder
from cast.evaluation.hard_case import HardCase
from cast.evaluation.results import Arm, check_arms, load_arm, load_hard_case
from cast.figures.claims.rules import NotRun
from cast.paths import from_root
from cast.workflow.keys import list_arms


class Evidence:
    """Results of one config. Missing ones raise `NotRun`, mismatched ones `CastError`."""

    def __init__(self, config: CastConfig) -> None:
        self.config = config
        self.backbone = config.evaluation.hard_case.backbone
        self.folder = world_folder(config)

    @cached_property
    def hard_case(self) -> HardCase:
        """The frozen subset."""
        self.file("hard_case.json")
        return load_hard_case(self.config)

    @cache  # noqa: B019 (one short-lived object a table)
    def arm(self, method: str, backbone: str = "") -> Arm:
        """One evaluated arm, held against the base for budget and settings."""
        backbone = backbone or self.backbone
        for seed in self.config.seeds_of(method):
            folder = arm_folder(self.config, backbone, method, seed)
            names = ["scores.parquet", "evaluation.json"]
            names += [] if method == BASE else ["ledger.json", "run.json"]
            if not all((folder / name).is_file() for name in names):
                raise NotRun(f"{backbone}/{method}/seed{seed} isn't evaluated")
        arm = load_arm(self.config, backbone, method)
        if method != BASE:
            check_arms([self.arm(BASE, backbone), arm])
        return arm

    def arms(self, *methods: str, backbone: str = "") -> list[Arm]:
        """Several arms, refused unless their budgets match."""
        arms = [self.arm(method, backbone) for method in methods]
        check_arms(arms)
        return arms

    def file(self, *parts: str) -> Path:
        """A file below the world's folder; `NotRun` where it isn't there."""
        path = self.folder.joinpath(*parts)
        if not path.exists():
            raise NotRun(f"{'/'.join(parts)} isn't there")
        return path

    def table(self, *parts: str) -> pd.DataFrame:
        """A Parquet table below the world's folder."""
        return pd.read_parquet(self.file(*parts))

    def figure(self, name: str) -> Path:
        """The PDF of a table or figure; `NotRun` where it wasn't made."""
        path = from_root(self.config.figures) / f"{name}.pdf"
        if not path.exists():
            raise NotRun(f"{name}.pdf isn't made")
        return path

    def metrics(self) -> Iterator[pd.DataFrame]:
        """Training metrics of every policy-gradient run of the config."""
        for backbone, method, seed in list_arms(self.config):
            if method != BASE and load_method_config(method).kind == "rl":
                yield self.table(backbone, method, f"seed{seed}", "metrics.parquet")
