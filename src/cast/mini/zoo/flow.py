"""Training of every generator: text encoder and transformer together, by rectified flow.

The velocity is the backbone adapter's (`cast.backbones`), so what is trained is exactly the
function that the pipeline samples with: its template, masks, packing, time and sign. A readout of a
middle block names the shape and colour in every image token; it helps the words find their places
early (ours) and is thrown away afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from transformers import PreTrainedTokenizerFast

from cast.backbones import Backbone, backbone_class, load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.mini.world import COLOURS, SHAPES, SIZE
from cast.mini.zoo import export
from cast.mini.zoo.grid import write_grid
from cast.mini.zoo.latents import Latents, rescaling, to_prompts
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer
from cast.rng import numpy_generator, torch_generator

WIDTH = 128  # of every transformer
BLOCKS = ("block", "refiner", ".layers.")  # names of what Muon trains, in all families
LABELS = (len(SHAPES) + 1, len(COLOURS) + 1)


@dataclass(frozen=True)
class Recipe:
    """How one generator is built and trained; its sampling settings are in config/backbones."""

    name: str
    autoencoder: Callable[[Any, Path], Any]
    """The pipeline's own, trained, given the shared one and a folder to work in."""
    build: Callable[[Any], Any]
    """The untrained pipeline around its autoencoder."""
    text: Callable[[Any], dict[str, nn.Module]]
    """The text modules that learn, by checkpoint name; Muon wants "block" in it."""
    middle: Callable[[Any], nn.Module]
    """The transformer's block whose output the helper reads."""
    image_tokens: Callable[[Any], Tensor]
    """Image tokens [B, 64, width] of that output."""
    purpose: str
    """Of the random streams."""
    stages: dict[str, LoopConfig]
    """By name; the first lies in the work folder itself, later ones in folders of their names."""
    own_autoencoder: LoopConfig | None = None
    """Training of `autoencoder`, where it isn't the shared one in another class."""
    shards: int = 18
    """Files of cached scenes that are used."""
    null_prompt: str = ""
    dropout: float = 0.0
    """Share of prompts replaced by the null prompt, for classifier-free guidance; those rows learn
    from the data, whoever teaches."""
    teacher: str | None = None
    """A finished generator whose velocity it learns instead of the data's: about the same in the
    mean and far less noisy (ours: trained in minutes instead of hours)."""


class FlowLoss:
    """Velocity loss of a step's cached latents, and the helper's cross-entropy."""

    def __init__(self, recipe: Recipe, pipe: Any, latents: Latents) -> None:
        self.recipe, self.latents = recipe, latents
        self.backbone = adapter(recipe.name, pipe)
        self.readout = nn.Linear(WIDTH, sum(LABELS))
        nn.init.zeros_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)
        self.middle: Any = None
        recipe.middle(pipe.transformer).register_forward_hook(self._keep)
        self.scale, self.shift = rescaling(latents.autoencoder, pipe.vae)
        self.teacher: Backbone | None = None
        if recipe.teacher:
            teacher = load_backbone_config(recipe.teacher)
            self.teacher = load_backbone(teacher, SamplingSection(), device="cpu")
        self.start(0)

    def start(self, number: int) -> None:
        """Draw from here on the batches and the noise of a stage, by its place in the recipe."""
        recipe = self.recipe
        name, self.config = list(recipe.stages.items())[number]
        self.purpose = f"{recipe.purpose}/{name}" if number else recipe.purpose

    def _keep(self, module: nn.Module, inputs: tuple, output: Any) -> None:
        self.middle = output

    def __call__(self, step: int) -> Losses:
        config, recipe = self.config, self.recipe
        rows = self.latents.rows(config, self.purpose, step, recipe.shards)
        generator = torch_generator(config.seed, f"{self.purpose}/noise", step)
        x0 = rows["latents"].float() * self.scale + self.shift
        noise = torch.randn(x0.shape, generator=generator)
        sigma = torch.sigmoid(1.2 * torch.randn(len(x0), generator=generator) + 0.2)
        x = torch.lerp(x0, noise, sigma[:, None, None])
        drop = numpy_generator(config.seed, f"{self.purpose}/dropout", step)
        dropped = torch.from_numpy(drop.random(len(x0)) < recipe.dropout)
        written = to_prompts(rows["prompts"])
        prompts = [
            recipe.null_prompt if none else prompt
            for prompt, none in zip(written, dropped, strict=True)
        ]
        velocity = self.backbone.velocity(x, sigma, self.backbone.embed(prompts))
        shape, colour = self.readout(recipe.image_tokens(self.middle)).split(LABELS, dim=-1)
        labels = rows["labels"].long().flatten(2)
        helper = cross_entropy(shape.transpose(1, 2), labels[:, 0])
        helper = helper + cross_entropy(colour.transpose(1, 2), labels[:, 1])
        target = noise - x0
        if self.teacher is not None:
            taught = self._taught(rows["latents"].float(), noise, sigma, written)
            target = torch.where(dropped[:, None, None], target, taught)
        return {"velocity": mse_loss(velocity, target), "helper": 0.1 * helper}

    @torch.no_grad()
    def _taught(self, x0: Tensor, noise: Tensor, sigma: Tensor, prompts: list[str]) -> Tensor:
        """The teacher's velocity for the same data and noise, in the pupil's scale of latents."""
        assert self.teacher is not None
        level = sigma[:, None, None]
        x = torch.lerp(x0, noise, level)
        velocity = self.teacher.velocity(x, sigma, self.teacher.embed(prompts))
        data = (x - level * velocity) * self.scale + self.shift
        return x + (1 - level) * velocity - data


def adapter(name: str, pipe: Any) -> Backbone:
    """The backbone of config/backbones/{name}.yaml around a pipeline in training; no guidance."""
    config = load_backbone_config(name).model_copy(update={"guidance": None})
    return backbone_class(config.family)(pipe, config, SIZE, SIZE)


def train(recipe: Recipe, folder: Path, latents: Latents) -> tuple[Any, dict[str, float]]:
    """Train to the end of the last stage; the pipeline carries the weights' moving average."""
    pipe = recipe.build(recipe.autoencoder(latents.autoencoder, folder / "vae"))
    loss = FlowLoss(recipe, pipe, latents)
    parts = {**recipe.text(pipe), "transformer": pipe.transformer, "readout": loss.readout}
    modules = nn.ModuleDict(parts).requires_grad_(True)
    losses: dict[str, float] = {}
    for number, (stage, config) in enumerate(recipe.stages.items()):
        loss.start(number)
        place = folder / stage if number else folder
        trainer = Trainer(modules, config, place, blocks=BLOCKS)
        losses = trainer.run(
            loss, lambda step, at=place: write_grid(loss.backbone, at / f"grid{step:05d}.png")
        )
        trainer.load_average()
    return pipe, losses


def save(pipe: Any, folder: Path) -> None:
    """Write a `from_pretrained` folder; text encoders and transformer in bfloat16."""
    modules = [m for n, m in pipe.components.items() if isinstance(m, nn.Module) and n != "vae"]
    for part in pipe.components.values():
        if isinstance(part, PreTrainedTokenizerFast):  # else its last call's lengths are saved too
            part.backend_tokenizer.no_padding()
            part.backend_tokenizer.no_truncation()

    def write(target: Path) -> None:
        for module in modules:
            module.bfloat16()
        pipe.save_pretrained(target)
        for module in modules:
            module.float()

    export.save_folder(folder, write)
