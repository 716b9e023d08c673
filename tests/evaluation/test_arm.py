"""A whole evaluation with tiny models: base and two adapters, Hard Case, and what is refused.

The repository is a copy with its own backbone file, and everything is loaded as a user would.
"""

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import tiny
import yaml
from tiny_verifier import (  # pyright: ignore[reportMissingImports]
    tiny_model,
    tiny_processor,
    tiny_tokenizer,
)

from cast import evaluation, figures
from cast.config import BackboneConfig, CastConfig, ComputeSection, LoraSection, load_config
from cast.errors import CastError
from cast.evaluation.results import read_scores
from cast.figures.__main__ import main
from cast.io import read_json, write_json
from cast.paths import from_root, repository_root

OVERRIDES = {
    "world": "smoke",
    "backbones": ["tiny-flux2"],
    "methods": ["flow_grpo_g2", "cast"],
    "ablations": ["flow_grpo_g2", "cast"],
    "sampling": {"steps": 6, "height": 64, "width": 64},
    "diagnostics": {"heads": {"steps": [3]}},
    "verifier": {"path": "models/tiny/verifier", "heatmap": {"layers": None}},
    "evaluation": {
        "seeds": [1, 2],
        "limit": 4,
        "batch": 4,
        "hard_case": {"backbone": "tiny-flux2", "pool": 3, "keep": 2, "seeds": [11, 12]},
    },
    "figures": "paper_figures",
}
LEDGER = {
    "world": "smoke",
    "backbone": "tiny-flux2",
    "seed": 0,
    "prompt_ids": ["p"],
    "window_starts": [[0, 1]],
    "learning_rates": [1e-4],
    "images": 2,
    "updates": 1,
    "phases": {"generation": {"device_s": 36.0, "device_kind": "cpu", "device_name": "a CPU"}},
}


def build_world(root: Path) -> None:
    """A repository's files with a tiny backbone and verifier in place of the mini ones."""
    real = repository_root()
    shutil.copytree(real / "config", root / "config")
    shutil.copytree(real / "data" / "mini", root / "data" / "mini")
    shutil.copy(real / "pyproject.toml", root)
    pipeline = tiny.flux2()
    pipeline.save_pretrained(root / "models/tiny/flux2")
    verifier = root / "models/tiny/verifier"
    verifier.mkdir()
    tokenizer = tiny_tokenizer(verifier)
    for part in (tokenizer, tiny_model(tokenizer), tiny_processor()):
        part.save_pretrained(verifier)
    body = tiny.backbone_config("flux2", 4.0)
    assert isinstance(body, BackboneConfig)
    (root / "config/backbones/tiny-flux2.yaml").write_text(
        yaml.safe_dump(body.model_dump(mode="json"))
    )


