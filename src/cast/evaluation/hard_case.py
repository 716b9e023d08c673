"""The Hard Case subset (paper App. G): chosen once, on the frozen base model, before training.

Of the base model's replicates per prompt, the `pool` prompts of highest variance; of those, the
`keep` of lowest mean. The seeds that select are not the seeds that evaluate (ours; the summary
doesn't say): prompts chosen for low scores and scored again on the same images regress to the
mean, which flatters every method.
"""

from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from cast.errors import CastError
from cast.io import read_json, sha256_json, write_json


class HardCase(BaseModel):
    """The frozen subset; `sha256` is the hash of all other fields and is checked when read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt_ids: tuple[str, ...]
    pool: int
    keep: int
    selection_seeds: tuple[int, ...]
    evaluation_seeds: tuple[int, ...]
    backbone: str
    base_sha256: str
    world: str
    settings_sha256: str  # of the evaluation settings under which it was selected
    selection_mean: float  # the subset's mean on the selecting images: too low, and reported so
    sha256: str = ""

    def content_sha256(self) -> str:
        """Hash of every field but the hash itself."""
        return sha256_json(self.model_dump(mode="json", exclude={"sha256"}))


def select_hard_case(means: pd.DataFrame, pool: int, keep: int) -> list[str]:
    """Ids of the chosen prompts, hardest first, from a prompts x seeds table of scores.

    The variance is the sample variance over seeds. Equal variances, and equal means, are ordered
    by prompt id, so the choice doesn't depend on the order of a file; both are compared to
    twelve digits, below which only the order of a summation differs.
    """
    if means.shape[1] < 2:
        raise CastError(
            f"hard_case: {means.shape[1]} selection seed; a variance needs at least two."
        )
    if not 0 < keep <= pool <= len(means):
        raise CastError(
            f"hard_case: pool {pool} and keep {keep} of {len(means)} prompts; allowed are "
            f"0 < keep <= pool <= {len(means)}."
        )
    if means.isna().to_numpy().any() or means.index.has_duplicates:
        raise CastError("hard_case: each prompt needs one score a selection seed, once.")
    table = pd.DataFrame(
        {"variance": means.var(axis=1, ddof=1).round(12), "mean": means.mean(axis=1).round(12)}
    )
    table = table.rename_axis("prompt_id").reset_index()
    varied = table.sort_values(["variance", "prompt_id"], ascending=[False, True]).head(pool)
    return varied.sort_values(["mean", "prompt_id"]).head(keep)["prompt_id"].tolist()


def write_hard_case(path: Path, hard_case: HardCase) -> HardCase:
    """Write the subset with its hash; returns it as written."""
    sealed = hard_case.model_copy(update={"sha256": hard_case.content_sha256()})
    write_json(path, sealed.model_dump(mode="json"))
    return sealed


def read_hard_case(path: Path) -> HardCase:
    """Read a frozen subset; `CastError` where it was edited or doesn't have the right keys."""
    try:
        hard_case = HardCase.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise CastError(f"{path}: {key}: {first['msg']}. Delete it to select anew.") from error
    if hard_case.sha256 != hard_case.content_sha256():
        raise CastError(
            f"{path}: its sha256 is {hard_case.sha256}, its content's {hard_case.content_sha256()}:"
            " the file was changed after it was frozen. Restore it, or delete it with every run "
            "that used it."
        )
    overlap = set(hard_case.selection_seeds) & set(hard_case.evaluation_seeds)
    if overlap:
        raise CastError(f"{path}: seeds {sorted(overlap)} both select and evaluate.")
    return hard_case
