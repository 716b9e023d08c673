"""The tiny models, saved once a session."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "verifier"))  # tiny_verifier

from tiny_run import save_models

from cast.training.identity import source_sha256


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-models")
    save_models(folder)
    source_sha256()  # kept for the process, so that children are spared it
    return folder
