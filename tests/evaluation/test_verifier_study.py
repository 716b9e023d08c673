"""Tables of how far the verifier can be trusted: closed forms, and real images where none are."""

import pandas as pd
import pytest

from cast.config import CastConfig, load_config
from cast.evaluation.folders import BASE, arm_folder, benchmark
from cast.evaluation.verifier_study import accuracy_table, agreement_table, base_scores
from cast.io import write_parquet

BACKBONE = "mini-flux2"


@pytest.fixture
def config(tmp_path) -> CastConfig:
    study = {"generated": 2}
    overrides = {"results": str(tmp_path), "diagnostics": {"verifier": study}}
    return load_config("config/smoke.yaml", overrides | {"evaluation": {"batch": 2}})


def test_a_judge_that_always_says_yes_stands_beside_the_oracle():
    answers = pd.DataFrame(
        {"kind": ["colour"] * 4, "score_strict": 0.9, "truth": [1, 1, 1, 0], "oracle": [1, 1, 1, 0]}
    )
    table = accuracy_table(answers).set_index(["kind", "judge"])
    assert table.loc[("colour", "verifier"), ["agreement", "balanced"]].tolist() == [0.75, 0.5]
    assert table.loc[("colour", "oracle"), ["agreement", "balanced"]].tolist() == [1.0, 1.0]
    assert table.loc[("all", "verifier"), "verifier_only"] == 1


def test_stored_scores_are_read_and_get_their_kinds(config):
    record = next(r for r in benchmark(config) if any(a.skill == "attribute" for a in r.atoms))
    stored = pd.DataFrame(
        {
            "prompt_id": record.prompt_id,
            "generation_seed": 100,
            "atom": range(len(record.atoms)),
            "skill": [atom.skill for atom in record.atoms],
            "score_strict": 0.2,
            "oracle": 1.0,
        }
    )
    write_parquet(arm_folder(config, BACKBONE, BASE, 0) / "scores.parquet", stored)
    found = base_scores(config, BACKBONE)
    pd.testing.assert_frame_equal(found.drop(columns="kind"), stored)
    words = {"colour", "texture"}
    assert [k in words for k in found["kind"]] == [s == "attribute" for s in found["skill"]]
    table = agreement_table({BACKBONE: found}).set_index(["backbone", "kind"])
    assert table.loc[(BACKBONE, "all"), ["atoms", "truth_only"]].tolist() == [len(stored)] * 2


def test_a_backbone_that_was_not_evaluated_draws_a_stated_number(config):
    found = base_scores(config, BACKBONE)
    assert found["prompt_id"].nunique() == 2 and found["generation_seed"].nunique() == 1
    assert found["oracle"].isin([0.0, 1.0]).all()
