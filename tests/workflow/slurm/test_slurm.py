"""A real SLURM of one node: what fails, is cancelled, preempted, drained, warned or killed ends in
the right result or one clear message, and nothing runs twice at once."""

import json
import os
import time
from pathlib import Path

import nbformat
import pytest
from driver import ARM, Driver, ask, begin_now, squeue, until

from cast.errors import CastError
from cast.paths import repository_root
from cast.site.listing import SHOWN
from cast.training.run_folder import LOCK_NAME, locked

pytestmark = pytest.mark.workflow

SNAKEFILE = """
STEP = "trap : TERM; python -m cast.workflow.step --scheduled notebooks/{rule}.ipynb "
STEP += "logs/{rule}.ipynb logs/{rule}.log "


rule all:
    input:
        expand("{name}.txt", name=["fails", "killed", "warned", "cancelled"]),


rule fails:
    output:
        "fails.txt",
    log:
        "logs/fails.ipynb",
        "logs/fails.log",
    shell:
        STEP


rule killed:
    output:
        "killed.txt",
    resources:
        mem_mb=lambda wc, attempt: 100 * attempt,
    shell:
        STEP + "-r memory {resources.mem_mb}"


rule warned:
    output:
        "warned.txt",
    shell:
        STEP


rule cancelled:
    output:
        "cancelled.txt",
    shell:
        "if [ -e begun ]; then touch {output}; else touch begun; sleep 600; fi"
"""

CELLS = {
    "fails": """
open("tries", "a").write("x")
raise ValueError("the cause")
""",
    # Out of memory, as the kernel sees it: SIGKILL.
    "killed": """
import os
from pathlib import Path
if not Path("killed-once").exists():
    Path("killed-once").touch()
    os.kill(os.getpid(), 9)
Path("killed.txt").write_text(memory)
""",
    # Needs longer than its time limit allows, the first time.
    "warned": """
import time
from pathlib import Path
starts = Path("starts")
open(starts, "a").write("x")
while starts.read_text() == "x":
    time.sleep(1)
Path("warned.txt").write_text(starts.read_text())
""",
}


def notebook(folder: Path, name: str, code: str) -> None:
    cells = [nbformat.v4.new_code_cell("memory = ''"), nbformat.v4.new_code_cell(code.strip())]
    cells[0].metadata.tags = ["parameters"]
    made = nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    (folder / "notebooks").mkdir(exist_ok=True)
    nbformat.write(made, folder / f"notebooks/{name}.ipynb")


def job_of(rule: str) -> str:
    """SLURM's id of a rule's job that is queued or runs."""
    jobs = [line.split("|") for line in squeue("%i|%k")]
    return next(number for number, comment in jobs if comment == f"rule_{rule}")


