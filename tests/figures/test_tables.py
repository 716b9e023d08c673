"""Tables 1 to 3: numbers against the aggregates they come from, refusals, and stable bytes."""

import dataclasses

import numpy as np
import pytest

from cast.config import CastConfig
from cast.errors import CastError
from cast.evaluation.replicates import difference
from cast.figures.numbers import DASH, bracketed, plain, plus_minus, signed
from cast.figures.table1 import layout1, table1
from cast.figures.table2 import layout2, table2
from cast.figures.table3 import layout3, table3
from cast.figures.typesetting import Layout, write_table


@pytest.fixture
def rows(arms, hard_case):
    return table1(arms, hard_case)


def test_numbers_are_the_aggregates_of_the_scores(rows, arms, hard_case):
    base, cast = arms[0].scores[0], arms[2].scores[0]
    row = rows.set_index("method").loc["cast"]
    images = cast.groupby(["generation_seed", "prompt_id"])["score"].mean()
    by_seed = images.groupby("generation_seed").mean()
    assert row["overall_mean"] == pytest.approx(by_seed.mean())
    assert row["overall_sd"] == pytest.approx(by_seed.std(ddof=1))
    hard = images[images.index.get_level_values("prompt_id").isin(hard_case.prompt_ids)]
    assert row["hard_mean"] == pytest.approx(hard.groupby("generation_seed").mean().mean())
    objects = cast[cast["skill"] == "object"].groupby("generation_seed")["score"].mean()
    assert row["object_mean"] == pytest.approx(objects.mean())
    change = (
        images.groupby("prompt_id").mean()
        - base.groupby(["generation_seed", "prompt_id"])["score"].mean().groupby("prompt_id").mean()
    )
    assert row["gain"] == pytest.approx(change.mean())
    gains = change[list(hard_case.prompt_ids)]
    assert row["hard_gain"] == pytest.approx(gains.mean())
    expected = difference(gains, gains * 0)
    bounds = (row["hard_gain_low"], row["hard_gain_high"])
    assert bounds == pytest.approx((expected.low, expected.high))


def test_ratio_is_of_the_two_gains(rows):
    by = rows.set_index("method")["hard_gain"]
    ratio = rows.set_index("method")["hard_gain_ratio"]
    assert ratio["cast"] == pytest.approx(by["cast"] / by["flow_grpo_g2"])
    assert ratio[["base", "flow_grpo_g2"]].isna().all()


def test_the_oracle_stands_beside_the_verifier(rows, arms, hard_case):
    assert rows["oracle_mean"].notna().all()
    blind = [
        dataclasses.replace(arm, scores={s: t.assign(oracle=np.nan) for s, t in arm.scores.items()})
        for arm in arms
    ]
    without = table1(blind, hard_case)
    assert without["oracle_mean"].isna().all() and without["oracle_gain"].isna().all()
    assert "by the oracle" not in str(layout1(without, []).spans)


def test_a_loss_by_the_oracle_is_said(arms, hard_case):
    worse = {0: arms[2].scores[0].assign(oracle=0.0)}
    rows = table1([*arms[:2], dataclasses.replace(arms[2], scores=worse)], hard_case)
    said = [line for line in layout1(rows, []).footer if "by the oracle" in line]
    assert len(said) == 1 and said[0].startswith("CAST loses overall by the oracle, −0.")


def test_training_seeds_are_averaged_and_their_spread_shown(arm, hard_case):
    arms = [arm(method, seeds=(0, 1, 2)) for method in ("base", "flow_grpo_g2", "cast")]
    rows = table1(arms, hard_case).set_index("method")
    singles = [arm("cast", seeds=(s,)).overall_by_training_seed()[s] for s in (0, 1, 2)]
    assert rows["overall_mean"]["cast"] == pytest.approx(np.mean(singles))
    assert rows["training_seed_sd"]["cast"] == pytest.approx(np.std(singles, ddof=1))
    assert np.isnan(rows["training_seed_sd"]["base"])
    assert "sd over training seeds" in str(layout1(rows.reset_index(), []).spans)


def test_best_value_is_bold_and_the_selecting_seed_is_said(rows):
    layout = layout1(rows, ["foot"])
    best = {row for row, column in layout.bold if column == 1}
    assert best == {2} and rows["overall_mean"].idxmax() == 2
    assert any("On the choosing seeds the base scores 0.410" in line for line in layout.footer)
    assert layout.footer[-1] == "foot"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("images", 48, "images is 48 for cast and 32 for flow_grpo_g2"),
        ("world", "paper", "world is 'paper' for cast and 'mini'"),
        ("base_sha256", "cc", "base_sha256 is 'cc' for cast and 'aa'"),
    ],
)
def test_unequal_ledgers_are_refused(arms, hard_case, key, value, words):
    ledgers = {0: dict(arms[2].ledgers[0]) | {key: value}}
    with pytest.raises(CastError, match=words):
        table1([*arms[:2], dataclasses.replace(arms[2], ledgers=ledgers)], hard_case)


