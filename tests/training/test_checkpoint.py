import errno
import shutil
from pathlib import Path

import pytest
import torch

import cast.io
from cast.errors import CastError
from cast.training.checkpoint import Checkpoint, load_latest, save_checkpoint


def checkpoint(step: int) -> Checkpoint:
    tensors = {"adapter/a": torch.full((3, 2), float(step)), "exp_avg/a": torch.ones(2) / 3}
    return Checkpoint(step, tensors, {"metrics": [{"x": 0.1 + step}], "collection": step})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for step in (4, 8, 12):
        save_checkpoint(tmp_path, checkpoint(step))
    return tmp_path


def latest(folder: Path, said: list[str] | None = None) -> Checkpoint | None:
    return load_latest(folder, warn=(said if said is not None else []).append)


def test_round_trip_is_exact_and_the_last_two_are_kept(saved: Path):
    got, expected = latest(saved), checkpoint(12)
    assert got is not None and got.step == 12 and got.record == expected.record
    assert all(torch.equal(got.tensors[n], t) for n, t in expected.tensors.items())
    assert sorted(p.name for p in saved.iterdir()) == ["step_000008", "step_000012"]


def test_nothing_there(tmp_path: Path):
    assert latest(tmp_path) is None and latest(tmp_path / "missing") is None


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def flip_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["tensors.safetensors", "record.json", "sha256.json"])
@pytest.mark.parametrize("damage", [truncate, flip_bit, Path.unlink])
def test_a_damaged_one_is_refused_by_name_and_the_one_before_used(saved: Path, name, damage):
    damage(saved / "step_000012" / name)
    said: list[str] = []
    got = latest(saved, said)
    assert got is not None and got.step == 8
    assert len(said) == 1 and "step_000012" in said[0] and "damaged" in said[0]
    # Set aside, it neither counts among the last two nor stands in the way of its own successor.
    save_checkpoint(saved, checkpoint(12))
    names = sorted(p.name for p in saved.iterdir())
    assert names == ["damaged_step_000012", "step_000008", "step_000012"]
    renewed = latest(saved)
    assert renewed is not None and renewed.step == 12


def test_both_damaged_means_from_the_start(saved: Path):
    for step in ("step_000008", "step_000012"):
        truncate(saved / step / "record.json")
    said: list[str] = []
    assert latest(saved, said) is None and len(said) == 2


def test_a_kill_while_writing_leaves_the_earlier_ones(saved: Path):
    """What a killed writer leaves is a hidden folder, which is cleared away."""
    shutil.copytree(saved / "step_000012", saved / ".step_000016.tmp")
    truncate(saved / ".step_000016.tmp" / "tensors.safetensors")
    got = latest(saved)
    assert got is not None and got.step == 12
    assert not (saved / ".step_000016.tmp").exists()


@pytest.mark.parametrize("name", ["tensors.safetensors", "record.json"])
def test_a_full_disk_loses_nothing_and_says_so(saved: Path, name, monkeypatch):
    real = cast.io.os.fsync

    def full(descriptor: int) -> None:
        if name in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(cast.io.os, "fsync", full)
    with pytest.raises(CastError, match=r"step_000016.*No space left.*run the same command"):
        save_checkpoint(saved, checkpoint(16))
    monkeypatch.undo()
    assert sorted(p.name for p in saved.iterdir()) == ["step_000008", "step_000012"]
    got = latest(saved)
    assert got is not None and got.step == 12


def test_a_really_full_disk(tmp_path: Path):
    """The same on a file system of its own, where the test may mount one."""
    import subprocess

    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        save_checkpoint(tmp_path, checkpoint(4))
        big = Checkpoint(8, {"adapter/a": torch.zeros(40_000)}, {})
        with pytest.raises(CastError, match="step_000008"):
            save_checkpoint(tmp_path, big)
        got = latest(tmp_path)
        assert got is not None and got.step == 4
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