def train_pretending(config: CastConfig, method: str, seed: int) -> None:
    """An adapter with weights that do something, and the ledger of a run that made it."""
    folder = evaluation.arm_folder(config, "tiny-flux2", method, 0)
    backbone = tiny.backbone("flux2", 4.0, 64, 64)
    backbone.add_lora(LoraSection(rank=2, alpha=4.0))
    tiny.randomised(backbone.transformer, seed)
    backbone.save_lora(folder / "adapter")
    base = read_json(from_root("base.json"))
    write_json(folder / "ledger.json", LEDGER | {"method": method, "base_sha256": base})
    write_json(folder / "run.json", {"run": {"world": "smoke", "method": method, "seed": 0}})


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    root = tmp_path_factory.mktemp("clone")
    build_world(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        config = load_config("config/smoke.yaml", OVERRIDES)
        evaluation.freeze_hard_case(config)
        evaluation.evaluate_arm(config, "tiny-flux2", "base")
        base = evaluation.arm_folder(config, "tiny-flux2", "base", 0)
        write_json(root / "base.json", read_json(base / "evaluation.json")["base_sha256"])
        for number, method in enumerate(config.methods):
            train_pretending(config, method, number)
            evaluation.evaluate_arm(config, "tiny-flux2", method)
        yield config


def test_every_arm_scores_the_same_prompts_and_seeds(config):
    arms = evaluation.load_arms(config)
    assert [arm.method for arm in arms] == ["base", "flow_grpo_g2", "cast"]
    for arm in arms:
        table = arm.scores[0]
        assert set(table["generation_seed"]) == {1, 2}
        assert set(table["oracle"]) <= {0.0, 1.0}
        assert min(table["score"] - table["score_strict"]) >= -1e-6
    columns = ["prompt_id", "generation_seed", "atom", "skill"]
    keys = [[arm.scores[0][column].tolist() for column in columns] for arm in arms]
    assert keys[0] == keys[1] == keys[2]
    means = [arm.by_prompt().mean() for arm in arms]
    assert len(set(means)) == 3  # the adapters do something


def test_hard_case_is_read_back_and_never_selected_anew(config):
    first = evaluation.load_hard_case(config)
    assert evaluation.freeze_hard_case(config) == first
    assert len(first.prompt_ids) == 2 and first.selection_seeds == (11, 12)
    other = load_config(
        "config/smoke.yaml",
        {**OVERRIDES, "evaluation": {**OVERRIDES["evaluation"], "seeds": [1, 3]}},
    )
    with pytest.raises(CastError, match="other settings"):
        evaluation.freeze_hard_case(other)
    with pytest.raises(CastError, match="evaluation_seeds is"):
        evaluation.load_hard_case(other)


def test_evaluating_again_gives_the_same_bytes(config):
    folder = evaluation.arm_folder(config, "tiny-flux2", "cast", 0)
    files = [folder / name for name in ("images.parquet", "scores.parquet", "evaluation.json")]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    evaluation.evaluate_arm(config, "tiny-flux2", "cast")
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_chunks_gives_the_same_bytes(config, count):
    chunked = config.model_copy(update={"compute": ComputeSection(chunks=count)})
    arm = ("tiny-flux2", "cast", 0)
    for what, finish in (
        (evaluation.Evaluated.of(chunked, *arm), lambda: evaluation.evaluate_arm(chunked, *arm)),
        (
            evaluation.Evaluated.of(chunked, "", "hard_case", 0),
            lambda: evaluation.freeze_hard_case(chunked),
        ),
    ):
        files = [what.folder / name for name in ("images.parquet", "scores.parquet")]
        files += [what.folder / "evaluation.json", what.folder.parent / "hard_case.json"]
        before = {file: file.read_bytes() for file in files if file.exists()}
        assert len(before) == 3
        for file in before:
            file.unlink()
        for index in reversed(range(count)):
            with pytest.raises(CastError, match="this chunk isn't evaluated"):
                finish()
            evaluation.evaluate_chunk(chunked, what, index)
        finish()
        assert {file: file.read_bytes() for file in before} == before


def test_an_incomplete_chunk_is_never_gathered(config):
    chunked = config.model_copy(update={"compute": ComputeSection(chunks=2)})
    what = evaluation.Evaluated.of(chunked, "tiny-flux2", "cast", 0)
    for index in range(2):
        evaluation.evaluate_chunk(chunked, what, index)
    work = what.folder / "chunks/1-of-2"
    images = pd.read_parquet(work / "images.parquet")
    picture = what.folder / images["image"].iloc[0]
    faults = {
        work / "images.parquet": (images.iloc[1:].to_parquet, "3 of 4 images are there"),
        work / "chunk.json": (
            lambda path: write_json(path, read_json(path) | {"steps": 50}),
            "made with steps 50, and that is now 6",
        ),
        work / "scores.parquet": (
            pd.read_parquet(work / "scores.parquet").iloc[1:].to_parquet,
            "scores.parquet",
        ),
        picture: (lambda path: path.unlink(), "1 images of 1-of-2 aren't there"),
    }
    for path, (damage, words) in faults.items():
        kept = path.read_bytes()
        damage(path)
        with pytest.raises(CastError, match=words):
            evaluation.evaluate_arm(chunked, "tiny-flux2", "cast")
        path.write_bytes(kept)
    many = config.model_copy(update={"compute": ComputeSection(chunks=5)})
    with pytest.raises(CastError, match="the benchmark has 4 prompts"):
        evaluation.evaluate_chunk(many, what, 0)
    with pytest.raises(CastError, match="there is no chunk 2"):
        evaluation.evaluate_chunk(chunked, what, 2)


def test_rescoring_needs_the_images_of_this_adapter(config):
    folder = evaluation.arm_folder(config, "tiny-flux2", "cast", 0)
    kept = (folder / "images.parquet").read_bytes()
    images = pd.read_parquet(folder / "images.parquet")
    try:
        images.assign(adapter_sha256="older").to_parquet(folder / "images.parquet")
        with pytest.raises(CastError, match="adapter_sha256 older"):
            evaluation.score_arm(config, "tiny-flux2", "cast")
        images.iloc[1:].to_parquet(folder / "images.parquet")
        with pytest.raises(CastError, match="has no image of seed 1"):
            evaluation.score_arm(config, "tiny-flux2", "cast")
        (folder / "images.parquet").unlink()
        with pytest.raises(CastError, match="generate this arm's images first"):
            evaluation.score_arm(config, "tiny-flux2", "cast")
    finally:
        (folder / "images.parquet").write_bytes(kept)


def test_unknown_and_untrained_methods_are_refused(config):
    with pytest.raises(CastError, match="Did you mean 'cast'"):
        evaluation.evaluate_arm(config, "tiny-flux2", "casts")
    with pytest.raises(CastError, match="train this arm first"):
        evaluation.evaluate_arm(config, "tiny-flux2", "per_atom")
    with pytest.raises(CastError, match="evaluate this arm first"):
        read_scores(evaluation.arm_folder(config, "tiny-flux2", "per_atom", 0))


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("ledger.json", {"images": 4}, "images is 4 for cast and 2 for flow_grpo_g2"),
        ("ledger.json", {"base_sha256": "bb"}, "base_sha256 is 'bb' for cast"),
        ("run.json", {"run": {"world": "mini"}}, "seed is 'absent' for cast and 0"),
        ("evaluation.json", {"world": "mini"}, "world is 'smoke' for tiny-flux2 base 0 and 'mini'"),
        ("evaluation.json", {"steps": 50}, "steps is 6 for tiny-flux2 base 0 and 50"),
        ("evaluation.json", {"base_sha256": "bb"}, "base_sha256 is"),
    ],
)
def test_planted_mismatches_are_refused(config, file, change, words):
    path = evaluation.arm_folder(config, "tiny-flux2", "cast", 0) / file
    kept = path.read_bytes()
    try:
        write_json(path, read_json(path) | change)
        with pytest.raises(CastError, match=words):
            evaluation.load_arms(config)
    finally:
        path.write_bytes(kept)


