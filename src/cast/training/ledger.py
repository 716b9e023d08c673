"""What a run used and what it cost (paper 5.1, D and E).

The budget (prompts, windows, images, updates) is what led to the result and is the same for an
unbroken and for a resumed run. The cost is what was really spent, work that a kill threw away
included: it comes from a journal that each phase is appended to as soon as it ends. No cost ever
decides a result.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from cast.errors import CastError
from cast.io import read_json, write_json

Phase = Literal["generation", "scoring", "attention", "optimisation", "evaluation"]
PHASES: tuple[Phase, ...] = get_args(Phase)


class PhaseCost(BaseModel):
    """Cost of one phase over the run.

    `wall_s` is seconds, `device_s` seconds times devices, `images` images (at an update: image
    replays), `tokens` latent tokens through the backbone (0 for the verifier's phases).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    wall_s: float = 0.0
    device_s: float = 0.0
    devices: int = 0
    device_kind: Literal["cpu", "gpu", ""] = ""
    device_name: str = ""
    images: int = 0
    tokens: int = 0

    @property
    def hours(self) -> float:
        """GPU-hours or core-hours, as `device_kind` says; the two are never added up."""
        return self.device_s / 3600.0


class Ledger(BaseModel):
    """The account of one training run; `ledger.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    world: str
    config_hash: str
    backbone: str
    base_sha256: str
    method: str
    seed: int
    prompt_ids: list[str]
    window_starts: list[list[int]]
    learning_rates: list[float]
    images: int
    updates: int
    phases: dict[Phase, PhaseCost]

    def write(self, path: Path) -> None:
        """Write the ledger whole."""
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """Read a ledger; raises `CastError` naming the file when it isn't one."""
        try:
            return cls.model_validate(read_json(path))
        except ValueError as error:
            raise CastError(f"{path}: not a training ledger ({error}).") from error


@dataclass(frozen=True)
class Device:
    """What the cost is counted in."""

    kind: Literal["cpu", "gpu"]
    name: str
    count: int


class CostJournal:
    """Append-only record of phases, one JSON line each, beside the checkpoints.

    `write=False` (every rank but the first) measures nothing. Durations come from the monotonic
    clock, so a clock that is set back costs nothing.
    """

    def __init__(self, path: Path, device: Device, write: bool = True) -> None:
        self.path, self.device, self.write = path, device, write

    @contextmanager
    def phase(self, phase: Phase, images: int, tokens: int = 0) -> Iterator[None]:
        """Time a block; one that raises is counted too, since it was paid for."""
        start = time.monotonic()
        try:
            yield
        finally:
            if self.write:
                self._append(phase, time.monotonic() - start, images, tokens)

    def _append(self, phase: Phase, seconds: float, images: int, tokens: int) -> None:
        line = {
            "phase": phase,
            "wall_s": round(seconds, 6),
            "device_s": round(seconds * self.device.count, 6),
            "devices": self.device.count,
            "device_kind": self.device.kind,
            "device_name": self.device.name,
            "images": images,
            "tokens": tokens,
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                if file.tell() and not self._ends_with_newline():
                    file.write(b"\n")  # a kill tore the last line; leave it, start a new one
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise CastError(f"{self.path}: the cost can't be recorded ({error}).") from error

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"

    def totals(self) -> dict[Phase, PhaseCost]:
        """Sum of the journal by phase; a line that a kill tore is left out.

        Raises `CastError` when a phase was run on both kinds of device: GPU-hours and core-hours
        can't be added.
        """
        totals: dict[Phase, PhaseCost] = {}
        for entry in self._entries():
            phase: Phase = entry.pop("phase")
            cost = PhaseCost.model_validate(entry)
            totals[phase] = _joined(phase, totals[phase], cost) if phase in totals else cost
        return totals

    def _entries(self) -> Iterator[dict]:
        if not self.path.is_file():
            return
        for line in self.path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("phase") in PHASES:
                yield entry


def _joined(phase: str, one: PhaseCost, other: PhaseCost) -> PhaseCost:
    if one.device_kind != other.device_kind:
        raise CastError(
            f"{phase}: begun on {one.device_name} and gone on with on {other.device_name}; "
            "GPU-hours and core-hours are never mixed. Resume on the first kind of device."
        )
    names = one.device_name.split(" + ")
    if other.device_name not in names:
        names.append(other.device_name)
    return PhaseCost(
        wall_s=round(one.wall_s + other.wall_s, 6),
        device_s=round(one.device_s + other.device_s, 6),
        devices=max(one.devices, other.devices),
        device_kind=one.device_kind,
        device_name=" + ".join(names),
        images=one.images + other.images,
        tokens=one.tokens + other.tokens,
    )
