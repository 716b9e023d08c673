"""Planted mismatches are refused with both values named."""

import copy
from typing import Any

import pytest

from cast.errors import CastError
from cast.evaluation.budget import check_budgets, differences

LEDGER: dict[str, Any] = {
    "world": "mini",
    "config_hash": "differs by method",
    "backbone": "mini-flux2",
    "base_sha256": "aa",
    "method": "cast",
    "seed": 0,
    "prompt_ids": ["p1", "p2", "p3"],
    "window_starts": [[0, 1], [2, 0], [1, 1]],
    "images": 6,
    "updates": 3,
    "learning_rates": [1e-4, 2e-4, 3e-4],
    "phases": {},
}
RUN: dict[str, Any] = {
    "world": "mini",
    "method": {"name": "cast"},
    "training": {"learning_rate": 3e-4, "kl": 0.0},
}


def pair(**changes):
    other = copy.deepcopy(LEDGER) | {"method": "flow_grpo_g2", "phases": {"generation": 3.0}}
    return {"cast": copy.deepcopy(LEDGER), "flow_grpo_g2": other | changes}


def test_equal_budgets_pass_whatever_they_cost():
    check_budgets(pair(config_hash="another"), {"cast": RUN, "flow_grpo_g2": RUN})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": 8}, "images is 6 for cast and 8 for flow_grpo_g2"),
        ({"updates": 4}, "updates is 3 for cast and 4"),
        (
            {"learning_rates": [1e-4, 2e-4, 4e-4]},
            r"learning_rates\[2\] is 0.0003 for cast and 0.0004",
        ),
        ({"world": "smoke"}, "world is 'mini' for cast and 'smoke'"),
        ({"backbone": "mini-sd3"}, "backbone is 'mini-flux2'"),
        ({"base_sha256": "bb"}, "base_sha256 is 'aa' for cast and 'bb'"),
        ({"seed": 1}, "seed is 0 for cast and 1"),
        ({"prompt_ids": ["p1", "p3", "p2"]}, r"prompt_ids\[1\] is 'p2' for cast and 'p3'"),
        ({"prompt_ids": ["p1"]}, "number of prompt_ids is 3 for cast and 1"),
        (
            {"window_starts": [[0, 1], [2, 0], [1, 2]]},
            r"window_starts\[2\] is \[1, 1\] for cast and \[1, 2\]",
        ),
    ],
)
def test_mismatches_name_both_values(changes, words):
    with pytest.raises(CastError, match=words):
        check_budgets(pair(**changes))


def test_settings_may_differ_in_the_method_only():
    changed: dict[str, Any] = copy.deepcopy(RUN) | {"method": {"name": "flow_grpo_g2"}}
    check_budgets(pair(), {"cast": RUN, "flow_grpo_g2": changed})
    changed["training"] = {"learning_rate": 1e-3, "kl": 0.0}
    with pytest.raises(CastError, match=r"training.learning_rate is 0.0003 for cast and 0.001"):
        check_budgets(pair(), {"cast": RUN, "flow_grpo_g2": changed})


def test_supervised_arms_share_budget_and_first_prompts():
    def check(**changes):
        check_budgets(pair(**changes), kinds={"flow_grpo_g2": "sft"})

    check(prompt_ids=["p1"], window_starts=[])
    with pytest.raises(CastError, match="images is 6"):
        check(prompt_ids=["p1"], window_starts=[], images=5)
    with pytest.raises(CastError, match=r"prompt_ids\[0\] is 'p2' for flow_grpo_g2 and 'p1'"):
        check(prompt_ids=["p2"], window_starts=[])


def test_missing_keys_and_unfinished_runs_are_refused():
    broken = pair()
    del broken["cast"]["images"]
    with pytest.raises(CastError, match="cast: its ledger has no 'images'"):
        check_budgets(broken)
    short = {
        name: ledger | {"images": 6, "window_starts": [[0, 1]]} for name, ledger in broken.items()
    }
    with pytest.raises(CastError, match="3 collections and 1 windows"):
        check_budgets(short)


def test_differences_walks_nested_values():
    found = list(differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 2}, "d": 2}))
    assert found == [("a.b", 1, 2), ("c", 2, "absent"), ("d", "absent", 2)]
