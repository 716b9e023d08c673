"""mini-clip: a `CLIPModel` trained contrastively on rendered scenes and their prompts.

Every image of a batch must find its own prompt and the other way round. Most images are
blemished (`blemishes.py`), so that the similarity of a half-denoised estimate means something.
A readout of the vision tower's patches names shape and colour in each; it helps the words find
their places early (ours, as in mini-flux2) and is thrown away afterwards.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

from cast.mini.world import COLOURS, SHAPES, SIZE
from cast.mini.zoo import data, export
from cast.mini.zoo.blemishes import blemished
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer, stage_seconds
from cast.mini.zoo.text import clip_tokenizer
from cast.rng import numpy_generator
from cast.verifier.clip_similarity import ClipScorer

CONFIG = LoopConfig(steps=600, batch=64, warmup=50, decay_share=0.5, ema=0.99, checkpoint_every=25)
HELPER = 0.3  # weight of the readout's loss
LABELS = (len(SHAPES) + 1, len(COLOURS) + 1)
LARGEST_SCALE = 100.0  # of the logits, as in CLIP and PickScore
MEAN = (0.5, 0.5, 0.5)


def build() -> Any:
    """An untrained `CLIPModel` of 0.6M parameters, weights from a fixed seed."""
    tokenizer = clip_tokenizer()
    config = CLIPConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": tokenizer.model_max_length,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": SIZE,
            "patch_size": 8,
        },
        projection_dim=64,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return CLIPModel(config)


def image_processor() -> CLIPImageProcessorPil:
    """64 px, values in -1..1."""
    size = {"height": SIZE, "width": SIZE}
    return CLIPImageProcessorPil(size=size, crop_size=size, image_mean=MEAN, image_std=MEAN)


def tokenize(prompts: list[str]) -> dict[str, Tensor]:
    """Ids and mask [B, T] as `ClipScorer` makes them."""
    tokens = clip_tokenizer()(prompts, padding=True, return_tensors="pt")
    return {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}


def unit_features(model: Any, images: Tensor, tokens: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Unit image features [B, 64], unit text features [B, 64], patch states [B, 64, 96]."""
    vision = model.vision_model(pixel_values=images)
    image = model.visual_projection(vision.pooler_output)
    text = model.get_text_features(**tokens).pooler_output
    unit = nn.functional.normalize
    return unit(image, dim=-1), unit(text, dim=-1), vision.last_hidden_state[:, 1:]


def logit_scale(model: Any) -> Tensor:
    """The inverse temperature, at most CLIP's 100."""
    return model.logit_scale.exp().clamp(max=LARGEST_SCALE)


class ContrastiveLoss:
    """InfoNCE in both directions over one batch, and the readout's cross-entropy."""

    def __init__(self, model: Any, config: LoopConfig) -> None:
        self.model, self.config = model, config
        self.readout = nn.Linear(96, sum(LABELS))
        nn.init.zeros_(self.readout.weight)

    def __call__(self, step: int) -> Losses:
        drawn = data.scenes(self.config.seed, "zoo/clip", step, self.config.batch)
        rng = numpy_generator(self.config.seed, "zoo/clip", "blemish", step)
        images = data.to_tensor([blemished(scene.image, rng) for _, scene in drawn])
        tokens = tokenize([record.prompt for record, _ in drawn])
        image, text, patches = unit_features(self.model, images, tokens)
        logits = logit_scale(self.model) * image @ text.T
        target = torch.arange(len(logits))
        contrast = cross_entropy(logits, target) + cross_entropy(logits.T, target)
        labels = np.stack([data.cell_labels(scene.objects) for _, scene in drawn])
        shape, colour = self.readout(patches).split(LABELS, dim=-1)
        cells = torch.from_numpy(labels).flatten(2)
        helper = cross_entropy(shape.transpose(1, 2), cells[:, 0])
        helper = helper + cross_entropy(colour.transpose(1, 2), cells[:, 1])
        return {"contrast": contrast / 2, "helper": HELPER * helper}


def train(folder: Path, config: LoopConfig = CONFIG) -> tuple[Any, dict[str, float]]:
    """Train from nothing or go on; the model carries its moving average. Also its losses."""
    model = build()
    loss = ContrastiveLoss(model, config)
    modules = nn.ModuleDict({"text_block": model, "readout": loss.readout})
    trainer = Trainer(modules, config, folder)
    losses = trainer.run(loss)
    trainer.load_average()
    with torch.no_grad():
        model.logit_scale.copy_(logit_scale(model).log())
    return model.eval(), losses


def save(model: Any, folder: Path) -> None:
    """Write model, tokenizer and image processor as one `from_pretrained` folder, in bfloat16."""

    def write(target: Path) -> None:
        clip_tokenizer().save_pretrained(target)
        image_processor().save_pretrained(target)
        copy.deepcopy(model).bfloat16().save_pretrained(target)

    export.save_folder(folder, write)


def make(work: Path, target: Path) -> None:
    """Train in `work`, save as `target`, measure retrieval, enter the manifest."""
    model, losses = train(work)
    save(model, target)
    metrics = {**losses, "retrieval, 1 of 32": retrieval(ClipScorer.load(str(target)))}
    stages = {"contrastive": CONFIG}
    export.enter(target, stages, stage_seconds(work), metrics, export.parameters(model))


def retrieval(clip: ClipScorer, groups: int = 16, size: int = 32) -> dict[str, float]:
    """Share of held-out scenes whose own prompt is the nearest of `size`, and of prompts likewise.

    Clean and blemished images apart; chance is `1 / size`.
    """
    found: dict[str, list[float]] = {}
    for group in range(groups):
        drawn = data.scenes(1, "zoo/clip/held-out", group, size)
        rng = numpy_generator(1, "zoo/clip/held-out", "blemish", group)
        text = clip.text_features([record.prompt for record, _ in drawn])
        clean = [scene.image for _, scene in drawn]
        for name, images in (
            ("clean", clean),
            ("blemished", [blemished(i, rng, 1) for i in clean]),
        ):
            pixels = (data.to_tensor(images) + 1) / 2
            cosine = clip.image_features(pixels) @ text.T
            target = torch.arange(size)
            for way, matrix in (("image to text", cosine), ("text to image", cosine.T)):
                hits = (matrix.argmax(1) == target).double().mean()
                found.setdefault(f"{name}, {way}", []).append(float(hits))
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}
