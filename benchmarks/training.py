"""Cost of training: seconds a collection by phase, and how two processes scale.

    python benchmarks/training.py                            # CAST on mini-flux2, 1 and 2 cores
    python benchmarks/training.py --collections 1 --group 4  # a smoke run

All shares come from one run's ledger, so the machine's speed cancels out. Prints a table and
writes `results/benchmarks/training.json`, a flat map of key to number:

- `generation_share`: generation's part of a collection's seconds.
- `update_share`: seconds of the update per second of generation.
- `update_share_bound`: what it may be: two transitions, each a forward and a backward pass (3.2
  forward passes together), against N steps, plus 15%.
- `two_process_scaling`: images a second that two processes generate, each with a group as large
  as the one process had (weak scaling), per image a second of the one. Needs two idle cores;
  0 with `--one`.
- `seconds_per_collection` and `seconds_*`: absolute, for this machine only.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from cast.config import RunConfig, load_config, run_config
from cast.errors import CastError
from cast.io import write_json
from cast.paths import from_root
from cast.scene_graph import load_vocabulary, sample_prompts, write_prompts
from cast.training import Ledger, launch

FORWARD_AND_BACKWARD = 3.2
TOLERANCE = 1.15


def benchmark_run(arguments: argparse.Namespace, folder: Path, processes: int) -> RunConfig:
    """The mini world's run, shortened; its group grows with the processes."""
    manifest = folder / "manifest.parquet"
    vocabulary = load_vocabulary("shapes")
    prompts = sample_prompts(vocabulary, 0, arguments.collections, purpose="benchmark")
    write_prompts(manifest, list(prompts))
    size = arguments.group * processes
    changes = {
        "collections": arguments.collections,
        "group_size": size,
        "micro_batch": min(8, arguments.group),
    }
    config = load_config(arguments.config, {"training": changes})
    run = run_config(config, arguments.backbone, arguments.method, 0)
    return run.model_copy(update={"manifest": str(manifest)})


def ledger_of(arguments: argparse.Namespace, processes: int) -> Ledger:
    """Train in a folder of its own and read the account."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        launch(benchmark_run(arguments, folder, processes), folder / "run", processes)
        return Ledger.read(folder / "run" / "ledger.json")


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """All keys of the JSON file."""
    one = ledger_of(arguments, 1)
    steps = load_config(arguments.config).sampling.steps
    # Preflight's images are in the account too; shares are per image, so they don't distort it.
    per_image = {name: cost.wall_s / cost.images for name, cost in one.phases.items()}
    images = one.images / arguments.collections
    transitions = one.phases["optimisation"].images / one.images
    per_image["optimisation"] *= transitions  # its images are replays: two an image
    collection = {name: value * images for name, value in per_image.items()}
    result = {
        "generation_share": collection["generation"] / sum(collection.values()),
        "update_share": collection["optimisation"] / collection["generation"],
        "update_share_bound": TOLERANCE * transitions * FORWARD_AND_BACKWARD / steps,
        "two_process_scaling": 0.0,
        "seconds_per_collection": sum(collection.values()),
    }
    result |= {f"seconds_{name}": value for name, value in collection.items()}
    if not arguments.one:
        two = ledger_of(arguments, 2).phases["generation"]
        rate = two.images / two.wall_s
        result["two_process_scaling"] = rate * per_image["generation"]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/mini.yaml")
    parser.add_argument("--backbone", default="mini-flux2")
    parser.add_argument("--method", default="cast")
    parser.add_argument("--collections", type=int, default=8)
    parser.add_argument("--group", type=int, default=16, help="images a process")
    parser.add_argument("--one", action="store_true", help="leave the two processes out")
    arguments = parser.parse_args()
    try:
        result = measure(arguments)
    except CastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for key, value in result.items():
        print(f"{key:<26}{value:10.3f}")
    path = from_root("results/benchmarks/training.json")
    write_json(path, result)
    print(f"written to {path.relative_to(from_root('.'))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