def test_each_fault_ends_in_the_right_result_or_one_message(bare: Driver):
    folder = bare.folder
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "logs").mkdir()
    for name, code in CELLS.items():
        notebook(folder, name, code)
    (node,) = ask("sinfo", "--noheader", "--format=%N")

    bare.start()
    until((folder / "starts").exists, "the step that takes long", bare)
    (spent,) = squeue("%M", f"--jobs={job_of('warned')}")
    limit = int(spent.split(":")[0]) + 2  # minutes; the warning comes a minute or so before
    ask("scontrol", "update", f"jobid={job_of('warned')}", f"timelimit={limit}")
    until((folder / "begun").exists, "the job to be cancelled", bare)
    ask("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    ask("scancel", job_of("cancelled"))
    until(lambda: "rule_cancelled" in squeue("%k", "--states=PENDING"), "the retry", bare)
    until(lambda: "rule_warned" in squeue("%k", "--states=PENDING"), "the end of the time", bare)
    ask("scontrol", "update", f"jobid={job_of('warned')}", "timelimit=30")
    assert not (folder / "cancelled.txt").exists()  # it waits for the node
    ask("scontrol", "update", f"nodename={node}", "state=resume")
    assert bare.wait() == 1

    assert (folder / "cancelled.txt").exists()
    assert (folder / "killed.txt").read_text() == "200"  # the second attempt's memory
    assert (folder / "warned.txt").read_text() == "xx"  # two starts, one result
    assert (folder / "tries").read_text() == "x"  # its own fault: tried once
    assert "ValueError: the cause" in (folder / "logs/fails.log").read_text()
    assert not (folder / "fails.txt").exists()
    failed = {line for line in bare.said.splitlines() if line.startswith("Error in rule")}
    assert failed == {f"Error in rule {name}:" for name in ("fails", "killed", "cancelled")}


def test_a_job_elsewhere_holds_the_run_folder(slurm, tmp_path: Path):
    """Even where a file system keeps its locks to each machine: the kernel's is free here."""
    (job,) = ask("sbatch", "--parsable", "--mem=10", "--output=/dev/null", "--wrap=sleep 600")
    while squeue("%T", f"--jobs={job}") != ["RUNNING"]:
        time.sleep(0.1)
    holder = {"pid": 1, "host": "node7", "job": job}
    (tmp_path / LOCK_NAME).write_text(json.dumps(holder))
    with pytest.raises(CastError, match=f"process 1 on node7, SLURM job {job}"), locked(tmp_path):
        pass
    ask("scancel", job)
    while squeue("%T", f"--jobs={job}"):
        time.sleep(0.1)
    with locked(tmp_path):  # it was killed: what it left names nobody any more
        assert str(os.getpid()) in (tmp_path / LOCK_NAME).read_text()


SAME = ("adapter/pytorch_lora_weights.safetensors", "metrics.parquet")


def check_result(folder: Path) -> None:
    """The bits of the smoke run's own training."""
    for name in SAME:
        expected = (repository_root() / ARM / name).read_bytes()
        assert (folder / ARM / name).read_bytes() == expected, name


def a_checkpoint(folder: Path):
    return lambda: any((folder / ARM).glob("checkpoints/*/step_*"))


def test_two_ranks_preempted_give_the_single_process_bits(trained_clone: Driver):
    folder = trained_clone.folder
    trained_clone.start(
        f"{ARM}/ledger.json",
        "--configfile=config/smoke.yaml",
        "--config",
        "compute={processes: 2, nodes: 1, chunks: 1}",
        "--set-resources",
        "train:gpu=2",
        "train:tasks_per_gpu=1",
    )
    until(a_checkpoint(folder), "a checkpoint", trained_clone)
    # A job that SLURM prefers wants a GPU; training holds both.
    urgent = ["--partition=urgent", "--gpus=1", "--mem=10", "--output=/dev/null", "--wrap=true"]
    ask("sbatch", *urgent)
    assert trained_clone.wait() == 0, trained_clone.said
    check_result(folder)
    ledger = json.loads((folder / ARM / "ledger.json").read_text())
    assert ledger["phases"]["generation"]["devices"] == 2
    assert "Restarts=1" in ask("scontrol", "show", "job")
    assert "Error in rule" not in trained_clone.said


def test_a_killed_driver_and_a_preempted_job_train_once(trained_clone: Driver):
    folder, target = trained_clone.folder, [f"{ARM}/ledger.json", "--configfile=config/smoke.yaml"]
    trained_clone.start(*target, "--set-resources", "train:gpu=1")
    until(a_checkpoint(folder), "a checkpoint", trained_clone)
    trained_clone.kill()
    (job,) = squeue("%i")
    ask("scontrol", "suspend", job)  # so that it isn't done before it is preempted
    assert trained_clone.run("--unlock") == 0

    assert trained_clone.run(*target) == 2
    refusal = f"SLURM still has jobs of a Snakemake that was killed here: {job} (rule_train"
    assert refusal in trained_clone.said
    ask("scontrol", "resume", job)
    ask("scancel", "--signal=TERM", job)  # as at a preemption

    def finished() -> bool:
        begin_now()
        return not squeue("%i")

    until(finished, "the end of the job", trained_clone)
    assert squeue("%T", "--states=all", f"--jobs={job}") == ["COMPLETED"]
    check_result(folder)
    (costs,) = (folder / ARM).glob("checkpoints/*/costs.jsonl")
    before = costs.read_bytes()
    assert trained_clone.run(*target) == 0, trained_clone.said
    check_result(folder)
    # The new driver's job found all of it done: no model was called for it.
    assert costs.read_bytes() == before


def test_the_whole_smoke_world_is_made_by_the_cluster(slurm, clone, site: Path):
    """From prompts to the claims table, from nothing, by the literal command of the profile."""
    driver, smoke = Driver(clone.root, site), "--configfile=config/smoke.yaml"
    assert driver.run(smoke, patience=3600.0) == 0, driver.said
    figures = clone.root / "results/smoke/paper_figures"
    missing = [name for name in SHOWN if not (figures / f"{name}.pdf").is_file()]
    assert not missing, driver.said
    jobs = [job.partition("|") for job in squeue("%T|%k", "--states=all")]
    done = {comment for state, _, comment in jobs if state == "COMPLETED"}
    for rule in ("prompts", "hard_case", "train", "evaluate", "structure", "checks", "verifier"):
        assert any(comment.startswith(f"rule_{rule}") for comment in done), rule
    assert driver.run(smoke) == 0
    assert "Nothing to be done" in driver.said