def test_backbones_with_unequal_budgets_are_refused(arms, arm, hard_case):
    """Two backbones differ in base model and windows, and may; not in images and updates."""
    other = [arm(method, backbone="mini-qwen-image") for method in ("base", "cast")]
    assert len(table1([*arms, *other], hard_case)) == 5
    ledgers = {0: dict(other[1].ledgers[0]) | {"images": 64}}
    mixed = [*arms, other[0], dataclasses.replace(other[1], ledgers=ledgers)]
    with pytest.raises(CastError, match=r"images is 32 for mini-flux2 .* and 64 for mini-qwen"):
        table1(mixed, hard_case)


def test_missing_base_and_missing_prompts_are_refused(arms, hard_case):
    with pytest.raises(CastError, match="there is no arm 'base'"):
        table1(arms[1:], hard_case)
    other = hard_case.model_copy(update={"prompt_ids": ("f" * 16,)})
    with pytest.raises(CastError, match="were not scored"):
        table1(arms, other)


def test_files_are_stable_and_escaped(rows, tmp_path):
    layout = layout1(rows, ["config_name #1 50% *not bold*"])
    first = [p.read_bytes() for p in write_table(layout, rows, tmp_path / "a")]
    second = [p.read_bytes() for p in write_table(layout, rows, tmp_path / "b")]
    assert first == second
    assert [len(content) > 500 for content in first] == [True] * 4
    assert b"time" not in first[3] and b"hour" not in first[3]  # a resumed run gives the same csv
    assert first[2].decode().count(r"\textbf") == len(layout.bold)


def test_any_text_can_be_typeset(tmp_path):
    nasty = "a_b #x $y$ *z* <w> @v [u] `t` ~s \\ / =r"
    layout = Layout(nasty, [nasty, "2"], [[nasty, nasty]], footer=[nasty])
    assert write_table(layout, _empty(), tmp_path / "nasty")[0].stat().st_size > 500


def _empty():
    import pandas as pd

    return pd.DataFrame({"x": [1.0]})


def test_table2_shows_what_cast_leads_by(arm, hard_case):
    arms = [arm(method) for method in ("base", *CastConfig().ablations)]
    table = table2(arms, hard_case).set_index("method")
    lead = table["hard_mean"]["cast"] - table["hard_mean"]["shuffled_map"]
    assert table["cast_over"]["shuffled_map"] == pytest.approx(lead)
    assert np.isnan(table["cast_over"]["cast"])
    layout = layout2(table.reset_index(), [])
    assert [row[1:3] for row in layout.cells] == [
        ["–", "–"],
        ["image", "none"],
        ["atom", "none"],
        ["image", "mean map"],
        ["atom", "another atom's map"],
        ["atom", "own map"],
    ]


def test_table3_adds_hours_by_phase(arms):
    table = table3(arms).set_index("method")
    assert table["generation"]["cast"] == pytest.approx(90 / 3600)
    assert table["attention"]["cast"] == 0.0
    assert table["total"]["cast"] == pytest.approx(120 / 3600)
    assert table["relative"]["cast"] == pytest.approx(1.0)
    assert set(table["unit"]) == {"core-hours"}
    assert layout3(table.reset_index(), []).cells[0][2:4] == ["32", "2"]


def test_table3_never_mixes_core_and_gpu_hours(arms):
    phases = {"generation": {"device_s": 1.0, "device_kind": "gpu", "device_name": "a GPU"}}
    ledgers = {0: dict(arms[2].ledgers[0]) | {"phases": phases}}
    with pytest.raises(CastError, match="in core-hours and cast in GPU-hours"):
        table3([*arms[:2], dataclasses.replace(arms[2], ledgers=ledgers)])
    mixed = dict(arms[2].ledgers[0]["phases"]) | {"scoring": phases["generation"]}
    ledgers = {0: dict(arms[2].ledgers[0]) | {"phases": mixed}}
    with pytest.raises(CastError, match=r"count \['cpu', 'gpu'\]"):
        table3([*arms[:2], dataclasses.replace(arms[2], ledgers=ledgers)])
    with pytest.raises(CastError, match="no arm was trained"):
        table3(arms[:1])


def test_numbers_in_words():
    nan = float("nan")
    assert plus_minus(0.6123, 0.0111) == "0.612 ± 0.011"
    assert plus_minus(0.6123, nan) == "0.612" and plus_minus(nan, nan) == DASH
    assert plain(-0.5, 1) == "−0.5" and plain(nan) == DASH
    row = {"x": 0.042, "x_low": -0.011, "x_high": 0.075}
    assert bracketed(row, "x") == "+0.042 [−0.011, +0.075]"
    assert bracketed({"x": nan, "x_low": nan, "x_high": nan}, "x") == DASH


def test_a_zero_that_only_rounding_made_has_no_sign():
    assert [signed(x, "+.3f") for x in (-0.0004, 0.0004, -0.0, -0.042, 0.042)] == [
        "0.000",
        "0.000",
        "0.000",
        "−0.042",
        "+0.042",
    ]
    assert [signed(x, "+.1%") for x in (0.062, -0.0001)] == ["+6.2%", "0.0%"]


def test_values_that_look_the_same_are_bold_together(rows):
    tied = rows.copy()
    tied["overall_mean"] = [0.77404, 0.7741, 0.4]
    assert {row for row, column in layout1(tied, []).bold if column == 1} == {0, 1}
