"""Images are stored once and checked; chunks are reused under their key only."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cast.errors import CastError
from cast.evaluation.store import ImageStore, Parts, pixels_sha256


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (6, 4, 3), dtype=np.uint8)


def test_lossless_and_stored_once(tmp_path):
    store = ImageStore(tmp_path)
    names = [store.put(picture(seed)) for seed in (0, 1, 0)]
    assert names[0] == names[2] != names[1]
    assert len(list(tmp_path.rglob("*.png"))) == 2
    assert (store.get(names[1]) == picture(1)).all()


def test_hash_depends_on_the_shape_too():
    flat = np.zeros((2, 8, 3), dtype=np.uint8)
    assert pixels_sha256(flat) != pixels_sha256(flat.reshape(8, 2, 3))


def test_missing_changed_and_broken_images_are_refused(tmp_path):
    store = ImageStore(tmp_path)
    name = store.put(picture(0))
    Image.fromarray(picture(1)).save(store.path(name))
    with pytest.raises(CastError, match="was changed"):
        store.get(name)
    store.path(name).write_bytes(b"not a picture")
    with pytest.raises(CastError, match="can't be read"):
        store.get(name)
    store.path(name).unlink()
    with pytest.raises(CastError, match="can't be read"):
        store.get(name)


def test_parts_survive_and_belong_to_a_key(tmp_path):
    rows = pd.DataFrame({"x": [1, 2]})
    Parts(tmp_path, "a" * 64).put(3, rows)
    found = Parts(tmp_path, "a" * 64).get(3)
    assert found is not None and found.equals(rows)
    assert Parts(tmp_path, "a" * 64).get(2) is None
    assert Parts(tmp_path, "b" * 64).get(3) is None


def test_a_damaged_part_is_made_again(tmp_path):
    parts = Parts(tmp_path, "a" * 64)
    parts.put(0, pd.DataFrame({"x": [1]}))
    next(tmp_path.rglob("*.parquet")).write_bytes(b"PAR1 half")
    assert parts.get(0) is None
    parts.put(0, pd.DataFrame({"x": [1]}))
    assert parts.get(0) is not None


def test_other_keys_are_dropped(tmp_path):
    old, new = Parts(tmp_path, "a" * 64), Parts(tmp_path, "b" * 64)
    for parts in (old, new):
        parts.put(0, pd.DataFrame({"x": [1]}))
    new.drop_others()
    assert old.get(0) is None and new.get(0) is not None
