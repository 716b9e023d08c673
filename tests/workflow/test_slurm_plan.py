"""`snakemake --profile slurm -n` at full size: every job gets what its kind needs, and a price."""

import re

import pytest
import yaml

from cast.config import load_config
from cast.full_size.cost import job_costs
from cast.paths import from_root
from cast.workflow.plan import PlannedJob, plan

SITE = {
    "account": "lab",
    "partition": "gpus",
    "cpu_partition": "cpus",
    "qos": None,
    "constraint": "nvlink",
    "gpu_model": "h200",
    "scratch": None,
    "longest": 1200,
    "warning": 300,
    "jobs": 9,
}


def local_rules() -> set[str]:
    """Rules that Snakemake runs beside itself, with several chunks; a dry run doesn't say so."""
    texts = [file.read_text() for file in from_root("rules").glob("*.smk")]
    rules = [rule for text in texts for rule in re.split(r"\n *rule (?=\w+:)", text)[1:]]
    local = [rule for rule in rules if re.search(r"localrule: (True|CHUNKS > 1)\n", rule)]
    return {rule.split(":")[0] for rule in local}


def jobs_of(text: str) -> list[tuple[str, dict[str, str]]]:
    """Rule and resources of every job that a dry run lists."""
    found = []
    for block in re.split(r"\n(?=rule \w+:\n)", text)[1:]:
        resources = re.search(r"\n    resources: (.*)", block)
        pairs = re.findall(r"(\w+)=(.*?)(?:, (?=\w+=)|$)", resources[1] if resources else "")
        name = block.removeprefix("rule ").partition(":")[0]
        found.append((name, dict(pairs)))
    return found


@pytest.mark.workflow
def test_every_job_of_the_paper_gets_what_it_needs(clone, monkeypatch):
    """Without weights, benchmark and network."""
    site = clone.root / "my_site.yaml"
    site.write_text(yaml.safe_dump(SITE))
    monkeypatch.setenv("CAST_SITE", str(site))
    monkeypatch.delenv("CAST_GENEVAL2", raising=False)
    spread = ["--config", "compute={processes: 8, nodes: 2, chunks: 4}"]
    done = clone.run("snakemake", "--profile", "slurm", "--dry-run", *spread)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = jobs_of(done.stdout + done.stderr)
    assert {"train", "chunk_of_evaluation", "chunk_of_hard_case"} <= {name for name, _ in jobs}
    for name, resources in jobs:
        if int(resources.get("gpu", 0)) == 0:
            assert name in local_rules() or resources["slurm_partition"] == "cpus", name
            continue
        wanted = ("gpus", "nvlink", "h200", "1200", "lab")
        keys = ("slurm_partition", "constraint", "gpu_model", "runtime", "slurm_account")
        assert tuple(resources.get(key) for key in keys) == wanted, f"{name}: profile.yaml, models"
        assert resources["slurm_extra"] == "--signal=TERM@300"
        assert int(resources["mem_mb"]) >= 128_000, f"{name}: mem_mb=memory_of"
    train = next(resources for name, resources in jobs if name == "train")
    keys = ("gpu", "tasks", "tasks_per_gpu", "nodes", "mpi", "mem_mb")
    assert [train[key] for key in keys] == ["8", "8", "1", "2", "srun", "512000"]

    config = load_config("config/paper.yaml")
    evaluated = sum(cost.total for cost in job_costs(config) if cost.rule == "hard_case")
    lines = [line for line in done.stdout.splitlines() if line.startswith("chunk_of_hard_case")]
    # Snakemake's own statistics come first.
    assert lines[-1].split() == ["chunk_of_hard_case", "4", "1", f"{evaluated:.1f}"]
    # Each job has a price, and the whole of the plan that of the cost model.
    (sums,) = [line for line in done.stdout.splitlines() if line.startswith("all of these")]
    assert float(sums.split()[-1]) == pytest.approx(
        sum(c.total for c in job_costs(config)), abs=0.1
    )
    assert "Not in the sum" not in done.stdout


def test_hours_are_summed_by_rule_and_what_has_none_is_named():
    config = load_config("config/paper.yaml")
    costs = {c.rule: c.total for c in job_costs(config) if c.method in ("cast", "")}
    arm = {"backbone": "qwen-image-2512", "method": "cast", "seed": "0"}
    jobs = [
        PlannedJob("train", arm, 1),
        PlannedJob("hard_case", {}, 1),
        PlannedJob("train", {**arm, "method": "per_atom"}, 1),  # an ablation
        PlannedJob("novelty", {}, 2),
        PlannedJob("structure", {"backbone": "z-image", "seed": "1"}, 1),
        PlannedJob("quality", arm, 1),
        PlannedJob("checks", {}, 1),
        PlannedJob("table1", {}, 0),
    ]
    lines = [line.split() for line in plan(config, jobs).splitlines()]
    assert lines[1][:2] == ["train", "2"] and float(lines[1][3]) > costs["train"]
    assert lines[2] == ["hard_case", "1", "1", f"{costs['hard_case']:.1f}"]
    assert lines[3] == ["novelty", "1", "2", "?"]
    priced = {line[0]: float(line[3]) for line in lines[4:7]}
    expected = {"structure": "z-image/structure/seed1", "quality": "qwen-image-2512/cast/seed0"}
    for rule, place in {**expected, "checks": "checks"}.items():
        hours = {(c.rule, c.place): c.total for c in job_costs(config)}[rule, place]
        assert priced[rule] == pytest.approx(hours, abs=0.06)
    others = costs["hard_case"] + sum(priced.values())
    assert float(lines[7][-1]) == pytest.approx(float(lines[1][3]) + others, abs=0.3)
    assert "no novelty" in plan(config, jobs) and "and 1 jobs without a GPU" in plan(config, jobs)
    assert "Nothing that needs a GPU" in plan(config, [PlannedJob("table1", {}, 0)])
