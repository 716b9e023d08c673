"""Every test runs with the shapes in signatures checked, one thread, and no network."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from jaxtyping import install_import_hook

install_import_hook("cast", "beartype.beartype")  # before anything imports cast

import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("cast", deadline=None, derandomize=True)
hypothesis.settings.load_profile("cast")
