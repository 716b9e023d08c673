"""The sets of a world: disjoint, balanced, reproducible, and their report adds up."""

import json
from statistics import median

import pandas as pd
import pytest
from graphs import vocabulary

from cast.errors import CastError
from cast.paths import from_root
from cast.scene_graph import (
    Entity,
    Relation,
    SceneGraph,
    build_prompt_sets,
    paraphrases,
    read_geneval2,
    read_prompts,
    render_prompt,
    write_geneval2,
    write_prompts,
)
from cast.scene_graph.prompt_sets import Taken, choose_manifest, distinct_prompts

SHAPES = vocabulary("shapes")
BENCHMARK = from_root("data/mini/benchmark.jsonl")
DEVELOPMENT = from_root("data/mini/development.jsonl")
NAMES = ("benchmark", "development", "train", "manifest")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    report = build_prompt_sets(folder, SHAPES, BENCHMARK, DEVELOPMENT, train=64, manifest=32)
    return report, {name: read_prompts(folder / f"{name}.parquet") for name in NAMES}, folder


def test_sets_are_disjoint_in_every_order_and_direction(built):
    _, sets, _ = built
    seen: dict[str, str] = {}
    for name in ("benchmark", "development", "train"):
        for record in sets[name]:
            for same in paraphrases(record.graph, SHAPES):
                assert same.canonical() not in seen
            seen[record.graph.canonical()] = record.prompt
    assert len(seen) == 160 + 256 + 64


def test_the_manifest_is_a_balanced_part_of_the_training_prompts(built):
    _, sets, _ = built
    assert set(sets["manifest"]) <= set(sets["train"])
    assert len(set(sets["manifest"])) == 32
    counts = [record.atom_count for record in sets["manifest"]]
    assert median(counts) == 6.5
    for start in range(0, 32, 8):  # so is every prefix of whole rounds
        assert sorted(counts[start : start + 8]) == list(range(3, 11))


def test_the_report_says_what_was_made_and_what_was_rejected(built):
    report, sets, folder = built
    assert json.loads((folder / "report.json").read_text()) == report
    for name in NAMES:
        skills = report["sets"][name]["skills"]
        assert report["sets"][name]["prompts"] == len(sets[name])
        assert sum(skills.values()) == sum(len(record.atoms) for record in sets[name])
        assert sum(report["sets"][name]["atom_counts"].values()) == len(sets[name])
    assert report["development"] == "shipped"
    reasons = {reason for by in report["rejected"].values() for reason in by}
    assert reasons <= {"same text", "another order", "inverse relation"}


def test_rejections_are_counted_by_reason():
    """Repeats by each road: the text, another order, an inverse relation, another benchmark."""
    star, heart, circle = Entity("star", 2, "red"), Entity("heart", 1), Entity("circle", 1, "red")
    above = SceneGraph((star, heart, circle), (Relation(0, "above", 1),))
    taken = Taken(SHAPES)
    taken.add("benchmark", [render_prompt(above, SHAPES)])
    taken.add_texts("other", ["A red circle"])
    assert taken.rejected(above)
    assert taken.rejected(SceneGraph((circle, star, heart), (Relation(1, "above", 2),)))
    assert taken.rejected(SceneGraph((heart, star, circle), (Relation(0, "below", 1),)))
    assert taken.rejected(SceneGraph((circle,)))
    assert not taken.rejected(SceneGraph((heart, star, circle), (Relation(0, "above", 1),)))
    assert not taken.rejected(SceneGraph((star, heart, circle)))
    assert taken.rejections == {
        "benchmark": {"same text": 1, "another order": 1, "inverse relation": 1},
        "other": {"same text": 1},
    }


def test_the_same_arguments_give_the_same_bytes(built, tmp_path):
    _, _, folder = built
    build_prompt_sets(tmp_path, SHAPES, BENCHMARK, DEVELOPMENT, train=64, manifest=32)
    for file in folder.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_the_shipped_files_are_what_the_sampler_makes(tmp_path):
    """The mini benchmark and development set, made again from seed 0: equal bytes."""
    taken = Taken(SHAPES)
    for name, n, shipped in (("benchmark", 160, BENCHMARK), ("development", 256, DEVELOPMENT)):
        write_geneval2(tmp_path / name, distinct_prompts(taken, name, 0, n, (3, 10)))
        assert (tmp_path / name).read_bytes() == shipped.read_bytes()


def test_the_mini_benchmark_holds_all_skills():
    records = read_geneval2(BENCHMARK, SHAPES)
    assert len(records) == 160
    for count in range(3, 11):
        assert sum(record.atom_count == count for record in records) == 20
    with_verb = sum(any(atom.skill == "verb" for atom in record.atoms) for record in records)
    related = [record for record in records if record.graph.relations]
    with_position = sum(any(a.skill == "position" for a in record.atoms) for record in related)
    assert with_verb >= 15
    assert with_position / len(related) > 0.8
    assert all(sum(e.count for e in record.graph.entities) <= 6 for record in records)


def test_a_jsonl_file_finds_its_vocabulary(built):
    _, sets, _ = built
    assert read_prompts(BENCHMARK) == sets["benchmark"]


@pytest.mark.parametrize("manifest", [0, 9])
def test_a_manifest_of_another_size_than_possible_writes_nothing(tmp_path, manifest):
    folder = tmp_path / "sets"
    with pytest.raises(CastError, match=f"prompts.manifest is {manifest}"):
        build_prompt_sets(folder, SHAPES, BENCHMARK, DEVELOPMENT, train=8, manifest=manifest)
    assert not folder.exists()


def test_a_development_set_that_repeats_the_benchmark_writes_nothing(tmp_path):
    records = read_geneval2(BENCHMARK, SHAPES)
    write_geneval2(tmp_path / "development.jsonl", records[:1])
    folder = tmp_path / "sets"
    with pytest.raises(CastError, match="repeats a prompt of"):
        build_prompt_sets(folder, SHAPES, BENCHMARK, tmp_path / "development.jsonl")
    assert not folder.exists()


def test_an_unbalanced_list_still_gives_a_manifest():
    records = read_geneval2(BENCHMARK, SHAPES)
    few = [r for r in records if r.atom_count == 3] + [r for r in records if r.atom_count == 7][:2]
    chosen = choose_manifest(few, 10, 0)
    assert sorted(record.atom_count for record in chosen) == [3] * 8 + [7] * 2


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda t: t.drop(columns="record"), "column 'record' is missing"),
        (lambda t: t.assign(record="{"), "row 0"),
        (lambda t: t.assign(record='{"prompt": "a star"}'), "row 0: Not a prompt record"),
    ],
)
def test_a_spoiled_table_is_refused(built, tmp_path, spoil, names):
    _, sets, _ = built
    path = tmp_path / "prompts.parquet"
    write_prompts(path, sets["manifest"][:2])
    spoil(pd.read_parquet(path)).to_parquet(path)
    with pytest.raises(CastError, match=names):
        read_prompts(path)


def test_other_files_are_not_prompt_sets(tmp_path):
    with pytest.raises(CastError, match=r"neither \.parquet nor \.jsonl"):
        read_prompts(tmp_path / "prompts.csv")
    (tmp_path / "prompts.parquet").write_text("not a table")
    with pytest.raises(CastError, match="can't be read as Parquet"):
        read_prompts(tmp_path / "prompts.parquet")
    (tmp_path / "other.jsonl").write_text('{"prompt": "a photo of a dog"}\n')
    with pytest.raises(CastError, match="no vocabulary reads"):
        read_prompts(tmp_path / "other.jsonl")
