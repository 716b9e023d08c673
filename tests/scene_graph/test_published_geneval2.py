"""The published GenEval 2 file, read and rendered exactly; needs the file (CAST_GENEVAL2)."""

import json
import os
import warnings
from collections import Counter
from pathlib import Path

import pytest
from graphs import vocabulary

from cast.scene_graph import (
    BenchmarkVersionWarning,
    build_prompt_sets,
    paraphrases,
    read_geneval2,
    read_prompts,
    render_prompt,
    sample_prompts,
    write_geneval2,
)

FILE = Path(os.environ.get("CAST_GENEVAL2", "") or "absent")
pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="CAST_GENEVAL2 doesn't name GenEval 2's geneval2_data.jsonl"
)
WORDS = vocabulary("geneval2")


@pytest.fixture(scope="module")
def records():
    with warnings.catch_warnings():
        warnings.simplefilter("error", BenchmarkVersionWarning)  # it is the published version
        return read_geneval2(FILE, WORDS)


def test_all_800_prompts_render_to_the_files_own_probes(records):
    lines = [json.loads(line) for line in FILE.read_text().splitlines()]
    equal = 0
    for line, record in zip(lines, records, strict=True):
        again = render_prompt(record.graph, WORDS, "benchmark")
        assert again.prompt == line["prompt"]
        assert [[atom.probe, atom.answer] for atom in again.atoms] == line["vqa_list"]
        assert [atom.skill for atom in again.atoms] == line["skills"]
        assert again.atom_count == line["atom_count"]
        equal += 1
    assert equal == 800


def test_writing_gives_the_files_own_bytes(records, tmp_path):
    write_geneval2(tmp_path / "again.jsonl", records)
    assert (tmp_path / "again.jsonl").read_bytes() == FILE.read_bytes()


def test_the_vocabulary_is_exactly_the_files(records):
    """No word of the vocabulary is missing from the benchmark (and reading shows the reverse)."""
    graphs = [record.graph for record in records]
    entities = [entity for graph in graphs for entity in graph.entities]
    assert {entity.noun for entity in entities} == set(WORDS.nouns)
    assert {entity.attribute for entity in entities} - {None} == set(WORDS.attributes)
    assert {entity.count for entity in entities} == set(range(1, 8))
    relations = {edge.relation for graph in graphs for edge in graph.relations}
    assert relations == {*WORDS.positions, *WORDS.verbs}
    joined = {
        graph.entities[end].noun
        for graph in graphs
        for edge in graph.relations
        for end in (edge.subject, edge.object)
        if edge.relation in WORDS.verbs
    }
    assert joined == set(WORDS.verb_nouns)


def test_sampled_prompts_have_the_benchmarks_shape(records):
    """Layouts by atom count: total variation distance to the benchmark below 0.15 on average."""

    def layouts(some):
        table: dict[int, Counter] = {}
        for record in some:
            links = tuple(edge.subject for edge in record.graph.relations)
            key = (len(record.graph.entities), links)
            table.setdefault(record.atom_count, Counter())[key] += 1
        return table

    theirs = layouts(records)
    ours = layouts(sample_prompts(WORDS, 0, 800))
    distances = []
    for count in range(3, 11):
        keys = theirs[count].keys() | ours[count].keys()
        shares = [(theirs[count][k] / 100, ours[count][k] / ours[count].total()) for k in keys]
        distances.append(sum(abs(a - b) for a, b in shares) / 2)
    assert sum(distances) / len(distances) < 0.15


def test_training_prompts_repeat_no_benchmark_prompt(records, tmp_path):
    build_prompt_sets(tmp_path, WORDS, FILE, train=160, development=40, manifest=16)
    taken = {same.canonical() for record in records for same in paraphrases(record.graph, WORDS)}
    texts = {record.prompt for record in records}
    for name in ("train", "development", "manifest"):
        for record in read_prompts(tmp_path / f"{name}.parquet"):
            assert record.graph.canonical() not in taken
            assert record.prompt not in texts


def test_another_version_is_read_with_a_warning(records, tmp_path):
    write_geneval2(tmp_path / "other.jsonl", records[:5])
    with pytest.warns(BenchmarkVersionWarning, match="isn't the published geneval2 file"):
        assert read_geneval2(tmp_path / "other.jsonl", WORDS) == records[:5]
