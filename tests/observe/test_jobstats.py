"""Numbers of jobs by group: the sums, and the limit of how many groups are named."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ctld.observe.jobstats import JobStats, add_up, capped
from ctld.runtime.snapshot import Snapshot
from penstock.exporter.pace import WorkPace
from penstock.values.states import JobState, Reason
from tests.runtime.test_tally import batch, row


def stats(jobs: int) -> JobStats:
    """The numbers of so many pending jobs."""
    found = JobStats()
    found.jobs = jobs
    found.counts["pending"] = jobs
    return found


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5)), st.integers(1, 9))
def test_no_more_groups_than_the_limit_and_no_job_is_lost(jobs, values_max):
    by = {name: stats(count) for name, count in jobs.items()}
    found = asyncio.run(capped(by, values_max, WorkPace()))
    assert len(found) <= values_max or len(found) == len(by) == 0
    assert sum(one.jobs for one in found.values()) == sum(jobs.values())
    assert sum(one.counts["pending"] for one in found.values() if one.jobs) == sum(jobs.values())
    if "other" in found and len(found) > 1:
        named = [name for name in found if name != "other"]
        assert named == sorted(named) and min(jobs[name] for name in named) >= max(
            count for name, count in jobs.items() if name not in named
        )


def test_a_completing_job_counts_as_what_it_will_be_and_a_configuring_one_runs():
    snapshot = Snapshot()
    tally = snapshot.count_for_metrics()
    snapshot.apply(batch(
        row(1, JobState.COMPLETING, end_state=JobState.FAILED), row(2, JobState.CONFIGURING),
        row(3, reason=Reason.PARTITION_NODE_LIMIT),
    ))  # fmt: skip
    totals = asyncio.run(add_up(tally, "default", WorkPace()))
    wanted = {"failed": 1, "completing": 1, "finished": 1, "started": 2, "configuring": 1, "running": 1, "pending": 1}
    assert totals.cluster.counts == wanted and totals.cluster.jobs == 3
    assert {name: one.jobs for name, one in totals.by_partition.items()} == {"p": 3, "q": 1}
    assert totals.by_partition["q"].counts == {"pending": 1, "wait_part_node_limit": 1}
    assert totals.by_reason == {"PartitionNodeLimit": 1}
