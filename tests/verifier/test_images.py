"""Every kind of image file is either converted as stated or refused with its name."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cast.errors import CastError
from cast.verifier.images import as_pil, load_image


def saved(tmp_path: Path, image: Image.Image, name: str = "image.png", **options) -> Path:
    image.save(tmp_path / name, **options)
    return tmp_path / name


def gradient(mode: str = "RGB") -> Image.Image:
    ramp = np.arange(12 * 8 * 3, dtype=np.uint8).reshape(8, 12, 3)
    return Image.fromarray(ramp).convert(mode)


def test_tensor_and_png_are_one_image(tmp_path):
    """The trainer's tensor and the evaluation's file must score alike."""
    tensor = torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    for image in as_pil(tensor):
        again = load_image(saved(tmp_path, image))
        assert again.tobytes() == image.tobytes()
    expected = (tensor[0] * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    assert np.array_equal(np.asarray(as_pil(tensor)[0]), expected)


@pytest.mark.parametrize("value", [1.01, -0.01, float("nan")])
def test_tensor_out_of_range_is_refused(value):
    with pytest.raises(CastError, match=r"must lie in \[0, 1\]"):
        as_pil(torch.full((1, 3, 4, 4), value))


def test_empty_batch_is_refused():
    for empty in (torch.zeros(0, 3, 4, 4), []):
        with pytest.raises(CastError, match="empty"):
            as_pil(empty)


def test_grey_and_palette_are_converted(tmp_path):
    grey = gradient("L")
    assert load_image(saved(tmp_path, grey)).tobytes() == grey.convert("RGB").tobytes()
    palette = gradient("P")
    assert load_image(saved(tmp_path, palette)).tobytes() == palette.convert("RGB").tobytes()


def test_alpha_is_composited_on_white(tmp_path):
    image = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (255, 0, 0, 0))
    loaded = load_image(saved(tmp_path, image))
    assert [loaded.getpixel((x, 0)) for x in range(2)] == [(255, 0, 0), (255, 255, 255)]


def test_transparent_palette_is_composited_on_white(tmp_path):
    image = Image.new("P", (2, 1), 0)
    image.putpalette([0, 0, 255, 255, 0, 0])
    image.putpixel((1, 0), 1)
    loaded = load_image(saved(tmp_path, image, transparency=0))
    assert [loaded.getpixel((x, 0)) for x in range(2)] == [(255, 255, 255), (255, 0, 0)]


def test_sixteen_bit_grey_is_scaled(tmp_path):
    values = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    loaded = load_image(saved(tmp_path, Image.fromarray(values)))
    assert np.asarray(loaded)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_sixteen_bit_colour_keeps_its_high_byte(tmp_path):
    """Pillow can't write such a PNG, so it is put together by hand: one pixel of 3 x 16 bits."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00" + struct.pack(">HHH", 0x00FF, 0x8000, 0xFFFF))
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    (tmp_path / "deep.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    assert load_image(tmp_path / "deep.png").getpixel((0, 0)) == (0x00, 0x80, 0xFF)


def test_exif_rotation_is_applied(tmp_path):
    image = gradient()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown rotated clockwise by 90 degrees
    loaded = load_image(saved(tmp_path, image, exif=exif))
    assert loaded.size == (8, 12)
    assert loaded.tobytes() == image.transpose(Image.Transpose.ROTATE_270).tobytes()


def test_cmyk_is_refused(tmp_path):
    path = saved(tmp_path, gradient("CMYK"), "image.tiff")
    with pytest.raises(CastError, match=r"image\.tiff: colour mode CMYK is not allowed"):
        load_image(path)


def test_animation_is_refused(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "green", "blue")]
    path = saved(tmp_path, frames[0], "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(CastError, match=r"a\.gif: 3 frames"):
        load_image(path)


def test_missing_empty_and_broken_files_are_refused(tmp_path):
    with pytest.raises(CastError, match=r"gone\.png: there is no such image file"):
        load_image(tmp_path / "gone.png")
    (tmp_path / "empty.png").touch()
    with pytest.raises(CastError, match=r"empty\.png: the file is empty"):
        load_image(tmp_path / "empty.png")
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(CastError, match=r"text\.png: can't be decoded"):
        load_image(tmp_path / "text.png")
    whole = saved(tmp_path, gradient()).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CastError, match=r"cut\.png: can't be decoded"):
        load_image(tmp_path / "cut.png")


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path, gradient())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(CastError, match="Shrink the image"):
        load_image(path)
