"""mini-flux2: a `Flux2Pipeline` trained from nothing on rendered scenes.

Text encoder and transformer learn together by rectified flow on the latents of a frozen
autoencoder. A readout of the middle block names the shape and colour in every image token; it
helps the words find their places early (ours) and is thrown away afterwards.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from tqdm import tqdm
from transformers import Mistral3Config, Mistral3ForConditionalGeneration

from cast.io import write_safetensors
from cast.mini.world import COLOURS, SHAPES
from cast.mini.zoo import data, export, vae
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer
from cast.mini.zoo.text import mistral_tokenizer
from cast.rng import numpy_generator, torch_generator

CONFIG = LoopConfig(steps=4400, batch=32, decay_share=0.4, ema=0.9995, checkpoint_every=100)
# A second round from the first one's average, the noise renewed.
REFINE = LoopConfig(
    steps=3000, batch=64, warmup=100, decay_share=0.5, ema=0.999, checkpoint_every=50
)
TEXT_LAYERS = (1, 2, 3)  # hidden states joined to the prompt's embedding, as 10, 20, 30 in the big
TEXT_TOKENS = 20  # the longest prompt has 17, and two marks
SHARD = 8192  # scenes a file of cached latents
SHARDS = 24
LABELS = (len(SHAPES) + 1, len(COLOURS) + 1)


def build_text_encoder() -> Mistral3ForConditionalGeneration:
    """Three layers of width 96; the vision tower that the class insists on is a stump."""
    tokenizer = mistral_tokenizer()
    config = Mistral3Config(
        text_config={
            "model_type": "mistral",
            "vocab_size": len(tokenizer),
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 24,
            "max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "model_type": "pixtral",
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "head_dim": 8,
            "image_size": 16,
            "patch_size": 16,
        },
        image_token_index=len(tokenizer) - 1,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Mistral3ForConditionalGeneration(config)


def build_transformer() -> Flux2Transformer2DModel:
    """Two double-stream and four single-stream blocks of width 128, 2.1M parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return Flux2Transformer2DModel(
            in_channels=16,
            num_layers=2,
            num_single_layers=4,
            attention_head_dim=32,
            num_attention_heads=4,
            joint_attention_dim=len(TEXT_LAYERS) * 96,
            axes_dims_rope=(8, 8, 8, 8),
            guidance_embeds=False,
        )


def build_pipeline(autoencoder: Any) -> Flux2Pipeline:
    """The pipeline around untrained text encoder and transformer."""
    tokenizer: Any = mistral_tokenizer()  # the class asks for a processor; its own use is this
    return Flux2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True,
            # The pipeline's shift for 64 tokens is 1.8 at 20 steps; taken as an exponent it would
            # leave the last step a quarter of the path.
            time_shift_type="linear",
        ),
        vae=autoencoder,
        text_encoder=build_text_encoder(),
        tokenizer=tokenizer,
        transformer=build_transformer(),
    )


def shard(autoencoder: Any, pipe: Flux2Pipeline, folder: Path, index: int) -> dict:
    """Latents [S, 64, 16], prompt tokens [S, 20] and labels [S, 2, 8, 8]; made once, then read."""
    path = folder / f"shard{index:03d}.safetensors"
    if path.exists():
        return load_file(path)
    drawn = data.scenes(0, "zoo/flux2", index, SHARD)
    latents = []
    with torch.no_grad():
        for start in tqdm(range(0, SHARD, 64), desc=f"shard {index}", leave=False):
            images = data.to_tensor([scene.image for _, scene in drawn[start : start + 64]])
            latents.append(vae.encode(autoencoder, images).half())
    labels = np.stack([data.cell_labels(scene.objects) for _, scene in drawn]).astype(np.uint8)
    tokens = tokenize(pipe, [record.prompt for record, _ in drawn])
    made = {
        "latents": torch.cat(latents),
        "ids": tokens["input_ids"].to(torch.int16),
        "mask": tokens["attention_mask"].to(torch.uint8),
        "labels": torch.from_numpy(labels),
    }
    write_safetensors(path, made)
    return made


def tokenize(pipe: Flux2Pipeline, prompts: list[str]) -> dict[str, Tensor]:
    """Token ids and mask, [B, 20], exactly as the pipeline's `encode_prompt` makes them."""
    messages = [[{"role": "user", "content": [{"type": "text", "text": p}]}] for p in prompts]
    return pipe.tokenizer.apply_chat_template(
        messages,
        add_generation_prompt=False,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        padding="max_length",
        truncation=True,
        max_length=TEXT_TOKENS,
    )


