"""What a step measured for a claim of the paper: `results/{world}/claims/{ID}.json`.

The claims table reads these files and nothing else, so every row can be traced to the step that
measured it. A claim is either a number with its interval, or a property that holds or doesn't.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from cast.config import CastConfig
from cast.errors import CastError
from cast.io import read_json, write_json
from cast.paths import from_root


class Measured(BaseModel):
    """Our value of a claim, in words and as a number with its 95% interval, or as `passed`.

    A value without `low` and `high` is exact (an invariant's error). A value that isn't defined is
    null: its claim stays undecided.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Measured":
        bounds = (self.low is None) + (self.high is None)
        if bounds == 1 or (bounds == 0 and self.value is None):
            raise ValueError("low and high come together, with a value")
        if self.passed is not None and self.value is not None:
            raise ValueError("a claim has a value or passed, not both")
        return self


def evidence_file(config: CastConfig, claim: str) -> Path:
    """Where a claim's evidence lies."""
    return from_root(config.results) / config.world / "claims" / f"{claim}.json"


def write_evidence(config: CastConfig, claim: str, measured: Measured) -> Path:
    """Write what was measured for a claim; returns the file."""
    path = evidence_file(config, claim)
    write_json(path, measured.model_dump(mode="json", exclude_none=True))
    return path


def read_evidence(config: CastConfig, claim: str) -> Measured | None:
    """What was measured for a claim, None where no step has. `CastError` for a damaged file."""
    path = evidence_file(config, claim)
    if not path.is_file():
        return None
    try:
        return Measured.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise CastError(
            f"{path}: {key}: {first['msg']}; allowed are text, value, low, high and passed. Delete "
            "it: its step writes it anew."
        ) from error
