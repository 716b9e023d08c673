"""Table 3 (paper App. E): what each method's training cost, by phase, within one backbone.

The hours come from the runs' ledgers, work that a kill threw away included. Core-hours and
GPU-hours are never added up or compared, and neither are backbones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.errors import CastError
from cast.evaluation.results import Arm, check_arms, load_arm
from cast.figures.footer import footer
from cast.figures.numbers import plain
from cast.figures.table1 import REFERENCE
from cast.figures.typesetting import Layout, write_table
from cast.workflow.keys import list_arms

PHASES = ("generation", "scoring", "attention", "optimisation")
UNITS = {"cpu": "core-hours", "gpu": "GPU-hours"}


def table3(arms: Sequence[Arm], reference: str = REFERENCE) -> pd.DataFrame:
    """One row a trained arm: mean hours over training seeds by phase, their sum, and budgets.

    `relative` is the sum over that of `reference` on the same backbone, NaN where it is absent.
    """
    rows = [_row(arm) for arm in arms if arm.ledgers]
    if not rows:
        raise CastError("table3: no arm was trained, so there is no cost; train one first.")
    table = pd.DataFrame(rows)
    for backbone, own in table.groupby("backbone"):
        if own["unit"].nunique() > 1:
            first, other = own.iloc[0], own[own["unit"] != own["unit"].iloc[0]].iloc[0]
            raise CastError(
                f"table3: {backbone}: {first['method']} was measured in {first['unit']} and "
                f"{other['method']} in {other['unit']}; the two can't be compared. Train both on "
                "one kind of device."
            )
    known = table[table["method"] == reference].set_index("backbone")["total"]
    table["relative"] = table["total"] / table["backbone"].map(known)
    return table


def _row(arm: Arm) -> dict[str, Any]:
    ledgers = list(arm.ledgers.values())
    kinds = {cost["device_kind"] for entry in ledgers for cost in entry["phases"].values()} - {""}
    if len(kinds) != 1:
        raise CastError(
            f"table3: {arm.backbone} {arm.method}: its ledgers count {sorted(kinds)}; a method's "
            "cost needs one kind of device. Train it anew on one."
        )
    hours = {phase: _mean([_hours(entry, phase) for entry in ledgers]) for phase in PHASES}
    return {
        "backbone": arm.backbone,
        "method": arm.method,
        "title": arm.title,
        "training_seeds": len(ledgers),
        "images": ledgers[0]["images"],
        "updates": ledgers[0]["updates"],
        "unit": UNITS[kinds.pop()],
        "device": " + ".join(
            sorted({c["device_name"] for e in ledgers for c in e["phases"].values()} - {""})
        ),
        **hours,
        "total": sum(hours.values()),
    }


def _hours(ledger: Mapping[str, Any], phase: str) -> float:
    return ledger["phases"].get(phase, {}).get("device_s", 0.0) / 3600.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def layout3(table: pd.DataFrame, foot: Sequence[str]) -> Layout:
    """The table as it is typeset."""
    rows: list[dict[str, Any]] = table.to_dict("records")
    header = ["Backbone", "Method", "Images", "Updates", *(p.capitalize() for p in PHASES)]
    header += ["Total", "÷ Flow-GRPO's"]
    cells = [
        [
            row["backbone"],
            row["title"],
            f"{row['images']:,}",
            f"{row['updates']:,}",
            *(plain(row[phase]) for phase in PHASES),
            plain(row["total"]),
            plain(row["relative"], 2),
        ]
        for row in rows
    ]
    units = ", ".join(sorted({row["unit"] for row in rows}))
    devices = "; ".join(sorted({row["device"] for row in rows}))
    return Layout(
        title="Table 3. Cost of training by phase",
        header=header,
        cells=cells,
        spans=[("", 2), ("Budget", 2), (units, len(PHASES) + 1), ("", 1)],
        rules=frozenset(
            i for i in range(1, len(rows)) if rows[i]["backbone"] != rows[i - 1]["backbone"]
        ),
        footer=[
            f"From the ledgers, on {devices}. Compare within one backbone only (App. E).",
            *foot,
        ],
    )


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Read every ledger of the config, ablations too, and write the table's files."""
    names = list(dict.fromkeys((backbone, method) for backbone, method, _ in list_arms(config)))
    order = dict.fromkeys(backbone for backbone, _ in names)
    arms = [load_arm(config, b, m) for b, m in sorted(names, key=lambda n: [*order].index(n[0]))]
    check_arms(arms)
    table = table3(arms)
    table.insert(0, "world", config.world)
    return write_table(layout3(table, footer(config, arms)), table, stem)
