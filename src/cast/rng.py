"""Explicit randomness: every generator is derived from what it is for.

A stream is named by `(seed, purpose, *indices)`, for instance
`(0, "noise", collection, sample)`, and never by rank, worker count or call order. So one
process and eight draw the same numbers, and a resumed run equals an unbroken one. Nothing in
the package touches the global generators.
"""

import hashlib

import numpy as np
import torch


def derive_seed(seed: int, purpose: str, *indices: int | str) -> int:
    """63-bit seed of the stream `(seed, purpose, *indices)`: a hash, so streams don't overlap."""
    name = "\x1f".join([str(seed), purpose, *map(str, indices)])
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def torch_generator(seed: int, purpose: str, *indices: int | str) -> torch.Generator:
    """CPU generator of the stream; noise is drawn on the CPU so that every device gets the same."""
    return torch.Generator().manual_seed(derive_seed(seed, purpose, *indices))


def numpy_generator(seed: int, purpose: str, *indices: int | str) -> np.random.Generator:
    """NumPy generator (PCG64) of the stream."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, purpose, *indices)))
