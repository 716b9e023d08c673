"""The tiny verifier of `tiny_verifier.py`, saved once and loaded as a user would load it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_verifier import tiny_model, tiny_processor, tiny_tokenizer

from cast.config.sections import HeatmapSection
from cast.verifier.loading import load_parts
from cast.verifier.segments import Segmenter
from cast.verifier.soft_tifa import Verifier


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny verifier as an ordinary `from_pretrained` folder."""
    path = tmp_path_factory.mktemp("tiny-qwen3-vl")
    tokenizer = tiny_tokenizer(path)
    tokenizer.save_pretrained(path)
    tiny_model(tokenizer).save_pretrained(path)
    tiny_processor().save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def parts(folder: Path):
    return load_parts(str(folder), "float32", "cpu")


@pytest.fixture
def verifier(parts) -> Iterator[Verifier]:
    model, tokenizer, processor = parts
    yield Verifier(model, Segmenter(tokenizer), processor, "strict", HeatmapSection(), batch=4)
