"""One's own prompts, from a GenEval-2-style file to scores and a picture.

    python -m cast.figures own mine.jsonl --out results/own

Each line of the file holds what GenEval 2's lines hold; `prompt`, `atom_count`, `vqa_list` and
`skills`. The prompts must be written in the config's vocabulary.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from cast.config import CastConfig
from cast.evaluation import evaluate
from cast.evaluation.geneval2 import by_skill, overall
from cast.evaluation.replicates import over_replicates
from cast.evaluation.store import ImageStore
from cast.figures.figure5 import image_grid
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
    stored = pd.read_parquet(out / "images.parquet").set_index(["prompt_id", "generation_seed"])
    store = ImageStore(out / "images")
    images: list[np.ndarray] = [
        store.get(str(stored["image_sha256"][prompt_id, seed]))
        for prompt_id, seed in zip(rows["prompt_id"], rows["generation_seed"], strict=True)
    ]
    foot = [WORLDS[config.world], f"{backbone}; mean atom score; config {config_name(config)}."]
    save_figure(image_grid(rows, images, foot), out / "own_prompts", rows)
    return scores


def seed_rows(scores: pd.DataFrame, prompt_ids: list[str]) -> pd.DataFrame:
    """One row an image, prompt by prompt and seed by seed, titled by its seed."""
    means = scores.groupby(["prompt_id", "generation_seed"])[["score", "oracle"]].mean()
    texts = scores.drop_duplicates("prompt_id").set_index("prompt_id")["prompt"]
    seeds = sorted(set(scores["generation_seed"]))
    return pd.DataFrame(
        [
            {
                "prompt_id": prompt_id,
                "prompt": texts[prompt_id],
                "title": f"seed {seed}",
                "generation_seed": seed,
                "score": means["score"][prompt_id, seed],
                "oracle": means["oracle"][prompt_id, seed],
            }
            for prompt_id in prompt_ids
            for seed in seeds
        ]
    )


def summary(scores: pd.DataFrame) -> str:
    """The protocol's numbers in a few lines."""
    lines = [f"GenEval 2 AM overall  {over_replicates(overall(scores))}"]
    for skill, values in by_skill(scores).iterrows():
        lines.append(f"  {skill!s:20}{over_replicates(values)}")
    if scores["oracle"].notna().all():
        lines.append(f"by the oracle         {over_replicates(overall(scores, 'oracle'))}")
    return "\n".join(lines)
