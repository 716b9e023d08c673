"""Figures are functions of their data: right numbers, stable bytes, and refusals."""

import numpy as np
import pandas as pd
import pytest
import torch

from cast.config import load_config
from cast.credit import advantage_map, group_advantages
from cast.errors import CastError
from cast.figures import ITEMS, figure1, figure4, figure5, make
from cast.figures.style import save_figure
from cast.mini.world import render_scene
from cast.scene_graph import load_vocabulary, sample_prompts


@pytest.fixture(scope="module")
def records():
    return list(sample_prompts(load_vocabulary("shapes"), seed=3, n=12))


def metrics(count: int, start: float = 0.5) -> pd.DataFrame:
    steps = np.arange(count)
    return pd.DataFrame(
        {"collection": steps, "score_mean": start + 0.001 * steps, "diversity": 0.2}
    )


def test_dynamics_smooths_and_counts_images():
    rows = figure4.dynamics(
        {("cast", "CAST", 0): (metrics(8), 128), ("sft", "SFT", 0): (metrics(2), 128)}, smooth=4
    )
    own = rows[rows["method"] == "cast"]
    assert own["images"].tolist() == [64, 80, 96, 112, 128]  # 16 each; the first full window is 4
    assert own["score_mean"].iloc[0] == pytest.approx(0.5 + 0.001 * 1.5)
    assert rows[rows["method"] == "sft"]["images"].tolist() == [64, 128]
    with pytest.raises(CastError, match="diversity"):
        figure4.dynamics({("cast", "CAST", 0): (metrics(8).drop(columns="diversity"), 128)})


def test_figure4_has_a_line_a_method_and_a_band_over_seeds(tmp_path):
    rows = figure4.dynamics(
        {
            ("cast", "CAST", 0): (metrics(8), 128),
            ("cast", "CAST", 1): (metrics(8, 0.6), 128),
            ("base", "Other", 0): (metrics(8), 128),
        }
    )
    axis = figure4.figure4(rows, ["foot"]).axes[0]
    assert [line.get_label() for line in axis.lines] == ["CAST", "Other"]
    assert len(axis.collections) == 1
    own = rows[(rows["method"] == "cast") & (rows["images"] == rows["images"].min())]
    drawn = np.asarray(axis.lines[0].get_ydata())
    assert len(own) == 2 and drawn[0] == pytest.approx(own["score_mean"].mean())
    first, second = (
        [p.read_bytes() for p in save_figure(figure4.figure4(rows, ["x"]), tmp_path / n, rows)]
        for n in ("a", "b")
    )
    assert first == second


def test_grid_rows_take_the_image_of_one_seed(arms):
    prompt_ids = ["0" * 15 + "1", "0" * 16]
    rows = figure5.grid_rows(arms, prompt_ids, seed=101)
    assert rows["prompt_id"].tolist() == [prompt_ids[0]] * 3 + [prompt_ids[1]] * 3
    table = arms[2].scores[0]
    own = table[(table["prompt_id"] == prompt_ids[0]) & (table["generation_seed"] == 101)]
    assert rows["score"][2] == pytest.approx(own["score"].mean())


def test_image_grid_marks_the_best_of_each_row(arms):
    rows = figure5.grid_rows(arms, ["0" * 16], seed=100)
    images = [np.full((8, 8, 3), 40 * i, dtype=np.uint8) for i in range(3)]
    figure = figure5.image_grid(rows, images, ["foot"])
    shown = [axis for axis in figure.axes if axis.images]
    weights = [axis.xaxis.label.get_fontweight() for axis in shown]
    assert weights.index("bold") == int(rows["score"].to_numpy().argmax())
    assert weights.count("bold") == 1
    assert [axis.get_title() for axis in shown] == ["Base", "Flow-GRPO (G2)", "CAST"]


