"""The claims table: every claim of the paper, our value, and a verdict by a stated rule.

It is what a reviewer opens first: `paper_figures/claims.csv` and `.pdf`. `rules` says how a
verdict follows from an interval, `listed` what each claim is, `measures` how it is measured.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.figures.claims.evidence import Evidence
from cast.figures.claims.listed import CLAIMS
from cast.figures.claims.rules import NOT_RUN, Claim, Measured, NotRun, verdict
from cast.figures.footer import footer
from cast.figures.numbers import interval_columns
from cast.figures.typesetting import Layout, write_table

__all__ = ["CLAIMS", "Claim", "Evidence", "Measured", "claims_table", "layout_claims", "make"]


def claims_table(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> pd.DataFrame:
    """One row a claim; what wasn't measured yet says what is missing and has no verdict.

    Mismatched results (budgets, worlds, base models) raise `CastError`: no row is made of them.
    """
    return pd.DataFrame([_row(claim, evidence) for claim in claims])


def _row(claim: Claim, evidence: Evidence) -> dict[str, Any]:
    try:
        measured = claim.measure(evidence) if claim.measure else evidence.recorded(claim.id)
        found = verdict(claim, measured, evidence.config.world)
    except NotRun as missing:
        measured, found = Measured(str(missing)), NOT_RUN
    command = claim.command.format(
        world=evidence.config.world, backbone=evidence.backbone, figures=evidence.config.figures
    )
    return {
        "id": claim.id,
        "where": claim.where,
        "claim": claim.claim,
        "paper": claim.paper,
        "ours": measured.text,
        **interval_columns("value", measured.interval),
        "kind": claim.kind,
        "threshold": claim.threshold,
        "world": evidence.config.world,
        "verdict": found,
        "command": command,
    }


def layout_claims(table: pd.DataFrame, foot: Sequence[str]) -> Layout:
    """The table as it is typeset."""
    names = ["id", "where", "claim", "paper", "ours", "verdict", "command"]
    header = ["", "Paper", "Claim, in our words", "There", "Here", "Verdict", "Command"]
    counts = ", ".join(f"{count} {name}" for name, count in table["verdict"].value_counts().items())
    rows: list[dict[str, Any]] = table.to_dict("records")
    return Layout(
        title=f"Claims, {table['world'].iloc[0]} world",
        header=header,
        cells=[[str(row[name]) for name in names] for row in rows],
        rules=frozenset(range(1, len(rows))),
        bold=frozenset((number, 5) for number in range(len(rows))),
        footer=[
            f"{counts}. Verdicts follow from 95% intervals: a direction holds where its interval "
            "lies above the threshold and doesn't where it lies below;",
            "a number of a named large model needs full size elsewhere; invariants hold within a "
            "stated tolerance; facts and artefacts are read off the files.",
            *foot,
        ],
        wrap={1: "2.1cm", 2: "5.2cm", 3: "4.2cm", 4: "6.2cm", 5: "2.4cm", 6: "5.2cm"},
    )


def make(config: CastConfig, stem: Path) -> list[Path]:
    """Measure every claim from the config's results and write the table's files."""
    table = claims_table(Evidence(config))
    return write_table(layout_claims(table, footer(config)), table, stem)
