"""mini-pickscore: mini-clip fine-tuned on the choices of a simulated annotator.

The objective is PickScore's: the softmax of two images' `exp(logit_scale) * cos` to one prompt
against the choice (1, 0 or a tie). Three quarters of the pairs are drawn scenes with different
blemishes, one of two showing another prompt's scene in half of them; the rest are images of
mini-flux2 from one noise at few and at many steps.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from tqdm import tqdm
from transformers import CLIPModel

from cast.backbones import load_backbone
from cast.config import SamplingSection, load_backbone_config
from cast.flow import rollout
from cast.io import write_safetensors
from cast.mini.facts import Facts, truths
from cast.mini.world import render_scene
from cast.mini.zoo import clip, data, export
from cast.mini.zoo.annotator import TIE, preference, utility
from cast.mini.zoo.blemishes import blemished
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer, stage_seconds
from cast.rng import numpy_generator, torch_generator
from cast.verifier.pickscore import PickScore

CONFIG = LoopConfig(
    steps=240,
    batch=32,
    learning_rate=5e-4,
    warmup=20,
    decay_share=0.5,
    ema=0.98,
    checkpoint_every=25,
)
GENERATED = 8  # pairs of a batch that mini-flux2 made
GENERATED_PAIRS = 128  # made once
HELD_OUT = 48  # of them, measured and never trained on
FEW, MANY = (1, 2, 3), 10  # denoising steps
Pair = tuple[str, np.ndarray, np.ndarray, float, float]  # prompt, two images, their utilities


def drawn_pairs(purpose: str, index: int, n: int) -> list[Pair]:
    """`n` pairs of blemished scenes; the annotator sees how much of the prompt is true in each."""
    drawn = data.scenes(0, purpose, index, 2 * n)
    rng = numpy_generator(0, purpose, "pairs", index)
    pairs = []
    for (record, own), (_, foreign) in zip(drawn[:n], drawn[n:], strict=True):
        other = render_scene(record.graph, rng) if rng.random() < 0.5 else foreign
        sides = []
        for scene in (own, other) if rng.random() < 0.5 else (other, own):
            image = blemished(scene.image, rng)
            true = truths(Facts(scene.objects, scene.touching), record).mean()
            sides.append((image, utility(image, float(true))))
        (first, u), (second, v) = sides
        pairs.append((record.prompt, first, second, u, v))
    return pairs


def generated_pairs(folder: Path, generator: Path) -> list[Pair]:
    """Pairs of the mini-flux2 at `generator`, made once, then read; their truth stays unknown."""
    path = folder / "generated.safetensors"
    drawn = data.scenes(0, "zoo/pickscore/generated", 0, GENERATED_PAIRS)
    prompts = [record.prompt for record, _ in drawn]
    if not path.exists():
        config = load_backbone_config("mini-flux2").model_copy(update={"path": str(generator)})
        backbone = load_backbone(config, SamplingSection())
        made = [_few_and_many(backbone, p, i) for i, p in enumerate(tqdm(prompts, desc="pairs"))]
        write_safetensors(path, {"images": torch.stack(made)})
    images = load_file(path)["images"].numpy()
    return [
        (prompt, first, second, utility(first, None), utility(second, None))
        for prompt, (first, second) in zip(prompts, images, strict=True)
    ]


@torch.no_grad()
def _few_and_many(backbone: Any, prompt: str, index: int) -> Tensor:
    """uint8 [2, 64, 64, 3]: from one noise at few and at many steps, in random order."""
    rng = numpy_generator(0, "zoo/pickscore/generated", "steps", index)
    conditioning = backbone.encode([prompt])
    sides = []
    for steps in rng.permutation([rng.choice(FEW), MANY]):
        noise = backbone.noise([torch_generator(0, "zoo/pickscore/generated", "noise", index)])
        sampled = rollout(
            lambda x, sigma, _samples: backbone.velocity(x, sigma, conditioning),
            backbone.sigmas(int(steps)),
            noise,
            micro_batch=1,
        )
        pixels = backbone.decode(sampled.latents)[0].clamp(0, 1).permute(1, 2, 0)
        sides.append((pixels * 255).round().to(torch.uint8))
    return torch.stack(sides)


class ChoiceLoss:
    """Kullback-Leibler divergence of the model's choice from the annotator's."""

    def __init__(self, model: Any, config: LoopConfig, generated: list[Pair]) -> None:
        self.model, self.config, self.generated = model, config, generated

    def __call__(self, step: int) -> Losses:
        fresh = self.config.batch - GENERATED if self.generated else self.config.batch
        rng = numpy_generator(self.config.seed, "zoo/pickscore", "choice", step)
        pairs = drawn_pairs("zoo/pickscore", step, fresh)
        if self.generated:
            rows = rng.choice(len(self.generated), GENERATED, replace=False)
            pairs += [self.generated[row] for row in rows]
        chosen = torch.tensor([preference(u, v, rng) for *_, u, v in pairs])
        return {"choice": choice_loss(self.scores(pairs), chosen)}

    def scores(self, pairs: list[Pair]) -> Tensor:
        """`exp(logit_scale) * cos` of each pair's images, [N, 2]."""
        images = data.to_tensor([image for _, *both, _, _ in pairs for image in both])
        image, text, _ = clip.unit_features(
            self.model, images, clip.tokenize([prompt for prompt, *_ in pairs])
        )
        cosine = (image.unflatten(0, (-1, 2)) * text[:, None]).sum(-1)
        return clip.logit_scale(self.model) * cosine


