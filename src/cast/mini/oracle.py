"""The oracle: reads a mini image without any network and answers every probe.

Colour segmentation, connected components and a template match. It never trains anything; it is
the yardstick for the verifier, for reward hacking and for heatmaps. A component that resembles
no shape well enough is no object: a blob of the right colour earns nothing.
"""

import colorsys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import ndimage

from cast.mini.facts import Facts, entity_of, truths
from cast.mini.world import (
    COLOURS,
    OUTLINE_WIDTH,
    SHAPES,
    SIZE,
    TEXTURES,
    SceneObject,
    signed_distance,
    touching_pairs,
    whiteness,
)
from cast.scene_graph.graph import PromptRecord

MIN_AREA = 30  # pixels of the filled component; the smallest drawn shape covers 50
OUTLINES = (0.45, 0.54, 0.62)  # largest channel, 0 to 1; green, the darkest fill, has 0.66
MIN_MATCH = 0.72  # intersection over union with the best template
HUES = np.array([colorsys.rgb_to_hsv(*colour)[0] for colour in COLOURS.values()])


def answer(image: np.ndarray, record: PromptRecord) -> np.ndarray:
    """Bool [K]: is each atom of the prompt true in the image, uint8 [64, 64, 3]?"""
    return truths(read(image), record)


def entity_masks(image: np.ndarray, record: PromptRecord) -> np.ndarray:
    """Bool [E, 64, 64]: the detected pixels of each entity of the prompt."""
    objects, masks = detect(image)
    found = np.zeros((len(record.graph.entities), SIZE, SIZE), dtype=bool)
    for entity, mask in zip(entity_of(objects, record.graph), masks, strict=True):
        if entity >= 0:
            found[entity] |= mask
    return found


def read(image: np.ndarray) -> Facts:
    """Objects of the image and which of them touch."""
    objects, masks = detect(image)
    return Facts(tuple(objects), touching_pairs(masks))


def detect(image: np.ndarray) -> tuple[list[SceneObject], np.ndarray]:
    """Objects and their masks, bool [M, 64, 64].

    Raises:
        ValueError: the image is not uint8 [64, 64, 3].
    """
    if image.shape != (SIZE, SIZE, 3) or image.dtype != np.uint8:
        raise ValueError(
            f"the oracle reads uint8 [{SIZE}, {SIZE}, 3], not {image.dtype}{image.shape}"
        )
    pixels = image.astype(np.float64) / 255
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    figure = np.abs(pixels - np.median(border, axis=0)).max(-1) > 0.35
    found = list(_objects(pixels, np.asarray(ndimage.binary_fill_holes(figure)), OUTLINES))
    masks = np.array([mask for _, mask in found], dtype=bool).reshape(-1, SIZE, SIZE)
    return [item for item, _ in found], masks


def _objects(
    pixels: np.ndarray, filled: np.ndarray, outlines: tuple[float, ...]
) -> Iterator[tuple[SceneObject, np.ndarray]]:
    """Objects in the filled figure; a component that is no shape is cut at lighter outlines."""
    for mask in _components(pixels, filled, outlines[0]):
        found, match = _shape(mask)
        if match >= MIN_MATCH:
            yield _fill(pixels, mask, found), mask
        elif len(outlines) > 1:
            yield from _objects(pixels, mask, outlines[1:])


def _components(pixels: np.ndarray, filled: np.ndarray, outline: float) -> list[np.ndarray]:
    """Masks of the parts of a figure, cut where the largest channel is below `outline`."""
    interior = filled & (pixels.max(-1) > outline)
    labels = np.zeros(interior.shape, dtype=np.int32)
    ndimage.label(interior, output=labels)
    labels[np.bincount(labels.ravel())[labels] < 6] = 0
    # The outline goes to the nearest interior, so thin tips come back to their shape.
    distance = np.zeros(labels.shape)
    nearest = np.zeros((2, *labels.shape), dtype=np.int32)
    ndimage.distance_transform_edt(
        labels == 0, return_indices=True, distances=distance, indices=nearest
    )
    owner = np.where(filled & (distance < 3.5), labels[nearest[0], nearest[1]], 0)
    masks = [owner == label for label in np.unique(owner[owner > 0])]
    return [mask for mask in masks if mask.sum() >= MIN_AREA]


