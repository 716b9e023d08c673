"""Speed and memory of the verifier, as ratios measured in one run.

    python benchmarks/verifier.py                       # the shipped mini verifier
    python benchmarks/verifier.py --images 1 --repeats 1 --many 8 --sizes 64    # a smoke run

The yardstick for scores is the published evaluator's way, written plainly in the tests: one
`generate` call per probe, batch 1 (`tests/verifier/plain_evaluator.py`). The yardstick for
heatmaps is one forward pass over image and prompt, and for their memory that pass with eager
attention and `output_attentions=True`. Images are larger than the mini verifier was trained on,
which changes no cost. Times are seconds of the process on its core, both sides in turn, medians:
another process on the core disturbs them little. Memory of heatmaps is what the tensor allocator
holds at its peak. Prints a table and writes `results/benchmarks/verifier.json`, a flat map of key
to number:

- `speedup_10x64`, `speedup_10x256`, `speedup_10x1024`: 10 probes, so many image tokens.
- `heatmap_over_forward`: seconds of heatmaps without baseline over those of the forward pass.
- `neutral_over_forward`: what the neutral caption adds, in the same unit.
- `heatmap_memory_over_eager`: peak memory beyond the forward pass's, ours over eager's.
- `throughput_linearity`: seconds an image at `--many` images over those at a quarter of them.
- `images_per_s`: scored and mapped by one core, 64 image tokens, 10 probes.
- `peak_growth_mib`: how much the process's peak grows over `--many` images after the first quarter.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen2VLImageProcessorPil, Qwen3VLForConditionalGeneration

from cast.config.sections import HeatmapSection, VerifierSection
from cast.errors import CastError
from cast.io import write_json
from cast.paths import from_root
from cast.scene_graph import PromptRecord, load_vocabulary, sample_prompts
from cast.verifier import Verifier
from cast.verifier.images import as_pil
from cast.verifier.loading import load_parts
from cast.verifier.segments import Segmenter

sys.path.insert(0, str(from_root("tests/verifier")))
from plain_evaluator import plain_inputs, plain_score

PROBES = 10
CAPTION_TURN = "Describe the image.<|im_end|>\n<|im_start|>assistant\n"


def ten_probes() -> PromptRecord:
    """A prompt with exactly ten probes."""
    stream = sample_prompts(load_vocabulary("shapes"), 0, None, purpose="benchmark")
    return next(record for record in stream if len(record.atoms) == PROBES)


def images_of(tokens: int, count: int) -> torch.Tensor:
    """Random images that give so many image tokens of 8 x 8 px."""
    side = 8 * round(tokens**0.5)
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(tokens))


def seconds(repeats: int, *functions: Callable[[], Any]) -> list[float]:
    """Median seconds on the core of each function, called in turn after one call to warm up."""
    times: list[list[float]] = [[] for _ in functions]
    for number in range(repeats + 1):
        for function, taken in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            if number > 0:
                taken.append(time.process_time() - start)
    return [median(taken) for taken in times]


def allocated_mib(function: Callable[[], Any]) -> float:
    """Most that tensors allocated while the function runs hold at once, in MiB."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        function()
    held = peak = 0
    profiler: Any = recorded.profiler
    for event in profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()  # negative where memory is given back
            peak = max(peak, held)
    return peak / 2**20


