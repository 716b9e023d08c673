"""The mini quality judge: Qwen-Image-Bench's facets that make sense for drawn scenes (paper 5.2).

A simulated judge, no model: it measures pixels, and reads what an image shows with the oracle. It
answers twelve of the 56 facets with 0, 1 or 2 and all others with N/A. Its points can be compared
among mini models only; say "mini judge" wherever they appear.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from PIL import Image

from cast.mini import oracle
from cast.mini.facts import Facts, truths
from cast.mini.world import COLOURS, TEXTURES, touching_pairs
from cast.mini.zoo.data import vocabulary
from cast.scene_graph import PromptRecord, parse_prompt, render_prompt
from cast.verifier.images import to_rgb
from cast.verifier.quality_judge import Facet

Pixels = Float[np.ndarray, "H W 3"]  # in [0, 1]


def edge_clarity(pixels: Pixels) -> float:
    """99th percentile of the step in luminance between neighbouring pixels."""
    luminance = pixels.mean(axis=2)
    steps = [np.abs(np.diff(luminance, axis=axis)).ravel() for axis in (0, 1)]
    return float(np.percentile(np.concatenate(steps), 99))


def ground_noise(pixels: Pixels) -> float:
    """Spread of the luminance about the ground's, in standard deviations of a Gaussian (1.48 times
    the median distance, so that edges don't count)."""
    distance = np.abs(pixels.mean(axis=2) - np.median(pixels.mean(axis=2)))
    return float(1.4826 * np.median(distance[distance < 0.15]))


def saturation(pixels: Pixels) -> float:
    """Median colourfulness (largest minus smallest channel) of pixels that have any colour."""
    spread = pixels.max(axis=2) - pixels.min(axis=2)
    coloured = spread[spread > 0.15]
    return float(np.median(coloured)) if coloured.size else 0.0


def colour_cast(pixels: Pixels) -> float:
    """Colourfulness of the ground, which is grey in the mini world."""
    ground = np.median(pixels.reshape(-1, 3), axis=0)
    return float(ground.max() - ground.min())


def cut_off(pixels: Pixels) -> float:
    """Share of the border's pixels that are not ground: objects that leave the picture."""
    luminance = pixels.mean(axis=2)
    border = np.concatenate([luminance[0], luminance[-1], luminance[:, 0], luminance[:, -1]])
    return float(np.mean(np.abs(border - np.median(luminance)) > 0.2))


def wholeness(pixels: Pixels) -> float:
    """Share of the figure's pixels that belong to a whole shape; 0 where there is no figure."""
    figure = np.abs(pixels - np.median(pixels.reshape(-1, 3), axis=0)).max(axis=2) > 0.35
    _, whole = _read(np.round(pixels * 255).astype(np.uint8).tobytes(), pixels.shape)
    return float(whole[figure].mean()) if figure.any() else 0.0


Measure = Callable[[Pixels], float]
# What is measured, and the bounds that earn a 2 and a 1. Drawn scenes earn a 2 in all.
APPEARANCE: Mapping[str, tuple[Measure, float, float]] = {
    "Quality / Detail / Edge Clarity": (edge_clarity, 0.35, 0.2),
    "Quality / Detail / Noise": (ground_noise, 0.008, 0.03),
    "Quality / Realism / Physical Logic": (wholeness, 0.9, 0.6),
    "Aesthetics / Color Harmony / Color Harmony": (saturation, 0.3, 0.2),
    "Aesthetics / Composition / Composition": (cut_off, 0.0, 0.08),
    "Aesthetics / Lighting / Lighting & Atmosphere": (colour_cast, 0.02, 0.06),
}
# The prompt's atoms that a facet is about: all of them true earn a 2, at least half a 1.
ALIGNMENT: Mapping[str, tuple[str, tuple[str, ...] | None]] = {
    "Alignment / Attributes / Shape": ("object", None),
    "Alignment / Attributes / Quantity": ("count", None),
    "Alignment / Attributes / Color": ("attribute", tuple(COLOURS)),
    "Alignment / Attributes / Material Properties": ("attribute", TEXTURES),
    "Alignment / Layout / 2D Space": ("position", None),
    "Alignment / Actions / Contact Interaction": ("verb", None),
}
MINI_FACETS = tuple(Facet.parse(text) for text in (*APPEARANCE, *ALIGNMENT))


class MiniJudge:
    """Simulated judge of the mini world, deterministic; 64 x 64 px images only."""

    def ask(self, image: Image.Image, prompt: str, facet: Facet) -> str:
        """The grade of one of `MINI_FACETS`; `N/A` for the others, and for one that the prompt
        doesn't ask for. `CastError` for a prompt that isn't of the mini world."""
        name = str(facet)
        pixels = np.asarray(to_rgb(image, "image"))
        if name in APPEARANCE:
            measure, good, acceptable = APPEARANCE[name]
            sign = 1 if good > acceptable else -1
            value = sign * measure(pixels / 255.0)
            return str(sum(value >= sign * bound for bound in (good, acceptable)))
        if name not in ALIGNMENT:
            return "N/A"
        record = _record(prompt)
        asked = [_is_about(record, k, *ALIGNMENT[name]) for k in range(len(record.atoms))]
        if not any(asked):
            return "N/A"
        facts, _ = _read(pixels.tobytes(), pixels.shape)
        share = truths(facts, record)[asked].mean()
        return str(int(share == 1) + int(share >= 0.5))


def _is_about(record: PromptRecord, k: int, skill: str, words: tuple[str, ...] | None) -> bool:
    atom = record.atoms[k]
    attribute = record.graph.entities[atom.entities[0]].attribute
    return atom.skill == skill and (words is None or attribute in words)


@lru_cache(maxsize=64)
def _record(prompt: str) -> PromptRecord:
    return render_prompt(parse_prompt(prompt, vocabulary()), vocabulary())


@lru_cache(maxsize=4)
def _read(pixels: bytes, shape: tuple[int, ...]) -> tuple[Facts, np.ndarray]:
    """What the oracle finds in an image, and the pixels of all shapes, bool [H, W]; kept from one
    facet to the next."""
    objects, masks = oracle.detect(np.frombuffer(pixels, dtype=np.uint8).reshape(shape))
    return Facts(tuple(objects), touching_pairs(masks)), np.asarray(masks.any(axis=0))
