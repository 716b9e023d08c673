"""Verdicts follow from intervals by the stated rule, and evidence is never made up."""

import dataclasses
import math

import pandas as pd
import pytest
from pydantic import ValidationError

from cast.config import load_config
from cast.errors import CastError
from cast.evaluation.replicates import Interval
from cast.evidence import Measured, evidence_file, write_evidence
from cast.figures.claims import (
    CLAIMS,
    Evidence,
    claims_table,
    facts,
    layout_claims,
    measures,
    record,
)
from cast.figures.claims.rules import (
    FAILS,
    FULL_SIZE,
    HOLDS,
    NOT_RUN,
    UNDECIDED,
    Claim,
    NotRun,
    verdict,
)
from cast.io import write_json


def claim(kind, **more) -> Claim:
    return Claim("C99", "0", "a claim", "a value", kind, "a command", **more)


def of(value, low, high) -> Measured:
    return measures.of_interval("", Interval(float(value), float(low), float(high)))


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
        ("number", {"paper_number": 1.93}, of(math.nan, math.nan, math.nan), "paper", UNDECIDED),
        ("invariant", {"threshold": 1e-5}, of(1e-6, 0, 0), "mini", HOLDS),
        ("invariant", {"threshold": 1e-5}, of(1e-4, 0, 0), "smoke", FAILS),
        ("invariant", {"threshold": 1e-5}, of(math.nan, 0, 0), "mini", FAILS),
        ("fact", {}, Measured(text="", passed=True), "smoke", HOLDS),
        ("fact", {}, Measured(text="", passed=False), "mini", FAILS),
        ("fact", {}, Measured(text="needs two GPUs"), "paper", UNDECIDED),
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
    missing = record(evidence)
    table = claims_table(evidence.config, missing).set_index("id")
    assert (table["verdict"] == NOT_RUN).all() and table["value"].isna().all()
    assert table["ours"]["C10"] == "mini-flux2/base/seed0 isn't evaluated"
    assert table["ours"]["C11"] == "no qwen backbone in this config"
    assert table["ours"]["X1"] == "its step has not run here"
    layout = layout_claims(table.reset_index(), ["foot"])
    assert len(layout.cells) == 34 and layout.footer[0].startswith("34 not run")


def test_other_rooms_leave_their_values_in_files(evidence):
    config = evidence.config
    write_evidence(config, "C05", Measured(text="seen", value=0.2, low=0.1, high=0.3))
    write_evidence(config, "X5", Measured(text="equal bytes", passed=True))
    table = claims_table(config, {}).set_index("id")
    assert table["verdict"][["C05", "X5"]].tolist() == [HOLDS, HOLDS]
    assert table["ours"]["C05"] == "seen" and table["value_low"]["C05"] == 0.1
    write_json(evidence_file(config, "C05"), {"text": "seen", "verdict": "holds"})
    with pytest.raises(CastError, match=r"C05.json: verdict: .*allowed are text, value, low"):
        claims_table(config, {})


def test_evidence_whose_results_are_gone_is_removed(evidence):
    """A claim that can't be measured any more doesn't keep its old value."""
    path = write_evidence(
        evidence.config, "C12", Measured(text="old", value=1.0, low=1.0, high=1.0)
    )
    assert "C12" in record(evidence) and not path.exists()


@pytest.mark.parametrize(
    "bad", [{"value": 1.0, "low": 0.0}, {"low": 0.0, "high": 1.0}, {"value": 1.0, "passed": True}]
)
def test_half_an_interval_is_no_evidence(bad):
    with pytest.raises(ValidationError):
        Measured(text="", **bad)


class Planted(Evidence):
    """Evidence whose arms are given instead of read."""

    def __init__(self, config, arms, subset):
        names = [arm.method for arm in arms if arm.method != "base"]
        super().__init__(config.model_copy(update={"methods": tuple(names), "ablations": ()}))
        self.given = {arm.method: arm for arm in arms}
        self.hard_case = subset

    def arm(self, method, backbone=""):
        if method not in self.given:
            raise NotRun(f"{method} isn't evaluated")
        return self.given[method]


def test_measures_on_planted_arms(evidence, arms, hard_case):
    planted = Planted(evidence.config, arms, hard_case)
    ratio = measures.hard_ratio("flux2")(planted)
    assert ratio.low is not None and ratio.low > 1.0
    assert "mini-flux2: ratio" in ratio.text
    lead = measures.hard_lead("flow_grpo_g2")(planted)
    assert lead.value == pytest.approx(
        arms[2].by_prompt(prompts=hard_case.prompt_ids).mean()
        - arms[1].by_prompt(prompts=hard_case.prompt_ids).mean()
    )
    assert facts.four_replicates(planted).passed
    assert facts.one_budget(planted).text == "2 arms: 32 images, 2 updates"
    assert facts.frozen_subset(planted).passed is False  # eight prompts, the config says 50
    share = measures.saturated("flux2")(planted)
    means = arms[0].scores[0].groupby(["prompt_id", "generation_seed"])["score"].mean()
    assert share.value == pytest.approx((means >= 0.95).mean())
    better = measures.holds_or_improves(planted)
    assert better.low is not None and better.low > 0


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
    assert "judges agree on 100.0% before" in found.text


def test_the_worst_backbone_decides(evidence, arms, hard_case):
    """Both backbones must be led; the words name both."""
    lost = [dataclasses.replace(a, scores={0: arms[0].scores[0]}) for a in arms]

    class Two(Planted):
        def arm(self, method, backbone=""):
            return {a.method: a for a in (lost if backbone == "mini-sd3" else arms)}[method]

    planted = Two(evidence.config, arms, hard_case)
    planted.config = planted.config.model_copy(update={"backbones": ("mini-flux2", "mini-sd3")})
    found = measures.hard_lead("flow_grpo_g2", everywhere=True)(planted)
    assert found.value == 0.0 and found.text.count("CAST over Flow-GRPO (G2)") == 2
    alone = measures.hard_lead("flow_grpo_g2")(planted)
    assert alone.low is not None and alone.low > 0


def test_training_seeds_are_said_beside_the_interval(arm, hard_case):
    one, three = arm("cast"), arm("cast", seeds=(0, 1, 2))
    base, hard = arm("base"), hard_case.prompt_ids
    assert "training seeds" not in measures.lead(one, base, hard)
    leads = [
        v - base.overall_by_training_seed(prompts=hard)[0]
        for v in three.overall_by_training_seed(prompts=hard).values()
    ]
    expected = f"(training seeds {min(leads):.3f} to {max(leads):.3f})"
    assert measures.lead(three, base, hard).endswith(expected)


def test_replay_error_takes_the_worst_run(evidence):
    evidence.config = evidence.config.model_copy(
        update={"methods": ("sft_1_16", "flow_grpo_g2", "cast"), "ablations": ()}
    )
    for method, error in (("flow_grpo_g2", 1e-7), ("cast", 3e-7)):
        folder = evidence.folder / evidence.backbone / method / "seed0"
        folder.mkdir(parents=True)
        pd.DataFrame({"replay_error": [0.0, error]}).to_parquet(folder / "metrics.parquet")
    assert facts.replay_error(evidence).value == 3e-7
