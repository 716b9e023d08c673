"""Benchmark images with matched seeds (paper 5.2): each a function of model, prompt and seed.

The noise of an image depends on its prompt and generation seed only, so every method starts
from the same noise. The model is called on the images of one prompt at a time, always in the
same shape: the bits of an image don't depend on which other prompts are evaluated, on the
process, or on where a killed run was resumed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from cast.errors import CastError
from cast.evaluation.store import ImageStore, Parts, progress_bar
from cast.flow import rollout
from cast.io import sha256_json
from cast.rng import torch_generator
from cast.scene_graph import PromptRecord
from cast.workflow.digest import code_digest

IMAGES = "images"


def check_prompts(records: Sequence[PromptRecord], seeds: Sequence[int]) -> None:
    """Raise `CastError` for no prompt or seed, or one that is given twice."""
    if not records or not seeds:
        raise CastError(f"evaluation: {len(records)} prompts and {len(seeds)} seeds; give both.")
    for name, values in (("prompt", [r.prompt for r in records]), ("seed", list(seeds))):
        twice = next((value for i, value in enumerate(values) if value in values[:i]), None)
        if twice is not None:
            raise CastError(f"evaluation: {name} {twice!r} is given twice; each counts once.")


def generation_noise(backbone: Any, record: PromptRecord, seeds: Sequence[int]) -> Tensor:
    """Initial noise [S, P, C] of a prompt's images: one stream a (prompt, seed)."""
    return backbone.noise(
        [torch_generator(seed, "evaluation noise", record.prompt_id) for seed in seeds]
    )


@torch.no_grad()
def sample_prompt(
    backbone: Any, record: PromptRecord, seeds: Sequence[int], steps: int, micro_batch: int
) -> UInt8[np.ndarray, "S H W 3"]:
    """8-bit images of one prompt by the plain ODE sampler, one a seed."""
    conditioning = backbone.encode([record.prompt]).repeat(micro_batch)
    device = next(backbone.transformer.parameters()).device
    noise = generation_noise(backbone, record, seeds).to(device)
    sampled = rollout(
        lambda x, sigma, _samples: backbone.velocity(x, sigma, conditioning),
        backbone.sigmas(steps),
        noise,
        micro_batch=micro_batch,
    )
    decoded = [backbone.decode(part) for part in sampled.latents.split(micro_batch)]
    return to_uint8(torch.cat(decoded))


def to_uint8(images: Float[Tensor, "B 3 H W"]) -> UInt8[np.ndarray, "B H W 3"]:
    """Pixels of images in [0, 1], rounded as in a saved PNG; NaN or infinity is refused."""
    if not bool(torch.isfinite(images).all()):
        raise CastError("evaluation: the decoded image holds NaN or infinity; check the adapter.")
    pixels = (images.clamp(0, 1) * 255.0).round().to(torch.uint8)
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def generation_key(identity: Mapping[str, Any], records: Sequence[PromptRecord]) -> str:
    """Hash of all that decides the images: `identity` (models, settings), prompts and code."""
    code = code_digest("cast.evaluation.generation", "cast.backbones")
    return sha256_json([dict(identity), [record.prompt_id for record in records], code])


def generate(
    backbone: Any,
    records: Sequence[PromptRecord],
    seeds: Sequence[int],
    steps: int,
    folder: Path,
    identity: Mapping[str, Any],
    batch: int = 16,
    progress: bool = True,
    parts_folder: Path | None = None,
) -> pd.DataFrame:
    """Images of every prompt under every seed, stored below `folder/images`; resumes by itself.

    Returns one row an image: `prompt_id`, `prompt`, `generation_seed`, `image_sha256`, `image`
    (its path below `folder`), and the constant columns of `identity` that are plain values.
    `batch` bounds the images in one forward pass and sets how many prompts make a part. Finished
    parts lie in `parts_folder`, by default `folder/parts`; each job that fills one store has its
    own.
    """
    check_prompts(records, seeds)
    store = ImageStore(folder / IMAGES)
    identity = {**identity, "seeds": list(seeds), "steps": steps}
    key = generation_key(identity, records)
    parts = Parts((parts_folder or folder / "parts") / "generation", key)
    constants = {key: value for key, value in identity.items() if isinstance(value, str | float)}
    size = max(1, batch // len(seeds))
    tables = []
    with progress_bar(len(records) * len(seeds), "generating", progress) as bar:
        for index, first in enumerate(range(0, len(records), size)):
            chunk = records[first : first + size]
            rows = parts.get(index)
            if rows is None or not all(store.path(name).exists() for name in rows["image_sha256"]):
                rows = pd.concat(
                    [
                        _prompt_rows(backbone, record, seeds, steps, min(batch, len(seeds)), store)
                        for record in chunk
                    ]
                ).assign(**constants)
                parts.put(index, rows)
            tables.append(rows)
            bar.update(len(rows))
    parts.drop_others()
    return pd.concat(tables, ignore_index=True)


def _prompt_rows(
    backbone: Any,
    record: PromptRecord,
    seeds: Sequence[int],
    steps: int,
    micro_batch: int,
    store: ImageStore,
) -> pd.DataFrame:
    images = sample_prompt(backbone, record, seeds, steps, micro_batch)
    names = [store.put(image) for image in images]
    return pd.DataFrame(
        {
            "prompt_id": record.prompt_id,
            "prompt": record.prompt,
            "generation_seed": list(seeds),
            "image_sha256": names,
            "image": [f"{IMAGES}/{store.path(name).relative_to(store.folder)}" for name in names],
        }
    )
