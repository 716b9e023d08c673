"""List scheduling: known optima, and properties that hold for any set of tasks."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cast.config import load_config
from cast.errors import CastError
from cast.full_size.cost import gpu_hours, job_costs
from cast.full_size.operations import Assumptions
from cast.full_size.simulation import Task, schedule, simulate, tasks


def test_known_schedules():
    chain = [Task("a", 1.0), Task("b", 2.0, needs=("a",)), Task("c", 4.0)]
    assert schedule(chain, 1).hours == 7.0
    two = schedule(chain, 2)
    assert two.hours == 4.0 and two.critical == ("c",)
    late = schedule([*chain, Task("d", 3.0, needs=("b",))], 2)
    assert late.hours == 6.0 and late.critical == ("a", "b", "d")


def test_a_wide_task_waits_for_its_gpus():
    done = schedule([Task("narrow", 2.0), Task("wide", 1.0, gpus=2)], 2)
    assert done.hours == 3.0


def test_faults_are_named():
    with pytest.raises(CastError, match="needs 4, and there are 2 GPUs"):
        schedule([Task("wide", 1.0, gpus=4)], 2)
    with pytest.raises(CastError, match=r"needs \['x'\]"):
        schedule([Task("a", 1.0, needs=("x",))], 2)
    with pytest.raises(CastError, match="in a circle"):
        schedule([Task("a", 1.0, needs=("b",)), Task("b", 1.0, needs=("a",))], 2)


@st.composite
def task_rows(draw):
    """Fields of tasks, not tasks: what checks types asks `random`, which a strategy may not."""
    count = draw(st.integers(1, 8))
    return [
        (
            f"t{i}",
            draw(st.floats(0.1, 5.0)),
            draw(st.integers(1, 2)),
            tuple(f"t{j}" for j in range(i) if draw(st.booleans())),
        )
        for i in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(rows=task_rows(), gpus=st.integers(2, 4))
def test_no_schedule_breaks_the_laws(rows, gpus):
    jobs = [Task(*row) for row in rows]
    result = schedule(jobs, gpus)
    by_name = {job.name: job for job in jobs}
    for job in jobs:
        assert all(result.end[need] <= result.start[job.name] for need in job.needs)
    for moment in result.start.values():
        at_work = [n for n in by_name if result.start[n] <= moment < result.end[n]]
        assert sum(by_name[n].gpus for n in at_work) <= gpus
    work = sum(job.hours * job.gpus for job in jobs)
    assert work / gpus - 1e-9 <= result.hours <= sum(job.hours for job in jobs) + 1e-9
    chain = result.critical
    assert result.start[chain[0]] == 0.0 and result.end[chain[-1]] == result.hours
    for first, second in itertools.pairwise(chain):
        assert result.start[second] == pytest.approx(result.end[first])


def test_the_papers_schedule_keeps_the_work_and_gains_from_gpus():
    config = load_config("config/paper.yaml")
    total = sum(job.total for job in job_costs(config))
    assert total == pytest.approx(sum(sum(row.values()) for row in gpu_hours(config).values()))
    schedules = simulate(config)
    assert schedules[1].hours == pytest.approx(total)
    assert 0.999 * total / 8 < schedules[8].hours < 1.3 * total / 8  # all GPUs busy at best
    assert schedules[64].hours < schedules[8].hours
    first, *_, last = schedules[64].critical
    assert first.startswith("hard_case") and last.startswith("quality")  # on one GPU an arm


def test_tasks_wait_for_what_the_workflow_lets_them_wait_for():
    by_name = {task.name: task for task in tasks(load_config("config/paper.yaml"), 2)}
    chunks = ("hard_case chunk0", "hard_case chunk1")
    assert by_name["train flux2-dev cast seed0"].needs == chunks
    evaluated = by_name["evaluate flux2-dev cast seed0 chunk1"]
    assert evaluated.needs == ("train flux2-dev cast seed0",)
    assert by_name["quality flux2-dev cast seed0"].needs == (
        "evaluate flux2-dev cast seed0 chunk0",
        "evaluate flux2-dev cast seed0 chunk1",
    )
    assert by_name["heads z-image seed0"].needs == chunks
    assert by_name["structure z-image seed1"].needs == by_name["checks"].needs == ()
    assert len([need for need in by_name["qualitative"].needs if need.startswith("eval")]) == 18


def test_hours_scale_with_the_speed():
    config = load_config("config/paper.yaml")
    slow = gpu_hours(config, Assumptions(speed=100e12))
    fast = gpu_hours(config, Assumptions(speed=200e12))
    for arm, stages in slow.items():
        for stage, hours in stages.items():
            assert hours == pytest.approx(2 * fast[arm][stage])
