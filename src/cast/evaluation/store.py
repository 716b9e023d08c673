"""Images and chunks on disk: each image once, named by its pixels; each chunk written whole.

A long evaluation writes the rows of every chunk as it is done, under a key that names all that
its content depends on (settings, adapter, prompts, seeds, code). Called again under the same key
it goes on after the last chunk; under another key it starts anew.
"""

import hashlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from PIL import Image
from tqdm import tqdm

from cast.errors import CastError
from cast.io import write_parquet, written_whole


def pixels_sha256(image: UInt8[np.ndarray, "H W 3"]) -> str:
    """Hash of an image's size and pixels, whatever compressed its file."""
    height, width, _ = image.shape
    return hashlib.sha256(f"{height}x{width}:".encode() + image.tobytes()).hexdigest()


class ImageStore:
    """PNG files below `folder`, named by the hash of their pixels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Where the image of that hash is, or would be."""
        return self.folder / sha256[:2] / f"{sha256}.png"

    def put(self, image: UInt8[np.ndarray, "H W 3"]) -> str:
        """Store an image unless it is there already; returns its hash."""
        sha256 = pixels_sha256(np.ascontiguousarray(image))
        path = self.path(sha256)
        if not path.exists():
            with written_whole(path) as temporary:
                Image.fromarray(image).save(temporary, format="PNG")
        return sha256

    def get(self, sha256: str) -> UInt8[np.ndarray, "H W 3"]:
        """Read an image back; a missing or damaged file raises `CastError` naming it."""
        path = self.path(sha256)
        try:
            with Image.open(path) as file:
                image = np.asarray(file.convert("RGB"))
        except (OSError, SyntaxError, ValueError) as error:
            raise CastError(
                f"{path}: the image can't be read ({error}). Delete images.parquet and the parts "
                "beside it, and generate again."
            ) from error
        if pixels_sha256(image) != sha256:
            raise CastError(
                f"{path}: its pixels don't have the hash that names it; the file was changed. "
                "Delete it with images.parquet and the parts beside it, and generate again."
            )
        return image


class Parts:
    """Finished chunks of one job below `folder`, valid under one `key` only."""

    def __init__(self, folder: Path, key: str) -> None:
        self.parent = folder
        self.folder = folder / key[:16]

    def get(self, index: int) -> pd.DataFrame | None:
        """Rows of a chunk that was finished before; a damaged file counts as not finished."""
        path = self._path(index)
        if not path.exists():
            return None
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError):
            path.unlink()
            return None

    def put(self, index: int, rows: pd.DataFrame) -> None:
        """Write a finished chunk whole."""
        write_parquet(self._path(index), rows)

    def drop_others(self) -> None:
        """Remove chunks of other keys: what they were made from has changed."""
        if self.parent.is_dir():
            for other in self.parent.iterdir():
                if other != self.folder:
                    shutil.rmtree(other)

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:06d}.parquet"


def progress_bar(total: int, doing: str, shown: bool) -> tqdm:
    """A bar over images, with the time left; in a log file it writes a line every half minute."""
    interval = 0.5 if sys.stderr.isatty() else 30.0
    return tqdm(total=total, desc=doing, unit="image", disable=not shown, mininterval=interval)
