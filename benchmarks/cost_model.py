"""Does the cost model hold? A finished run's ledger against the hours that counting predicts.

    python benchmarks/cost_model.py results/mini/mini-flux2/cast/seed0

The operations of one sampler step and one update are counted on the run's own backbone, as for the
full-size models; the speed is measured here, on the same step and update, so what is tested is
the arithmetic: how many steps, images, transitions and decodings a run is made of, and that
nothing else costs much. Prints a table and writes `results/benchmarks/cost_model.json`; a ratio
of 1 is a perfect prediction. Run it on the machine that trained; the ledger is in wall-clock time,
so its run should have had a core for itself.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cast.backbones import load_backbone
from cast.config import RunConfig
from cast.config.reading import parse
from cast.full_size.counting import Steps, count_operations
from cast.io import read_json, write_json
from cast.paths import from_root
from cast.training.budget import Budget
from cast.training.ledger import Ledger

PROMPT = "two red circles to the left of a blue star"
AIM = (0.7, 1.3)  # within 30%


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """CPU time of the shortest of some calls, after one that warms up: on one thread it is what the
    call takes on an idle machine."""
    function()
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        function()
        times.append(time.process_time() - begun)
    return min(times)


def predict(run: RunConfig) -> dict[str, float]:
    """Predicted seconds of the stages that are bound by the backbone's operations."""
    training = run.training
    backbone = load_backbone(run.backbone, run.sampling, "cpu")
    backbone.add_lora(training.lora, run.seed)
    steps = Steps(backbone, backbone.encode([PROMPT]).repeat(training.micro_batch))
    step, decode = count_operations(steps.step), count_operations(steps.decode)
    update, _ = steps.count_update(checkpointed=False)
    speed, slow = step / seconds(steps.step), update / seconds(steps.update)
    decoding = decode / seconds(steps.decode)
    budget = Budget.of(run)
    batches = budget.collections * budget.images / training.micro_batch
    replays = batches * budget.updates * (run.sde.window_length if run.method.kind == "rl" else 1)
    return {
        "generation": batches * (run.sampling.steps * step / speed + decode / decoding),
        "optimisation": replays * update / slow,
    }


def main() -> int:
    """Compare one run; 2 where it has no ledger."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks/cost_model.json"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    folder = from_root(chosen.run)
    if not (folder / "ledger.json").is_file():
        print(f"{folder}: there is no ledger.json", file=sys.stderr)
        return 2
    ledger = Ledger.read(folder / "ledger.json")
    settings = read_json(folder / "run.json")
    run = parse(RunConfig, settings["run"], str(folder / "run.json"))
    print(f"{run.backbone.name} {run.method.name} seed {run.seed}, {ledger.images} images")
    print(f"{'stage':14} {'predicted':>11} {'ledger':>11} {'ratio':>6}")
    results = {}
    for stage, expected in predict(run).items():
        spent = next(cost.device_s for phase, cost in ledger.phases.items() if phase == stage)
        ratio = results[f"{stage}_predicted_over_ledger"] = expected / spent
        verdict = "" if AIM[0] <= ratio <= AIM[1] else "  off by more than 30%"
        print(f"{stage:14} {expected:9.1f} s {spent:9.1f} s {ratio:6.2f}{verdict}")
    print("1 is a perfect prediction; a run that shared its core took longer than predicted.")
    write_json(from_root(chosen.output), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
