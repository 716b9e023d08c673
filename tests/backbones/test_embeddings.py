"""Kept embeddings: the same bits as without, no text encoder loaded for them, no damage read."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from cast.backbones import load_backbone
from cast.config import BackboneConfig
from cast.embeddings import Embeddings
from cast.errors import CastError

PROMPTS = ["a star"]
CPU = torch.device("cpu")


def saved(family: str, folder: Path) -> BackboneConfig:
    backbone = tiny.backbone(family, 4.0)
    backbone.pipeline.save_pretrained(folder)
    return backbone.config.model_copy(update={"path": str(folder)})


def load(config: BackboneConfig) -> Any:
    return load_backbone(config, tiny.sampling(), "cpu")


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_bits_are_those_without(family, tmp_path, monkeypatch):
    config = saved(family, tmp_path / "model")
    expected = load(config).encode(PROMPTS).tensors
    monkeypatch.setenv("CAST_EMBEDDINGS", str(tmp_path / "kept"))
    for first in (True, False):
        backbone = load(config)
        assert backbone.pipeline.text_encoder is None
        found = backbone.encode(PROMPTS).tensors
        assert (backbone.pipeline.text_encoder is not None) == first  # loaded for what isn't kept
        assert set(found) == set(expected)
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    backbone.release_text_encoder()
    with pytest.raises(CastError, match="released before"):
        backbone.encode(["a red circle"])


def test_a_shard_is_named_by_what_decides_it(tmp_path, monkeypatch):
    config = saved("flux2", tmp_path / "model")
    monkeypatch.setenv("CAST_EMBEDDINGS", str(tmp_path / "kept"))
    where = load(config).embeddings.path(PROMPTS)
    again = load(config).embeddings
    assert again.path(PROMPTS) == where
    assert len({where, again.path(["a star", "a star"]), again.path(["a circle"])}) == 3
    shorter = config.model_copy(update={"max_text_tokens": 8})
    assert load(shorter).embeddings.path(PROMPTS) != where
    narrow = config.model_copy(update={"dtype": "bfloat16"})
    assert load(narrow).embeddings.path(PROMPTS) != where
    (tmp_path / "model/text_encoder/more.safetensors").write_bytes(b"other weights")
    assert load(config).embeddings.path(PROMPTS) != where


def kept(folder: Path) -> Embeddings:
    return Embeddings(folder, {"files": "abc"}, CPU)


def test_a_damaged_shard_is_refused_by_name(tmp_path):
    tensors = {
        "embeds": torch.randn(1, 7, 5).bfloat16(),
        "ids": torch.arange(6).reshape(1, 6),
        "mask": torch.tensor([[True, False]]),
    }
    cache = kept(tmp_path)
    assert cache.get(PROMPTS) is None
    cache.put(PROMPTS, tensors)
    found = cache.get(PROMPTS)
    assert found is not None and all(torch.equal(found[name], tensors[name]) for name in tensors)
    path = cache.path(PROMPTS)
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        with pytest.raises(CastError, match=f"{path.name}: damaged .*Delete it"):
            cache.get(PROMPTS)


def write_often(folder: Path) -> None:
    for _ in range(30):
        kept(folder).put(PROMPTS, {"embeds": torch.ones(64, 1024)})


def test_jobs_that_write_at_once_leave_a_whole_shard(tmp_path):
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_often, args=(tmp_path,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = 0
    while any(writer.is_alive() for writer in writers):
        found = kept(tmp_path).get(PROMPTS)  # raises for half a file
        seen += found is not None and bool(found["embeds"].eq(1).all())
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert kept(tmp_path).get(PROMPTS) is not None
    assert [file.suffix for file in tmp_path.rglob("*") if file.is_file()] == [".safetensors"]
