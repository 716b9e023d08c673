"""Images on their way to the verifier: every conversion is stated, nothing is guessed.

The verifier sees 8-bit RGB. Files may be 8-bit RGB, grey or palette images; alpha is composited
on white, EXIF rotation is applied, 16-bit grey is scaled to 8 bits, of 16-bit colour the high byte
is kept (which is how Pillow reads it). CMYK, float and animated images, and files that don't
decode, are `CastError`s naming the file and the mend.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from cast.errors import CastError

Images: TypeAlias = Float[Tensor, "B 3 H W"] | Sequence[Image.Image]

_PLAIN = ("RGB", "L", "1")
_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")
_SIXTEEN_BIT = ("I;16", "I;16B", "I;16L", "I;16N", "I")


def as_pil(images: Images) -> list[Image.Image]:
    """8-bit RGB images; a tensor in [0, 1] is rounded as it would be for a PNG file.

    `CastError` for a batch of none, and for values outside [0, 1] or not finite.
    """
    if len(images) == 0:
        raise CastError("images: the batch is empty; give at least one image.")
    if not isinstance(images, Tensor):
        return [image if image.mode == "RGB" else to_rgb(image, "image") for image in images]
    low, high = float(images.min()), float(images.max())
    if not (low >= 0.0 and high <= 1.0):
        raise CastError(f"images: values must lie in [0, 1]; these span {low:g} to {high:g}.")
    rounded = (images.float() * 255.0).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    return [Image.fromarray(array) for array in rounded]


def load_image(path: str | Path) -> Image.Image:
    """Read an image file as 8-bit RGB; `CastError` names the file and the mend."""
    path = Path(path)
    if not path.is_file():
        raise CastError(f"{path}: there is no such image file.")
    if path.stat().st_size == 0:
        raise CastError(f"{path}: the file is empty (0 bytes); generate the image again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                image.load()
                return to_rgb(image, str(path))
    except CastError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise CastError(f"{path}: {error} Shrink the image first.") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise CastError(f"{path}: can't be decoded as an image ({error}).") from error


def to_rgb(image: Image.Image, name: str) -> Image.Image:
    """8-bit RGB after EXIF rotation; see the module's first lines for what is converted how."""
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise CastError(f"{name}: {frames} frames; save the frame to be scored as a PNG.")
    image = ImageOps.exif_transpose(image)
    if image.mode in _PLAIN:
        return image.convert("RGB")
    if image.mode == "P":
        transparent = "transparency" in image.info
        return to_rgb(image.convert("RGBA" if transparent else "RGB"), name)
    if image.mode in _ALPHA:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    if image.mode in _SIXTEEN_BIT:
        low, high = np.asarray(image).min(), np.asarray(image).max()
        if low < 0 or high > 65535:
            raise CastError(f"{name}: grey values span {low} to {high}; save it with 8 or 16 bits.")
        grey = np.rint(np.asarray(image).astype(np.float64) / 257.0).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")
    raise CastError(
        f"{name}: colour mode {image.mode} is not allowed; allowed are RGB, grey, palette and "
        "alpha images. Convert it to RGB with the profile it was made for."
    )
