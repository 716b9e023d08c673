"""How a run spends its images and updates (paper 5.1, D): the same totals for every method."""

from dataclasses import dataclass

from cast.config import RunConfig
from cast.errors import CastError


@dataclass(frozen=True)
class Budget:
    """Collections of a run, images of a collection, updates of a collection."""

    collections: int
    images: int
    updates: int

    @classmethod
    def of(cls, run: RunConfig) -> "Budget":
        """Collections, images of each, updates of each. `CastError` when SFT's n doesn't divide."""
        training, method = run.training, run.method
        if method.kind == "rl":
            return cls(training.collections, training.group_size, training.updates_per_collection)
        assert method.of is not None
        images = training.collections * training.group_size
        updates = training.collections * training.updates_per_collection
        collections = images // method.of
        if collections == 0 or images % method.of or updates % collections:
            raise CastError(
                f"config/methods/{method.name}.yaml: of = {method.of}: the budget of "
                f"{training.collections} collections x {training.group_size} images and {updates} "
                f"updates must be made of whole groups of {method.of}, with the same number of "
                "updates each."
            )
        return cls(collections, method.of, updates // collections)
