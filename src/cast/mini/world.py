"""The mini world: scenes of coloured shapes, drawn from the graphs that make the prompts.

A scene is 64x64 RGB. Objects stand near the points of a 4x4 grid with a jitter, at least two
pixels apart (unless they are said to touch), each with a dark outline, a fill colour and perhaps
a white texture. Because the scene is drawn from the graph, the truth of every probe, the mask of
every entity and every box are known. The world is ours: the paper has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cast.scene_graph.graph import SceneGraph

SIZE = 64  # pixels a side
CELLS = 4  # grid points a side
CELL = SIZE // CELLS
COLOURS = {  # sRGB, 0 to 1
    "red": (0.86, 0.20, 0.18),
    "green": (0.22, 0.66, 0.26),
    "blue": (0.20, 0.34, 0.88),
    "yellow": (0.95, 0.80, 0.16),
    "purple": (0.60, 0.24, 0.76),
    "cyan": (0.20, 0.76, 0.82),
}
TEXTURES = ("striped", "dotted")
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross")
BACKGROUND = 0.93
OUTLINE = 0.12
OUTLINE_WIDTH = 1.0  # pixels
RADIUS = (5.9, 6.6)  # pixels; every shape fits into the circle of 1.05 radii
REACH = 7.0  # pixels from a grid point that an object may cover; leaves the gap of two
PATCH = 8  # half side of the window in which an object is drawn
_CENTRES = np.arange(SIZE) + 0.5  # pixel centres


@dataclass(frozen=True)
class SceneObject:
    """One drawn (or detected) object: centre and radius in pixels, x to the right, y down."""

    noun: str
    colour: str
    texture: str | None
    x: float
    y: float
    radius: float
    entity: int = -1

    def has(self, attribute: str) -> bool:
        """Whether a colour or texture word is true of it."""
        return attribute in (self.colour, self.texture)


@dataclass(frozen=True)
class Scene:
    """A drawn scene: `image` uint8 [64, 64, 3]; `masks` bool [M, 64, 64], one an object."""

    image: np.ndarray
    objects: tuple[SceneObject, ...]
    object_masks: np.ndarray
    touching: frozenset[tuple[int, int]]  # pairs of object indices

    def entity_masks(self, entities: int) -> np.ndarray:
        """Bool [E, 64, 64]: the union of each entity's objects."""
        masks = np.zeros((entities, SIZE, SIZE), dtype=bool)
        for item, mask in zip(self.objects, self.object_masks, strict=True):
            if item.entity >= 0:
                masks[item.entity] |= mask
        return masks

    def boxes(self) -> np.ndarray:
        """Int [M, 4]: x0, y0, x1, y1 of every object, the last pixel excluded."""
        found = []
        for mask in self.object_masks:
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            found.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
        return np.array(found, dtype=np.int64).reshape(-1, 4)


