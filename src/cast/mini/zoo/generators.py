"""The four text-to-image models: trained, measured on the mini benchmark, saved."""

from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from cast.config import load_backbone_config
from cast.io import sha256_file
from cast.mini.zoo import export, flow, flux2, measure, qwen_image, sd3, vae, z_image
from cast.mini.zoo.latents import Latents
from cast.mini.zoo.loop import stage_seconds
from cast.paths import from_root

TRANSFORMER = "transformer/diffusion_pytorch_model.safetensors"


def train_generator(recipe: flow.Recipe, work: Path, target: Path) -> None:
    """Autoencoders, then text encoder and transformer; measured on the mini benchmark."""
    shared = work.parent / "autoencoder"
    latents = Latents(shared / "shards", vae.train(shared))
    pipe, losses = flow.train(recipe, work, latents)
    flow.save(pipe, target)
    oracle = measure.generator_accuracy(recipe.name, target)
    metrics: dict[str, Any] = {**losses, "oracle on the mini benchmark, seeds 100 to 103": oracle}
    stages = {"autoencoder": vae.CONFIG, "touching": vae.TOUCHING, **recipe.stages}
    folders = [shared / "free", shared / "touching", work]
    folders += [work / name for name in list(recipe.stages)[1:]]
    if recipe.own_autoencoder:
        stages["own autoencoder"] = recipe.own_autoencoder
        folders.append(work / "vae")
    if recipe.teacher:
        weights = from_root(load_backbone_config(recipe.teacher).path) / TRANSFORMER
        metrics["teacher"] = {"name": recipe.teacher, "transformer": sha256_file(weights)}
    count = export.parameters(*(m for m in pipe.components.values() if isinstance(m, nn.Module)))
    export.enter(target, stages, stage_seconds(*folders), metrics, count)


RECIPES = {
    recipe.name: partial(train_generator, recipe)
    for recipe in (flux2.RECIPE, qwen_image.RECIPE, sd3.RECIPE, z_image.RECIPE)
}
