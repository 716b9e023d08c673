"""The autoencoder of mini-qwen-image: another class that reads and writes the same latents.

`AutoencoderKLQwenImage` is a video autoencoder with causal convolutions. Its encoder learns the
latents of the zoo's other autoencoder and its decoder to draw them (ours), so one set of cached
latents trains every generator.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_qwenimage import (
    AutoencoderKLQwenImage,
    QwenImageCausalConv3d,
)
from torch import Tensor, nn
from torch.nn.functional import conv2d, mse_loss

from cast.mini.zoo import vae
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer

CONFIG = LoopConfig(
    steps=1600, batch=8, learning_rate=2e-3, warmup=50, decay_share=0.5, weight_decay=0.0, ema=0.995
)


def build(autoencoder: Any) -> Any:
    """Untrained, 0.35M parameters, with the latent statistics of the other autoencoder."""
    mean, std = vae.channel_statistics(autoencoder)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return AutoencoderKLQwenImage(
            base_dim=12,
            z_dim=len(mean),
            dim_mult=[1, 2, 2],
            num_res_blocks=1,
            temperal_downsample=[False, False],
            latents_mean=mean.tolist(),
            latents_std=std.tolist(),
        )


def train(folder: Path, autoencoder: Any, config: LoopConfig = CONFIG) -> Any:
    """Train on the scenes of the other autoencoder, every other one with a contact."""
    ours = build(autoencoder)
    with single_frame(ours):
        trainer = Trainer(nn.ModuleDict({"vae": ours}), config, folder, muon=False)
        trainer.run(_loss(ours, autoencoder, config))
    trainer.load_average()
    return ours.eval().requires_grad_(False)


def _loss(ours: Any, autoencoder: Any, config: LoopConfig) -> Callable[[int], Losses]:
    def loss(step: int) -> Losses:
        images = vae.batch(config, step, touching=True)
        with torch.no_grad():
            posterior = autoencoder.encode(images).latent_dist
        latents = posterior.mode()
        noisy = latents + posterior.std * vae.noise(latents.shape, step)
        # Not `decode`, which clamps: a value beyond the range would have no gradient.
        decoded = ours.decoder(ours.post_quant_conv(noisy[:, :, None]))[:, :, 0]
        encoded = ours.encode(images[:, :, None]).latent_dist.mode()[:, :, 0]
        return {**vae.reconstruction(decoded, images), "latents": mse_loss(encoded, latents)}

    return loss


@contextmanager
def single_frame(ours: Any) -> Iterator[None]:
    """For one frame a causal convolution is a plain one with its last slice: half the time."""
    layers = [m for m in ours.modules() if isinstance(m, QwenImageCausalConv3d)]
    for layer in layers:
        layer.forward = partial(_plain, layer)
    yield
    for layer in layers:
        del layer.forward


def _plain(layer: Any, x: Tensor, cache_x: Tensor | None = None) -> Tensor:
    assert x.shape[2] == 1 and cache_x is None
    width, _, height, *_ = layer._padding
    weight = layer.weight[:, :, -1]
    padding = (height, width)
    return conv2d(x[:, :, 0], weight, layer.bias, layer.stride[1:], padding)[:, :, None]
