"""The real architectures on the meta device: parameter counts and what a LoRA would bind."""

import re

import pytest
import torch

from cast.backbones import backbone_class
from cast.backbones.meta import meta_module
from cast.full_size.tables import read_shapes

# hub id: billions of parameters, blocks in each list, modules that the adapter binds.
FULL_SIZE = {
    "black-forest-labs/FLUX.2-dev": (32.2, (8, 48), 8 * 8 + 48 * 2),
    "black-forest-labs/FLUX.1-dev": (11.9, (19, 38), 19 * 8 + 38 * 4),
    "Qwen/Qwen-Image-2512": (20.4, (60,), 60 * 8),
    "stabilityai/stable-diffusion-3.5-large": (8.1, (38,), 38 * 8 - 1),
    "Tongyi-MAI/Z-Image": (6.2, (2, 2, 30), 34 * 4),
}


@pytest.mark.parametrize("path", FULL_SIZE)
def test_the_released_architecture_is_bound_in_every_block(path):
    billions, blocks, bound = FULL_SIZE[path]
    shape = read_shapes()[path]
    transformer = meta_module(shape["transformer"])
    count = sum(parameter.numel() for parameter in transformer.parameters())
    assert count / 1e9 == pytest.approx(billions, abs=0.06)
    adapter = backbone_class(shape["family"])
    assert tuple(len(getattr(transformer, list_)) for list_ in adapter.block_lists) == blocks
    matches = [n for n, _ in transformer.named_modules() if re.fullmatch(adapter.lora_targets, n)]
    assert len(matches) == bound
    linear = [n for n in matches if isinstance(transformer.get_submodule(n), torch.nn.Linear)]
    assert linear == matches
