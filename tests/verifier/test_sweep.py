"""Pointing and mass on maps whose answer is known, and the sweep on the tiny verifier."""

import pandas as pd
import pytest
import torch
from tiny_verifier import random_images, record

from cast.config.sections import HeatmapSection
from cast.errors import CastError
from cast.verifier.agreement import agreement
from cast.verifier.sweep import (
    MaskedScenes,
    atom_regions,
    best_setting,
    layer_sets,
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


def test_sweep_agrees_with_the_verifiers_own_maps(verifier):
    table = sweep(verifier, [scenes()])
    assert len(table) == 7 * 2 * 2 * 4, "layer sets, offsets, baselines, skills"
    assert table.groupby("skill")["atoms"].unique().map(list).to_dict() == {
        "attribute": [2],
        "count": [4],
        "object": [4],
        "position": [2],
    }
    verifier.heatmap = HeatmapSection(layers=(1, 2), row_offset=-1, baseline="none")
    entry = scenes()
    maps = verifier.heatmaps(entry.images.permute(0, 3, 1, 2) / 255.0, entry.record, (4, 4))
    regions = atom_regions(touched_cells(entry.masks, (4, 4)), entry.record)
    chosen = table[
        (table["layers"] == (1, 2)) & (table["row_offset"] == -1) & (table["baseline"] == "none")
    ].set_index("skill")
    assert chosen.loc["position", "mass"] == pytest.approx(
        float(mass(maps, regions)[:, 3].mean()), abs=1e-5
    )
    assert chosen.loc["position", "area"] == pytest.approx(8 / 16)


def test_best_setting_weighs_skills_alike():
    rows = [
        ((0,), 0, "none", "object", 90, 1.0, 0.5, 0.2),
        ((0,), 0, "none", "position", 10, 0.5, 0.5, 0.2),
        ((1,), -1, "neutral", "object", 90, 0.9, 0.5, 0.2),
        ((1,), -1, "neutral", "position", 10, 0.8, 0.5, 0.2),
    ]
    columns = ["layers", "row_offset", "baseline", "skill", "atoms", "pointing", "mass", "area"]
    assert best_setting(pd.DataFrame(rows, columns=columns)) == HeatmapSection(
        layers=(1,), row_offset=-1, baseline="neutral"
    )


def test_no_scenes_is_an_error(verifier):
    with pytest.raises(CastError, match="draw at least one"):
        sweep(verifier, [])
    verifier.heatmap = HeatmapSection(baseline="none")
    with pytest.raises(CastError, match="baseline: neutral"):
        sweep(verifier, [scenes()])


def test_agreement_counts():
    rows = [("object", 0.9, 1), ("object", 0.6, 0), ("count", 0.2, 1), ("count", 0.1, 0)]
    table = pd.DataFrame(rows, columns=["skill", "score_strict", "oracle"])
    result = agreement(table).set_index("skill")
    counts = ["both_yes", "verifier_only", "truth_only", "both_no"]
    assert result.loc["object", counts].tolist() == [1, 1, 0, 0]
    assert result.loc["count", counts].tolist() == [0, 0, 1, 1]
    assert result.loc["all", ["atoms", "agreement"]].tolist() == [4, 0.5]
    with pytest.raises(CastError, match="only the mini world has it"):
        agreement(table.assign(oracle=float("nan")))