def choice_loss(scores: Tensor, chosen: Tensor) -> Tensor:
    """Mean divergence of softmax(scores [N, 2]) from (chosen, 1 - chosen), chosen in [0, 1]."""
    target = torch.stack([chosen, 1 - chosen], dim=1).to(scores.dtype)
    entropy = torch.special.entr(target).sum(1)
    return (-(target * log_softmax(scores, dim=1)).sum(1) - entropy).mean()


def train(
    folder: Path, start: Path, generator: Path, config: LoopConfig = CONFIG
) -> tuple[Any, dict[str, float]]:
    """Fine-tune the CLIP at `start` or go on; the model carries its moving average."""
    model: Any = CLIPModel.from_pretrained(start, dtype=torch.float32)
    generated = generated_pairs(folder, generator)[HELD_OUT:]
    trainer = Trainer(nn.ModuleDict({"text_block": model}), config, folder, muon=False)
    losses = trainer.run(ChoiceLoss(model.train(), config, generated))
    trainer.load_average()
    with torch.no_grad():
        model.logit_scale.copy_(clip.logit_scale(model).log())
    return model.eval(), losses


def make(work: Path, target: Path) -> None:
    """Train in `work` on the models beside `target`, save, measure, enter the manifest."""
    start, generator = target.with_name("mini-clip"), target.with_name("mini-flux2")
    model, losses = train(work, start, generator)
    clip.save(model, target)
    ordered = accuracy(PickScore.load(str(target)), work, generator)
    metrics = {**losses, "simulated annotator, held out": ordered}
    stages = {"choices": CONFIG}
    export.enter(target, stages, stage_seconds(work), metrics, export.parameters(model))


def accuracy(model: PickScore, folder: Path, generator: Path) -> dict[str, float]:
    """Held-out pairs: share ordered as the simulated annotator's utilities, ties left out; and
    mean, and coefficient of variation, of the scores of clean scenes for their own prompts."""
    drawn = drawn_pairs("zoo/pickscore/held-out", 0, 512)
    pairs = {"drawn": drawn, "generated": generated_pairs(folder, generator)[:HELD_OUT]}
    table = {f"pairs of {name} images": _ordered(model, rows) for name, rows in pairs.items()}
    scenes = data.scenes(0, "zoo/pickscore/held-out", 1, 256)
    clean = [scene.image for _, scene in scenes]
    scores = _score(model, clean, [record.prompt for record, _ in scenes])
    table["clean scenes, mean"] = round(float(scores.mean()), 4)
    table["clean scenes, CoV"] = round(float(scores.std() / scores.mean()), 4)
    return table


def _ordered(model: PickScore, pairs: list[Pair]) -> float:
    prompts, first, second, u, v = (list(column) for column in zip(*pairs, strict=True))
    wanted = np.subtract(u, v)
    found = _score(model, first, prompts) - _score(model, second, prompts)
    decided = np.abs(wanted) >= TIE
    return round(float((np.sign(found) == np.sign(wanted))[decided].mean()), 4)


def _score(model: PickScore, images: list[np.ndarray], prompts: list[str]) -> np.ndarray:
    pixels = (data.to_tensor(images) + 1) / 2
    return model.score_prompts(pixels, prompts).numpy()
