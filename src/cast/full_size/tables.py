"""counts.json: what each full-size model's steps cost, as polynomials of the image tokens.

At a fixed prompt length every count is exactly quadratic in the image's tokens P (linear layers
and convolutions are linear in P, attention quadratic) and linear in the number of blocks of each
kind. So a model is counted with two and three blocks at three sizes, on the meta device, and the
rest is exact arithmetic. Peak memory is linear in both.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cast.backbones.lora import bound_modules
from cast.backbones.meta import meta_backbone, meta_conditioning, meta_module
from cast.config import (
    BackboneConfig,
    LoraSection,
    SamplingSection,
    load_backbone_config,
)
from cast.full_size.counting import Steps, count_operations
from cast.full_size.counts import COUNTS, SHAPES
from cast.io import read_json, write_json
from cast.paths import from_root

SIDES = (512, 1024, 1536)  # pixels
RANK = 64
BLOCKS = {
    "flux1": ("num_layers", "num_single_layers"),
    "flux2": ("num_layers", "num_single_layers"),
    "qwen_image": ("num_layers",),
    "sd3": ("num_layers",),
    "z_image": ("n_layers",),
}


def read_shapes() -> dict[str, Any]:
    """Config dicts of the full-size models by hub id."""
    return yaml.safe_load(SHAPES.read_text(encoding="utf-8"))


def linear_in_blocks(
    measure: Callable[[Mapping[str, int]], np.ndarray], blocks: Mapping[str, int]
) -> np.ndarray:
    """`measure(blocks)`, from measurements with two and three blocks of each kind."""
    two = dict.fromkeys(blocks, 2)
    base = measure(two)
    total = base.copy()
    for name, count in blocks.items():
        total += (count - 2) * (measure({**two, name: 3}) - base)
    return total


def quadratic(tokens: list[int], values: np.ndarray) -> list[float]:
    """Coefficients c with `values = c0 + c1 P + c2 P^2` through three points."""
    powers = np.vander(np.asarray(tokens, dtype=np.float64), 3, increasing=True)
    return np.linalg.solve(powers, values.astype(np.float64)).tolist()


def measure_transformer(
    config: BackboneConfig, parts: Mapping[str, Any], conditioning: Mapping[str, list[int]]
) -> np.ndarray:
    """For each size: step and update operations, activation bytes; then parameters, modules
    bound and the adapter's parameters at rank 1."""
    sampling = SamplingSection(steps=50, height=SIDES[0], width=SIDES[0])
    backbone: Any = meta_backbone(config, sampling, parts)
    parameters = sum(p.numel() for p in backbone.transformer.parameters())
    backbone.add_lora(LoraSection(rank=RANK, alpha=128.0))
    adapter = sum(p.numel() for p in backbone.trainable_parameters().values())
    values: list[int] = []
    for side in SIDES:
        sized = type(backbone)(backbone.pipeline, config, side, side)
        for name, parameter in sized.transformer.named_parameters():
            parameter.requires_grad_("lora_" in name)
        steps = Steps(sized, meta_conditioning(conditioning, config.dtype))
        values += [count_operations(steps.step), *steps.count_update(checkpointed=True)]
    bound = len(bound_modules(backbone.transformer))
    return np.array([*values, parameters, bound, adapter // RANK], dtype=np.int64)


def count_backbone(config: BackboneConfig, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a backbone in counts.json."""
    sampling = SamplingSection(steps=50, height=SIDES[0], width=SIDES[0])
    whole: Any = meta_backbone(config, sampling, {k: shape[k] for k in ("transformer", "vae")})
    kinds = BLOCKS[config.family]
    blocks = {kind: int(whole.transformer.config[kind]) for kind in kinds}

    def measure(some: Mapping[str, int]) -> np.ndarray:
        parts = {"transformer": {**shape["transformer"], **some}, "vae": shape["vae"]}
        return measure_transformer(config, parts, shape["conditioning"])

    *values, parameters, bound, adapter = linear_in_blocks(measure, blocks).tolist()
    tokens = [side**2 // whole.token_pixels**2 for side in SIDES]
    step, update, activations = np.array(values).reshape(len(SIDES), 3).T
    decode = []
    for side in SIDES:
        sized = type(whole)(whole.pipeline, config, side, side)
        steps = Steps(sized, meta_conditioning(shape["conditioning"], config.dtype))
        decode.append(count_operations(steps.decode))
    counted = sum(p.numel() for p in whole.transformer.parameters())
    assert counted == parameters, "the blocks are not all alike"
    texts = [meta_module(shape[key]) for key in shape if key.startswith("text_encoder")]
    return {
        "token_pixels": whole.token_pixels,
        "latent_channels": whole.latent_shape[1],
        "parameters": {
            "transformer": parameters,
            "vae": _size(whole.pipeline.vae),
            "text_encoder": sum(map(_size, texts)),
        },
        "blocks": blocks,
        "lora_modules": bound,
        "lora_parameters_per_rank": adapter,
        "step_operations": quadratic(tokens, step),
        "update_operations": quadratic(tokens, update),
        "decode_operations": quadratic(tokens, np.array(decode)),
        "activation_bytes": quadratic(tokens, activations),
        "conditioning_bytes": 2 * sum(int(np.prod(s)) for s in shape["conditioning"].values()),
    }


def _size(module: Any) -> int:
    return sum(p.numel() for p in module.parameters())


def write_counts(names: list[str] | None = None, path: Path = COUNTS) -> None:
    """Count every full-size backbone of config/backbones (or `names`) and write the table."""
    shapes = read_shapes()
    table = read_json(path) if path.is_file() else {}
    stems = sorted(file.stem for file in from_root("config/backbones").glob("*.yaml"))
    for name in names or stems:
        config = load_backbone_config(name)
        if config.path not in shapes:
            continue
        table[config.path] = count_backbone(config, shapes[config.path])
        write_json(path, table)
        print(f"{name}: {table[config.path]['parameters']}", flush=True)
