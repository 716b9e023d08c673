"""The prompt sets of a world: training, development, the fixed manifest, and the benchmark.

Paper 5.1 and D: 1,024 training prompts and 256 development prompts, disjoint from the
evaluation prompts; all methods train on one manifest of 128 of them, in one order. Disjoint
means: neither the same text, nor the same graph in another order, nor (ours) a graph that says
the same through an inverse relation ("A above B", "B below A").
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cast.errors import CastError
from cast.io import sha256_file, write_json
from cast.rng import numpy_generator
from cast.scene_graph.geneval2 import read_geneval2
from cast.scene_graph.graph import SKILLS, PromptRecord, SceneGraph
from cast.scene_graph.prompt_table import write_prompts
from cast.scene_graph.rendering import render_prompt
from cast.scene_graph.sampling import paraphrases, stream_prompts
from cast.scene_graph.vocabulary import English, Vocabulary


class Taken:
    """Texts and graphs that a new prompt may not repeat, and a tally of the candidates that did.

    `rejections[set][reason]` counts candidates by the set whose prompt they repeat; the reasons
    are "same text", "another order" and "inverse relation".
    """

    def __init__(self, vocabulary: Vocabulary, english: English = "correct") -> None:
        self.vocabulary = vocabulary
        self.english: English = english
        self.rejections: dict[str, Counter[str]] = {}
        self._texts: dict[str, str] = {}
        self._graphs: dict[str, str] = {}

    def add(self, name: str, records: Iterable[PromptRecord]) -> None:
        """Take the prompts of a set."""
        for record in records:
            self._graphs.setdefault(record.graph.canonical(), name)
            # a candidate's text for this graph, whichever English the set itself is written in
            self.add_texts(name, [record.prompt, self._text(record.graph)])

    def add_texts(self, name: str, texts: Iterable[str]) -> None:
        """Take prompts of which only the text is known, such as those of Qwen-Image-Bench."""
        for text in texts:
            self._texts.setdefault(text.casefold().strip(), name)

    def rejected(self, graph: SceneGraph) -> bool:
        """Whether a candidate repeats something taken; a rejection is counted."""
        text = self._text(graph).casefold()
        if text in self._texts:
            return self._count(self._texts[text], "same text")
        for turned, same in enumerate(paraphrases(graph, self.vocabulary)):
            owner = self._graphs.get(same.canonical())
            if owner is not None:
                return self._count(owner, "inverse relation" if turned else "another order")
        return False

    def _text(self, graph: SceneGraph) -> str:
        return render_prompt(graph, self.vocabulary, self.english).prompt

    def _count(self, owner: str, reason: str) -> bool:
        self.rejections.setdefault(owner, Counter())[reason] += 1
        return True


def distinct_prompts(
    taken: Taken, name: str, seed: int, n: int, atom_counts: tuple[int, int]
) -> list[PromptRecord]:
    """Draw `n` prompts of the stream `name` that repeat nothing taken; they're taken too."""
    records: list[PromptRecord] = []
    stream = stream_prompts(
        taken.vocabulary,
        seed,
        range(n),
        atom_counts,
        taken.rejected,
        name,
        english=taken.english,
    )
    for record in stream:
        taken.add(name, [record])
        records.append(record)
    return records


def choose_manifest(records: Sequence[PromptRecord], n: int, seed: int) -> list[PromptRecord]:
    """The fixed training list: `n` of the records, balanced over atom counts, in its order.

    Rounds over the atom counts, each round in an order of its own; so every prefix is balanced
    too, and a run that is cut short has still seen all atom counts alike.
    """
    if not 0 < n <= len(records):
        raise CastError(f"prompts.manifest is {n}; allowed is 1 to prompts.train ({len(records)}).")
    rng = numpy_generator(seed, "manifest")
    shuffled = [records[i] for i in rng.permutation(len(records))]
    strata = {c: [r for r in shuffled if r.atom_count == c] for c in _atom_counts(records)}
    chosen: list[PromptRecord] = []
    while len(chosen) < n:
        for count in rng.permutation(list(strata)):
            if strata[count] and len(chosen) < n:
                chosen.append(strata[count].pop())
    return chosen


def build_prompt_sets(
    folder: str | Path,
    vocabulary: Vocabulary,
    benchmark: str | Path,
    development_file: str | Path | None = None,
    *,
    train: int = 1024,
    development: int = 256,
    manifest: int = 128,
    atom_counts: tuple[int, int] = (3, 10),
    seed: int = 0,
    english: English = "correct",
    other_texts: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, Any]:
    """Write {train,development,manifest,benchmark}.parquet and report.json into `folder`.

    `benchmark` is a file of GenEval 2's format; `development_file`, where a world ships one,
    replaces the sampled development set and must be disjoint from the benchmark. `other_texts`:
    the prompts of further benchmarks, by their name. Returns the report. Raises `CastError`
    before anything is written.
    """
    taken = Taken(vocabulary, english)
    for name, texts in (other_texts or {}).items():
        taken.add_texts(name, texts)
    sets = {"benchmark": read_geneval2(benchmark, vocabulary)}
    taken.add("benchmark", sets["benchmark"])
    if development_file is None:
        sets["development"] = distinct_prompts(taken, "development", seed, development, atom_counts)
    else:
        sets["development"] = read_geneval2(development_file, vocabulary)
        for record in sets["development"]:
            if taken.rejected(record.graph):
                raise CastError(
                    f"{development_file}: {record.prompt!r} repeats a prompt of {benchmark}."
                )
        taken.add("development", sets["development"])
    sets["train"] = distinct_prompts(taken, "train", seed, train, atom_counts)
    sets["manifest"] = choose_manifest(sets["train"], manifest, seed)
    report = {
        "vocabulary": vocabulary.name,
        "seed": seed,
        "english": english,
        "benchmark_sha256": sha256_file(benchmark),
        "development": "sampled" if development_file is None else "shipped",
        "rejected": {name: dict(reasons) for name, reasons in taken.rejections.items()},
        "sets": {name: summary(records) for name, records in sets.items()},
    }
    for name, records in sets.items():
        write_prompts(Path(folder) / f"{name}.parquet", records)
    write_json(Path(folder) / "report.json", report)
    return report


def summary(records: Sequence[PromptRecord]) -> dict[str, Any]:
    """Size, median atom count, prompts by atom count, and atoms by skill of a set."""
    skills = Counter(atom.skill for record in records for atom in record.atoms)
    by_count = Counter(record.atom_count for record in records)
    return {
        "prompts": len(records),
        "median_atom_count": median(record.atom_count for record in records),
        "atom_counts": {str(count): by_count[count] for count in _atom_counts(records)},
        "skills": {skill: skills[skill] for skill in SKILLS},
    }


def _atom_counts(records: Iterable[PromptRecord]) -> list[int]:
    return sorted({record.atom_count for record in records})
