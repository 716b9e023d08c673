"""Prompts and sizes of the tiny studies."""

from tiny_verifier import record

from cast.scene_graph import Atom, Entity, PromptRecord, SceneGraph

STEPS = 6


def records() -> list[PromptRecord]:
    """The verifier's own prompt, and two shorter ones in its words."""
    made = [record()]
    for noun in ("circle", "square"):
        prompt = f"two {noun}s"
        atoms = (
            Atom("count", f"How many {noun}s are in the image?", "two", ((0, 3),), (0,)),
            Atom("object", f"Are there any {noun}s in the image?", "Yes", ((4, 10),), (0,)),
        )
        made.append(PromptRecord(prompt, SceneGraph((Entity(noun, 2),)), atoms, 2))
    return made
