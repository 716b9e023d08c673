"""The command: manifests in, score table out, failures listed, killed runs resumed."""

import json
import runpy
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
import torch
from PIL import Image
from tiny_verifier import random_images

from cast.errors import CastError
from cast.scene_graph import (
    PromptRecord,
    load_vocabulary,
    read_geneval2,
    sample_prompts,
    write_geneval2,
)
from cast.verifier.__main__ import main
from cast.verifier.front import Journal
from cast.verifier.images import as_pil
from cast.verifier.manifest import read_manifest
from cast.verifier.soft_tifa import Verifier
from cast.verifier.summary import image_means, skill_means, summary_text

LINES = [
    {
        "prompt": "two red circles",
        "atom_count": 3,
        "vqa_list": [
            ["How many circles are in the image?", "two"],
            ["Are the circles red?", "Yes"],
            ["Are there any circles in the image?", "Yes"],
        ],
        "skills": ["count", "attribute", "object"],
    },
    {
        "prompt": "a blue star",
        "atom_count": 2,
        "vqa_list": [
            ["How many stars are in the image?", "one"],
            ["Is the star blue?", "Yes"],
            ["Are there any stars in the image?", "Yes"],
        ],
        "skills": ["count", "attribute", "object"],
    },
]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A benchmark of two prompts and four images."""
    lines = [json.dumps(line) for line in LINES]
    (tmp_path / "benchmark.jsonl").write_text("\n".join(lines) + "\n")
    for index, image in enumerate(as_pil(random_images(0, 4))):
        image.save(tmp_path / f"{index}.png")
    return tmp_path


def records(world: Path) -> list[PromptRecord]:
    return read_geneval2(world / "benchmark.jsonl", load_vocabulary("shapes"))


def manifest(world: Path, value: object) -> Path:
    (world / "images.json").write_text(json.dumps(value))
    return world / "images.json"


def command(world: Path, folder: Path, *more: str) -> list[str]:
    words = ["score", "--manifest", str(world / "images.json"), "--quiet", "--device", "cpu"]
    words += ["--benchmark", str(world / "benchmark.jsonl"), "--out", str(world / "s.parquet")]
    return [*words, "--verifier", str(folder), *more]


def test_both_manifest_forms(world):
    known = records(world)
    plain = manifest(world, {"a blue star": "1.png", "two red circles": "0.png"})
    entries = read_manifest(plain, known)
    assert [(e.record.prompt, e.seed, e.path.name) for e in entries] == [
        ("two red circles", 0, "0.png"),
        ("a blue star", 0, "1.png"),
    ]
    seeds = manifest(world, {"a blue star": {"101": "1.png", "100": "2.png"}})
    assert [(e.seed, e.path.name) for e in read_manifest(seeds, known)] == [
        (100, "2.png"),
        (101, "1.png"),
    ]
    listed = manifest(world, {"a blue star": ["1.png", "2.png"]})
    assert [e.seed for e in read_manifest(listed, known, root="/images")] == [0, 1]
    assert read_manifest(listed, known, root="/images")[0].path == Path("/images/1.png")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a blue stra": "1.png"}, "not in the benchmark.*Did you mean 'a blue star'"),
        ({"a blue star": 3}, "has 3; allowed are a path"),
        ({"a blue star": {"first": "1.png"}}, "object from seed"),
        ({"a blue star": []}, "allowed are a path"),
        ([], "must be one JSON object"),
        ({}, "names no image"),
    ],
)
def test_bad_manifests_are_refused(world, value, message):
    with pytest.raises(CastError, match=message):
        read_manifest(manifest(world, value), records(world))


def test_a_prompt_that_stands_twice_is_refused(world):
    (world / "images.json").write_text('{"a blue star": "1.png", "a blue star": "2.png"}')
    with pytest.raises(CastError, match="stands there twice"):
        read_manifest(world / "images.json", records(world))


def test_command_writes_what_the_library_scores(world, folder, verifier, capsys):
    manifest(world, {"two red circles": ["0.png", "1.png"], "a blue star": "2.png"})
    assert main(command(world, folder)) == 0
    table = pd.read_parquet(world / "s.parquet")
    assert len(table) == 9 and list(world.glob(".*journal*")) == []
    images = [Image.open(world / f"{index}.png") for index in (0, 1)]
    circles = records(world)[0]
    for mode, column in (("official", "score"), ("strict", "score_strict")):
        ours = verifier.score(images, circles, mode=mode).double()
        rows = table.query("prompt == 'two red circles'").sort_values(["generation_seed", "atom"])
        theirs = torch.tensor(rows[column].to_numpy()).view(2, 3)
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-6)
    printed = capsys.readouterr().out
    assert "3 images, 2 prompts, 9 atoms" in printed and "GM by atom count" in printed


def test_failed_images_are_listed_and_the_rest_is_scored(world, folder, capsys):
    Image.new("CMYK", (32, 32)).save(world / "cmyk.tiff")
    Image.new("RGB", (20000, 32)).save(world / "wide.png")
    images = {"two red circles": ["0.png", "cmyk.tiff", "wide.png", "gone.png"]}
    manifest(world, images | {"a blue star": "2.png"})
    assert main(command(world, folder)) == 1
    error = capsys.readouterr().err
    assert "cmyk.tiff: colour mode CMYK" in error and "wide.png: 20000x32 px" in error
    assert "gone.png: there is no such image" in error and "3 of 5 images" in error
    table = pd.read_parquet(world / "s.parquet")
    assert set(table["image"].map(lambda path: Path(path).name)) == {"0.png", "2.png"}

    for name, index in (("cmyk.tiff", 1), ("wide.png", 3), ("gone.png", 3)):
        as_pil(random_images(index, 1))[0].save(world / name)
    assert main(command(world, folder)) == 0
    assert len(pd.read_parquet(world / "s.parquet")) == 15


def test_one_pixel_is_scored(world, folder):
    Image.new("RGB", (1, 1), "red").save(world / "dot.png")
    manifest(world, {"a blue star": "dot.png"})
    assert main(command(world, folder)) == 0


def test_a_killed_run_scores_only_what_is_missing(world, folder, monkeypatch):
    manifest(world, {"two red circles": ["0.png", "1.png"], "a blue star": ["2.png", "3.png"]})
    assert main(command(world, folder)) == 0
    unbroken = (world / "s.parquet").read_bytes()
    (world / "s.parquet").unlink()

    plain, scored = Verifier.score_modes, []

    def dying(self, images, record, *rest):
        scored.append(len(images))
        if len(scored) == 2:
            raise KeyboardInterrupt
        return plain(self, images, record, *rest)

    monkeypatch.setattr(Verifier, "score_modes", dying)
    with pytest.raises(KeyboardInterrupt):
        main(command(world, folder))
    journal = next(world.glob(".*journal*"))
    with journal.open("a") as file:
        file.write('{"image": "torn')
    assert main(command(world, folder)) == 0
    assert scored == [2, 2, 2], "the first chunk must not be scored again"
    assert (world / "s.parquet").read_bytes() == unbroken


def test_a_changed_image_is_scored_again(tmp_path):
    journal = Journal(tmp_path / "j.jsonl", "key")
    with journal.writing() as write:
        write({"image": "a/0", "sha256": "old"})
    assert journal.read()["a/0"]["sha256"] == "old"
    with journal.writing() as write:
        write({"image": "a/0", "sha256": "new"})
    assert journal.read()["a/0"]["sha256"] == "new"


def test_another_runs_journal_is_refused(tmp_path):
    with Journal(tmp_path / "j.jsonl", "one").writing():
        pass
    with pytest.raises(CastError, match="another verifier, benchmark or manifest"):
        Journal(tmp_path / "j.jsonl", "two").read()


@pytest.mark.filterwarnings("ignore:.*isn't the published:cast.scene_graph.BenchmarkVersionWarning")
def test_geneval2s_own_prompts_and_manifest(tmp_path, folder, capsys):
    """All skills of the real benchmark's grammar, in its file format and its manifest's form; the
    command finds the vocabulary by itself."""
    words = load_vocabulary("geneval2")
    stream = sample_prompts(words, 0, None, english="benchmark")
    prompts = list(islice(stream, 4))
    prompts.append(next(r for r in stream if any(a.skill == "verb" for a in r.atoms)))
    skills = {atom.skill for record in prompts for atom in record.atoms}
    assert skills == {"object", "count", "attribute", "position", "verb"}
    write_geneval2(tmp_path / "benchmark.jsonl", prompts)
    for index, image in enumerate(as_pil(random_images(0, len(prompts)))):
        image.save(tmp_path / f"{index}.png")
    manifest(tmp_path, {record.prompt: f"{index}.png" for index, record in enumerate(prompts)})
    assert main(command(tmp_path, folder)) == 0
    table = pd.read_parquet(tmp_path / "s.parquet")
    assert len(table) == sum(len(record.atoms) for record in prompts)
    assert table["score"].between(0, 1).all() and set(table["skill"]) == skills
    assert "AM by skill" in capsys.readouterr().out


def test_an_answer_that_no_spelling_is_known_for_is_refused(world, folder, capsys):
    line = json.loads(json.dumps(LINES[1]))
    line["vqa_list"][1][1] = "perhaps"
    (world / "benchmark.jsonl").write_text(json.dumps(line) + "\n")
    manifest(world, {"a blue star": "1.png"})
    assert main(command(world, folder, "--vocabulary", "shapes")) == 2
    message = capsys.readouterr().err
    assert "benchmark.jsonl" in message and "perhaps" in message
    assert not (world / "s.parquet").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--out", "scores.csv"], "must end in .parquet"),
        (["--batch", "0"], "--batch: 0 is not allowed"),
        (["--verifier", "models/nowhere/at-all"], "no folder"),
        (["--benchmark", "gone.jsonl"], "gone.jsonl"),
    ],
)
def test_bad_arguments_exit_with_two(world, folder, more, message, capsys):
    manifest(world, {"a blue star": "1.png"})
    assert main(command(world, folder, *more)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")
def test_help_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["cast.verifier", "score", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("cast.verifier", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0 and "--manifest" in capsys.readouterr().out


def test_summary_closed_forms():
    rows = [("a", 0, "object", 2, 0.9), ("a", 0, "count", 2, 0.4), ("b", 0, "count", 3, 0.0)]
    columns = ["prompt_id", "generation_seed", "skill", "atom_count", "score"]
    table = pd.DataFrame(rows, columns=columns).assign(score_strict=lambda t: t["score"])
    means = image_means(table)
    assert means["am"].tolist() == pytest.approx([0.65, 0.0])
    assert means["gm"].tolist() == pytest.approx([0.6, 1e-6])
    assert skill_means(table) == pytest.approx({"object": 0.9, "count": 0.2})
    assert "AM             32.50     32.50" in summary_text(table)
