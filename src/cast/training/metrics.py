"""What is written down of each collection."""

import hashlib
from typing import Any

from jaxtyping import Float
from torch import Tensor

from cast.credit import group_advantages
from cast.scene_graph import SKILLS
from cast.training.state import TrainingState
from cast.training.workbench import Group


def metrics_row(
    index: int,
    state: TrainingState,
    group: Group,
    advantages: Float[Tensor, "B R C"] | None,
    measured: dict[str, float],
) -> dict[str, Any]:
    """A collection's row of metrics.parquet; nothing in it depends on time or device count."""
    scores, pictures = group.scores.double(), group.images.double() / 255.0
    atoms = group_advantages(group.scores, group.resolution)
    row: dict[str, Any] = {
        "collection": index,
        "update": state.update,
        "learning_rate": state.learning_rates[-1],
        "prompt_id": group.record.prompt_id,
        "prompt": group.record.prompt,
        "atom_count": group.record.atom_count,
        "score_mean": float(scores.mean()),
        "score_std": float(scores.mean(dim=1).std(correction=0)),
        "informative_atoms": int((atoms != 0).any(dim=0).sum()),
        "zero_advantage": advantages is not None and not bool((advantages != 0).any()),
        "advantage_rms": 0.0 if advantages is None else float(advantages.square().mean().sqrt()),
        "advantage_clipped": 0.0
        if advantages is None
        else clipped_share(advantages, state.training.advantage_clip),
        "diversity": float(pictures.std(dim=0, correction=0).mean()),
        "images_sha256": hashlib.sha256(group.images.contiguous().numpy().tobytes()).hexdigest(),
        **measured,
    }
    for skill in SKILLS:
        columns = [k for k, atom in enumerate(group.record.atoms) if atom.skill == skill]
        fits = bool(columns) and scores.shape[1] == len(group.record.atoms)
        row[f"score_{skill}"] = float(scores[:, columns].mean()) if fits else None
    return row


def clipped_share(advantages: Float[Tensor, "B R C"], clip: float) -> float:
    """Share of tokens whose advantage met the clip.

    A peaked map (mean 1, so 8 on an eighth of the tokens) meets it often, and then carries less
    than it says.
    """
    return float((advantages.abs() >= clip).double().mean())
