"""What stands below every artefact: the world, the config, the commit and the ledgers' totals."""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cast.config import CastConfig
from cast.evaluation.results import Arm
from cast.io import sha256_json
from cast.paths import repository_root
from cast.worlds import WORLDS


def commit() -> str:
    """Short hash of the checked-out commit, with `+` when tracked files were changed."""
    try:
        root = repository_root()
        head = _git(["rev-parse", "--short=12", "HEAD"], root)
        changed = _git(["status", "--porcelain", "--untracked-files=no"], root)
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git checkout)"
    return head + ("+" if changed else "")


def _git(arguments: list[str], root: Any) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return result.stdout.strip()


def config_name(config: CastConfig) -> str:
    """World and the first digits of the settings' hash: `mini (1a2b3c4d)`."""
    settings = config.model_dump(mode="json", exclude={"results", "figures"})
    return f"{config.world} ({sha256_json(settings)[:8]})"


def hours(ledgers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Hours spent by kind of device, "cpu" (core-hours) and "gpu" (GPU-hours), never added up."""
    totals: dict[str, float] = {}
    for ledger in ledgers:
        for cost in ledger["phases"].values():
            if cost["device_kind"]:
                kind = cost["device_kind"]
                totals[kind] = totals.get(kind, 0.0) + cost["device_s"] / 3600.0
    return totals


def ledger_line(arms: Sequence[Arm]) -> str:
    """Budget of each trained run and what all of them cost together."""
    ledgers = [ledger for arm in arms for ledger in arm.ledgers.values()]
    if not ledgers:
        return "No trained arm."
    budget = sorted({(ledger["images"], ledger["updates"]) for ledger in ledgers})
    words = " or ".join(f"{images:,} images and {updates:,} updates" for images, updates in budget)
    names = {"cpu": "core-hours", "gpu": "GPU-hours"}
    spent = [f"{value:.2f} {names[kind]}" for kind, value in sorted(hours(ledgers).items())]
    return f"Ledgers: {len(ledgers)} trained runs of {words} each; {', '.join(spent)} in all."


def footer(config: CastConfig, arms: Sequence[Arm] = ()) -> list[str]:
    """Lines for the foot of a table or figure."""
    lines = [WORLDS[config.world], f"Config {config_name(config)}, commit {commit()}."]
    return [*lines, ledger_line(arms)] if arms else lines
