"""The zoo's autoencoder: 64x64 pixels to 16x16x4 latents, packed to 64 tokens of 16.

All generators share its latents: mini-flux2 as it is, the others in their own classes' clothes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from torch import Tensor, nn

from cast.mini.zoo import data
from cast.mini.zoo.loop import LoopConfig, Losses, Trainer
from cast.rng import numpy_generator, torch_generator

CONFIG = LoopConfig(
    steps=2600, batch=8, learning_rate=2e-3, warmup=50, decay_share=0.4, weight_decay=0.0, ema=0.995
)
TOUCHING = LoopConfig(
    steps=700, batch=8, learning_rate=1e-3, warmup=50, decay_share=0.6, weight_decay=0.0, ema=0.99
)
FIGURE_WEIGHT = 6.0  # objects cover a sixth of the pixels; unweighted, their colours come last


def build() -> Any:
    """An untrained `AutoencoderKLFlux2` of 0.23M parameters, weights from a fixed seed."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoencoderKLFlux2(
            block_out_channels=(16, 32, 32),
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            latent_channels=4,
            norm_num_groups=8,
            layers_per_block=1,
            mid_block_add_attention=False,
            sample_size=64,
        )


def batch(config: LoopConfig, step: int, touching: bool = False) -> Tensor:
    """Free scenes, [B, 3, 64, 64] in -1..1; with `touching`, every other one has a contact."""
    rng = numpy_generator(config.seed, "zoo/vae/touching" if touching else "zoo/vae", step)
    scenes = [
        data.touching_scene(rng)[1] if touching and i % 2 else data.free_scene(rng)
        for i in range(config.batch)
    ]
    return data.to_tensor([scene.image for scene in scenes])


def train(folder: Path) -> Any:
    """Train on free scenes, then on contacts too; then set the pipeline's latent statistics."""
    vae = build().to(memory_format=torch.channels_last)  # a quarter faster on a CPU
    for stage, config in (("free", CONFIG), ("touching", TOUCHING)):
        trainer = Trainer(nn.ModuleDict({"vae": vae}), config, folder / stage, muon=False)
        trainer.run(_loss(vae, config, touching=stage == "touching"))
        trainer.load_average()
    set_latent_statistics(vae)
    return vae.eval().requires_grad_(False)


def _loss(vae: Any, config: LoopConfig, touching: bool) -> Callable[[int], Losses]:
    def loss(step: int) -> Losses:
        images = batch(config, step, touching)
        posterior = vae.encode(images).latent_dist
        latents = posterior.mean + posterior.std * noise(posterior.mean.shape, step)
        decoded = vae.decode(latents).sample
        return {**reconstruction(decoded, images), "kl": 1e-6 * posterior.kl().mean()}

    return loss


def noise(shape: torch.Size, step: int) -> Tensor:
    """Standard normal noise of a step."""
    return torch.randn(shape, generator=torch_generator(0, "zoo/vae", step))


def reconstruction(decoded: Tensor, images: Tensor) -> Losses:
    """Absolute and squared error [B, 3, 64, 64], objects weighted above the ground."""
    ground = images[:, :, :1, :1]  # no object reaches the corner
    figure = ((images - ground).abs().amax(1, keepdim=True) > 0.05).float()
    weight = 1 + FIGURE_WEIGHT * figure
    return {
        "l1": (weight * (decoded - images).abs()).mean(),
        "l2": (weight * (decoded - images).square()).mean(),
    }


@torch.no_grad()
def set_latent_statistics(vae: Any) -> None:
    """Mean and variance of patchified latents over 1,024 scenes; no training ever sets them."""
    latents = torch.cat([patchify(vae, batch(CONFIG, 10**6 + i, i % 4 == 0)) for i in range(128)])
    vae.bn.running_mean.copy_(latents.mean((0, 2, 3)))
    vae.bn.running_var.copy_(latents.var((0, 2, 3)))


def channel_statistics(vae: Any) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [4] of each latent channel, its four patch positions together."""
    mean = vae.bn.running_mean.reshape(-1, 4)
    variance = vae.bn.running_var.reshape(-1, 4).mean(1) + mean.var(1, correction=0)
    return mean.mean(1), variance.sqrt()


@torch.no_grad()
def plain_autoencoder(vae: Any) -> Any:
    """The same function as an `AutoencoderKL` whose latents are normalised channel by channel.

    That class has one scale for all channels, so the statistics go into its 1x1 convolutions.
    """
    mean, std = channel_statistics(vae)
    names = ("block_out_channels", "down_block_types", "up_block_types", "latent_channels")
    names += ("norm_num_groups", "layers_per_block", "mid_block_add_attention", "sample_size")
    settings = {name: vae.config[name] for name in names}
    plain = AutoencoderKL(**settings, scaling_factor=1.0, shift_factor=0.0)
    weights = {n: p for n, p in vae.state_dict().items() if not n.startswith("bn.")}
    plain.load_state_dict(weights)
    encoded: Any = plain.quant_conv
    decoded: Any = plain.post_quant_conv
    encoded.weight[:4] /= std[:, None, None, None]
    encoded.bias[:4] = (encoded.bias[:4] - mean) / std
    encoded.bias[4:] -= 2 * std.log()  # log variances
    decoded.bias += decoded.weight[:, :, 0, 0] @ mean
    decoded.weight *= std[:, None, None]
    return plain.eval().requires_grad_(False)


def patchify(vae: Any, images: Tensor) -> Tensor:
    """Latent means [B, 16, 8, 8] of images [B, 3, 64, 64], before normalisation."""
    latents = vae.encode(images).latent_dist.mode()
    b, c, h, w = latents.shape
    latents = latents.reshape(b, c, h // 2, 2, w // 2, 2)
    return latents.permute(0, 1, 3, 5, 2, 4).reshape(b, 4 * c, h // 2, w // 2)


def encode(vae: Any, images: Tensor) -> Tensor:
    """Normalised, packed latents [B, 64, 16], as the pipeline's transformer sees them."""
    latents = patchify(vae, images)
    mean = vae.bn.running_mean[:, None, None]
    std = torch.sqrt(vae.bn.running_var[:, None, None] + vae.config.batch_norm_eps)
    return ((latents - mean) / std).flatten(2).transpose(1, 2)
