"""The claims table: every claim of the paper, our value, and a verdict by a stated rule.

It is what a reviewer opens first: `paper_figures/claims.csv` and `.pdf`. `rules` says how a
verdict follows from an interval, `listed` what each claim is, `measures` how those are measured
that follow from scores, ledgers and files; the others are left by the steps that own them. All
evidence lies in `results/{world}/claims`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cast.config import CastConfig
from cast.evaluation.replicates import Interval
from cast.evidence import Measured, evidence_file, read_evidence, write_evidence
from cast.figures.claims.evidence import Evidence
from cast.figures.claims.listed import CLAIMS
from cast.figures.claims.rules import NOT_RUN, Claim, NotRun, verdict
from cast.figures.footer import footer
from cast.figures.numbers import interval_columns
from cast.figures.typesetting import Layout, write_table

__all__ = ["CLAIMS", "Claim", "Evidence", "claims_table", "layout_claims", "make", "record"]


def record(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> dict[str, str]:
    """Measure every claim that can be read off results and write its evidence.

    Returns what is missing for those that can't be measured yet, whose old evidence is removed.
    Mismatched results (budgets, worlds, base models) raise `CastError`: no row is made of them.
    """
    missing = {}
    for claim in claims:
        if claim.measure is None:
            continue
        try:
            write_evidence(evidence.config, claim.id, claim.measure(evidence))
        except NotRun as error:
            missing[claim.id] = str(error)
            evidence_file(evidence.config, claim.id).unlink(missing_ok=True)
    return missing


def claims_table(
    config: CastConfig, missing: Mapping[str, str], claims: Sequence[Claim] = CLAIMS
) -> pd.DataFrame:
    """One row a claim, from its evidence alone; what wasn't measured says so, with no verdict."""
    return pd.DataFrame([_row(claim, config, missing.get(claim.id, "")) for claim in claims])


def _row(claim: Claim, config: CastConfig, missing: str) -> dict[str, Any]:
    measured = read_evidence(config, claim.id)
    found = NOT_RUN if measured is None else verdict(claim, measured, config.world)
    command = claim.command.format(
        world=config.world,
        backbone=config.evaluation.hard_case.backbone,
        figures=config.figures,
    )
    if config.world != "mini":
        command += f" --configfile config/{config.world}.yaml"
    return {
        "id": claim.id,
        "where": claim.where,
        "claim": claim.claim,
        "paper": claim.paper,
        "ours": measured.text if measured else missing or "its step has not run here",
        **interval_columns("value", _interval(measured)),
        "kind": claim.kind,
        "threshold": claim.threshold,
        "world": config.world,
        "training_seeds": len(config.seeds_of("cast")),
        "verdict": found,
        "command": command,
    }


def _interval(measured: Measured | None) -> Interval | None:
    if measured is None or measured.value is None:
        return None
    value = measured.value
    low, high = (value if end is None else end for end in (measured.low, measured.high))
    return Interval(value, low, high)


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
    missing = record(Evidence(config))
    table = claims_table(config, missing)
    return write_table(layout_claims(table, footer(config)), table, stem)
