"""One update of the adapter from one group: the policy gradient (paper 4.3)."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from cast.flow import micro_batches, replay_log_prob, token_kl
from cast.training.gradients import PairwiseSum, clip_gradients, take_gradients
from cast.training.guards import check_finite, check_replay
from cast.training.policy_loss import clip_range, policy_loss, ratio_level
from cast.training.state import TrainingState
from cast.training.workbench import Group, Workbench

Leaf = Callable[[], tuple[Tensor, Tensor]]
"""Computes a leaf's loss (already weighted) and its statistics a sample, [b, n]."""


def optimise(
    bench: Workbench,
    state: TrainingState,
    leaves: Iterator[Leaf],
    where: str,
    check: Callable[[Tensor], None] | None = None,
) -> tuple[Float[Tensor, "L n"], dict[str, float]]:
    """Backward through every leaf, sum in a fixed order, clip, step.

    `check` sees the statistics of all ranks' leaves before the adapter is changed, and may
    refuse. Returns those statistics and the gradient's norm (before clipping) and rms.
    """
    parameters = list(state.parameters.values())
    tree, rows = PairwiseSum(), []
    for leaf in leaves:
        loss, statistics = leaf()
        loss.backward()
        tree.add(take_gradients(parameters))
        rows.append(statistics.detach())
    statistics = bench.processes.gather(torch.cat(rows)).cpu()
    check_finite(statistics, "loss or log_prob", where)
    if check is not None:
        check(statistics)
    gradients = bench.processes.add_up(tree.total())
    check_finite(gradients, "gradient", where)
    norm = clip_gradients(gradients, bench.run.training.gradient_clip)
    state.apply(gradients)
    size = sum(gradient.numel() for gradient in gradients)
    return statistics, {"gradient_norm": norm, "gradient_rms": norm / size**0.5}


def policy_update(
    bench: Workbench, state: TrainingState, group: Group, advantages: Float[Tensor, "B R C"]
) -> dict[str, float]:
    """`updates_per_collection` updates from one group; the first is on-policy and checked.

    Before it, the replayed log_prob of every token of both transitions must equal the stored one
    within `training.replay_tolerance`; a `GuardError` stops the run when it doesn't.
    """
    training, images = bench.run.training, len(group.images)
    transitions = group.rollout.log_probs.shape[1]
    where = f"collection {state.collection} ({group.record.prompt!r})"
    measured: dict[str, float] = {}

    def on_policy(statistics: Tensor) -> None:
        # Leaves come micro-batch by micro-batch, transition by transition: put images first.
        errors = statistics[:, 0].reshape(-1, transitions, training.micro_batch)
        errors = errors.transpose(1, 2).reshape(images, transitions)
        check_replay(errors, training.replay_tolerance, where)

    for repeat in range(training.updates_per_collection):
        statistics, norms = optimise(
            bench,
            state,
            _policy_leaves(bench, group, advantages),
            where,
            check=on_policy if repeat == 0 else None,
        )
        if repeat == 0:
            measured["replay_error"] = float(statistics[:, 0].max())
        # A mean over all images in a fixed order: the same for any number of processes.
        for column, name in enumerate(("loss", "ratio", "clip_fraction", "kl"), start=1):
            measured[name] = float(statistics[:, column].double().mean())
        measured |= norms
    return measured


def _policy_leaves(bench: Workbench, group: Group, advantages: Tensor) -> Iterator[Leaf]:
    """A leaf for each micro-batch of this rank, with all its transitions.

    Statistics of a leaf: one row an (image, transition): replay error, loss, mean ratio, clipped
    share, KL.
    """
    run, rolled = bench.run, group.rollout
    mine = advantages[group.rows.start : group.rows.stop].flatten(1).to(bench.device)
    for samples, _ in micro_batches(len(group.rows), run.training.micro_batch):
        for index in range(rolled.log_probs.shape[1]):
            yield lambda samples=samples, index=index: _policy_leaf(
                bench, group, mine, samples, index
            )


def _policy_leaf(
    bench: Workbench, group: Group, advantages: Tensor, samples: Tensor, index: int
) -> tuple[Tensor, Tensor]:
    run, training, rolled = bench.run, bench.run.training, group.rollout
    arguments: dict[str, Any] = {
        "kind": run.sde.kind,
        "noise_level": run.sde.noise_level or run.backbone.noise_level,
        "micro_batch": training.micro_batch,
    }
    velocity = bench.velocity(group.conditioning)
    replay = replay_log_prob(velocity, rolled, bench.sigmas, index, samples, **arguments)
    old = rolled.log_probs[samples, index]
    level = ratio_level(run.method.routing or "uniform")
    clip = clip_range(
        level, training.clip_range_image, training.clip_range_token, advantages.shape[1]
    )
    policy = policy_loss(replay.log_prob, old, advantages[samples], clip, level)
    loss, kl = policy.loss, torch.zeros_like(policy.loss)
    if training.kl > 0:
        with torch.no_grad(), bench.backbone.reference():
            reference = replay_log_prob(velocity, rolled, bench.sigmas, index, samples, **arguments)
        kl = token_kl(replay.mean, reference.mean, replay.std).mean(dim=-1)
        loss = loss + training.kl * kl
    weight = 1.0 / (len(group.images) * rolled.log_probs.shape[1])
    error = (replay.log_prob - old).abs().amax(dim=-1)
    columns = [error, loss, policy.ratio.mean(dim=-1), policy.clipped, kl]
    return loss.sum() * weight, torch.stack([c.detach() for c in columns], dim=1)
