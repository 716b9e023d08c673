"""The outputs of a finished run, each written whole."""

import json
import os
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from cast.backbones import model_card
from cast.io import write_json, write_parquet, written_whole
from cast.scene_graph import SKILLS
from cast.training.ledger import Ledger
from cast.training.state import TrainingState
from cast.training.workbench import Workbench

_FIRST = ("collection", "update", "prompt_id", "prompt", "atom_count", "score_mean", "score_std")


def write_results(
    bench: Workbench, state: TrainingState, named: dict[str, Any], modules: list[str], folder: Path
) -> None:
    """The outputs, each whole; the ledger last, since it says that the rest is there."""
    run = bench.run
    ledger = Ledger(
        world=run.world,
        config_hash=run.hash(),
        backbone=run.backbone.name,
        base_sha256=named["backbone"],
        method=run.method.name,
        seed=run.seed,
        prompt_ids=state.prompt_ids,
        window_starts=state.window_starts,
        learning_rates=state.learning_rates,
        images=state.images,
        updates=state.update,
        phases=bench.journal.totals(),
    )
    settings = run.model_dump(mode="json")
    card = model_card(run.backbone, run.method.title, settings, _short_ledger(ledger))
    with state.averaged(), _whole_folder(folder / "adapter") as temporary:
        with_sorted_metadata(bench.backbone.save_lora(temporary, card))
    write_parquet(folder / "metrics.parquet", metrics_table(state.metrics))
    write_json(
        folder / "run.json",
        {"run": settings, "identity": named, "lora_modules": modules},
    )
    ledger.write(folder / "ledger.json")


def metrics_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """`metrics.parquet`: one row a collection; a skill that a prompt lacks is NaN."""
    table = pd.DataFrame(list(rows))
    # A row that comes from a checkpoint has its keys sorted, a fresh one doesn't.
    table = table[[*_FIRST, *sorted(set(table) - set(_FIRST))]]
    skills = [f"score_{skill}" for skill in SKILLS]
    table[skills] = table[skills].astype(float)
    return table


def with_sorted_metadata(path: Path) -> None:
    """Rewrite a safetensors header with its metadata in order.

    The library keeps metadata in a hash map, so the same adapter would get other bytes each time.
    """
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with written_whole(path) as temporary:
        temporary.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])


def _short_ledger(ledger: Ledger) -> dict[str, Any]:
    """The ledger without its long lists, for people."""
    return ledger.model_dump(exclude={"prompt_ids", "window_starts", "learning_rates"})


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes `folder`'s place when the block ends well."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    yield temporary
    for file in temporary.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
