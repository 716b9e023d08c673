"""Supervised fine-tuning on the k best of n images (paper 5.1), on the trainer's own data path.

The images come from the base model (adapter off), so this is plain best-of-n distillation, not
expert iteration; they count against the same image budget, and the updates are as many as the
other methods'. What the summary doesn't say, and is ours: that the loss is flow matching at the
sampler's own noise levels, and that an update sees as many rows as a group has images.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from cast.rng import torch_generator
from cast.training.budget import Budget
from cast.training.state import TrainingState
from cast.training.update import Leaf, optimise
from cast.training.workbench import Group, Workbench


def best_images(scores: Float[Tensor, "B K"], keep: int) -> Int64[Tensor, " k"]:
    """Indices of the `keep` images of highest mean atom score; of equal ones the first drawn."""
    return scores.mean(dim=1).sort(descending=True, stable=True).indices[:keep]


def sft_update(bench: Workbench, state: TrainingState, group: Group) -> dict[str, float]:
    """The group's updates on its best images: `mean |v(x_s, s) - (eps - x0)|^2`.

    Each of a update's `group_size` rows takes one of the kept latents in turn, a noise level
    drawn from the sampler's N and its own noise. Every rank gathers all latents (they are small)
    and computes its rows.
    """
    assert bench.run.method.keep is not None
    latents = bench.processes.gather(group.rollout.latents)
    kept = latents[best_images(group.scores, bench.run.method.keep).to(latents.device)]
    where = f"collection {state.collection} ({group.record.prompt!r})"
    measured: dict[str, float] = {}
    for _ in range(Budget.of(bench.run).updates):
        statistics, norms = optimise(bench, state, _sft_leaves(bench, state, group, kept), where)
        measured = {"loss": float(statistics.double().mean()), **norms}
    return measured


def _sft_leaves(
    bench: Workbench, state: TrainingState, group: Group, kept: Float[Tensor, "k P C"]
) -> Iterator[Leaf]:
    total, size = bench.run.training.group_size, bench.run.training.micro_batch
    rows = bench.processes.rows(total, size)
    velocity = bench.velocity(group.conditioning)
    for first in range(rows.start, rows.stop, size):
        streams = [
            torch_generator(bench.run.seed, "sft", state.update, row)
            for row in range(first, first + size)
        ]

        def leaf(first: int = first, streams: list[torch.Generator] = streams):
            levels = [int(torch.randint(bench.steps, (1,), generator=g)) for g in streams]
            noise = torch.stack([torch.randn(kept.shape[1:], generator=g) for g in streams])
            x0 = kept[torch.arange(first, first + size) % len(kept)]
            noise, sigma = noise.to(x0), bench.sigmas.to(x0)[levels]
            at = sigma[:, None, None]
            predicted = velocity((1 - at) * x0 + at * noise, sigma, torch.arange(size))
            losses = (predicted - (noise - x0)).square().mean(dim=(1, 2))
            return losses.sum() / total, losses.detach()[:, None]

        yield leaf
