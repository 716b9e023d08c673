"""One's own prompts, from a GenEval-2-style file to scores and a picture.

    python -m cast.figures own mine.jsonl --out results/own

Each line of the file holds what GenEval 2's lines hold; `prompt`, `atom_count`, `vqa_list` and
`skills`. The prompts must be written in the config's vocabulary.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.evaluation import evaluate
from cast.evaluation.geneval2 import by_skill, overall
from cast.evaluation.replicates import over_replicates
from cast.figures.figure5 import image_grid, load_images
from cast.figures.footer import WORLDS, config_name
from cast.figures.style import save_figure
from cast.scene_graph import load_vocabulary, read_prompts

MOST = 12  # prompts in the picture; the scores hold all of them


def own_prompts(
    config: CastConfig, prompts: Path, out: Path, backbone: str = "", adapter: Path | None = None
) -> pd.DataFrame:
    """Generate and score every prompt under the config's seeds; returns the score table.

    Writes `images/`, `images.parquet`, `scores.parquet` and `own_prompts.pdf`, `.png` and `.csv`
    into `out`. `backbone` defaults to the config's first, `adapter=None` is the model without one.
    """
    backbone = backbone or config.backbones[0]
    records = read_prompts(prompts, load_vocabulary(config.vocabulary))
    seeds = config.evaluation.seeds
    scores = evaluate(config, backbone, adapter, records, seeds, out)
    rows = seed_rows(scores, [record.prompt_id for record in records[:MOST]])
    images = load_images(out, rows)
    foot = [WORLDS[config.world], f"{backbone}; mean atom score; config {config_name(config)}."]
    save_figure(image_grid(rows, images, foot), out / "own_prompts", rows)
    return scores


def seed_rows(scores: pd.DataFrame, prompt_ids: list[str]) -> pd.DataFrame:
    """One row an image, prompt by prompt and seed by seed, titled by its seed."""
    shown = scores[scores["prompt_id"].isin(prompt_ids)]
    keys = ["prompt_id", "prompt", "generation_seed"]
    means = shown.groupby(keys)[["score", "oracle"]].mean().reset_index()
    records: list[dict[str, Any]] = means.to_dict("records")
    records.sort(key=lambda row: (prompt_ids.index(row["prompt_id"]), row["generation_seed"]))
    return pd.DataFrame([{**row, "title": f"seed {row['generation_seed']}"} for row in records])


def summary(scores: pd.DataFrame) -> str:
    """The protocol's numbers in a few lines."""
    lines = [f"GenEval 2 AM overall  {over_replicates(overall(scores))}"]
    for skill, values in by_skill(scores).iterrows():
        lines.append(f"  {skill!s:20}{over_replicates(values)}")
    if scores["oracle"].notna().all():
        lines.append(f"by the oracle         {over_replicates(overall(scores, 'oracle'))}")
    return "\n".join(lines)
