"""Quality over replicates, by hand: nested means, N/A, unread answers, refusals."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cast.errors import CastError
from cast.evaluation import qwen_image_bench as bench
from cast.verifier.quality_judge import Facet

FACETS = [Facet("Quality", "Realism", "Light"), Facet("Quality", "Realism", "Shape")]
FACETS += [Facet("Quality", "Detail", "Edges"), Facet("Alignment", "Text", "Words")]


def table(grades: dict[tuple[str, int], list[str]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"prompt_id": p, "generation_seed": s, "facet": str(f), "grade": g}
            for (p, s), own in grades.items()
            for f, g in zip(FACETS, own, strict=True)
        ]
    )


def test_nested_means_over_prompts_and_seeds():
    rows = table({("a", 1): ["2", "0", "1", "2"], ("a", 2): ["2", "2", "2", "N/A"]})
    # seed 1: realism 50, detail 60 -> quality 55; text 100 -> overall 77.5. seed 2: quality only.
    assert bench.overall_quality(rows).tolist() == pytest.approx([77.5, 100.0])
    assert bench.quality_points(rows, "Quality").loc["a"].tolist() == pytest.approx([55.0, 100.0])


def test_unread_answers_are_counted_and_leave_the_mean():
    rows = table({("a", 1): ["unread", "0", "1", "unread"], ("b", 1): ["N/A"] * 4})
    assert bench.unread_share(rows) == pytest.approx(2 / 8)
    points = bench.quality_points(rows)[1]
    assert points["a"] == pytest.approx(30.0) and np.isnan(points["b"])
    assert bench.overall_quality(rows)[1] == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: t.assign(grade="3"), "grade '3'"),
        (lambda t: pd.concat([t, t.head(1)]), "stands there twice"),
        (lambda t: t.iloc[1:], "no answer for seed 1"),
    ],
)
def test_broken_tables_are_refused(spoil, words):
    rows = table({("a", 1): ["2"] * 4, ("a", 2): ["2"] * 4})
    with pytest.raises(CastError, match=words):
        bench.overall_quality(spoil(rows))


def test_rows_of_a_judge():
    class Strict:
        def ask(self, image, prompt, facet):
            return "score: 2" if facet.name == "Light" else "hard to say"

    rows = bench.judge_rows(
        Strict(),
        Image.new("RGB", (4, 4)),
        "a prompt",
        FACETS,
        {"prompt_id": "a", "generation_seed": 1},
    )
    assert rows["grade"].tolist().count("2") == 1 and rows["grade"].tolist().count("unread") == 3
    assert set(rows.loc[rows["grade"] == "unread", "answer"]) == {"hard to say"}
    assert bench.overall_quality(rows)[1] == 100.0


def test_prompts_of_the_bench_bring_their_facets(tmp_path):
    from cast.evaluation.quality import _bench_prompts

    path = tmp_path / "bench.jsonl"
    path.write_text('{"ID": 1, "prompt": "A cat."}\n{"ID": 3, "prompt": "A street at night."}\n')
    records, facets = _bench_prompts(path)
    assert [record.prompt for record in records] == ["A cat.", "A street at night."]
    assert [len(facets[record.prompt_id]) for record in records] == [5, 4]
    for line in ('{"ID": 1001, "prompt": "A cat."}', '{"prompt": "A cat."}', "A cat."):
        path.write_text(line + "\n")
        with pytest.raises(CastError, match=r"line 1|1 to 1000"):
            _bench_prompts(path)