def test_columns_hold_the_strongest_supervised_variant(arms, arm):
    import dataclasses

    weak = dataclasses.replace(arm("sft_1_16"), kind="sft")
    strong = dataclasses.replace(arm("cast"), method="sft_3_64", kind="sft")
    order = [a.method for a in figure5._columns([*arms, weak, strong])]
    assert order == ["base", "sft_3_64", "flow_grpo_g2", "cast"]


def example(records, spread: float = 1.0) -> figure1.Example:
    record = next(r for r in records if len(r.atoms) <= 8)
    generator = torch.Generator().manual_seed(0)
    scores = 0.5 + spread * (torch.rand(4, len(record.atoms), generator=generator) - 0.5)
    maps = torch.rand(4, len(record.atoms), 8, 8, generator=generator)
    maps = maps / maps.mean(dim=(2, 3), keepdim=True)
    images = [render_scene(record.graph, np.random.default_rng(i)).image for i in range(4)]
    return figure1.Example(
        record,
        np.stack(images),
        scores,
        maps,
        group_advantages(scores, 1e-6),
        advantage_map("atom_map", scores, maps, (8, 8), 1e-6),
    )


def test_figure1_shows_best_middle_and_worst(records):
    found = example(records)
    means = found.scores.mean(dim=1)
    shown = figure1._shown(means)
    assert shown[0] == int(means.argmax()) and shown[-1] == int(means.argmin())
    figure = figure1.figure1(found, load_vocabulary("shapes"), ["foot"])
    atoms = len(found.record.atoms)
    assert len([axis for axis in figure.axes if axis.images]) == 3 * (atoms + 2)
    assert str(figure._supxlabel.get_text()) == "foot"  # type: ignore[attr-defined]


def test_figure1_rows_are_the_numbers_shown(records):
    found = example(records)
    rows = figure1.example_rows(found)
    assert len(rows) == found.scores.numel()
    row = rows.iloc[len(found.record.atoms) + 1]  # second image, second atom
    assert row["score"] == pytest.approx(float(found.scores[1, 1]))
    assert row["advantage"] == pytest.approx(float(found.advantages[1, 1]))
    heat = found.heatmaps[1, 1]
    assert float(heat[row["peak_row"], row["peak_column"]]) == float(heat.max())


def test_figure1_draws_flat_scores_in_grey(records):
    flat = example(records, spread=0.0)
    assert float(flat.maps.abs().max()) == 0.0
    figure1.figure1(flat, load_vocabulary("shapes"), [])


def test_figure1_chooses_by_rule(records):
    hard = [r.prompt_id for r in records]
    scores = pd.DataFrame(
        [
            {"prompt_id": r.prompt_id, "atom": k, "generation_seed": s, "score": 0.1 * s}
            for r in records
            for k in range(len(r.atoms))
            for s in (1, 2)
        ]
    )
    chosen = figure1.choose_prompt(records, hard, scores)
    most = max(len({a.skill for a in r.atoms}) for r in records if len(r.atoms) <= 8)
    assert len({a.skill for a in chosen.atoms}) == most and len(chosen.atoms) <= 8
    assert chosen == figure1.choose_prompt(records[::-1], hard[::-1], scores)
    with pytest.raises(CastError, match="nothing fits"):
        figure1.choose_prompt(records, [], scores)


def test_unknown_items_and_missing_results_are_refused(tmp_path):
    config = load_config(
        "config/mini.yaml", {"results": str(tmp_path), "figures": str(tmp_path / "f")}
    )
    with pytest.raises(CastError, match="Did you mean 'table1'"):
        make("tabel1", config)
    for item in ITEMS:
        if item not in ("claims", "simulation"):  # these need no results
            with pytest.raises((CastError, FileNotFoundError)):
                make(item, config)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("prompts", "first", "start"), [(50, 0, 0), (50, 6, 6), (8, 6, 2), (2, 6, 0)]
)
def test_a_short_list_shows_its_last_prompts_and_says_which(prompts, first, start):
    names = [str(i) for i in range(prompts)]
    assert figure5.shown_prompts(names, first) == (start, names[start : start + 6])
