"""One trainer for every method: uniform, per_atom, aggregate_map, shuffled_map, atom_map and SFT.

A collection is one prompt and its group of images. For each: generate with a stochastic window
of two transitions, score every atom, read heatmaps where the routing needs them, make the
advantage map, and update the adapter once. What differs from the usual GRPO, by number:

1. One prompt a collection; its images are the whole batch, and normalise each other.
2. Two transitions of a trajectory are stochastic, drawn from the candidate range; the rest is
   the ODE. Only those two are replayed and trained on (4.3).
3. The advantage is a map over tokens, summed over atoms that were normalised one by one (4.3).
4. log_prob and ratio are per token; for `uniform`, which is Flow-GRPO, per image.
5. One update a collection: on-policy, the ratio is 1, checked before every such update.
6. An atom whose scores spread less than the scorer can resolve gets no advantage at all.
7. No KL and no reference copy by default; with KL the reference is the model without adapter.
8. A collection whose scores are flat still makes its update, with a zero gradient: all methods
   make the same number of optimizer steps.

To resume, run the same command: everything random is a function of the seed and of what it is
for, so a run that was killed at any moment ends with the bytes of an unbroken one.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from cast.config import RunConfig
from cast.credit import advantage_map, draw_pairing, needs_heatmaps
from cast.errors import CastError
from cast.paths import from_root
from cast.rng import torch_generator
from cast.training.budget import Budget
from cast.training.checkpoint import load_latest, save_checkpoint
from cast.training.guards import GuardError, warnings
from cast.training.identity import identity
from cast.training.launch import Processes
from cast.training.ledger import CostJournal
from cast.training.metrics import metrics_row
from cast.training.preflight import preflight
from cast.training.report import Report
from cast.training.results import write_results
from cast.training.run_folder import Preempted, StopRequest, locked
from cast.training.setup import load_workbench
from cast.training.sft import sft_update
from cast.training.state import TrainingState
from cast.training.update import policy_update
from cast.training.window import (
    check_sampler,
    describe,
    measured_window,
    window_path,
    with_window,
)
from cast.training.workbench import Group, Workbench


def train(run: RunConfig, folder: Path) -> None:
    """Train one (backbone, method, seed), or go on with it; returns when it is finished.

    Writes `adapter/`, `metrics.parquet`, `run.json` and last `ledger.json` into `folder`, once, at
    the end; checkpoints and cost journal lie in `checkpoints/ID/`, where ID names config,
    weights, manifest and code, so another run never goes on from this one's checkpoints.

    Raises `CastError` for bad input, a held folder, a full disk; `GuardError` when going on would
    spoil the run; `Preempted` after SIGTERM. In each case what was done is saved as far as it
    can be, and the same call goes on.
    """
    processes, folder = Processes(), Path(folder)
    window = measured_window(run)
    if window is not None:
        run = with_window(run, window)
    budget = Budget.of(run)
    with _held(folder, processes), StopRequest().listening() as stop:
        named = identity(run, from_root(run.manifest))
        home = folder / "checkpoints" / named["id"]
        journal = CostJournal(home / "costs.jsonl", processes.describe(), processes.is_main)
        bench = load_workbench(run, processes, journal, stop, budget.collections)
        if window is not None:
            check_sampler(window, bench.sigmas, window_path(run))
        modules = bench.backbone.add_lora(run.training.lora, run.seed)
        state = TrainingState(bench.backbone.trainable_parameters(), run.training)
        _resume(state, home, processes)
        title = f"{run.backbone.name} {run.method.name} seed {run.seed}"
        report = Report(folder, title, budget.collections, state.collection, processes.is_main)
        try:
            report.say(_adapter_line(modules, state))
            report.say(describe(run, window))
            _say_others(home, report)
            _collections(bench, state, budget, home, report)
        finally:
            report.close()
        if processes.is_main:
            write_results(bench, state, named, modules, folder)
        processes.wait()


def _collections(
    bench: Workbench, state: TrainingState, budget: Budget, home: Path, report: Report
) -> None:
    """All collections that are left. Every way out leaves a checkpoint of the last whole one."""
    if state.collection == budget.collections:
        return
    for record in bench.records[state.collection :]:
        bench.backbone.encode([record.prompt])  # kept by the backbone
    bench.backbone.release_text_encoder()  # before anything else needs its memory
    for line in preflight(bench, state, home.parent.parent):
        report.say(line)
    every = bench.run.training.checkpoint_every
    while state.collection < budget.collections:
        updates = state.update
        try:
            group, advantages = _one_collection(bench, state, budget)
        except Exception as error:
            # Another rank that ends on SIGTERM can break this one's collective call first.
            kind = Preempted if bench.stop.asked else type(error)
            if not issubclass(kind, GuardError | Preempted):
                raise
            untouched = state.update == updates
            if untouched and bench.processes.is_main:
                save_checkpoint(home, state.checkpoint())
            raise kind(f"{error} {_how_to_go_on(untouched, home)}") from error
        report.collection(state.metrics[-1])
        for line in warnings(state.metrics):
            report.say(line)
        if state.collection % every == 0 or state.collection == budget.collections:
            if bench.processes.is_main:
                save_checkpoint(home, state.checkpoint())
            report.pictures(group, advantages, state.collection - 1)


def _one_collection(
    bench: Workbench, state: TrainingState, budget: Budget
) -> tuple[Group, Float[Tensor, "B R C"] | None]:
    """Generate, score, attend, update; the state changes only when all of it is done."""
    run, index = bench.run, state.collection
    supervised = run.method.kind == "sft"
    updates = budget.updates * (budget.images if not supervised else run.training.group_size)
    transitions = 1 if supervised else run.sde.window_length
    with bench.backbone.reference() if supervised else nullcontext():
        group = bench.generate(
            bench.records[index], index, budget.images, stochastic=not supervised
        )
    advantages = None
    if not supervised:
        heatmaps = (
            bench.heatmaps(group) if needs_heatmaps(run.method.routing or "uniform") else None
        )
        advantages = group_map(run, group, heatmaps, bench.backbone.token_grid, index)
    replays = updates * transitions
    with bench.journal.phase("optimisation", replays, replays * bench.tokens):
        if advantages is None:
            measured = sft_update(bench, state, group)
        else:
            measured = policy_update(bench, state, group, advantages)
    state.collection += 1
    state.images += budget.images
    state.prompt_ids.append(group.record.prompt_id)
    state.window_starts.append([] if supervised else group.starts.tolist())
    state.metrics.append(metrics_row(index, state, group, advantages, measured))
    return group, advantages


def group_map(
    run: RunConfig,
    group: Group,
    heatmaps: Float[Tensor, "B K R C"] | None,
    grid: tuple[int, int],
    collection: int,
) -> Float[Tensor, "B R C"]:
    """The group's advantage map by the method's routing."""
    assert run.method.routing is not None
    pairing = None
    if run.method.routing == "shuffled_map":
        generator = torch_generator(run.seed, "pairing", collection)
        pairing = draw_pairing(group.scores.shape[1], generator)
    return advantage_map(
        run.method.routing,
        group.scores,
        heatmaps,
        grid,
        group.resolution,
        clip=run.training.advantage_clip,
        permutation=pairing,
        eps=run.training.advantage_eps,
    )


def _resume(state: TrainingState, home: Path, processes: Processes) -> None:
    """Restore the newest whole checkpoint; the main process first sets damaged ones aside."""
    checkpoint = None
    if processes.is_main:
        checkpoint = load_latest(home, warn=lambda line: print(line, flush=True))
    processes.wait()
    if not processes.is_main:
        checkpoint = load_latest(home, warn=lambda line: None)
    if checkpoint is not None:
        state.restore(checkpoint)


def _how_to_go_on(saved: bool, home: Path) -> str:
    kept = "Its state is saved" if saved else "The last checkpoint stands"
    return f"{kept} in {home}; the same command goes on from there."


@contextmanager
def _held(folder: Path, processes: Processes) -> Iterator[None]:
    """The folder's lock on the main process; the others wait until it has it."""
    with locked(folder) if processes.is_main else nullcontext():
        processes.wait()
        yield


def _adapter_line(modules: list[str], state: TrainingState) -> str:
    if not modules:
        raise CastError("LoRA: no module was bound, so nothing would train; check its targets.")
    size = sum(p.numel() for p in state.parameters.values())
    return f"LoRA: {len(modules)} modules bound, {size:,} trainable parameters"


def _say_others(home: Path, report: Report) -> None:
    others = [p.name for p in home.parent.glob("*") if p.is_dir() and p != home]
    if others:
        report.say(
            f"{home.parent}: {len(others)} other run(s) of another config, weights or code lie "
            "there and are left alone; delete them when you don't need them."
        )
