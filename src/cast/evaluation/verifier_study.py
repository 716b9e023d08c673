"""How far the verifier can be trusted, as tables: on drawn scenes, whose truth is known, and on
generated images, by the oracle (ours: the paper's world has no truth; design section 2).
"""

from collections.abc import Mapping

import pandas as pd

from cast.config import CastConfig
from cast.evaluation.arm import evaluate
from cast.evaluation.folders import BASE, arm_folder, benchmark, world_folder
from cast.verifier.agreement import agreement

JUDGES = {"verifier": "score_strict", "oracle": "oracle"}


def accuracy_table(answers: pd.DataFrame) -> pd.DataFrame:
    """Both judges against the truth of drawn scenes, one row a kind of atom and judge.

    `answers` is what `held_out.verifier_answers` gave. Columns: `kind`, `judge`, and those of
    `agreement`, where `verifier_only` and `truth_only` are the judge's false yes and false no.
    """
    tables = [
        agreement(answers, column, "truth", by="kind").assign(judge=judge)
        for judge, column in JUDGES.items()
    ]
    return _first(pd.concat(tables, ignore_index=True), "kind", "judge")


def agreement_table(scores: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Verifier against oracle on generated images, one row a backbone and kind of atom.

    `scores` maps backbones to what `base_scores` gave. Columns: `backbone`, `kind`, and those of
    `agreement`.
    """
    tables = [agreement(table, by="kind").assign(backbone=name) for name, table in scores.items()]
    return _first(pd.concat(tables, ignore_index=True), "backbone", "kind")


def base_scores(config: CastConfig, backbone: str) -> pd.DataFrame:
    """Verifier's and oracle's answers about a base model's images, one row an atom, with `kind`.

    The stored evaluation's where there is one; else `diagnostics.verifier.generated` prompts of
    the benchmark, evenly spread over it, are drawn at the first evaluation seed.
    """
    from cast.mini.zoo.held_out import kinds

    records = benchmark(config)
    path = arm_folder(config, backbone, BASE, 0) / "scores.parquet"
    if path.is_file():
        scores = pd.read_parquet(path)
    else:
        few = records[:: max(len(records) // config.diagnostics.verifier.generated, 1)]
        folder = world_folder(config) / "verifier" / backbone
        scores = evaluate(config, backbone, None, few, config.evaluation.seeds[:1], folder)
    named = {(r.prompt_id, k): kind for r in records for k, kind in enumerate(kinds(r))}
    keys = zip(scores["prompt_id"], scores["atom"], strict=True)
    return scores.assign(kind=[named[prompt_id, int(atom)] for prompt_id, atom in keys])


def _first(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    return table[[*columns, *(name for name in table.columns if name not in columns)]]
