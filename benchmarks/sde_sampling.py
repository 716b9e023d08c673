"""What stochastic transitions do to a mini backbone's images before any training, by the oracle.

    python benchmarks/sde_sampling.py               # the table of LOG.md, 2026-12-05; 10 minutes
    python benchmarks/sde_sampling.py --prompts 2   # a smoke run

A policy is trained on images that two stochastic transitions made and evaluated on the ODE's, so
what the transitions cost by themselves is what training would first learn to undo. One group of
`--images` a development prompt, the same noise for every sampler; differences are to the ODE with
distinct noise, with standard errors over prompts. Prints the table and writes
`results/benchmarks/sde_sampling.csv`.
"""

import argparse
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import UInt8
from tqdm import tqdm

from cast.backbones import Backbone, load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.flow import TransitionKind, rollout
from cast.io import written_whole
from cast.mini import oracle
from cast.paths import from_root
from cast.rng import torch_generator
from cast.scene_graph import PromptRecord, read_prompts

STEPS = 20
LENGTH = 2  # transitions of a window


class Sampler(NamedTuple):
    """How a group is sampled; without `kind` by the ODE. The window's range is [0, high)."""

    shared_noise: bool
    kind: TransitionKind | None = None
    noise_level: float = 1.0
    high: int = LENGTH


SAMPLERS = (
    Sampler(False),
    Sampler(False, "flow_sde", 1.0, 5),
    Sampler(False, "flow_sde", 0.7, 5),
    Sampler(False, "flow_sde", 0.5, 8),
    Sampler(False, "cps", 0.5, 5),
    Sampler(False, "cps", 0.8, 5),
    Sampler(False, "cps", 0.8, 8),
    Sampler(True, "cps", 0.5, 5),
    Sampler(True, "cps", 0.8, 5),
    Sampler(True, "flow_sde", 0.5, 8),
    Sampler(True, "flow_sde", 1.0, 5),
)


@torch.no_grad()
def group(
    backbone: Backbone, record: PromptRecord, number: int, sampler: Sampler, images: int
) -> UInt8[np.ndarray, "B H W 3"]:
    """One prompt's images; their noise depends on the prompt's number and the image's alone."""
    conditioning = backbone.encode([record.prompt]).repeat(images)
    rows = [0 if sampler.shared_noise else i for i in range(images)]
    noise = backbone.noise([torch_generator(0, "sde/noise", number, row) for row in rows])
    starts = drawn = None
    if sampler.kind:
        last = sampler.high - LENGTH
        starts = torch.randint(last + 1, (images,), generator=torch_generator(0, "sde/at", number))
        streams = [torch_generator(0, "sde/transition", number, i) for i in range(images)]
        drawn = torch.stack(
            [torch.randn((LENGTH, *noise.shape[1:]), generator=stream) for stream in streams]
        )
    latents = rollout(
        lambda x, sigma, _: backbone.velocity(x, sigma, conditioning),
        backbone.sigmas(STEPS),
        noise,
        starts,
        drawn,
        sampler.kind or "flow_sde",
        sampler.noise_level,
        micro_batch=images,
    ).latents
    pixels = backbone.decode(latents).clamp(0, 1).permute(0, 2, 3, 1).numpy()
    return (pixels * 255).round().astype(np.uint8)


def measure(
    backbone: Backbone, records: list[PromptRecord], sampler: Sampler, images: int
) -> pd.DataFrame:
    """A row a prompt: mean AM, share of true counts, objects drawn minus asked for, sd of AM."""
    rows = []
    for number, record in enumerate(records):
        made = group(backbone, record, number, sampler, images)
        truth = np.stack([oracle.answer(image, record) for image in made])
        counts = [k for k, atom in enumerate(record.atoms) if atom.skill == "count"]
        asked = sum(entity.count for entity in record.graph.entities)
        drawn = np.mean([len(oracle.read(image).objects) for image in made])
        am = truth.mean(axis=1)
        rows.append(
            (am.mean(), truth[:, counts].mean() if counts else np.nan, drawn - asked, am.std())
        )
    return pd.DataFrame(rows, columns=["am", "count", "drawn_minus_asked", "sd_within_group"])


def table(backbone: Backbone, records: list[PromptRecord], images: int) -> pd.DataFrame:
    """A row a sampler: means over prompts, AM's difference to the first and its standard error."""
    rows, first = [], None
    for sampler in tqdm(SAMPLERS):
        by_prompt = measure(backbone, records, sampler, images)
        first = by_prompt if first is None else first
        change = by_prompt["am"] - first["am"]
        rows.append(
            {
                **sampler._asdict(),
                **by_prompt.mean(),
                "am_change": change.mean(),
                "am_change_se": change.sem(),
                "drawn_change_se": (by_prompt - first)["drawn_minus_asked"].sem(),
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Parse the command line, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="mini-flux2")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--images", type=int, default=8)
    arguments = parser.parse_args()
    config = load_backbone_config(arguments.backbone)
    backbone = load_backbone(config, SamplingSection(), device="cpu")
    records = read_prompts(from_root("data/mini/development.jsonl"))[: arguments.prompts]
    measured = table(backbone, records, arguments.images)
    print(measured.round(3).to_string(index=False))
    path = from_root("results/benchmarks/sde_sampling.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        measured.to_csv(temporary, index=False)


if __name__ == "__main__":
    main()
