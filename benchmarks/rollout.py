"""Speed and memory of sampling: images a second, and the share of the core's matrix-multiply rate.

    python benchmarks/rollout.py                                  # the shipped mini backbones
    python benchmarks/rollout.py --tiny --steps 2 --repeats 1     # random toy weights: a smoke run

The yardsticks are measured in the same run, in turn with the rollouts, and shares are medians:
the rate of a 1,024-square float32 matrix product on this core (`share_of_matmul`), and that of
bare products of the shapes that the transformer's linear layers really see at that group size
(`share_of_own_shapes`). The achieved rate counts the floating-point operations of the
transformer's products and attention (torch's counter); the first share lost is small matrices,
the rest normalisation, activations, rotary embeddings, softmax and Python. Prints a table and
writes `results/benchmarks/rollout.json`, a flat map of key to number. Times are the process's own,
not the wall's; a busy neighbour on the core still lowers them.
"""

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cast.backbones import Backbone, load_backbone
from cast.config import SamplingSection, is_local, load_backbone_config
from cast.flow import rollout
from cast.full_size.counting import count_operations
from cast.io import write_json
from cast.paths import from_root

GROUPS = (1, 4, 16)
PROMPT = "two red circles to the left of a blue star"


def mini_backbones(steps: int) -> dict[str, Backbone]:
    """The local backbones whose weights are there, by name."""
    found = {}
    for path in sorted(from_root("config/backbones").glob("*.yaml")):
        config = load_backbone_config(path.stem)
        if is_local(config.path) and from_root(config.path).is_dir():
            found[config.name] = load_backbone(config, SamplingSection(steps=steps), device="cpu")
    return found


def tiny_backbones() -> dict[str, Backbone]:
    """Toy pipelines of the test suite, one a family."""
    sys.path.insert(0, str(from_root("tests")))
    tiny = import_module("tiny")
    return {f"tiny-{family}": tiny.backbone(family, 4.0) for family in tiny.PIPELINES}


def interleaved(functions: Sequence[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """Processor seconds of each function in each of some rounds, after one that warms up.

    A round times all of them one after the other, so what a busy neighbour takes from the core
    (cache, clock, its other hardware thread) weighs on all alike: compare within a round.
    """
    rounds: list[list[float]] = []
    for _ in range(repeats + 1):
        times = []
        for function in functions:
            start = time.process_time()
            function()
            times.append(time.process_time() - start)
        rounds.append(times)
    return rounds[1:]


def linear_shapes(backbone: Backbone, call: Any) -> Counter[tuple[int, int, int]]:
    """(rows, inputs, outputs) of every linear layer that one velocity call runs, counted."""
    shapes: Counter[tuple[int, int, int]] = Counter()

    def note(module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        rows = inputs[0].numel() // module.in_features
        shapes[rows, module.in_features, module.out_features] += 1

    hooks = [
        module.register_forward_hook(note)
        for module in backbone.transformer.modules()
        if isinstance(module, nn.Linear)
    ]
    call()
    for hook in hooks:
        hook.remove()
    return shapes


def products(shapes: Counter[tuple[int, int, int]]) -> tuple[Callable[[], None], int]:
    """Bare matrix products of these shapes, each as often as it occurs, and their operations."""
    pairs = {
        (rows, inputs, outputs): (torch.randn(rows, inputs), torch.randn(outputs, inputs))
        for rows, inputs, outputs in shapes
    }

    def multiply() -> None:
        for shape, count in shapes.items():
            left, right = pairs[shape]
            for _ in range(count):
                nn.functional.linear(left, right)

    return multiply, sum(2 * r * i * o * count for (r, i, o), count in shapes.items())


def measure(backbone: Backbone, group: int, steps: int, repeats: int) -> dict[str, float]:
    """Images a second of a group's rollout with a two-transition window, and its share."""
    conditioning = backbone.encode([PROMPT]).repeat(group)
    velocity = backbone.velocity_for(conditioning)
    noise = backbone.noise([torch.Generator().manual_seed(i) for i in range(group)])
    xi = torch.randn(group, 2, *backbone.latent_shape)
    starts = torch.zeros(group, dtype=torch.int64)
    level, samples = torch.full((group,), 0.5), torch.arange(group)

    @torch.no_grad()
    def one_velocity() -> torch.Tensor:
        return velocity(noise, level, samples)

    square, square_operations = products(Counter({(1024, 1024, 1024): 1}))
    own, own_operations = products(linear_shapes(backbone, one_velocity))
    operations = count_operations(one_velocity) * steps
    sigmas = backbone.sigmas(steps)

    def sample() -> Any:
        return rollout(velocity, sigmas, noise, starts, xi, "flow_sde", 0.7, group)

    rounds = interleaved([square, own, sample], max(repeats, 1))
    achieved = [operations / sampled for _, _, sampled in rounds]
    rates = [square_operations / multiplied for multiplied, _, _ in rounds]
    own_rates = [own_operations / multiplied for _, multiplied, _ in rounds]

    def median_share(yardstick: list[float]) -> float:
        return statistics.median(a / y for a, y in zip(achieved, yardstick, strict=True))

    return {
        "images_per_s": group / statistics.median(sampled for _, _, sampled in rounds),
        "share_of_matmul": median_share(rates),
        "share_of_own_shapes": median_share(own_rates),
        "matmul_gflops": statistics.median(rates) / 1e9,
    }


def peak_mib(function: Any) -> float:
    """Peak resident memory while the function runs, in MiB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from now
    function()
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def peak_growth(backbone: Backbone, few: int, many: int) -> float:
    """MiB an image that the peak grows by when a group of 4 takes `many` steps instead of `few`."""
    conditioning = backbone.encode([PROMPT]).repeat(4)
    velocity = backbone.velocity_for(conditioning)
    noise = backbone.noise([torch.Generator().manual_seed(i) for i in range(4)])
    xi = torch.randn(4, 2, *backbone.latent_shape)
    starts = torch.zeros(4, dtype=torch.int64)

    def sample(steps: int) -> None:
        rollout(velocity, backbone.sigmas(steps), noise, starts, xi, "flow_sde", 0.7, 4)

    sample(few)
    return (peak_mib(lambda: sample(many)) - peak_mib(lambda: sample(few))) / 4


def main() -> int:
    """Measure every backbone at every group size; print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="toy weights of the tests")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks/rollout.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)

    backbones = tiny_backbones() if options.tiny else mini_backbones(options.steps)
    if not backbones:
        print("no mini backbone is there yet; make the zoo, or use --tiny", file=sys.stderr)
        return 2
    results: dict[str, float] = {}
    print("backbone               group   images/s  matmul GFLOP/s   share  of own shapes")
    for name, backbone in backbones.items():
        for group in GROUPS:
            row = measure(backbone, group, options.steps, options.repeats)
            for key in ("images_per_s", "share_of_matmul", "share_of_own_shapes"):
                results[f"{name}_b{group}_{key}"] = row[key]
            print(
                f"{name:22} {group:5} {row['images_per_s']:10.2f} {row['matmul_gflops']:15.1f} "
                f"{row['share_of_matmul']:7.0%} {row['share_of_own_shapes']:14.0%}"
            )
        growth = peak_growth(backbone, options.steps, 5 * options.steps)
        results[f"{name}_peak_growth_mib_per_image"] = growth
        print(f"{name:22} peak at {5 * options.steps} steps: {growth:+.2f} MiB an image")
    write_json(from_root(options.output), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
