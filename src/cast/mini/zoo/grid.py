"""Sample grids of a generator in training: the same sixteen prompts and noise each time."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from cast.backbones import Backbone
from cast.flow import rollout
from cast.io import written_whole
from cast.mini.world import SIZE
from cast.mini.zoo.data import EVALUATION_FILES
from cast.paths import from_root
from cast.rng import torch_generator
from cast.scene_graph import read_prompts

SIDE = 4  # images in a row and in a column
STEPS = 12


@torch.no_grad()
def write_grid(backbone: Backbone, path: Path) -> None:
    """Sample the development set's first prompts without guidance and write one PNG."""
    records = read_prompts(from_root(EVALUATION_FILES[1]))[: SIDE**2]
    conditioning = backbone.embed([record.prompt for record in records])
    noise = backbone.noise([torch_generator(0, "zoo/grid", i) for i in range(SIDE**2)])
    velocity = backbone.velocity_for(conditioning)
    latents = rollout(velocity, backbone.sigmas(STEPS), noise, micro_batch=SIDE**2).latents
    images = backbone.decode(latents).permute(0, 2, 3, 1).numpy()
    tiles = images.reshape(SIDE, SIDE, SIZE, SIZE, 3).swapaxes(1, 2)
    pixels = np.round(tiles.reshape(SIDE * SIZE, SIDE * SIZE, 3) * 255).astype(np.uint8)
    with written_whole(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG")
