"""Scoring with dependencies: an atom can't hold where what it is about isn't there.

GenEval 2 scores every probe on its own, and so do we unless asked. DSG sets the score of a
question to zero when one that it depends on is answered "no"; for soft scores, "no" is a
score below one half.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from cast.scene_graph.graph import Atom


def with_dependencies(
    scores: Float[np.ndarray, "*batch K"], atoms: Sequence[Atom], threshold: float = 0.5
) -> Float[np.ndarray, "*batch K"]:
    """Scores in which an atom is 0 wherever an atom that it depends on scores below `threshold`.

    Only the original scores are looked at, as DSG does: every parent is an object atom, which
    depends on nothing, so no chain is left to follow.
    """
    return np.where(dependencies_hold(scores, atoms, threshold), scores, 0.0)


def dependencies_hold(
    scores: Float[np.ndarray, "*batch K"], atoms: Sequence[Atom], threshold: float = 0.5
) -> Bool[np.ndarray, "*batch K"]:
    """Whether all atoms that an atom depends on score at least `threshold`."""
    holds = np.ones(scores.shape, dtype=bool)
    for index, atom in enumerate(atoms):
        for parent in atom.depends_on:
            holds[..., index] &= scores[..., parent] >= threshold
    return holds
