"""What the claims are measured from: this world's results, loaded once and only when asked for."""

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.errors import CastError
from cast.evaluation.folders import BASE, arm_folder, world_folder
from cast.evaluation.hard_case import HardCase
from cast.evaluation.replicates import Interval
from cast.evaluation.results import Arm, check_arms, load_arm, load_hard_case
from cast.figures.claims.rules import Measured, NotRun
from cast.io import read_json
from cast.paths import from_root


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
        for seed in (0,) if method == BASE else self.config.training_seeds:
            folder = arm_folder(self.config, backbone, method, seed)
            for name in ("scores.parquet", "evaluation.json"):
                if not (folder / name).is_file():
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

    def recorded(self, claim: str) -> Measured:
        """What another room measured for a claim: `results/{world}/claims/{ID}.json`.

        A mapping with `text`, and either `value` with `low` and `high` (an interval; for an
        invariant `value` alone) or `passed`.
        """
        path = self.file("claims", f"{claim}.json")
        record: dict[str, Any] = read_json(path)
        unknown = sorted(set(record) - {"text", "value", "low", "high", "passed"})
        if unknown or not ({"value", "passed"} & set(record)):
            raise CastError(
                f"{path}: holds {sorted(record)}; allowed are text, value, low, high and passed, "
                "with value or passed among them."
            )
        interval = None
        if record.get("value") is not None:
            value = float(record["value"])
            bounds = (record.get(end) for end in ("low", "high"))
            low, high = (value if bound is None else float(bound) for bound in bounds)
            interval = Interval(value, low, high)
        return Measured(str(record.get("text", "")), interval, record.get("passed"))

    def metrics(self, methods: Sequence[str]) -> dict[tuple[str, int], pd.DataFrame]:
        """Training metrics of the named methods and all training seeds."""
        return {
            (method, seed): self.table(self.backbone, method, f"seed{seed}", "metrics.parquet")
            for method in methods
            for seed in self.config.training_seeds
        }
