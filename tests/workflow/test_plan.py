"""What the real Snakefile plans: all of it in every world, and after a change what it touches."""

import json
import re
import shutil
import tomllib

import pytest
import yaml

from cast.config import load_config
from cast.paths import repository_root
from cast.workflow.keys import BASE, list_arms

ALL_OF_MINI = [
    "evaluate mini-flux2 base 0",
    "evaluate mini-flux2 cast 0",
    "evaluate mini-flux2 flow_grpo_g2 0",
    "hard_case",
    "prompts",
    "table1",
    "train mini-flux2 cast 0",
    "train mini-flux2 flow_grpo_g2 0",
]


def finish(clone) -> None:
    """The state after a whole run of the mini world: every output there and recorded."""
    config = load_config("config/mini.yaml")
    world = clone.root / "results/mini"
    names = ["train", "development", "manifest", "benchmark"]
    files = [world / f"prompts/{name}.parquet" for name in names]
    files += [world / "prompts/report.json", world / "hard_case.json"]
    for backbone, method, seed in list_arms(config):
        arm = world / backbone / method / f"seed{seed}"
        files += [arm / name for name in ("images.parquet", "scores.parquet", "evaluation.json")]
        if method != BASE:
            files += [arm / "ledger.json", arm / "metrics.parquet"]
            files.append(arm / "adapter/pytorch_lora_weights.safetensors")
    files += [clone.root / f"paper_figures/table1.{kind}" for kind in ("pdf", "tex", "csv")]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    done = clone.run("snakemake", "--touch", "--forceall")
    assert done.returncode == 0, done.stdout + done.stderr
    assert clone.plan() == []


@pytest.mark.workflow
def test_every_world_has_a_plan(clone, monkeypatch):
    """The paper's too, without its weights, its data and a network."""
    monkeypatch.delenv("CAST_GENEVAL2", raising=False)
    shutil.rmtree(clone.root / "models", ignore_errors=True)
    assert clone.plan("paper_figures/table1.pdf") == ALL_OF_MINI
    smoke = clone.plan("--configfile=config/smoke.yaml")
    assert smoke == ALL_OF_MINI
    paper = clone.plan("--configfile=config/paper.yaml")
    assert len([job for job in paper if job.startswith("train ")]) == 4
    three = clone.plan("--config", "training_seeds=[0,1,2]")
    assert len([job for job in three if job.startswith("train ")]) == 6
    ablation = clone.plan("results/mini/mini-flux2/per_atom/seed0/scores.parquet")
    assert ablation == [
        "evaluate mini-flux2 per_atom 0",
        "hard_case",
        "prompts",
        "train mini-flux2 per_atom 0",
    ]


@pytest.mark.workflow
def test_what_says_nothing_reruns_nothing(clone):
    """Comments, docstrings, notebook texts and outputs, file times, a lost record of past runs."""
    finish(clone)
    clone.edit("src/cast/training/trainer.py", '"""', '"""New words. ')
    clone.edit("src/cast/flow/transition.py", "\n\n\ndef ", "\n\n\n# a comment\ndef ")
    clone.edit("config/methods/cast.yaml", "# ", "# New words. ")
    clone.edit("README.md", "# ", "# New words. ")
    path = clone.root / "notebooks/04_training.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][0]["source"] = ["New words."]
    notebook["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["x"]}]
    path.write_text(json.dumps(notebook))
    (clone.root / "results/mini/prompts/train.parquet").touch()
    assert clone.plan() == []
    shutil.rmtree(clone.root / ".snakemake")
    assert clone.plan() == []
    (clone.root / "paper_figures/table1.pdf").unlink()
    assert clone.plan() == ["table1"]


CAST_ARM = ["evaluate mini-flux2 cast 0", "table1", "train mini-flux2 cast 0"]
TRAINED = sorted(
    [*CAST_ARM, "train mini-flux2 flow_grpo_g2 0", "evaluate mini-flux2 flow_grpo_g2 0"]
)


@pytest.mark.workflow
def test_a_change_reruns_what_depends_on_it(clone):
    finish(clone)

    def after(name: str, old: str, new: str, *arguments: str) -> list[str]:
        path = clone.root / name
        before = path.read_text()
        clone.edit(name, old, new)
        try:
            return clone.plan(*arguments)
        finally:
            path.write_text(before)

    method = ("config/methods/cast.yaml", "kind: rl", "kind: rl\nlearning_rate: 1.0e-3")
    assert after(*method) == CAST_ARM
    assert after("config/mini.yaml", "learning_rate: 1.0e-04", "learning_rate: 1.0e-03") == TRAINED
    keep = after("config/mini.yaml", "keep: 50", "keep: 40")
    assert keep == sorted(["hard_case", *TRAINED])  # runs record it; they resume to the same bytes
    code = ("src/cast/training/trainer.py", "def train(", "CHANGED = 1\n\n\ndef train(")
    assert set(TRAINED) <= set(after(*code))
    figures = ("src/cast/figures/table1.py", "def table1(", "CHANGED = 1\n\n\ndef table1(")
    assert after(*figures) == ["table1"]
    every = after("src/cast/scene_graph/sampling.py", "\n\n\ndef ", "\n\n\nCHANGED = 1\n\n\ndef ")
    assert every == ALL_OF_MINI
    assert clone.plan("--config", "methods=[cast]") == ["table1"]
    assert clone.plan() == []


BAD = {
    "unknown key": (["--config", "training={lerning_rate: 1}"], "Did you mean 'learning_rate'?"),
    "out of range": (["--config", "training={group_size: 1}"], "training.group_size = 1"),
    "unknown backbone": (["--config", "backbones=[mini-flux]"], "Did you mean 'mini-flux2'?"),
    "missing file": (["--config", "evaluation={benchmark: data/none}"], "data/none: no such file"),
    "missing model": (["--config", "verifier={path: models/mini/no}"], "models/mini/no"),
}


@pytest.mark.workflow
@pytest.mark.parametrize("fault", BAD)
def test_a_bad_config_ends_before_any_rule(fault, clone):
    arguments, message = BAD[fault]
    done = clone.run("snakemake", "results/mini/prompts/report.json", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "rule" not in done.stdout + done.stderr.replace("rules", "")
    assert not (clone.root / "results").exists()


def test_the_slurm_link_and_the_environment_are_in_step():
    """`snakemake --profile slurm` looks for ./slurm; conda takes the rest from pip."""
    root = repository_root()
    assert (root / "slurm").is_symlink() and (root / "slurm/profile.yaml").is_file()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    environment = yaml.safe_load((root / "environment.yml").read_text())
    plain = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    assert {entry.split("=")[0] for entry in plain} == {"python", "pip", "graphviz"}
    python = next(entry for entry in plain if entry.startswith("python"))
    assert project["requires-python"] == f">={python.split('=')[1]}"
    pip = next(entry for entry in environment["dependencies"] if isinstance(entry, dict))["pip"]
    assert "-e ." in pip


def test_the_lock_file_covers_every_dependency():
    root = repository_root()
    lines = (root / "requirements.lock").read_text().splitlines()
    locked = {line.split("==")[0].lower() for line in lines if "==" in line}
    assert all(
        re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", line)
        for line in lines
        if line and line[0] != "#"
    )
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for entry in project["dependencies"] + project["optional-dependencies"]["dev"]:
        assert re.split(r"[\[><=]", entry)[0].lower() in locked, entry


def test_the_snakefile_fits_on_a_screen():
    assert len((repository_root() / "Snakefile").read_text().splitlines()) <= 40