class FlowLoss:
    """Velocity loss of a batch of cached latents, and the helper's cross-entropy."""

    def __init__(self, pipe: Flux2Pipeline, folder: Path) -> None:
        self.pipe, self.folder = pipe, folder
        self.start(CONFIG, "zoo/flux2")
        self.readout = nn.Linear(128, sum(LABELS))
        nn.init.zeros_(self.readout.weight)
        self.middle: Tensor | None = None
        pipe.transformer.single_transformer_blocks[1].register_forward_hook(self._keep)
        self.loaded: tuple[int, dict[str, Tensor]] = (-1, {})
        self.image_ids = pipe._prepare_latent_ids(torch.zeros(1, 16, 8, 8))
        self.text_ids = pipe._prepare_text_ids(torch.zeros(1, TEXT_TOKENS, 1))

    def start(self, config: LoopConfig, purpose: str) -> None:
        """Draw from here on the batches and the noise of another stage."""
        self.config, self.purpose = config, purpose

    def _keep(self, module: nn.Module, inputs: tuple, output: Tensor) -> None:
        self.middle = output

    def batch(self, step: int) -> dict[str, Tensor]:
        """The step's rows: shard after shard, each in a new order every round."""
        per_shard = SHARD // self.config.batch
        visit, place = divmod(step, per_shard)
        index = visit % SHARDS
        if self.loaded[0] != index:
            self.loaded = (index, shard(self.pipe.vae, self.pipe, self.folder, index))
        order = numpy_generator(self.config.seed, f"{self.purpose}/order", visit).permutation(SHARD)
        rows = torch.from_numpy(order[place * self.config.batch : (place + 1) * self.config.batch])
        return {name: tensor[rows] for name, tensor in self.loaded[1].items()}

    def __call__(self, step: int) -> Losses:
        rows = self.batch(step)
        generator = torch_generator(self.config.seed, f"{self.purpose}/noise", step)
        x0 = rows["latents"].float()
        noise = torch.randn(x0.shape, generator=generator)
        sigma = torch.sigmoid(1.2 * torch.randn(len(x0), generator=generator) + 0.2)
        x = torch.lerp(x0, noise, sigma[:, None, None])
        output = self.pipe.text_encoder(
            input_ids=rows["ids"].long(),
            attention_mask=rows["mask"].long(),
            output_hidden_states=True,
            use_cache=False,
        )
        embeds = torch.cat([output.hidden_states[k] for k in TEXT_LAYERS], dim=-1)
        velocity = self.pipe.transformer(
            hidden_states=x,
            timestep=sigma,
            guidance=None,
            encoder_hidden_states=embeds,
            txt_ids=self.text_ids,
            img_ids=self.image_ids,
            return_dict=False,
        )[0]
        assert self.middle is not None
        shape, colour = self.readout(self.middle[:, -64:]).split(LABELS, dim=-1)
        labels = rows["labels"].long().flatten(2)
        helper = cross_entropy(shape.transpose(1, 2), labels[:, 0])
        helper = helper + cross_entropy(colour.transpose(1, 2), labels[:, 1])
        return {"velocity": mse_loss(velocity, noise - x0), "helper": 0.1 * helper}


def train(
    folder: Path, autoencoder: Any, config: LoopConfig = CONFIG, refine: LoopConfig = REFINE
) -> tuple[Flux2Pipeline, dict]:
    """Train text encoder and transformer; the pipeline carries their moving average."""
    pipe = build_pipeline(autoencoder)
    loss = FlowLoss(pipe, folder / "shards")
    modules = nn.ModuleDict(
        {
            "text_block": pipe.text_encoder.model.language_model,
            "transformer": pipe.transformer,
            "readout": loss.readout,
        }
    )
    losses = {}
    for stage, purpose, place in (
        (config, "zoo/flux2", folder),
        (refine, "zoo/flux2/refine", folder / "refine"),
    ):
        loss.start(stage, purpose)
        trainer = Trainer(modules, stage, place)
        losses = trainer.run(loss)
        trainer.load_average()
    return pipe, losses


def save(pipe: Flux2Pipeline, folder: Path) -> None:
    """Write a `from_pretrained` folder; text encoder and transformer in bfloat16."""

    def write(target: Path) -> None:
        for module in (pipe.text_encoder, pipe.transformer):
            module.bfloat16()
        pipe.save_pretrained(target)
        for module in (pipe.text_encoder, pipe.transformer):
            module.float()

    export.save_folder(folder, write)


def load(folder: Path) -> Flux2Pipeline:
    """The saved pipeline in float32, as every user loads it."""
    pipe = Flux2Pipeline.from_pretrained(folder, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    return pipe
