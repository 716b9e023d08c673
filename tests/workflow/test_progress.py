"""Progress is read off Snakemake's log, and the time left follows the work that is left."""

import pytest

from cast.workflow import progress as module
from cast.workflow.progress import Progress, clock, spoken

LOG = """\
Job stats:
job         count
--------  -------
train           2
table1          1
all             1
total           4

[Mon Nov 30 19:54:04 2026]
rule train:
    input: a, b
    output: c
    log: {folder}/cast.ipynb, {folder}/cast.log
    jobid: 3
    reason: Missing output files: c
    wildcards: backbone=mini-flux2, method=cast, seed=0
    resources: tmpdir=/tmp
"""


@pytest.fixture
def running(tmp_path, monkeypatch) -> Progress:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    progress = Progress({"train": 100.0, "all": 0.0}, cores=2, default=10.0)
    for line in LOG.format(folder=tmp_path).splitlines():
        assert progress.feed(line) is None
    now[0] += 60.0
    return progress


def test_plan_and_running_jobs(running):
    assert running.planned == {"train": 2, "table1": 1, "all": 1}
    assert [job.rule for job in running.running.values()] == ["train"]
    assert "  0%, about 4 min left: train (mini-flux2, cast, 0) 0%" in running.line()


def test_the_bar_of_a_job_counts(running, tmp_path):
    (tmp_path / "cast.log").write_text(
        "cast:  10%| | 3/10 [00:01\rcast:  80%| | 8/10 [00:02<00:01\n"
    )
    # 80 of 210 seconds of work done; speed (80 + 2 * 60) / (60 + 60)
    assert " 38%, about 78 s left: train (mini-flux2, cast, 0) 80%" in running.line()
    (tmp_path / "cast.log").write_text("other words only")
    assert "80%" in running.line()  # never backwards


def test_generation_and_scoring_are_half_each(tmp_path):
    log = tmp_path / "x.log"
    job = module.Job("evaluate", log=str(log))
    log.write_text("generating:  50%| | 5/10 [00:01\n")
    assert job.fraction() == 0.25
    log.write_text("generating: 100%| | 10/10 [00:01\nscoring:  50%| | 5/10 [00:01\n")
    assert job.fraction() == 0.75


def test_a_finished_job_says_so(running):
    assert running.feed("Finished jobid: 3 (Rule: train)") == "finished train (mini-flux2, cast, 0)"
    assert not running.running
    assert " 48%" in running.line()


def test_a_failed_job_shows_the_end_of_its_log(running, tmp_path):
    (tmp_path / "cast.log").write_text("many\nlines\nCastError: models/mini: no such folder\n")
    running.feed("Error in rule train:")
    running.feed("    jobid: 3")
    running.feed(
        f"    log: {tmp_path}/a.ipynb, {tmp_path}/cast.log (check log file(s) for details)"
    )
    assert running.reasons().endswith("CastError: models/mini: no such folder")


def test_times_as_people_say_them():
    assert clock(760.0) == " 12:40"
    assert [spoken(s) for s in (40.0, 1260.0, 12600.0)] == ["40 s", "21 min", "3.5 h"]
