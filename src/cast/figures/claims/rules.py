"""How a claim's verdict follows from its interval. It is computed, never typed in.

direction  holds: the interval lies above the threshold. does not hold: it lies below.
           undecided: it includes the threshold, or isn't defined.
number     belongs to a named large model: "needs full size" in every other world; at full size
           it holds where our interval includes the paper's value.
invariant  holds: the error is at most the stated tolerance. Otherwise it does not hold.
fact       a property of the protocol that is read off files: holds or does not.
artefact   holds: the figure or table was made from this world's results.

Nothing has a verdict before it was measured ("not run"). In the smoke world only invariants, facts
and artefacts have one: its numbers mean nothing, so directions stay undecided.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cast.evaluation.replicates import Interval

Kind = Literal["direction", "number", "invariant", "fact", "artefact"]
HOLDS, FAILS = "holds", "does not hold"
UNDECIDED, FULL_SIZE = "undecided at this sample size", "needs full size"
NOT_RUN = "not run"


@dataclass(frozen=True)
class Measured:
    """Our value of a claim: a number with its interval where it has one, and words."""

    text: str = ""
    interval: Interval | None = None
    passed: bool | None = None  # of facts and artefacts

    @property
    def value(self) -> float:
        """The number, NaN where the claim has none."""
        return self.interval.value if self.interval is not None else math.nan


@dataclass(frozen=True)
class Claim:
    """One row of the table.

    `threshold` is what a direction must exceed and what an invariant's error may not exceed;
    `paper_number` is the value that a number's interval should include at full size.
    """

    id: str
    where: str
    claim: str
    paper: str
    kind: Kind
    command: str
    measure: Callable[[Any], Measured] | None = None
    threshold: float = 0.0
    paper_number: float = math.nan


class NotRun(Exception):
    """The evidence of a claim isn't there yet; the message says what is missing."""


def verdict(claim: Claim, measured: Measured, world: str) -> str:
    """The claim's verdict in `world`, by the rule of its kind."""
    if claim.kind in ("fact", "artefact"):
        return HOLDS if measured.passed else FAILS
    interval = measured.interval
    if claim.kind == "invariant":
        error = math.inf if interval is None else interval.value
        return HOLDS if error <= claim.threshold else FAILS
    if claim.kind == "number":
        if world != "paper":
            return FULL_SIZE
        inside = interval is not None and interval.low <= claim.paper_number <= interval.high
        return HOLDS if inside else FAILS
    if interval is None or math.isnan(interval.low) or world == "smoke":
        return UNDECIDED
    if interval.low > claim.threshold:
        return HOLDS
    return FAILS if interval.high < claim.threshold else UNDECIDED