_WINDOW = 24
_RADII = np.linspace(4.8, 7.6, 15)
_OFFSETS = np.arange(0, 1, 0.25)


@cache
def _templates() -> tuple[np.ndarray, np.ndarray, list[tuple[str, float, float, float]]]:
    """Flat masks [N, 576], their areas [N], and (noun, radius, centre x, centre y) of each."""
    y, x = np.mgrid[:_WINDOW, :_WINDOW] + 0.5
    masks, names = [], []
    for noun in SHAPES:
        for radius in _RADII:
            fine_y, fine_x = np.mgrid[-10:10:0.1, -10:10:0.1]
            inside = signed_distance(noun, fine_x, fine_y, radius) < 0
            middle_x, middle_y = fine_x[inside].mean(), fine_y[inside].mean()
            for dy in _OFFSETS:
                for dx in _OFFSETS:
                    centre_x, centre_y = 12 + dx - middle_x, 12 + dy - middle_y
                    distance = signed_distance(noun, x - centre_x, y - centre_y, radius)
                    masks.append((distance < 0).ravel())
                    names.append((noun, float(radius), centre_x - 12, centre_y - 12))
    flat = np.array(masks, dtype=np.float32)
    return flat, flat.sum(1), names


def _shape(mask: np.ndarray) -> tuple[SceneObject, float]:
    """The best-matching shape, its colour yet unread, and its intersection over union."""
    rows, columns = np.nonzero(mask)
    left = int(np.floor(columns.mean() + 0.5)) - 12
    top = int(np.floor(rows.mean() + 0.5)) - 12
    window = np.zeros((_WINDOW, _WINDOW), dtype=np.float32)
    inside = (rows >= top) & (rows < top + _WINDOW)
    inside &= (columns >= left) & (columns < left + _WINDOW)
    window[rows[inside] - top, columns[inside] - left] = 1
    templates, areas, names = _templates()
    common = templates @ window.ravel()
    match = common / (areas + len(rows) - common)
    best = int(match.argmax())
    noun, radius, x, y = names[best]
    found = SceneObject(noun, "", None, left + 12 + x, top + 12 + y, radius)
    return found, float(match[best])


def _fill(pixels: np.ndarray, mask: np.ndarray, found: SceneObject) -> SceneObject:
    """The found shape with the colour and texture that its inner pixels agree with best."""
    y, x = np.nonzero(mask)
    x, y = x + 0.5 - found.x, y + 0.5 - found.y
    inside = signed_distance(found.noun, x, y, found.radius) < -OUTLINE_WIDTH - 0.2
    values = pixels[mask][inside] if inside.any() else pixels[mask]
    saturation = values.max(-1) - values.min(-1)
    strong = values[saturation >= np.quantile(saturation, 0.6)].mean(0)
    # Hue stays the same when a colour is mixed with the white texture or the dark outline.
    turn = np.abs(HUES - colorsys.rgb_to_hsv(*strong)[0])
    colour = list(COLOURS)[int(np.minimum(turn, 1 - turn).argmin())]
    if not inside.any():
        return replace(found, colour=colour)
    white = values.min(-1)
    ground = strong.min()
    errors: dict[str | None, float] = {None: ((white - ground) ** 2).mean()}
    for texture in TEXTURES:
        share = whiteness(texture, x[inside], y[inside])
        errors[texture] = ((white - ground * (1 - share) - 0.98 * share) ** 2).mean()
    return replace(found, colour=colour, texture=min(errors, key=lambda name: errors[name]))
