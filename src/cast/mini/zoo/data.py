"""Scenes to train the zoo on, drawn on the fly; never a graph of the evaluation sets."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from cast.mini.world import CELLS, COLOURS, SHAPES, TEXTURES, Scene, SceneObject, draw, place
from cast.mini.world import render_scene as render
from cast.rng import numpy_generator
from cast.scene_graph import (
    Entity,
    PromptRecord,
    Relation,
    SceneGraph,
    Vocabulary,
    load_vocabulary,
    read_prompts,
    render_prompt,
    sample_prompts,
)

ATTRIBUTES = (*COLOURS, *TEXTURES)
EVALUATION_FILES = ("data/mini/benchmark.jsonl", "data/mini/development.jsonl")


@cache
def vocabulary() -> Vocabulary:
    """The mini world's words, read once: the file takes as long to parse as a scene to draw."""
    return load_vocabulary("shapes")


@cache
def evaluation_graphs() -> frozenset[str]:
    """Canonical graphs of the benchmark and the development set."""
    return frozenset(
        record.graph.canonical() for file in EVALUATION_FILES for record in read_prompts(file)
    )


def scenes(seed: int, purpose: str, index: int, n: int) -> list[tuple[PromptRecord, Scene]]:
    """`n` prompts with a scene in which each is true, from the stream (seed, purpose, index)."""
    rng = numpy_generator(seed, purpose, "scene", index)
    records = sample_prompts(
        vocabulary(),
        seed,
        n,
        exclude=evaluation_graphs(),
        purpose=f"{purpose}/{index}",
    )
    return [(record, render(record.graph, rng)) for record in records]


def free_scene(rng: np.random.Generator) -> Scene:
    """Up to six objects at random, few nouns, mixed fills: what a prompt would not ask for."""
    kinds = int(rng.integers(1, 5))
    nouns = rng.choice(SHAPES, kinds, replace=False)
    shares = rng.dirichlet(np.full(kinds, 0.8))  # uneven, so that counts of four and five occur
    colours = rng.choice(list(COLOURS), rng.integers(1, 5), replace=False)
    cells = rng.choice(CELLS**2, rng.integers(1, 8), replace=False)
    objects = []
    for cell in cells:
        texture = TEXTURES[rng.integers(2)] if rng.random() < 0.3 else None
        noun, colour = str(rng.choice(nouns, p=shares)), str(rng.choice(colours))
        objects.append(place(noun, colour, texture, cell, rng))
    return draw(objects, 0.93 + rng.uniform(-0.03, 0.03))


def touching_scene(rng: np.random.Generator) -> tuple[PromptRecord, Scene]:
    """Two objects that touch, perhaps beside others, and the prompt that asks for it."""
    while True:
        graph = _touching_graph(rng)
        if graph.canonical() not in evaluation_graphs():
            return render_prompt(graph, vocabulary()), render(graph, rng)


def _touching_graph(rng: np.random.Generator) -> SceneGraph:
    nouns = rng.choice(SHAPES, 3, replace=False)
    words = [str(w) if rng.random() < 0.6 else None for w in rng.choice(ATTRIBUTES, 3)]
    counts = (1, 1, int(rng.integers(1, 4)))
    entities = tuple(Entity(str(n), c, w) for n, c, w in zip(nouns, counts, words, strict=True))
    return SceneGraph(entities[: rng.integers(2, 4)], (Relation(0, "touching", 1),))


def littered(scene: Scene, rng: np.random.Generator) -> Scene:
    """The scene with up to four scrambled objects in its empty cells, which are none of its facts.

    A generator that fails, or that is trained against a verifier, draws the parts of a thing and
    not the thing. Each is an object whose 4-pixel blocks have changed places.
    """
    image = scene.image.copy()
    taken = scene.object_masks.any(0).reshape(CELLS, 16, CELLS, 16).any((1, 3))
    for cell in rng.permutation(np.flatnonzero(~taken.ravel()))[: rng.integers(1, 5)]:
        noun, colour = str(rng.choice(SHAPES)), str(rng.choice(list(COLOURS)))
        row, column = divmod(int(cell), CELLS)
        area = (slice(16 * row, 16 * row + 16), slice(16 * column, 16 * column + 16))
        drawn = draw([place(noun, colour, None, cell, rng)], image[0, 0, 0] / 255).image[area]
        blocks = drawn.reshape(4, 4, 4, 4, 3).swapaxes(1, 2).reshape(16, 4, 4, 3)
        mixed = blocks[rng.permutation(16)].reshape(4, 4, 4, 4, 3)
        image[area] = mixed.swapaxes(1, 2).reshape(16, 16, 3)
    return replace(scene, image=image)


def to_tensor(images: list[np.ndarray]) -> Tensor:
    """Float [B, 3, 64, 64] in -1..1 from uint8 [64, 64, 3] images."""
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1


def cell_labels(objects: tuple[SceneObject, ...]) -> np.ndarray:
    """Int [2, 8, 8]: which shape and which colour (0 for none) covers each 8-pixel token."""
    labels = np.zeros((2, CELLS, CELLS), dtype=np.int64)
    for item in objects:
        row = min(int(item.y // 16), CELLS - 1)
        column = min(int(item.x // 16), CELLS - 1)
        labels[0, row, column] = SHAPES.index(item.noun) + 1
        labels[1, row, column] = list(COLOURS).index(item.colour) + 1
    return labels.repeat(2, axis=1).repeat(2, axis=2)