def test_artefacts_are_made_from_the_evaluation_twice_alike(config):
    for method in config.methods:
        folder = evaluation.arm_folder(config, "tiny-flux2", method, 0)
        numbers = {"score_mean": [0.5, 0.6], "diversity": [0.2, 0.2], "replay_error": [0.0, 1e-7]}
        pd.DataFrame({"collection": [0, 1], **numbers}).to_parquet(folder / "metrics.parquet")
    for item in (
        "table1",
        "table2",
        "table3",
        "figure1",
        "figure4",
        "figure5",
        "figure6",
        "claims",
    ):
        files = figures.make(item, config)
        before = [file.read_bytes() for file in files]
        assert [file.read_bytes() for file in figures.make(item, config)] == before
        assert {file.suffix for file in files} >= {".pdf", ".png", ".csv"}
    table = pd.read_csv(from_root("paper_figures/table1.csv"))
    assert table["method"].tolist() == ["base", "flow_grpo_g2", "cast"]
    assert set(table["world"]) == {"smoke"}
    claims = pd.read_csv(from_root("paper_figures/claims.csv")).set_index("id")["verdict"]
    assert claims["C09"] == claims["X4"] == claims["C28"] == "holds"
    assert claims["C10"] == "not run" or claims["C10"] == "needs full size"
    assert claims["C14"] == "undecided at this sample size"  # smoke numbers mean nothing


def test_own_prompts_go_from_a_file_to_scores_and_a_picture(config, capsys):
    lines = from_root("data/mini/benchmark.jsonl").read_text().splitlines()[:3]
    Path("mine.jsonl").write_text("\n".join(lines) + "\n")
    write_json("tiny.json", config.model_dump(mode="json"))
    arguments = ["--config", "tiny.json", "own", "mine.jsonl", "--out", "own"]
    assert main(arguments) == 0
    assert len(set(read_scores(Path("own"))["prompt_id"])) == 3
    assert Path("own/own_prompts.pdf").stat().st_size > 1000
    assert "GenEval 2 AM overall" in capsys.readouterr().out
    # `make own PROMPTS=mine.jsonl`, which the README names, is this command.
    root = str(Path(tiny.__file__).parents[1])
    asked = ["make", "-n", "-C", root, "own", "PROMPTS=mine.jsonl"]
    made = subprocess.run(asked, capture_output=True, text=True)
    command = 'cast.figures --config config/mini.yaml own "mine.jsonl" --out "results/own"'
    assert made.returncode == 0 and command in made.stdout
    Path("mine.jsonl").write_text(lines[0] + "\n" + lines[0] + "\n")
    assert main(arguments) == 2
    assert "mine.jsonl" in capsys.readouterr().err


def test_two_runs_are_compared(config, capsys):
    write_json("tiny.json", config.model_dump(mode="json"))
    folders = [str(evaluation.arm_folder(config, "tiny-flux2", m, 0)) for m in ("cast", "base")]
    assert main(["--config", "tiny.json", "compare", *folders, "--out", "compared"]) == 0
    report = capsys.readouterr().out
    assert "evaluation.json: method: cast | base" in report
    assert "overall, by the oracle" in report
    assert len(pd.read_csv("compared/compare.csv")) == 8  # four prompts, two runs
