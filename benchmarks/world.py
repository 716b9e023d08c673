"""Speed of the mini world: scenes a second on one core, prompts sampled and drawn.

    python benchmarks/world.py --scenes 3000

Prints a table and writes `results/benchmarks/world.json`: `scenes_per_s` (graph and prompt
included), `render_per_s` (drawing alone), `oracle_per_s` (reading the images back).
"""

import argparse
import time

from cast.io import write_json
from cast.mini import oracle
from cast.mini.world import render_scene
from cast.paths import from_root
from cast.rng import numpy_generator
from cast.scene_graph import load_vocabulary, sample_prompts


def main() -> None:
    """Sample, draw and read; print and write the rates."""
    parser = argparse.ArgumentParser(description="scenes a second of the mini world")
    parser.add_argument("--scenes", type=int, default=3000)
    count = parser.parse_args().scenes
    rng = numpy_generator(0, "benchmark/world")
    start = time.perf_counter()
    records = list(sample_prompts(load_vocabulary("shapes"), 0, count, purpose="benchmark/world"))
    sampled = time.perf_counter()
    images = [render_scene(record.graph, rng).image for record in records]
    drawn = time.perf_counter()
    oracle.detect(images[0])  # makes the templates once
    ready = time.perf_counter()
    for image, record in zip(images, records, strict=True):
        oracle.answer(image, record)
    read = time.perf_counter()
    result = {
        "scenes_per_s": count / (drawn - start),
        "render_per_s": count / (drawn - sampled),
        "oracle_per_s": count / (read - ready),
    }
    for key, value in result.items():
        print(f"{key:<14}{value:10.0f}")
    write_json(from_root("results/benchmarks/world.json"), result)


if __name__ == "__main__":
    main()
