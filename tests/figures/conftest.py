"""Planted arms: score tables drawn from a seed, with ledgers and evaluations that match."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from cast.evaluation.hard_case import HardCase
from cast.evaluation.results import Arm

SKILLS = ("object", "count", "attribute", "position", "verb")
GAINS = {"base": 0.0, "flow_grpo_g2": 0.04, "cast": 0.10}
TITLES = {"base": "Base", "flow_grpo_g2": "Flow-GRPO (G2)", "cast": "CAST"}
PHASES = {
    "generation": {"device_s": 90.0, "wall_s": 90.0, "device_kind": "cpu", "device_name": "a CPU"},
    "optimisation": {
        "device_s": 30.0,
        "wall_s": 30.0,
        "device_kind": "cpu",
        "device_name": "a CPU",
    },
}


def planted_scores(method: str, training_seed: int = 0, prompts: int = 24) -> pd.DataFrame:
    """Scores of `prompts` prompts of 3 to 10 atoms under four generation seeds."""
    rng = np.random.default_rng([training_seed, len(method)])
    rows = []
    for number in range(prompts):
        easy = number / prompts  # the hard prompts come first
        for seed in (100, 101, 102, 103):
            for atom in range(3 + number % 8):
                centre = 0.45 + 0.5 * easy + GAINS.get(method, 0.02) * (1 - easy)
                score = float(np.clip(rng.normal(centre, 0.15), 0.0, 1.0))
                rows.append(
                    {
                        "prompt_id": f"{number:016x}",
                        "prompt": f"prompt {number}",
                        "generation_seed": seed,
                        "atom": atom,
                        "skill": SKILLS[atom % 5],
                        "atom_count": 3 + number % 8,
                        "score": score,
                        "score_strict": score,
                        "oracle": float(score > 0.6),
                    }
                )
    return pd.DataFrame(rows)


def planted_arm(method: str, backbone: str = "mini-flux2", seeds: tuple[int, ...] = (0,)) -> Arm:
    seeds = (0,) if method == "base" else seeds
    trained = method != "base"
    ledger = {
        "world": "mini",
        "backbone": backbone,
        "base_sha256": "aa",
        "prompt_ids": ["p1", "p2"],
        "window_starts": [[0, 1], [2, 0]],
        "learning_rates": [1e-4, 2e-4],
        "images": 32,
        "updates": 2,
        "phases": PHASES,
    }
    run = {"world": "mini", "training": {"learning_rate": 2e-4}}
    return Arm(
        backbone=backbone,
        method=method,
        title=TITLES.get(method, method),
        kind="rl" if trained else "base",
        scores={seed: planted_scores(method, seed) for seed in seeds},
        ledgers={s: ledger | {"method": method, "seed": s} for s in seeds} if trained else {},
        runs={s: run | {"method": method} for s in seeds} if trained else {},
        evaluations={
            s: {"world": "mini", "base_sha256": "aa", "generation_seeds": [100, 101, 102, 103]}
            for s in seeds
        },
    )


@pytest.fixture
def arm() -> Callable[..., Arm]:
    return planted_arm


@pytest.fixture
def arms() -> list[Arm]:
    return [planted_arm(method) for method in GAINS]


@pytest.fixture
def hard_case() -> HardCase:
    return HardCase(
        prompt_ids=tuple(f"{number:016x}" for number in range(8)),
        pool=12,
        keep=8,
        selection_seeds=(200, 201),
        evaluation_seeds=(100, 101, 102, 103),
        backbone="mini-flux2",
        base_sha256="aa",
        world="mini",
        settings_sha256="bb",
        selection_mean=0.41,
    )
