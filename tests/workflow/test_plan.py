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

LIGHT = ["claims", "qualitative", "table1", "table2", "table3"]  # from results, without training


def everything(name: str) -> list[str]:
    """All jobs of a config."""
    arms = list_arms(load_config(f"config/{name}.yaml"))
    jobs = ["checks", "hard_case", "prompts", "verifier", *LIGHT]
    jobs += [f"evaluate {backbone} {method} {seed}" for backbone, method, seed in arms]
    return sorted(jobs + [f"train {b} {m} {s}" for b, m, s in arms if m != BASE])


def finish(clone) -> None:
    """The state after a whole run of the mini world: every output there and recorded."""
    for path in clone.outputs():
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
    assert clone.plan() == everything("mini")
    assert clone.plan("--configfile=config/smoke.yaml") == everything("smoke")
    config = load_config("config/paper.yaml")
    paper = clone.plan("--configfile=config/paper.yaml")
    trained = [job.split()[1:3] for job in paper if job.startswith("train ")]
    own = config.evaluation.hard_case.backbone
    expected = [[b, m] for b in config.backbones for m in config.methods]
    expected += [[own, m] for m in config.ablations if m not in config.methods]
    assert sorted(trained) == sorted(expected)


@pytest.mark.workflow
def test_one_artefact_plans_only_what_it_needs(clone):
    ablation = clone.plan("results/mini/mini-flux2/per_atom/seed0/scores.parquet")
    assert ablation == [
        "evaluate mini-flux2 per_atom 0",
        "hard_case",
        "prompts",
        "train mini-flux2 per_atom 0",
    ]
    one = clone.plan("paper_figures/table1.pdf")
    assert "table1" in one and not {"checks", "claims", "table2", "table3"} & set(one)
    assert not [job for job in one if "per_atom" in job]
    assert clone.plan("results/mini/claims/X1.json") == ["checks", "prompts"]
    three = clone.plan("paper_figures/table1.pdf", "--config", "training_seeds=[0,1,2]")
    assert len([job for job in three if job.startswith("train ")]) == 3 * len(
        [job for job in one if job.startswith("train ")]
    )
    more = clone.plan("paper_figures/table1.pdf", "--config", "more_seeds={cast: [2]}")
    assert sorted(set(more) - set(one)) == ["evaluate mini-flux2 cast 2", "train mini-flux2 cast 2"]


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
    assert clone.plan() == ["claims", "table1"]


CAST_ARM = sorted(["evaluate mini-flux2 cast 0", "train mini-flux2 cast 0", *LIGHT])


@pytest.mark.workflow
def test_a_change_reruns_what_depends_on_it(clone):
    finish(clone)
    every = everything("mini")
    light = set(LIGHT)
    trained = sorted(job for job in every if job.startswith("train ") or " base " not in job)
    trained = sorted(set(trained) - {"checks", "hard_case", "prompts", "verifier"})

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
    rate = after("config/mini.yaml", "learning_rate: 1.0e-04", "learning_rate: 1.0e-03")
    assert rate == sorted(["checks", *trained])
    keep = after("config/mini.yaml", "keep: 50", "keep: 40")
    assert keep == sorted(["hard_case", *trained])  # runs record it; they resume to the same bytes
    code = ("src/cast/training/trainer.py", "def train(", "CHANGED = 1\n\n\ndef train(")
    assert set(trained) | {"checks"} <= set(after(*code))
    figures = ("src/cast/figures/table1.py", "def table1(", "CHANGED = 1\n\n\ndef table1(")
    assert after(*figures) == LIGHT
    ablation = ("config/methods/per_atom.yaml", "kind: rl", "kind: rl\nlearning_rate: 1.0e-3")
    arm = ["evaluate mini-flux2 per_atom 0", "train mini-flux2 per_atom 0"]
    assert after(*ablation) == sorted([*arm, "claims", "table2", "table3"])
    sampled = after("src/cast/scene_graph/sampling.py", "\n\n\ndef ", "\n\n\nCHANGED = 1\n\n\ndef ")
    assert sampled == every
    assert set(clone.plan("--config", "methods=[cast]")) == light - {"table2"}
    assert clone.plan() == []


@pytest.mark.workflow
def test_copied_results_are_kept_and_only_what_is_missing_is_made(clone):
    """A fresh clone with results copied in, without Snakemake's record of how they were made."""
    finish(clone)
    shutil.rmtree(clone.root / ".snakemake")
    shutil.rmtree(clone.root / "results/mini/mini-flux2/per_atom")
    (clone.root / "paper_figures/figure5.png").unlink()
    arm = ["evaluate mini-flux2 per_atom 0", "train mini-flux2 per_atom 0"]
    assert clone.plan() == sorted([*arm, "claims", "qualitative", "table2", "table3"])


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
