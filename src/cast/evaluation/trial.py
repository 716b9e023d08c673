"""Try settings on the development prompts: train, evaluate, and append a row to the log.

    python -m cast.evaluation.trial --method cast --set training.learning_rate=2e-4

trains mini-flux2 with the config's settings and those, evaluates it on the first development
prompts (never the benchmark's) by verifier and oracle, and appends a row to
`results/WORLD/trials/trials.csv`; `--method base` gives the row to compare with. Shared settings
are chosen here, the same for every method, so that the benchmark is looked at once. A killed call
goes on where it stopped. Ours: the summary names the development set (4.1, D) but not what was
tuned on it.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig, as_written, load_config, run_config
from cast.errors import CastError
from cast.evaluation.arm import evaluate
from cast.evaluation.folders import BASE, world_folder
from cast.evaluation.geneval2 import by_skill, overall
from cast.io import sha256_json, written_whole
from cast.scene_graph import read_prompts


def overrides(assignments: list[str]) -> dict[str, Any]:
    """Nested settings from `key.key=value` texts; `CastError` for a text without value."""
    nested: dict[str, Any] = {}
    for assignment in assignments:
        path, _, value = assignment.partition("=")
        if not path or not value:
            raise CastError(f"--set {assignment}: must be KEY=VALUE, as training.warmup=5.")
        *parents, leaf = path.split(".")
        below = nested
        for parent in parents:
            below = below.setdefault(parent, {})
        below[leaf] = as_written({leaf: value})[leaf]
    return nested


def run_trial(
    config: CastConfig, backbone: str, method: str, seed: int, prompts: int, note: str
) -> pd.DataFrame:
    """Train and evaluate one arm on `prompts` development prompts; returns all trials so far.

    `method="base"` evaluates the model without an adapter. Each setting has a folder of its own,
    named by the hash of all settings. Raises `CastError` when the prompt sets aren't there.
    """
    home = world_folder(config) / "trials"
    file = world_folder(config) / "prompts" / "development.parquet"
    if not file.exists():
        raise CastError(f"{file}: there is no such file; `snakemake {file}` makes it.")
    records = read_prompts(file)[:prompts]
    settings = sha256_json({**config.model_dump(mode="json"), "seed": seed})[:12]
    folder = home / backbone / f"{method}-{settings}"
    adapter = None
    if method != BASE:
        from cast.training.trainer import train

        train(run_config(config, backbone, method, seed), folder)
        adapter = folder / "adapter"
    scores = evaluate(config, backbone, adapter, records, config.evaluation.seeds[:1], folder)
    row: dict[str, Any] = {"backbone": backbone, "method": method, "seed": seed, "note": note}
    row["prompts"] = len(records)
    for judge in ("score", "oracle"):
        row[f"{judge}_am"] = float(overall(scores, judge).mean())
        for skill, values in by_skill(scores, judge).iterrows():
            row[f"{judge}_{skill}"] = float(values.mean())
    row["folder"] = folder.name
    return _append(home / "trials.csv", row)


def _append(path: Path, row: dict[str, Any]) -> pd.DataFrame:
    """The log with this row; the same trial on as many prompts replaces its row."""
    rows = pd.DataFrame([row])
    if path.exists():
        rows = pd.concat([pd.read_csv(path, keep_default_na=False), rows], ignore_index=True)
        rows = rows.drop_duplicates(["folder", "prompts"], keep="last")
    with written_whole(path) as temporary:
        rows.to_csv(temporary, index=False, float_format="%.4f")
    return rows


def main() -> None:
    """Parse the command line and run one trial."""
    parser = argparse.ArgumentParser(prog="python -m cast.evaluation.trial", description=__doc__)
    parser.add_argument("--configfile", default="config/mini.yaml")
    parser.add_argument("--backbone", default="mini-flux2")
    parser.add_argument("--method", default="cast")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompts", type=int, default=128, help="development prompts evaluated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    try:
        config = load_config(arguments.configfile, overrides(arguments.set))
        table = run_trial(
            config,
            arguments.backbone,
            arguments.method,
            arguments.seed,
            arguments.prompts,
            " ".join(arguments.set),
        )
    except CastError as error:
        parser.exit(2, f"{error}\n")
    print(table.drop(columns="folder").to_string(index=False))


if __name__ == "__main__":
    main()
