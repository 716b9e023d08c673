"""Loading each shipped generator and drawing 16 images: seconds on one core, at most 5.

    OMP_NUM_THREADS=1 python benchmarks/zoo.py

Each model is timed in a process of its own, imports apart. Prints a table and writes
`results/benchmarks/zoo.json`: per model `load_s`, `draw_s` (20 steps) and their `total_s`.
"""

import multiprocessing
import time

import torch

from cast.backbones import load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.io import read_json, write_json
from cast.mini.zoo.measure import generate
from cast.paths import from_root

IMAGES, STEPS, LIMIT = 16, 20, 5.0


def measure(name: str) -> dict[str, float]:
    """Seconds of one model."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    backbone = load_backbone(load_backbone_config(name), SamplingSection(), device="cpu")
    loaded = time.perf_counter()
    generate(backbone, ["two red circles above a blue star"] * IMAGES, 0, STEPS, batch=IMAGES)
    drawn = time.perf_counter()
    return {"load_s": loaded - start, "draw_s": drawn - loaded, "total_s": drawn - start}


def main() -> None:
    """Measure every generator of the manifest; print and write the seconds."""
    entries = read_json(from_root("models/mini/MANIFEST.json"))
    names = [n for n in entries if from_root(f"config/backbones/{n}.yaml").exists()]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        result = dict(zip(names, pool.map(measure, names, chunksize=1), strict=True))
    print(f"{'model':18}{'load':>8}{'draw':>8}{'total':>8}  of {LIMIT:.0f} s")
    for name, row in result.items():
        shares = f"{row['load_s']:8.2f}{row['draw_s']:8.2f}{row['total_s']:8.2f}"
        print(f"{name:18}{shares}  {row['total_s'] / LIMIT:.0%}")
    write_json(from_root("results/benchmarks/zoo.json"), result)


if __name__ == "__main__":
    main()
