"""Sets of nodes that jobs ask for: those of ended jobs are dropped, and those of waiting jobs stay what they are."""

from itertools import combinations

import pytest

from ctld.core.records.events import CancelJobs, JobFilter, JobSubmission
from ctld.core.state import columns
from penstock.values.states import JobState
from tests.core.world import World, make_config

NODES = 12
BUSY = 12  # sets of a table beyond twice those of the waiting jobs


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Nodes that are full, and a table of few sets."""
    monkeypatch.setattr(columns, "LEFT_BYTES_MAX", BUSY * (columns.SET_BYTES + 16))
    world = World(make_config(nodes=NODES))
    for n in range(1, NODES + 1):
        world.register(f"n{n}")
    world.submit(JobSubmission(name="all", work_dir=b"/tmp", nodes_min=NODES, exclusive=True))
    return world


def waiting(world: World, *excluded: str) -> int:
    """Submits a job that has to wait; its id."""
    world.submit(JobSubmission(name="w", work_dir=b"/tmp", nodes_excluded=",".join(excluded)))
    return max(world.core.state.jobs)


def cancel(world: World, job_id: int) -> None:
    world.do(CancelJobs(world.actor("ann"), JobFilter(ids=(str(job_id),))))


def number_of_sets(world: World) -> int:
    return len(world.core.state.layout.masks.bits)


def test_sets_of_ended_jobs_do_not_stay(world: World) -> None:
    kept = waiting(world, "n1", "n2")
    most = 0
    for excluded in combinations([f"n{n}" for n in range(2, NODES + 1)], 3):
        cancel(world, waiting(world, *excluded))
        most = max(most, number_of_sets(world))
    assert most <= 3 * BUSY
    names = world.core.state.jobs[kept]
    assert names.state is JobState.PENDING and names.request.nodes_excluded == ("n1", "n2")


def test_waiting_jobs_keep_theirs(world: World) -> None:
    """Each waits for one node; the table is replaced several times while they wait."""
    names = [f"n{n}" for n in range(1, NODES + 1)]
    jobs = {waiting(world, *(other for other in names if other != name)): name for name in names}
    for n, excluded in enumerate(combinations(names, 2)):
        job = waiting(world, *excluded)
        if n % 3:
            cancel(world, job)
    cancel(world, 1)
    world.report_exit("n1", 1, 0, signal=15)
    assert {job: world.core.state.jobs[job].alloc[0].node for job in jobs} == jobs