def signed_distance(noun: str, x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
    """Pixels from the shape's edge, negative inside; x, y relative to the centre, any shape."""
    if noun == "circle":
        return np.hypot(x, y) - 0.94 * radius
    if noun == "square":
        return np.maximum(np.abs(x), np.abs(y)) - 0.84 * radius
    if noun == "triangle":
        y = y - 0.12 * radius
        side = 0.894 * np.abs(x) - 0.447 * y - 0.447 * radius
        return np.maximum(side, y - 0.84 * radius)
    if noun == "cross":
        long, short = 0.98 * radius, 0.36 * radius
        upright = np.maximum(np.abs(x) - short, np.abs(y) - long)
        lying = np.maximum(np.abs(x) - long, np.abs(y) - short)
        return np.minimum(upright, lying)
    if noun == "heart":
        y = y + 0.12 * radius
        diamond = (np.abs(x) + np.abs(y - 0.18 * radius)) / np.sqrt(2) - 0.66 * radius
        lobe = np.hypot(np.abs(x) - 0.47 * radius, y + 0.28 * radius) - 0.52 * radius
        return np.minimum(diamond, lobe)
    if noun == "star":
        # Five-fold symmetry: fold the angle into one half-wedge, whose edge is a single line from
        # the tip (outer radius) to the notch (inner radius).
        wedge = np.pi / 5
        angle = np.abs((np.arctan2(x, -y) + wedge) % (2 * wedge) - wedge)
        distance = np.hypot(x, y)
        u, v = distance * np.cos(angle), distance * np.sin(angle)
        tip, notch = 1.05 * radius, 0.54 * radius
        du, dv = notch * np.cos(wedge) - tip, notch * np.sin(wedge)
        return ((u - tip) * dv - v * du) / np.hypot(du, dv)
    raise ValueError(f"unknown shape {noun!r}; known: {', '.join(SHAPES)}")


def draw_object(canvas: np.ndarray, item: SceneObject) -> np.ndarray:
    """Paint one object on the float canvas [64, 64, 3] in place; return its bool mask [64, 64]."""
    x0, y0 = max(round(item.x) - PATCH, 0), max(round(item.y) - PATCH, 0)
    x1, y1 = min(round(item.x) + PATCH, SIZE), min(round(item.y) + PATCH, SIZE)
    x = _CENTRES[None, x0:x1] - item.x
    y = _CENTRES[y0:y1, None] - item.y
    distance = signed_distance(item.noun, x, y, item.radius)
    outer = np.clip(0.5 - distance, 0, 1)[..., None]
    inner = np.clip(0.5 - distance - OUTLINE_WIDTH, 0, 1)[..., None]
    fill = np.array(COLOURS[item.colour])
    if item.texture is not None:
        white = whiteness(item.texture, x, y)[..., None]
        fill = fill * (1 - white) + 0.98 * white
    patch = canvas[y0:y1, x0:x1]
    patch[:] = patch * (1 - outer) + OUTLINE * (outer - inner) + fill * inner
    mask = np.zeros((SIZE, SIZE), dtype=bool)
    mask[y0:y1, x0:x1] = distance < 0
    return mask


def whiteness(texture: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How white, 0 to 1, a texture is at points relative to the object's centre, in pixels."""
    if texture == "striped":
        return np.clip(0.5 + 1.6 * np.cos(2 * np.pi * (y + 0 * x) / 4.4), 0, 1)
    return np.clip(2.6 - np.hypot(x, y), 0, 1)  # dotted: one white dot


def draw(objects: Sequence[SceneObject], background: float = BACKGROUND) -> Scene:
    """Draw objects in order on a grey ground."""
    canvas = np.full((SIZE, SIZE, 3), background)
    masks = np.array([draw_object(canvas, item) for item in objects], dtype=bool)
    masks = masks.reshape(-1, SIZE, SIZE)
    image = np.round(canvas * 255).astype(np.uint8)
    return Scene(image, tuple(objects), masks, touching_pairs(masks))


def touching_pairs(masks: np.ndarray) -> frozenset[tuple[int, int]]:
    """Pairs of masks [M, 64, 64] at most one free pixel apart (objects keep two otherwise)."""
    boxes = [(np.flatnonzero(m.any(1))[[0, -1]], np.flatnonzero(m.any(0))[[0, -1]]) for m in masks]
    pairs = set()
    for j, (rows_j, columns_j) in enumerate(boxes):
        for i, (rows_i, columns_i) in enumerate(boxes[:j]):
            far = _gap(rows_i, rows_j) > 2 or _gap(columns_i, columns_j) > 2
            if not far and (_grow(masks[i]) & _grow(masks[j])).any():
                pairs.add((i, j))
    return frozenset(pairs)


def _gap(a: np.ndarray, b: np.ndarray) -> int:
    """Distance between two inclusive pixel ranges; 1 for neighbours, 0 or less for overlap."""
    return int(max(a[0] - b[1], b[0] - a[1]))


def _grow(mask: np.ndarray) -> np.ndarray:
    """The mask and its four neighbours."""
    grown = mask.copy()
    grown[1:] |= mask[:-1]
    grown[:-1] |= mask[1:]
    grown[:, 1:] |= mask[:, :-1]
    grown[:, :-1] |= mask[:, 1:]
    return grown


def render_scene(graph: SceneGraph, rng: np.random.Generator) -> Scene:
    """A scene in which the whole graph is true.

    Raises:
        ValueError: the graph has no layout on the grid (too many objects for its relations).
    """
    joins = [(r.subject, r.object) for r in graph.relations if r.relation == "touching"]
    joined = {entity for pair in joins for entity in pair}
    for _ in range(50):
        fills = _fills(graph, rng)
        objects = [
            place(graph.entities[entity].noun, *fills[entity], cell, rng, entity, entity in joined)
            for entity, cells in enumerate(_layout(graph, rng))
            for cell in cells
        ]
        for subject, target in joins:
            _join(objects, subject, target)
        scene = draw(objects, BACKGROUND + rng.uniform(-0.03, 0.03))
        found = {(objects[i].entity, objects[j].entity) for i, j in scene.touching}
        if {frozenset(pair) for pair in found} == {frozenset(pair) for pair in joins}:
            return scene
    raise ValueError(f"no layout in which only the right objects touch, for {graph}")


def place(
    noun: str,
    colour: str,
    texture: str | None,
    cell: int | np.integer,
    rng: np.random.Generator,
    entity: int = -1,
    centred: bool = False,
) -> SceneObject:
    """An object of random size about the middle of grid cell 0..15, jittered unless `centred`."""
    radius = rng.uniform(*RADIUS)
    jitter = 0.0 if centred else max(REACH - 1.05 * radius, 0.0)
    row, column = divmod(int(cell), CELLS)
    x = (column + 0.5) * CELL + rng.uniform(-jitter, jitter)
    y = (row + 0.5) * CELL + rng.uniform(-jitter, jitter)
    return SceneObject(noun, colour, texture, x, y, radius, entity)


def _fills(graph: SceneGraph, rng: np.random.Generator) -> list[tuple[str, str | None]]:
    """Colour and texture of each entity: what the prompt says, anything where it is silent."""
    fills = []
    for entity in graph.entities:
        word = entity.attribute
        colour = word if word in COLOURS else list(COLOURS)[rng.integers(len(COLOURS))]
        texture = word if word in TEXTURES else None
        if word is None and rng.random() < 0.2:
            texture = TEXTURES[rng.integers(len(TEXTURES))]
        fills.append((colour, texture))
    return fills


_AXIS = {  # relation: (axis, whether the subject has the smaller coordinate)
    "to the left of": (1, True),
    "to the right of": (1, False),
    "above": (0, True),
    "below": (0, False),
}


def _layout(graph: SceneGraph, rng: np.random.Generator) -> list[np.ndarray]:
    """Grid cells of each entity: every position relation splits the grid at a drawn line."""
    coordinates = np.stack(np.divmod(np.arange(CELLS**2), CELLS))  # [row or column, cell]
    for _ in range(200):
        allowed = np.ones((len(graph.entities), CELLS**2), dtype=bool)
        for relation in graph.relations:
            if relation.relation not in _AXIS:
                continue
            axis, smaller = _AXIS[relation.relation]
            low = coordinates[axis] < rng.integers(1, CELLS)
            allowed[relation.subject] &= low if smaller else ~low
            allowed[relation.object] &= ~low if smaller else low
        chosen = _choose(graph, allowed, coordinates, rng)
        if chosen is not None:
            return chosen
    raise ValueError(f"no layout on a {CELLS}x{CELLS} grid for {graph}")


def _choose(
    graph: SceneGraph, allowed: np.ndarray, coordinates: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray] | None:
    """Draw free cells for each entity, tightest first; None where they don't suffice."""
    free = np.ones(CELLS**2, dtype=bool)
    chosen: dict[int, np.ndarray] = {}
    partners = {r.object: r.subject for r in graph.relations if r.relation == "touching"}
    order = np.argsort([allowed[e].sum() for e in range(len(graph.entities))], kind="stable")
    for entity in [*(e for e in order if e not in partners), *(e for e in order if e in partners)]:
        options = allowed[entity] & free
        if entity in partners:
            anchor = coordinates[:, chosen[partners[entity]][0]]
            options = options & (np.abs(coordinates - anchor[:, None]).sum(0) == 1)
        cells = np.flatnonzero(options)
        count = graph.entities[entity].count
        if len(cells) < count or (entity in partners and partners[entity] not in chosen):
            return None
        chosen[entity] = rng.choice(cells, count, replace=False)
        free[chosen[entity]] = False
    return [chosen[entity] for entity in range(len(graph.entities))]


def _join(objects: list[SceneObject], subject: int, target: int) -> None:
    """Move the target's object along the grid line up to the subject's, until they touch."""
    first = next(i for i, item in enumerate(objects) if item.entity == subject)
    second = next(i for i, item in enumerate(objects) if item.entity == target)
    a, b = objects[first], objects[second]
    dx, dy = b.x - a.x, b.y - a.y
    direction = np.array([np.sign(dx), 0.0] if abs(dx) > abs(dy) else [0.0, np.sign(dy)])
    distance = _reach(a, direction) + _reach(b, -direction)
    x, y = np.array([a.x, a.y]) + distance * direction
    objects[second] = replace(b, x=float(x), y=float(y))


def _reach(item: SceneObject, direction: np.ndarray) -> float:
    """Pixels from the object's centre to its edge in a direction."""
    line = np.arange(0.0, 10.0, 0.125)[:, None] * direction
    inside = signed_distance(item.noun, line[:, 0], line[:, 1], item.radius) < 0
    return 0.125 * float(np.flatnonzero(inside)[-1])
