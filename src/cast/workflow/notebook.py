"""What a notebook's first cell calls: the same notebook runs by hand and under the workflow."""

import json
import os
from pathlib import Path

from cast.config import CastConfig, RunConfig, load_config, run_config
from cast.config.reading import parse
from cast.paths import repository_root


def open_config(config: str, resolved: str = "") -> CastConfig:
    """Move to the repository's root and give the config.

    By hand `config` names a file; the workflow passes `resolved`, the same settings as JSON with
    the command line's overrides in.
    """
    os.chdir(repository_root())
    if resolved:
        return parse(CastConfig, json.loads(resolved), "the workflow's config")
    return load_config(config)


def open_run(config: str, backbone: str, method: str, seed: int, resolved: str = "") -> RunConfig:
    """Like `open_config`, for the settings of one training run."""
    os.chdir(repository_root())
    if resolved:
        return parse(RunConfig, json.loads(resolved), "the workflow's run config")
    return run_config(load_config(config), backbone, method, seed)


def arm_folder(run: RunConfig) -> Path:
    """The run's folder, beside the prompts that it trains on."""
    world = Path(run.manifest).parent.parent
    return world / run.backbone.name / run.method.name / f"seed{run.seed}"
