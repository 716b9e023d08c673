"""Pointing and mass on maps whose answer is known, and the sweep on the tiny verifier."""

import math

import pandas as pd
import pytest
import torch
from tiny_verifier import random_images, record

from cast.config.sections import HeatmapSection
from cast.errors import CastError
from cast.verifier.agreement import agreement
from cast.verifier.sweep import (
    KEYS,
    MEASURES,
    MaskedScenes,
    atom_regions,
    best_setting,
    layer_sets,
    located,
    mass,
    pointing,
    sweep,
    touched_cells,
)


def scenes(count: int = 2) -> MaskedScenes:
    """Entity 0 in the upper left quarter, entity 1 in the lower right one, 32 px."""
    masks = torch.zeros(count, 2, 32, 32, dtype=torch.bool)
    masks[:, 0, 2:14, 2:14] = True
    masks[:, 1, 20:30, 20:30] = True
    images = (random_images(0, count) * 255).byte().permute(0, 2, 3, 1)
    return MaskedScenes(record(), images, masks)


def test_touched_cells_and_regions():
    cells = touched_cells(scenes().masks, (4, 4))
    assert cells[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0] * 4, [0] * 4]
    regions = atom_regions(cells, record())
    assert torch.equal(regions[:, 2], cells[:, 0]) and torch.equal(regions[:, 5], cells[:, 1])
    assert torch.equal(regions[:, 3], cells[:, 0] | cells[:, 1]), "a relation owns both entities"


def test_a_map_on_the_mask_points_and_a_flat_one_has_the_areas_mass():
    regions = atom_regions(touched_cells(scenes().masks, (4, 4)), record())
    perfect = regions.float()
    assert bool(pointing(perfect, regions).all())
    torch.testing.assert_close(mass(perfect, regions), torch.ones(2, 6))
    assert not bool(pointing(1 - perfect, regions).any())
    flat = torch.ones_like(perfect)
    torch.testing.assert_close(mass(flat, regions), perfect.mean(dim=(-2, -1)))


def test_layer_sets():
    assert len(layer_sets(4)) == 15 and layer_sets(2) == [(0,), (1,), (0, 1)]
    large = layer_sets(36)
    assert len(large) == 36 + 3 + 1 and tuple(range(24, 36)) in large


def entries() -> list[MaskedScenes]:
    """Two groups of scenes of different sizes and contents."""
    return [scenes(2), scenes(3)]


@pytest.mark.parametrize(
    "setting",
    [
        HeatmapSection(layers=(1, 2), heads="mean", row_offset=-1, baseline="none"),
        HeatmapSection(layers=(0,), heads="max", row_offset=0, baseline="neutral"),
    ],
)
def test_a_row_of_the_sweep_is_what_the_verifiers_own_maps_give(verifier, setting):
    table = sweep(verifier, entries())
    assert len(table) == 7 * 2 * 2 * 2 * 4, "layer sets, heads, offsets, baselines, skills"
    counts = {"attribute": [5], "count": [10], "object": [10], "position": [5]}
    assert table.groupby("skill")["atoms"].unique().map(list).to_dict() == counts
    verifier.heatmap = setting
    own = located(verifier, entries())
    assert len(own) == 5 * 6 and own["image"].max() == 2
    key = (setting.layers, setting.heads, setting.row_offset, setting.baseline)
    row = table.set_index(KEYS).loc[[key]].set_index("skill").sort_index()
    means = own.groupby("skill")[MEASURES].mean()
    for name in MEASURES:
        assert row[name].tolist() == pytest.approx(means[name].tolist(), abs=1e-5)
    assert row.loc["position", "area"] == pytest.approx(8 / 16)


def test_best_setting_weighs_skills_alike():
    rows = [
        ((0,), "mean", 0, "none", "object", 90, 1.0, 0.5, 0.2),
        ((0,), "mean", 0, "none", "position", 10, 0.5, 0.5, 0.2),
        ((1,), "max", -1, "neutral", "object", 90, 0.9, 0.5, 0.2),
        ((1,), "max", -1, "neutral", "position", 10, 0.8, 0.5, 0.2),
    ]
    columns = [*KEYS, "skill", "atoms", *MEASURES]
    assert best_setting(pd.DataFrame(rows, columns=columns)) == HeatmapSection(
        layers=(1,), heads="max", row_offset=-1, baseline="neutral"
    )


def test_no_scenes_is_an_error(verifier):
    for function in (sweep, located):
        with pytest.raises(CastError, match="draw at least one"):
            function(verifier, [])


def test_agreement_counts():
    rows = [("object", 0.9, 1), ("object", 0.6, 0), ("count", 0.2, 1), ("count", 0.1, 0)]
    table = pd.DataFrame(rows, columns=["skill", "score_strict", "oracle"])
    result = agreement(table).set_index("skill")
    counts = ["both_yes", "verifier_only", "truth_only", "both_no"]
    assert result.loc["object", counts].tolist() == [1, 1, 0, 0]
    assert result.loc["count", counts].tolist() == [0, 0, 1, 1]
    assert result.loc["all", ["atoms", "agreement"]].tolist() == [4, 0.5]
    assert result.loc["object", ["balanced", "false_yes_rate"]].tolist() == [0.5, 1.0]
    with pytest.raises(CastError, match="only the mini world has it"):
        agreement(table.assign(oracle=float("nan")))


def test_saying_yes_to_everything_is_half_right_at_best():
    table = pd.DataFrame({"kind": "colour", "score_strict": 0.9, "oracle": [1] * 9 + [0]})
    row = agreement(table, by="kind").set_index("kind").loc["colour"]
    assert (row["agreement"], row["balanced"]) == (0.9, 0.5)
    assert math.isnan(agreement(table[:9], by="kind")["balanced"][0])
