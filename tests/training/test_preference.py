"""Flow-GRPO (G1): the real trainer rewarded by the shipped mini-pickscore (a simulated taste)."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from tiny_run import COLLECTIONS, GROUP, run_config
from torch.testing import assert_close

from cast.paths import from_root
from cast.training import Ledger, train
from cast.training.workbench import Group, Workbench
from cast.verifier.images import as_pil
from cast.verifier.pickscore import PickScore

MODEL = str(from_root("models/mini/mini-pickscore"))


@pytest.fixture(scope="module")
def trained(models: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Group]]:
    """A run's folder, and the groups that its update saw."""
    folder, groups = tmp_path_factory.mktemp("g1"), []
    original = Workbench.generate

    def kept(self: Workbench, *arguments, **named) -> Group:
        groups.append(original(self, *arguments, **named))
        return groups[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workbench, "generate", kept)
        train(run_config(models, "uniform", preference=MODEL), folder)
    return folder, groups[-COLLECTIONS:]


def test_the_reward_is_the_preference_over_26(trained: tuple[Path, list[Group]]):
    folder, groups = trained
    judge = PickScore.load(MODEL)
    table = pd.read_parquet(folder / "metrics.parquet")
    for group, logged in zip(groups, table["score_mean"], strict=True):
        images, prompt = group.images.float() / 255, group.record.prompt
        assert group.scores.shape == (GROUP, 1)
        assert_close(group.scores[:, 0], judge.score_prompts(images, [prompt]), rtol=1e-5, atol=0)
        pixels = judge.clip.image_processor(images=as_pil(images), return_tensors="pt")
        tokens = judge.clip.tokenizer([prompt], return_tensors="pt")
        output = judge.clip.model(
            pixel_values=pixels["pixel_values"],
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
        )
        by_hand = output.logits_per_image[:, 0] / 26
        assert_close(group.scores[:, 0], by_hand, rtol=1e-4, atol=0)
        assert logged == pytest.approx(float(by_hand.mean()), rel=1e-4)
        assert torch.equal(group.resolution, judge.resolution(group.scores))


def test_the_adapter_follows_it_within_the_common_budget(trained: tuple[Path, list[Group]]):
    folder, _ = trained
    ledger = Ledger.read(folder / "ledger.json")
    table = pd.read_parquet(folder / "metrics.parquet")
    assert ledger.images == COLLECTIONS * GROUP and ledger.updates == COLLECTIONS
    assert "attention" not in ledger.phases
    assert (table["informative_atoms"] == 1).all() and (table["gradient_norm"] > 0).all()
    assert table["score_object"].isna().all()  # one score an image says nothing of skills