def peak_mib(function: Callable[[], Any]) -> float:
    """Peak resident memory while the function runs, in MiB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from now
    function()
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def batch_inputs(parts: Any, images: torch.Tensor, caption: str) -> dict[str, torch.Tensor]:
    """Model inputs of equally large images, each followed by the same caption."""
    _, tokenizer, processor = parts
    rows = [
        plain_inputs(tokenizer, processor, image, CAPTION_TURN + caption)
        for image in as_pil(images)
    ]
    return {key: torch.cat([row[key] for row in rows]) for key in rows[0]}


def speedup(parts: Any, record: PromptRecord, tokens: int, count: int, repeats: int) -> float:
    """Seconds of the plain evaluator over ours, same images and probes."""
    model, tokenizer, processor = parts
    verifier = Verifier(model, Segmenter(tokenizer), processor, batch=count)
    images = images_of(tokens, count)

    def plain() -> None:
        for image in as_pil(images):
            for atom in record.atoms:
                plain_score(model, tokenizer, processor, image, atom.probe, atom.answer)

    theirs, ours = seconds(repeats, plain, lambda: verifier.score(images, record))
    return theirs / ours


def heatmap_cost(parts: Any, record: PromptRecord, count: int, repeats: int) -> dict[str, float]:
    """Seconds of heatmaps over a forward pass of the same length, 1,024 image tokens. Ours reads
    and cuts up the images, too; the forward pass finds its inputs ready."""
    model, tokenizer, processor = parts
    images = images_of(1024, count)
    inputs = batch_inputs(parts, images, record.prompt)

    def ours(baseline: Any) -> Callable[[], Any]:
        section = HeatmapSection(baseline=baseline)
        verifier = Verifier(model, Segmenter(tokenizer), processor, heatmap=section, batch=count)
        return lambda: verifier.heatmaps(images, record, (32, 32))

    @torch.no_grad()
    def forward() -> None:
        model.model(**inputs)

    plain, bare, full = seconds(repeats, forward, ours("none"), ours("neutral"))
    return {"heatmap_over_forward": bare / plain, "neutral_over_forward": (full - bare) / plain}


def heatmap_memory(parts: Any, record: PromptRecord, count: int) -> float:
    """Peak memory beyond a plain forward pass: ours over eager's, 1,024 image tokens."""
    model, tokenizer, processor = parts
    eager = Qwen3VLForConditionalGeneration._from_config(
        copy.deepcopy(model.config), dtype=model.dtype, attn_implementation="eager"
    )
    eager.load_state_dict(model.state_dict())
    eager.eval()
    images = images_of(1024, count)
    inputs = batch_inputs(parts, images, record.prompt)
    verifier = Verifier(model, Segmenter(tokenizer), processor, batch=count)
    with torch.no_grad():
        base = allocated_mib(lambda: model.model(**inputs))
        theirs = allocated_mib(lambda: eager.model(**inputs, output_attentions=True)) - base
    ours = allocated_mib(lambda: verifier.heatmaps(images, record, (32, 32))) - base
    return max(ours, 0.0) / theirs


def many_images(parts: Any, record: PromptRecord, many: int) -> dict[str, float]:
    """Whether time stays linear and memory flat over many images, 64 image tokens."""
    model, tokenizer, processor = parts
    verifier = Verifier(model, Segmenter(tokenizer), processor)
    images = images_of(64, 16)

    def score(count: int) -> None:
        for start in range(0, count, 16):
            verifier.score_and_heatmaps(images[: count - start], record, (8, 8))

    few = max(many // 4, 1)
    score(few)
    start = time.process_time()
    first_peak = peak_mib(lambda: score(few))
    middle = time.process_time()
    last_peak = peak_mib(lambda: score(many))
    end = time.process_time()
    return {
        "throughput_linearity": ((end - middle) / many) / ((middle - start) / few),
        "images_per_s": many / (end - middle),
        "peak_growth_mib": last_peak - first_peak,
    }


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--verifier", default=VerifierSection().path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--images", type=int, default=4, help="images scored together")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many", type=int, default=2000, help="images of the long run")
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks/verifier.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        model, tokenizer, _ = load_parts(options.verifier, "float32", "cpu")
    except CastError as error:
        print(error, file=sys.stderr)
        return 2
    processor = Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=8 * 8, max_pixels=1024 * 1024
    )
    parts = (model, tokenizer, processor)
    record = ten_probes()
    results: dict[str, float] = {}
    for tokens in options.sizes:
        key = f"speedup_{PROBES}x{tokens}"
        results[key] = speedup(parts, record, tokens, options.images, options.repeats)
    results |= heatmap_cost(parts, record, options.images, options.repeats)
    results["heatmap_memory_over_eager"] = heatmap_memory(parts, record, options.images)
    results |= many_images(parts, record, options.many)
    for key, value in results.items():
        print(f"{key:28} {value:10.3f}")
    write_json(from_root(options.output), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
