"""Issue 14, number 16 (what nodes say of a restored database): a node ends no job that it was never given.

The attack: an attacker with the key of a node claims that it holds, or has ended, jobs that wait. After a loss that may be true;
a database that is whole has the start of each job that was launched, so there it is a lie, which ended waiting jobs of
everybody: COMPLETED without having run, or FAILED with --no-requeue.
"""

from pathlib import Path

import pytest

from ctld.core.records.events import StepExited
from ctld.store.loss import NOTHING, Accept
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState
from tests.core.test_16_restored import Site, held
from tests.store.making import NOW_US
from tests.store.test_21_witness import leading


def state_of(site: Site, job_id: int) -> tuple[object, ...]:
    job = site.state.jobs[job_id]
    return job.state, job.attempt, job.eligible_at_us, job.end_at_us, job.reason_detail


def ends(site: Site, job_id: int, node: str = "n2", number: int = 1) -> None:
    site.do(
        StepExited(node, job_id, 0, BATCH_STEP, f"spool-{node}", number, site.links, site.now_us, site.now_us, 0, 0)
    )


@pytest.mark.parametrize("state", ["RUNNING", "ACCEPTED", "EXITED", "TOMBSTONE"])
@pytest.mark.parametrize("attempt", [0, 3])
@pytest.mark.parametrize("requeue", [True, False])
def test_16_a_waiting_job_is_not_ended_by_a_node_s_word(state: str, attempt: int, requeue: bool) -> None:
    site = Site()
    site.register("n1")
    job_id = site.submit(requeue=requeue, begin_at_us=site.now_us * 2)
    before = state_of(site, job_id)
    site.register("n2", held(job_id, state, attempt), job_id=job_id)
    site.leave("n2")
    site.register("n2", held(job_id, state, attempt), job_id=job_id)
    ends(site, job_id)
    assert state_of(site, job_id) == before and before[0] is JobState.PENDING


def test_16_what_waits_since_before_a_loss_may_have_run() -> None:
    site = Site()
    site.register("n1")
    job_id = site.submit(begin_at_us=site.now_us * 2)
    site.state.gap.loss_at_us = site.now_us
    later = site.submit(begin_at_us=site.now_us * 2)
    for job in (later, job_id):
        site.register("n2", held(job, "EXITED"))
        ends(site, job)
        site.leave("n2")
    assert site.state.jobs[job_id].state is JobState.COMPLETED
    assert site.state.jobs[later].state is JobState.PENDING


def test_16_only_a_node_that_may_have_run_it_says_so() -> None:
    """After a loss too: one that the job excludes, or that reports an end which it did not hold, is not believed."""
    site = Site()
    site.register("n1")
    jobs = [site.submit(begin_at_us=site.now_us * 2, nodes_excluded=excluded) for excluded in ("n2", "", "")]
    site.state.gap.loss_at_us = site.now_us
    excluded, other, run = jobs
    before = state_of(site, excluded)
    site.register("n2")  # ids of this process are not those that a node had seen before
    site.leave("n2")
    site.register("n2", held(excluded, "EXITED"), held(run, "EXITED"))
    for number, job_id in enumerate(jobs, 1):
        ends(site, job_id, "n1", number)
        ends(site, job_id, "n2", number)
    assert state_of(site, excluded) == before
    assert [site.state.jobs[job_id].state for job_id in (other, run)] == [JobState.PENDING, JobState.COMPLETED]
    assert site.state.jobs[run].batch_node == "n2" and not site.state.gap.awaited_ends


@pytest.mark.parametrize(("accept", "lost"), [(NOTHING, 0), (Accept(is_accepted=True), NOW_US + 1)])
def test_16_the_database_keeps_when_a_loss_was_accepted(
    any_store: str, tmp_path: Path, accept: Accept, lost: int
) -> None:
    for at_us, said in ((NOW_US, NOTHING), (NOW_US + 1, accept), (NOW_US + 2, NOTHING)):
        store = leading(any_store, tmp_path / "witness", said, at_us)
        found = store.load(NOW_US, 0, 0).loss_at_us
        store.close()
    assert found == lost


def test_16_without_a_witness_a_loss_cannot_be_ruled_out(any_store: str, tmp_path: Path) -> None:
    for at_us, name in ((NOW_US, "first"), (NOW_US + 1, "second"), (NOW_US + 2, "second")):
        store = leading(any_store, tmp_path / name, NOTHING, at_us)
        found = store.load(NOW_US, 0, 0).loss_at_us
        store.close()
    assert found == NOW_US + 1
