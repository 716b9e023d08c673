"""The studies on a tiny pipeline: what they cost, how they resume, what they write and refuse."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_study import STEPS, records

from cast.backbones import Backbone
from cast.diagnostics import structure_formation
from cast.diagnostics.__main__ import main
from cast.diagnostics.head_sensitivity import head_study, shift_by_step
from cast.diagnostics.saturation import agreement_table, read_saturation, saturation_study
from cast.diagnostics.structure_formation import (
    layout_share,
    measure_window,
    read_film,
    structure_study,
)
from cast.diagnostics.studies import only, run_missing, study_file, study_folder, with_prompts
from cast.errors import CastError
from cast.evaluation.generation import sample_prompt
from cast.io import read_json

NAME = "mini-flux2"


class Counting:
    """Counts a backbone's transformer passes and decoded images, and can end a study midway."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, passes: int = 10**9) -> None:
        self.passes, self.decoded, self.largest = 0, 0, 0
        velocity, decode = Backbone.velocity, Backbone.decode

        def counted_velocity(backbone: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
            self.passes += 1
            if self.passes > passes:
                raise KeyboardInterrupt
            return velocity(backbone, x, *rest)

        def counted_decode(backbone: Any, latents: torch.Tensor) -> torch.Tensor:
            self.decoded += len(latents)
            self.largest = max(self.largest, len(latents))
            return decode(backbone, latents)

        monkeypatch.setattr(Backbone, "velocity", counted_velocity)
        monkeypatch.setattr(Backbone, "decode", counted_decode)


def test_a_killed_structure_study_goes_on_and_costs_n_passes_an_image(config, monkeypatch):
    with monkeypatch.context() as patch:
        counting = Counting(patch, passes=STEPS + 2)  # ends within the second prompt
        with pytest.raises(KeyboardInterrupt):
            structure_study(config, NAME, 0)
    assert not study_file(config, NAME, "structure", 0).exists()
    counting = Counting(monkeypatch)
    table = structure_study(config, NAME, 0)
    assert counting.passes == counting.decoded == 2 * STEPS  # the first prompt was done
    assert counting.largest <= config.diagnostics.batch
    assert structure_study(config, NAME, 0).equals(table) and counting.passes == 2 * STEPS

    assert len(table) == 3 * STEPS and table["tau"].max() == (STEPS - 1) / STEPS
    last = table[table["step"] == STEPS - 1]
    np.testing.assert_allclose(last["image_similarity"], 1.0, atol=1e-6)
    atoms = pd.read_parquet(study_folder(config, NAME, "structure", 0) / "atoms.parquet")
    assert sorted(atoms["step"].unique()) == [0, 2, 4, 5] and atoms["oracle"].isna().all()


def test_the_last_estimate_is_the_image_that_evaluation_draws(config):
    backbone = structure_formation._Bench(config, NAME, records()).backbone
    sigmas = backbone.sigmas(STEPS)
    found = structure_formation.decoded_estimates(backbone, records()[0], 7, sigmas, 4)
    drawn = sample_prompt(backbone, records()[0], [7], STEPS, 1)
    # Decoded in another batch size, a pixel may round the other way.
    assert np.abs(found[-1].astype(int) - drawn[0].astype(int)).max() <= 1


def test_the_window_names_what_it_holds_for(config, monkeypatch):
    rising = 1 - np.exp(-6 * np.arange(STEPS) / STEPS)
    table = structure_study(config, NAME, 0)
    monkeypatch.setattr(
        structure_formation, "curves_of", lambda *_: np.stack([rising, 0.9 * rising, 1.1 * rising])
    )
    window = measure_window(config, NAME)
    path = study_folder(config, NAME, "structure", 0).parents[1] / "window.json"
    written = read_json(path)
    assert written["backbone"] == NAME and written["steps"] == STEPS
    assert written["sigmas"][0] == 1.0 and written["sigmas"][-1] == 0.0
    assert written["sigmas"][:-1] == table["sigma"][:STEPS].tolist()
    assert window.high == int(np.ceil(round(window.tau_star * STEPS, 9)))
    assert read_film(config, NAME).shape[0] == STEPS


def test_layout_is_read_at_the_first_scored_estimate_after_tau():
    rows = [
        {"prompt_id": "p", "skill": skill, "tau": tau, "score": score}
        for tau, score in ((0.0, 0.1), (0.2, 0.5), (0.4, 0.9))
        for skill in ("object", "position")
    ] + [{"prompt_id": "p", "skill": "count", "tau": 0.2, "score": 0.0}]
    share = layout_share(pd.DataFrame(rows), 0.15)
    assert share.loc["p"].tolist() == pytest.approx([0.4, 0.8])


def test_saturation_joins_seeds_and_needs_two_for_pairs(config):
    run_missing(config, "saturation", [NAME], [0, 1])
    images = read_saturation(config, (NAME,))
    assert len(images) == 6 and images["preference"].nunique() == 6
    assert agreement_table(images)[1].pairs == 3
    again = saturation_study(config, NAME, 0)
    pd.testing.assert_frame_equal(again.assign(backbone=NAME), images[images["seed"] == 0])
    alone = read_saturation(only(config, "saturation", NAME, 1), (NAME,))
    with pytest.raises(CastError, match="fewer than two images"):
        agreement_table(alone)


def test_the_head_study_gives_every_head_and_resumes(config, monkeypatch):
    with monkeypatch.context() as patch:
        counting = Counting(patch)
        table = head_study(config, NAME, 0)
    of_a_prompt = counting.passes // config.diagnostics.heads.prompts
    with monkeypatch.context() as patch:
        Counting(patch, passes=of_a_prompt + 1)  # ends within the second prompt
        with pytest.raises(KeyboardInterrupt):
            head_study(config, NAME, 1)
    with monkeypatch.context() as patch:
        again = Counting(patch)
        head_study(config, NAME, 1)
    assert again.passes == counting.passes - of_a_prompt > 0
    assert len(table) == 3 * 2 * 5 * 2  # skills, steps, blocks of tiny FLUX.2, heads
    assert set(table["judge"]) == {"verifier"} and table["block"].nunique() == 5
    counting = Counting(monkeypatch)
    assert head_study(config, NAME, 0).equals(table) and counting.passes == 0


def test_the_shift_in_time_by_hand():
    rows = [("position", 1, 2.0), ("position", 3, 1.0), ("position", 6, 0.0)]
    rows += [("attribute", 1, 0.0), ("attribute", 3, 1.0), ("attribute", 6, 2.0)]
    table = pd.DataFrame(rows, columns=["skill", "step", "z"]).assign(prompt_id="p")
    assert shift_by_step(table).tolist() == [1.5]


def test_bad_input_is_refused_before_any_work(config, capsys, tmp_path):
    with pytest.raises(CastError, match="mini-nothing is not among mini-flux2"):
        structure_study(config, "mini-nothing", 0)
    gone = {"clip": str(tmp_path / "no-clip"), "prompts": config.diagnostics.prompts}
    section = config.diagnostics.model_copy(update=gone)
    with pytest.raises(CastError, match=r"diagnostics\.clip = .*no-clip: no such folder"):
        structure_study(config.model_copy(update={"diagnostics": section}), NAME, 0)
    with pytest.raises(CastError, match=r"none\.jsonl: there is no such file"):
        head_study(with_prompts(config, "none.jsonl"), NAME, 0)
    long = section.structure.model_copy(update={"prompts": 9})
    section = config.diagnostics.model_copy(update={"structure": long})
    with pytest.raises(CastError, match=r"3 prompts, and diagnostics\.structure\.prompts is 9"):
        structure_study(config.model_copy(update={"diagnostics": section}), NAME, 0)
    assert main(["window", NAME, "--resolved", config.model_dump_json()]) == 2
    error = capsys.readouterr().err
    assert "curve.parquet: there is no such file" in error and error.count("\n") == 1
