"""Verdicts follow from intervals by the stated rule, and evidence is never made up."""

import dataclasses
import math

import pandas as pd
import pytest

from cast.config import load_config
from cast.errors import CastError
from cast.evaluation.replicates import Interval
from cast.figures.claims import CLAIMS, Evidence, claims_table, layout_claims, measures
from cast.figures.claims.rules import (
    FAILS,
    FULL_SIZE,
    HOLDS,
    NOT_RUN,
    UNDECIDED,
    Claim,
    Measured,
    verdict,
)
from cast.io import write_json


def claim(kind, **more) -> Claim:
    return Claim("C99", "0", "a claim", "a value", kind, "a command", **more)


def of(value, low, high) -> Measured:
    return Measured(interval=Interval(float(value), float(low), float(high)))


@pytest.mark.parametrize(
    ("kind", "more", "measured", "world", "expected"),
    [
        ("direction", {}, of(0.1, 0.01, 0.2), "mini", HOLDS),
        ("direction", {}, of(-0.1, -0.2, -0.01), "mini", FAILS),
        ("direction", {}, of(0.1, -0.01, 0.2), "mini", UNDECIDED),
        ("direction", {}, of(0.1, 0.0, 0.2), "mini", UNDECIDED),
        ("direction", {}, of(math.nan, math.nan, math.nan), "mini", UNDECIDED),
        ("direction", {}, of(0.1, 0.01, 0.2), "smoke", UNDECIDED),
        ("direction", {"threshold": 0.9}, of(0.8, 0.7, 0.89), "mini", FAILS),
        ("number", {"paper_number": 1.93}, of(1.9, 1.5, 2.4), "mini", FULL_SIZE),
        ("number", {"paper_number": 1.93}, of(1.9, 1.5, 2.4), "paper", HOLDS),
        ("number", {"paper_number": 1.93}, of(1.2, 1.0, 1.4), "paper", FAILS),
        ("invariant", {"threshold": 1e-5}, of(1e-6, 0, 0), "mini", HOLDS),
        ("invariant", {"threshold": 1e-5}, of(1e-4, 0, 0), "smoke", FAILS),
        ("invariant", {"threshold": 1e-5}, of(math.nan, 0, 0), "mini", FAILS),
        ("fact", {}, Measured(passed=True), "smoke", HOLDS),
        ("fact", {}, Measured(passed=False), "mini", FAILS),
    ],
)
def test_rules(kind, more, measured, world, expected):
    assert verdict(claim(kind, **more), measured, world) == expected


def test_every_claim_is_listed_once():
    expected = [f"C{n:02d}" for n in range(1, 29)] + [f"X{n}" for n in range(1, 7)]
    assert [c.id for c in CLAIMS] == expected


@pytest.fixture
def evidence(tmp_path) -> Evidence:
    overrides = {"results": str(tmp_path / "results"), "figures": str(tmp_path / "figures")}
    return Evidence(load_config("config/mini.yaml", overrides))


def test_without_results_nothing_is_claimed(evidence):
    table = claims_table(evidence).set_index("id")
    alone = ["C26", "C27"]  # the pure core proves these by itself
    assert (table["verdict"].drop(alone) == NOT_RUN).all()
    assert (table["verdict"][alone] == HOLDS).all()
    assert table["value"]["C26"] == 0.0
    layout = layout_claims(table.reset_index(), ["foot"])
    assert len(layout.cells) == 34 and layout.footer[0].startswith("32 not run, 2 holds")


def test_other_rooms_leave_their_values_in_files(evidence):
    folder = evidence.folder / "claims"
    write_json(folder / "C05.json", {"text": "seen", "value": 0.2, "low": 0.1, "high": 0.3})
    write_json(folder / "X5.json", {"text": "equal bytes", "passed": True})
    table = claims_table(evidence).set_index("id")
    assert table["verdict"][["C05", "X5"]].tolist() == [HOLDS, HOLDS]
    assert table["ours"]["C05"] == "seen" and table["value_low"]["C05"] == 0.1
    write_json(folder / "C05.json", {"text": "seen", "verdict": "holds"})
    with pytest.raises(CastError, match="allowed are text, value, low"):
        claims_table(evidence)


class Planted(Evidence):
    """Evidence whose arms are given instead of read."""

    def __init__(self, config, arms, subset):
        super().__init__(config)
        self.given = {arm.method: arm for arm in arms}
        self.hard_case = subset

    def arm(self, method, backbone=""):
        return self.given[method]


def test_measures_on_planted_arms(evidence, arms, hard_case):
    planted = Planted(evidence.config, arms, hard_case)
    ratio = measures.hard_ratio("flux2")(planted)
    assert ratio.interval is not None and ratio.interval.low > 1.0
    assert "mini-flux2: ratio" in ratio.text
    lead = measures.hard_lead("flow_grpo_g2")(planted)
    assert lead.interval is not None and lead.value == pytest.approx(
        arms[2].by_prompt(prompts=hard_case.prompt_ids).mean()
        - arms[1].by_prompt(prompts=hard_case.prompt_ids).mean()
    )
    assert measures.four_replicates(planted).passed
    assert measures.one_budget(planted).text == "2 methods: 32 images, 2 updates"
    assert measures.frozen_subset(planted).passed is False  # eight prompts, the config says 50
    share = measures.saturated("flux2")(planted)
    means = arms[0].scores[0].groupby(["prompt_id", "generation_seed"])["score"].mean()
    assert share.value == pytest.approx((means >= 0.95).mean())
    better = measures.holds_or_improves(planted)
    assert better.interval is not None and better.interval.low > 0


def test_oracle_and_verifier_agree_for_an_honest_verifier(evidence, arms, hard_case):
    honest = [
        dataclasses.replace(
            arm, scores={s: t.assign(oracle=t["score"]) for s, t in arm.scores.items()}
        )
        for arm in arms
    ]
    found = measures.oracle_gain(Planted(evidence.config, honest, hard_case))
    gain = arms[2].by_prompt().mean() - arms[0].by_prompt().mean()
    assert found.value == pytest.approx(gain)
    agreement = measures.verifier_accuracy(Planted(evidence.config, honest, hard_case))
    assert agreement.value == pytest.approx(1.0)


def test_replay_error_takes_the_worst_run(evidence):
    for method, error in (("flow_grpo_g2", 1e-7), ("cast", 3e-7)):
        folder = evidence.folder / evidence.backbone / method / "seed0"
        folder.mkdir(parents=True)
        pd.DataFrame({"replay_error": [0.0, error]}).to_parquet(folder / "metrics.parquet")
    assert measures.replay_error(evidence).value == 3e-7
