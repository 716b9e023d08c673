"""Images depend on model, prompt and seed, and on nothing else; killed runs go on."""

import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from cast.errors import CastError
from cast.evaluation import generation
from cast.evaluation.generation import check_prompts, generate, generation_noise, to_uint8
from cast.evaluation.store import ImageStore
from cast.scene_graph import load_vocabulary, sample_prompts

STEPS = 2
IDENTITY = {"backbone": "tiny-flux2", "adapter_sha256": "base"}


@pytest.fixture(scope="module")
def backbone():
    return tiny.backbone("flux2", 4.0)


@pytest.fixture(scope="module")
def records():
    return list(sample_prompts(load_vocabulary("shapes"), seed=5, n=5))


def run(backbone, records, seeds, folder, batch=4, identity=IDENTITY) -> pd.DataFrame:
    return generate(backbone, records, seeds, STEPS, folder, identity, batch, progress=False)


def names(images: pd.DataFrame) -> dict[tuple[str, int], str]:
    keys = zip(images["prompt_id"], images["generation_seed"], strict=True)
    return dict(zip(keys, images["image_sha256"], strict=True))


def test_noise_is_a_function_of_prompt_and_seed(backbone, records):
    both = generation_noise(backbone, records[0], [7, 8])
    assert torch.equal(both[1:], generation_noise(backbone, records[0], [8]))
    assert not torch.equal(both[0], both[1])
    assert not torch.equal(both, generation_noise(backbone, records[1], [7, 8]))


def test_an_image_does_not_depend_on_other_prompts_or_chunks(backbone, records, tmp_path):
    whole = names(run(backbone, records, [1, 2], tmp_path / "a"))
    assert len(set(whole.values())) == 10
    few = names(run(backbone, records[::-1][:2], [1, 2], tmp_path / "b", batch=2))
    assert few.items() <= whole.items()


def test_images_are_the_stored_pixels(backbone, records, tmp_path):
    images = run(backbone, records[:1], [1], tmp_path)
    stored = ImageStore(tmp_path / "images").get(images["image_sha256"].tolist()[0])
    assert stored.shape == (tiny.SIZE, tiny.SIZE, 3)
    assert (tmp_path / images["image"][0]).is_file()
    assert images["adapter_sha256"].tolist() == ["base"]


def test_a_killed_run_goes_on(backbone, records, tmp_path, monkeypatch):
    unbroken = run(backbone, records, [1, 2], tmp_path / "a")
    calls = []
    real = generation.sample_prompt

    def killed_after_three(*arguments):
        calls.append(arguments[1].prompt_id)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(generation, "sample_prompt", killed_after_three)
    with pytest.raises(KeyboardInterrupt):
        run(backbone, records, [1, 2], tmp_path / "b")
    resumed = run(backbone, records, [1, 2], tmp_path / "b")
    pd.testing.assert_frame_equal(unbroken, resumed)
    # Chunks of two prompts: the first was finished, the second is made again from its start.
    assert calls == [r.prompt_id for r in [*records[:4], *records[2:]]]


def test_a_lost_image_is_made_again(backbone, records, tmp_path):
    before = run(backbone, records[:2], [1], tmp_path)
    store, name = ImageStore(tmp_path / "images"), before["image_sha256"].tolist()[0]
    store.path(name).unlink()
    pd.testing.assert_frame_equal(before, run(backbone, records[:2], [1], tmp_path))
    assert store.get(name).shape == (tiny.SIZE, tiny.SIZE, 3)


def test_another_identity_starts_anew(backbone, records, tmp_path):
    run(backbone, records[:1], [1], tmp_path)
    run(backbone, records[:1], [1], tmp_path, identity={**IDENTITY, "adapter_sha256": "other"})
    assert len(list((tmp_path / "parts" / "generation").iterdir())) == 1


def test_duplicates_and_nothing_are_refused(records):
    with pytest.raises(CastError, match="is given twice"):
        check_prompts([records[0], records[1], records[0]], [1])
    with pytest.raises(CastError, match="seed 3 is given twice"):
        check_prompts(records, [3, 3])
    with pytest.raises(CastError, match="0 prompts"):
        check_prompts([], [1])


def test_rounding_and_broken_images():
    image = torch.tensor([0.0, 0.5, 1.0, 1.2]).reshape(1, 1, 2, 2).expand(1, 3, 2, 2)
    assert to_uint8(image)[0, :, :, 0].tolist() == [[0, 128], [255, 255]]
    with pytest.raises(CastError, match="NaN"):
        to_uint8(torch.full((1, 3, 2, 2), float("nan")))
    assert to_uint8(image).dtype == np.uint8
