"""How a claim's verdict follows from its interval. It is computed, never typed in.

direction  holds: the interval lies above the threshold. does not hold: it lies below.
           undecided: it includes the threshold, or isn't defined.
number     belongs to a named large model: "needs full size" in every other world; at full size
           it holds where our interval includes the paper's value, and is undecided where our
           value isn't defined.
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

from cast.evidence import Measured

Kind = Literal["direction", "number", "invariant", "fact", "artefact"]
HOLDS, FAILS = "holds", "does not hold"
UNDECIDED, FULL_SIZE = "undecided at this sample size", "needs full size"
NOT_RUN = "not run"


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
        return UNDECIDED if measured.passed is None else HOLDS if measured.passed else FAILS
    value = measured.value
    if claim.kind == "invariant":
        return HOLDS if value is not None and value <= claim.threshold else FAILS
    if claim.kind == "number" and world != "paper":
        return FULL_SIZE
    if value is None or measured.low is None or measured.high is None or world == "smoke":
        return UNDECIDED
    if claim.kind == "number":
        return HOLDS if measured.low <= claim.paper_number <= measured.high else FAILS
    if measured.low > claim.threshold:
        return HOLDS
    return FAILS if measured.high < claim.threshold else UNDECIDED
