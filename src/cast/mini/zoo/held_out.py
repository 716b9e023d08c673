"""What the mini verifier is measured on: held-out scenes, whose truth and masks are known.

The world's own facts are the truth; the oracle reads the same images and stands beside the
verifier, so that a fault of the yardstick isn't taken for one of the verifier.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import UInt8
from torch import Tensor

from cast.mini import oracle
from cast.mini.facts import Facts, truths
from cast.mini.world import TEXTURES, Scene, render_scene
from cast.mini.zoo import data, questions
from cast.rng import numpy_generator
from cast.scene_graph import PromptRecord, render_prompt
from cast.verifier.soft_tifa import Verifier
from cast.verifier.sweep import MaskedScenes


@dataclass(frozen=True)
class HeldOut:
    """A prompt that nothing trains on, and scenes in which all of it is true."""

    record: PromptRecord
    scenes: tuple[Scene, ...]

    @property
    def images(self) -> UInt8[Tensor, "B 64 64 3"]:
        """The scenes' images."""
        return torch.from_numpy(np.stack([scene.image for scene in self.scenes]))

    def masked(self) -> MaskedScenes:
        """With the true mask of every entity, as the sweep of heatmap settings wants them."""
        entities = len(self.record.graph.entities)
        masks = np.stack([scene.entity_masks(entities) for scene in self.scenes])
        return MaskedScenes(self.record, self.images, torch.from_numpy(masks))


def held_out(prompts: int, images: int, seed: int = 0) -> list[HeldOut]:
    """`prompts` prompts with `images` scenes each; no prompt of an evaluation set is among them,
    and training draws from other streams."""
    records = [record for record, _ in data.scenes(seed, "zoo/held-out", 0, prompts)]
    result = []
    for number, record in enumerate(records):
        rng = numpy_generator(seed, "zoo/held-out", "renders", number)
        scenes = tuple(render_scene(record.graph, rng) for _ in range(images))
        result.append(HeldOut(record, scenes))
    return result


def verifier_answers(verifier: Verifier, drawn: Sequence[HeldOut], seed: int = 0) -> pd.DataFrame:
    """One row an atom: its own prompt's, which are all true, and another prompt's about the same
    image, of which about half are (right nouns with a wrong number, fill or place, and absent
    nouns).

    Columns: `prompt_id`, `image`, `asked` (own or other), `skill`, `kind` (the skill, but colour
    or texture for an attribute), `score` (official answers), `score_strict`, `truth` and `oracle`
    (0 or 1).
    """
    rng = numpy_generator(seed, "zoo/held-out", "questions")
    tables = []
    for item in drawn:
        tensor = item.images.permute(0, 3, 1, 2).float() / 255
        facts = [Facts(scene.objects, scene.touching) for scene in item.scenes]
        asked = [("own", item.record, range(len(facts)))]
        for index, known in enumerate(facts):
            graph = questions.sample_graph_about(known, rng)
            asked.append(
                ("other", render_prompt(graph, data.vocabulary()), range(index, index + 1))
            )
        for source, record, rows in asked:
            official, strict = verifier.score_modes(
                tensor[rows.start : rows.stop], record, ("official", "strict")
            )
            images = [item.scenes[i].image for i in rows]
            tables.append(
                pd.DataFrame(
                    {
                        "prompt_id": item.record.prompt_id,
                        "image": np.repeat(list(rows), len(record.atoms)),
                        "asked": source,
                        "skill": [atom.skill for atom in record.atoms] * len(rows),
                        "kind": kinds(record) * len(rows),
                        "score": official.flatten().numpy(),
                        "score_strict": strict.flatten().numpy(),
                        "truth": np.concatenate([truths(facts[i], record) for i in rows]) * 1,
                        "oracle": np.concatenate([oracle.answer(i, record) for i in images]) * 1,
                    }
                )
            )
    return pd.concat(tables, ignore_index=True)


def kinds(record: PromptRecord) -> list[str]:
    """Each atom's skill; for an attribute, whether it is a colour or a texture."""
    return [
        ("texture" if record.graph.entities[atom.entities[0]].attribute in TEXTURES else "colour")
        if atom.skill == "attribute"
        else atom.skill
        for atom in record.atoms
    ]
