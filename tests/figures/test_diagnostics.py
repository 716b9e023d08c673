"""Figures 2, 7 and 8 from planted studies: files, bytes, and the claims that they measure."""

import numpy as np
import pandas as pd
import pytest

from cast.config import load_config
from cast.diagnostics.head_test import SKILLS
from cast.diagnostics.saturation import agreement_table, spread_table
from cast.diagnostics.structure_formation import structure_point
from cast.figures import diagnostic_claims as claims
from cast.figures.figure2 import figure2
from cast.figures.figure7 import Formation, figure7, formation_rows
from cast.figures.figure8 import figure8, sensitivity_rows
from cast.figures.style import save_figure

STEPS = 20


def formation(name: str, rate: float, flat_prompt: bool = False) -> Formation:
    """Exponential rises of eight prompts, and atom scores that follow them."""
    rng = np.random.default_rng(len(name))
    tau = np.arange(STEPS) / STEPS
    rise = 1 - np.exp(-rate * tau)
    curves, atoms = [], []
    for number in range(8):
        own = {"prompt_id": f"p{number}", "seed": 0}
        image = 0.3 + 0.7 * rise + rng.normal(0, 0.005, STEPS)
        prompt = 0.2 - 0.1 * rise if flat_prompt else 0.2 + 0.1 * rise
        table = pd.DataFrame({"step": range(STEPS), "tau": tau, "image_similarity": image})
        curves.append(table.assign(**own, prompt_similarity=prompt, sigma=1 - tau))
        for skill in ("object", "position"):
            atoms.append(pd.DataFrame({"tau": tau, "score": rise}).assign(skill=skill, **own))
    table = pd.concat(curves, ignore_index=True)
    knees = {
        "image": structure_point(table, "image", 100),
        "prompt": None if flat_prompt else structure_point(table, "prompt", 100),
    }
    film = rng.integers(0, 256, (STEPS, 8, 8, 3)).astype(np.uint8)
    return Formation(name, table, pd.concat(atoms, ignore_index=True), knees, "image", film)


def heads(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        {"skill": skill, "step": step, "head": block * 4 + head, "block": block, "in_block": head}
        for skill in SKILLS
        for step in (1, 8)
        for block in range(5)
        for head in range(4)
    ]
    z = rng.normal(0, 1, len(rows))
    return pd.DataFrame(rows).assign(z=z, p=0.5, reported=z > 2, judge="verifier")


def saturated_images() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = [
        {"backbone": name, "prompt_id": f"p{p}", "seed": seed}
        for name in ("one", "two")
        for p in range(20)
        for seed in range(3)
    ]
    return pd.DataFrame(rows).assign(
        preference=rng.normal(0.9, 0.04, len(rows)),
        atoms=rng.uniform(0.3, 1.0, len(rows)),
        preference_resolution=0.0,
        atom_resolution=0.0,
    )


def test_figure7_says_where_each_backbone_bends_and_what_has_no_rise(tmp_path):
    made = [formation("mini-flux2", 12.0), formation("other", 20.0, flat_prompt=True)]
    rows = formation_rows(made, {"mini-flux2": 0, "other": 0})
    first = save_figure(figure7(made, ["foot"]), tmp_path / "a", rows)
    second = save_figure(figure7(made, ["foot"]), tmp_path / "b", rows)
    assert [f.read_bytes() for f in first] == [f.read_bytes() for f in second]
    image = rows[rows["similarity"] == "image"].set_index("backbone")
    assert image["tau_star"]["other"] < image["tau_star"]["mini-flux2"]
    assert rows["tau_star"].isna().sum() == 1  # the falling prompt similarity of the other

    times = claims.layout_times(made, rows, load_config("config/mini.yaml"))
    assert times.value == pytest.approx(image["tau_star"]["mini-flux2"])
    ranges = claims.candidate_ranges(rows, "image")
    assert ranges.passed and "tau* 0.21 gives [0, 11)" in ranges.text
    layout = claims.layout_at_tau(made, "image")
    assert layout.low is not None and layout.low > 0  # by the knee most of the rise is there


def test_layout_without_a_rise_has_no_value():
    one = formation("mini-flux2", 12.0)
    flat = Formation(
        one.backbone, one.curves, one.atoms.assign(score=0.5), one.knees, "image", one.film
    )
    assert claims.layout_at_tau([flat], "image").value is None


def test_figure2_and_its_claims(tmp_path):
    images = saturated_images()
    spreads, (agreements, pooled) = spread_table(images), agreement_table(images)
    files = save_figure(figure2(images, spreads, agreements, []), tmp_path / "f", spreads)
    assert all(file.stat().st_size > 0 for file in files)
    assert claims.saturated(spreads).value == pytest.approx(0.04 / 0.9, rel=0.2)
    gap = claims.wider(images, spreads)
    assert gap.low is not None and gap.low > 0 and "one" in gap.text
    agreeing = claims.agreeing(agreements, pooled)
    assert agreeing.low is not None and agreeing.high is not None
    assert agreeing.low < 0.5 < agreeing.high


def test_figure8_and_its_claims(tmp_path):
    tables = {"mini-flux2": heads(0), "other": heads(1)}
    rows = sensitivity_rows(tables)
    assert len(rows) == 2 * len(SKILLS) * 2 and rows["heads"].unique().tolist() == [20]
    files = save_figure(figure8(tables, 0.2, ["foot"]), tmp_path / "f", rows)
    assert all(file.stat().st_size > 0 for file in files)
    overlap = claims.overlapping(tables, 0.2)
    assert overlap.low is not None and overlap.low <= 0  # random heads: no more than chance
    by_prompt = pd.DataFrame(
        [
            {"prompt_id": f"p{p}", "skill": skill, "step": step, "z": z + 0.01 * p}
            for p in range(6)
            for skill, early in (("position", 2.0), ("attribute", 0.0))
            for step, z in ((1, early), (8, 2.0 - early))
        ]
    )
    moved = claims.shift_in_time({"mini-flux2": by_prompt})
    assert moved.value == pytest.approx(2.0) and moved.low is not None and moved.low > 0
    silent = {"mini-flux2": by_prompt.head(2)}
    assert claims.shift_in_time(silent).value is None
