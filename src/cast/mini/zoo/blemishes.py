"""Faults that images have: blur, noise, a colour cast, low contrast, an unfinished denoising."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter

Pixels = Float[np.ndarray, "H W 3"]  # in [0, 1]


def blur(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Gaussian blur of up to 2.5 px."""
    return gaussian_filter(pixels, (2.5 * strength, 2.5 * strength, 0))


def noise(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Gaussian noise of a standard deviation of up to 0.2."""
    return pixels + 0.2 * strength * rng.standard_normal(pixels.shape)


def colour_cast(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """One offset for all pixels, of up to 0.25 in some channels."""
    direction = rng.uniform(-1, 1, 3)
    return pixels + 0.25 * strength * direction / np.abs(direction).max()


def low_contrast(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Pulled towards the image's mean grey by up to 0.8."""
    return pixels + 0.8 * strength * (pixels.mean() - pixels)


def unfinished(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """As a decoded estimate early in the denoising: soft shapes, pale, with coarse blotches."""
    blotches = gaussian_filter(rng.standard_normal(pixels.shape), (3, 3, 0))
    soft = gaussian_filter(pixels, (4 * strength, 4 * strength, 0))
    return soft + 0.5 * strength * (pixels.mean((0, 1)) - soft) + 1.5 * strength * blotches


KINDS: dict[str, Callable[[Pixels, float, np.random.Generator], Pixels]] = {
    "blur": blur,
    "noise": noise,
    "colour_cast": colour_cast,
    "low_contrast": low_contrast,
    "unfinished": unfinished,
}


def blemished(image: np.ndarray, rng: np.random.Generator, share: float = 0.7) -> np.ndarray:
    """The uint8 image with one or two faults of random kind and strength; whole in `1 - share`."""
    if rng.random() >= share:
        return image
    pixels = image / 255.0
    for kind in rng.choice(list(KINDS), rng.integers(1, 3), replace=False):
        pixels = KINDS[kind](pixels, rng.random(), rng)
    return np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
