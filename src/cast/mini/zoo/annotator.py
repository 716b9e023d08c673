"""A simulated annotator who prefers one of two images, for mini-pickscore to learn from.

People who choose between good images look at their rendering first; this one is made so on
purpose, as the paper finds preference scores blind to single atoms (3.2). No human chose anything
here: say "simulated" wherever a number rests on it.
"""

import numpy as np

from cast.mini.zoo.quality import colour_cast, edge_clarity, ground_noise, saturation

PROMPT_WEIGHT = 0.15  # against 1 for the looks: a prompt wholly missed costs as much as soft edges
TEMPERATURE = 0.04  # of the choice; utilities of two images differ by 0.2 on average
TIE = 0.02  # a smaller difference in utility is none


def looks(image: np.ndarray) -> float:
    """How well an image uint8 [64, 64, 3] is rendered, 0 to 1: the mean of four marks."""
    pixels = image / 255.0
    marks = (
        min(edge_clarity(pixels) / 0.4, 1.0),
        float(np.exp(-ground_noise(pixels) / 0.05)),
        float(np.exp(-colour_cast(pixels) / 0.15)),
        min(saturation(pixels) / 0.5, 1.0),
    )
    return sum(marks) / len(marks)


def utility(image: np.ndarray, true_share: float | None) -> float:
    """Looks, and a little for the share of the prompt's atoms that are true of the image.

    `None` where the truth isn't known: a generated image's could only be read by the oracle, and
    that trains nothing.
    """
    return looks(image) + PROMPT_WEIGHT * (true_share or 0.0)


def preference(first: float, second: float, rng: np.random.Generator) -> float:
    """1 if the first of two utilities is chosen, 0 if the second, 0.5 for a tie; choices are noisy.

    Bradley-Terry: the first wins with the logistic of the difference over `TEMPERATURE`.
    """
    if abs(first - second) < TIE:
        return 0.5
    return float(rng.random() < 1 / (1 + np.exp((second - first) / TEMPERATURE)))
