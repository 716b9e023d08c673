"""Scores of stored images: the verifier's, both answer sets, and in the mini world the oracle's.

Scoring reads images from the store and never makes one. It resumes prompt by prompt.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from cast.errors import CastError
from cast.evaluation.generation import IMAGES
from cast.evaluation.store import ImageStore, Parts, progress_bar
from cast.io import sha256_json
from cast.scene_graph import PromptRecord
from cast.workflow.digest import code_digest

PROMPTS_A_CHUNK = 8


def score_images(
    verifier: Any,
    records: Sequence[PromptRecord],
    images: pd.DataFrame,
    folder: Path,
    identity: Mapping[str, Any],
    oracle: bool = False,
    progress: bool = True,
    parts_folder: Path | None = None,
) -> pd.DataFrame:
    """One row an atom of every image: the score table that `geneval2` aggregates.

    `images` is what `generate` returned for `folder`. Columns: `prompt_id`, `prompt`,
    `generation_seed`, `atom`, `skill`, `atom_count`, `score` (GenEval 2's official answer set),
    `score_strict`, and `oracle` (0 or 1; null where the world has no oracle). `parts_folder` is
    `generate`'s.
    """
    by_prompt = _images_by_prompt(records, images)
    store = ImageStore(folder / IMAGES)
    names = sorted(images["image_sha256"])
    code = code_digest("cast.evaluation.scoring", "cast.verifier", "cast.mini.oracle")
    key = sha256_json([dict(identity), names, [r.prompt_id for r in records], oracle, code])
    parts = Parts((parts_folder or folder / "parts") / "scoring", key)
    tables = []
    with progress_bar(len(images), "scoring", progress) as bar:
        for index, first in enumerate(range(0, len(records), PROMPTS_A_CHUNK)):
            rows = parts.get(index)
            if rows is None:
                chunk = records[first : first + PROMPTS_A_CHUNK]
                rows = pd.concat(
                    [
                        _score_prompt(verifier, r, by_prompt[r.prompt_id], store, oracle)
                        for r in chunk
                    ]
                )
                parts.put(index, rows)
            tables.append(rows)
            bar.update(len(rows.drop_duplicates(["prompt_id", "generation_seed"])))
    parts.drop_others()
    return pd.concat(tables, ignore_index=True)


def _images_by_prompt(
    records: Sequence[PromptRecord], images: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """Images of each prompt in order of their seeds; a missing or repeated one is refused."""
    twice = images[images.duplicated(["prompt_id", "generation_seed"])]
    if len(twice):
        row = twice.iloc[0]
        raise CastError(
            f"images: prompt {row.prompt!r}, seed {row.generation_seed} stands there twice."
        )
    seeds = set(images["generation_seed"])
    found = {}
    for record in records:
        own = images.loc[images["prompt_id"] == record.prompt_id]
        lacking = sorted(seeds - set(own["generation_seed"]))
        if lacking or own.empty:
            raise CastError(
                f"images: prompt {record.prompt!r} has no image of seed {(lacking or ['any'])[0]}. "
                "Generate again: it makes what is missing."
            )
        found[record.prompt_id] = own.sort_values("generation_seed")
    return found


def _score_prompt(
    verifier: Any, record: PromptRecord, images: pd.DataFrame, store: ImageStore, oracle: bool
) -> pd.DataFrame:
    pixels = np.stack([store.get(name) for name in images["image_sha256"]])
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255.0
    official, strict = verifier.score_modes(tensor, record, ("official", "strict"))
    truth = _oracle_answers(pixels, record) if oracle else np.full(official.shape, np.nan)
    return pd.DataFrame(
        [
            {
                "prompt_id": record.prompt_id,
                "prompt": record.prompt,
                "generation_seed": int(seed),
                "atom": k,
                "skill": atom.skill,
                "atom_count": record.atom_count,
                "score": float(official[i, k]),
                "score_strict": float(strict[i, k]),
                "oracle": float(truth[i, k]),
            }
            for i, seed in enumerate(images["generation_seed"])
            for k, atom in enumerate(record.atoms)
        ]
    )


def _oracle_answers(pixels: np.ndarray, record: PromptRecord) -> np.ndarray:
    from cast.mini import oracle

    return np.stack([np.asarray(oracle.answer(image, record), dtype=float) for image in pixels])
