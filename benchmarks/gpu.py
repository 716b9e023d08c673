"""What one GPU really does with the full-size models' shapes, in under five minutes.

    python benchmarks/gpu.py                 # a CUDA GPU; results/benchmarks/gpu.json
    python benchmarks/gpu.py --tiny          # the same code at toy size, on any machine

Transformers shaped as FLUX.2-dev's and Qwen-Image's, with random bfloat16 weights and as many
blocks as fit, run sampler steps and updates at 512 and 1,024 px; a verifier shaped as Qwen3-VL-8B
scores probes with and without the shared prefix. `*_mfu` is achieved operations as a share of the
matrix-multiply rate measured in the same run; `speed_tflops` is what `cast.full_size.cost.SPEED`
should be. A section that fails is recorded and the next one begins; none begins after the time
limit. Nothing here is a quality measurement: the weights are noise.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from cast.backbones.meta import meta_backbone, meta_conditioning, meta_module
from cast.config import BackboneConfig, LoraSection, SamplingSection, load_backbone_config
from cast.full_size.counting import Steps, count_operations
from cast.full_size.tables import BLOCKS, read_shapes
from cast.io import write_json
from cast.paths import from_root
from cast.verifier.segments import Segmenter
from cast.verifier.shared_prefix import ImagePatches, encode_prefix, pack, release, run_packed

BACKBONES = ("flux2-dev", "qwen-image-2512")
VERIFIER = "Qwen/Qwen3-VL-8B-Instruct"
PROBES, PROBE_TOKENS = 7, 24
TINY: dict[str, dict[str, Any]] = {
    "flux2": {
        "num_layers": 2,
        "num_single_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 16,
        "joint_attention_dim": 48,
        "axes_dims_rope": (4, 4, 4, 4),
    },
    "qwen_image": {
        "num_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 16,
        "joint_attention_dim": 48,
        "axes_dims_rope": (4, 6, 6),
    },
}


@dataclass
class Bench:
    """Where to run, how large, how long; and what came out."""

    device: str
    tiny: bool
    seconds: float
    results: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    @property
    def sides(self) -> tuple[int, ...]:
        """Image sides in pixels."""
        return (32, 64) if self.tiny else (512, 1024)

    def wait(self) -> None:
        """Let the GPU finish what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def time(self, function: Callable[[], Any], repeats: int = 3) -> float:
        """Median seconds of some calls, after one that warms up."""
        function()
        times = []
        for _ in range(repeats):
            self.wait()
            begun = time.perf_counter()
            function()
            self.wait()
            times.append(time.perf_counter() - begun)
        return statistics.median(times)

    def note(self, key: str, value: float, unit: str = "") -> None:
        """Keep a number and show it."""
        self.results[key] = value
        print(f"{key:52} {value:12.4g} {unit}", flush=True)

    def attempt(self, name: str, section: Callable[[], None]) -> None:
        """Errors are recorded and go no further: a number less, not a run less."""
        try:
            if time.monotonic() - self.start > self.seconds:
                raise TimeoutError(f"left out: {self.seconds:.0f} s are over")
            section()
        except Exception as error:
            self.errors[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            print(f"{name:52} {self.errors[name]}", flush=True)
        finally:
            if self.device == "cuda":
                torch.cuda.empty_cache()


def matmul(bench: Bench) -> None:
    """Rate of a large bfloat16 matrix product."""
    size = 256 if bench.tiny else 8192
    left, right = (
        torch.randn(size, size, device=bench.device, dtype=torch.bfloat16) for _ in range(2)
    )
    seconds = bench.time(lambda: left @ right, 10)
    bench.note("matmul_tflops", 2 * size**3 / seconds / 1e12, "TFLOP/s")


def build(bench: Bench, name: str) -> tuple[Any, dict[str, list[int]], float]:
    """A backbone with as many blocks as fit, its prompts' shapes, and its share of the blocks."""
    config = load_backbone_config(name)
    shape = read_shapes()[config.path]
    parts = {"transformer": dict(shape["transformer"]), "vae": shape["vae"]}
    conditioning = dict(shape["conditioning"])
    share = 1.0
    if bench.tiny:
        parts["transformer"] |= TINY[config.family]
        conditioning = {
            key: [8, 48 if len(s) == 2 and s[1] > 4 else s[-1]] for key, s in conditioning.items()
        }
    elif bench.device == "cuda":
        whole: Any = meta_module(parts["transformer"], config.dtype)
        needed = 2 * sum(p.numel() for p in whole.parameters())
        share = min(1.0, 0.6 * torch.cuda.mem_get_info()[0] / needed)
        blocks = {kind: int(whole.config[kind]) for kind in BLOCKS[config.family]}
        parts["transformer"] |= {kind: max(1, int(share * n)) for kind, n in blocks.items()}
    side = bench.sides[0]
    backbone = meta_backbone(config, _sampling(side), parts, bench.device)
    backbone.add_lora(LoraSection(rank=4 if bench.tiny else 64, alpha=128.0))
    return backbone, conditioning, share


def _sampling(side: int) -> SamplingSection:
    return SamplingSection(steps=50, height=side, width=side)


def sized(backbone: Any, side: int, shapes: dict[str, list[int]], batch: int) -> Steps:
    """The same weights for images of another size."""
    config: BackboneConfig = backbone.config
    other = type(backbone)(backbone.pipeline, config, side, side)
    for name, parameter in other.transformer.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return Steps(other, meta_conditioning(shapes, config.dtype, batch, str(backbone.device)))


def step_and_update(bench: Bench, backbone: Any, shapes: dict[str, list[int]]) -> None:
    """Sampler steps and updates by size, batch and checkpointing."""
    for side in bench.sides:
        for batch in (1, 4):
            key = f"{backbone.config.family}_{side}px_b{batch}"
            made = partial(sized, backbone, side, shapes, batch)
            bench.attempt(f"{key}_step", lambda key=key, made=made: step(bench, key, made()))
            for checkpointed in (True, False):
                name = f"{key}_update_{'checkpointed' if checkpointed else 'plain'}"
                section = partial(update, bench, name, backbone.transformer, made, checkpointed)
                bench.attempt(name, section)


def step(bench: Bench, key: str, steps: Steps) -> None:
    """Seconds of one sampler step, and its share of the matrix-multiply rate."""
    seconds = bench.time(steps.step)
    rate = count_operations(steps.step) / seconds
    bench.note(f"{key}_step_s", seconds, "s")
    bench.note(f"{key}_step_mfu", rate / 1e12 / bench.results["matmul_tflops"])
    bench.results["speed_tflops"] = rate / 1e12  # the last: 1,024 px, the larger batch


def update(
    bench: Bench, name: str, transformer: Any, made: Callable[[], Steps], checkpointed: bool
) -> None:
    """Seconds and peak memory of one replayed transition with its backward pass."""
    steps = made()
    transformer.train()
    if checkpointed:
        transformer.enable_gradient_checkpointing()
    try:
        if bench.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        bench.note(f"{name}_s", bench.time(steps.update), "s")
        if bench.device == "cuda":
            bench.note(f"{name}_peak_gb", torch.cuda.max_memory_allocated() / 1e9, "GB")
    finally:
        transformer.disable_gradient_checkpointing()
        transformer.eval()


def attention_and_compile(bench: Bench, backbone: Any, shapes: dict[str, list[int]]) -> None:
    """One step at the larger size under each attention backend, then with compiled blocks."""
    family, made = backbone.config.family, partial(sized, backbone, bench.sides[-1], shapes, 1)

    def attend(name: str) -> None:
        with sdpa_kernel(getattr(SDPBackend, name)):
            bench.note(f"{family}_{name.lower()}_step_s", bench.time(made().step), "s")

    def compiled() -> None:
        steps, begun = made(), time.monotonic()
        backbone.transformer.compile_repeated_blocks(fullgraph=False)
        steps.step()
        bench.note(f"{family}_compile_s", time.monotonic() - begun, "s")
        bench.note(f"{family}_compiled_step_s", bench.time(steps.step), "s")

    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        bench.attempt(f"{family}_{name.lower()}", partial(attend, name))
    if not bench.tiny:  # the compiler takes longer than everything else together
        bench.attempt(f"{family}_compiled", compiled)


def transformer(bench: Bench, name: str) -> None:
    """Everything that is measured on one transformer; its weights are gone afterwards."""
    backbone, shapes, share = build(bench, name)
    bench.note(f"{backbone.config.family}_share_of_blocks", share)
    step_and_update(bench, backbone, shapes)
    attention_and_compile(bench, backbone, shapes)


class _Opening(Segmenter):
    """A segmenter without a tokenizer: four tokens of text before the image."""

    def __init__(self, image_token: int) -> None:
        self.image_token = image_token

    def prefix(self, image_tokens: int) -> tuple[torch.Tensor, int]:
        """Ids of the opening and the image tokens, and where the image begins."""
        return torch.tensor([1, 2, 3, 4] + [self.image_token] * image_tokens), 4


def verifier(bench: Bench) -> None:
    """Scoring of one image's probes over a shared prefix, and each with a prefix of its own."""
    shape = dict(read_shapes()[VERIFIER]["model"])
    if bench.tiny:
        rope = {**shape["text_config"]["rope_parameters"], "mrope_section": [3, 3, 2]}
        text = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "head_dim": 16}
        text |= {"num_attention_heads": 4, "num_key_value_heads": 2, "rope_parameters": rope}
        vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}
        shape["text_config"] = shape["text_config"] | text
        shape["vision_config"] = (
            shape["vision_config"] | vision | {"deepstack_visual_indexes": [0, 1]}
        )
    model: Any = meta_module(shape, "bfloat16", bench.device).eval()
    opening = _Opening(model.config.image_token_id)
    vision, side = model.config.vision_config, bench.sides[-1]
    grid = side // vision.patch_size
    patches = ImagePatches(
        torch.zeros(grid * grid, 3 * vision.temporal_patch_size * vision.patch_size**2),
        torch.tensor([[1, grid, grid]]),
        (grid // 2, grid // 2),
    )
    probe = list(range(5, 5 + PROBE_TOKENS))

    def score(segments: list[list[int]]) -> None:
        prefix = encode_prefix(model, opening, patches)
        run_packed(model, prefix, pack(segments, model.device))
        release(prefix)

    shared = bench.time(lambda: score([probe] * PROBES))
    bench.note("verifier_shared_prefix_s", shared, "s an image")
    alone = bench.time(lambda: [score([probe]) for _ in range(PROBES)])
    bench.note("verifier_prefix_each_s", alone, "s an image")
    bench.note("verifier_shared_speedup", alone / shared)


def main(arguments: list[str] | None = None) -> int:
    """Run every section; 2 where there is no GPU and `--tiny` wasn't asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="toy sizes, on the CPU where need be")
    parser.add_argument("--seconds", type=float, default=270.0, help="begin no section after that")
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks/gpu.json"))
    chosen = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    if not cuda and not chosen.tiny:
        print("no CUDA GPU is here; --tiny runs the same code at toy size", file=sys.stderr)
        return 2
    bench = Bench("cuda" if cuda else "cpu", chosen.tiny, chosen.seconds)
    bench.attempt("matmul", partial(matmul, bench))
    for name in BACKBONES:
        bench.attempt(name, partial(transformer, bench, name))
    bench.attempt("verifier", partial(verifier, bench))
    write_json(from_root(chosen.output), bench.results)
    errors = from_root(chosen.output).with_suffix(".errors.json")
    write_json(errors, bench.errors)
    print(
        f"{len(bench.errors)} sections failed or were left out: {', '.join(bench.errors) or 'none'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
