"""Requests that differ in their time limits alone share the result of all other checks (requests/submit.py)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import JobSubmission
from penstock.values.config import PartitionConfig
from tests.core.world import World, make_config

NAMES = ("n1", "n2")
PARTITIONS = (
    PartitionConfig("main", NAMES, is_default=True),
    PartitionConfig("short", NAMES, max_time_s=600, default_time_s=60),
    PartitionConfig("wide", NAMES, max_nodes=1),
)

submissions = st.fixed_dictionaries(
    {
        "user": st.sampled_from(("ann", "bob")),
        "partitions": st.sampled_from((("main",), ("short",), ("wide",), ("short", "main"))),
        "time_limit_s": st.sampled_from((None, -1, 0, 1, 300, 600, 601, 3600, 1 << 40)),
    },
    optional={
        "time_min_s": st.sampled_from((0, 300, 3600)),
        "nodes_min": st.sampled_from((1, 2, 3)),
        "prefer": st.sampled_from(("", "nosuch")),  # a request with it is not a compact one
        "oversubscribe": st.booleans(),
    },
)


def world(how: str) -> World:
    made = World(make_config(nodes=2, partitions=PARTITIONS, enforce_part_limits=how))
    for name in NAMES:
        made.register(name)
    return made


@given(st.lists(submissions, max_size=8), st.sampled_from(("NO", "ANY", "ALL")))
def test_a_cached_check_and_a_fresh_one_decide_the_same(given_jobs: list[dict[str, Any]], how: str) -> None:
    cached, fresh = world(how), world(how)
    for one in given_jobs:
        job = JobSubmission(name="j", work_dir=b"/", **{k: v for k, v in one.items() if k != "user"})
        fresh.core.state.submissions.accepted.clear()
        fresh.core.state.submissions.completed.clear()
        assert cached.submit(job, one["user"]) == fresh.submit(job, one["user"])
    requests = [{job_id: job.request for job_id, job in each.core.state.jobs.items()} for each in (cached, fresh)]
    assert requests[0] == requests[1]


def test_all_but_the_limit_is_checked_once_for_all_users() -> None:
    made = world("ANY")
    for number, user in enumerate(("ann", "bob", "ann", "bob")):
        job = JobSubmission(name="j", work_dir=b"/", partitions=("short",), time_limit_s=60 * (number + 1))
        assert made.submit(job, user)[0] == f"submitted {number + 1}"
    first, *others = [made.core.state.jobs[number].request for number in (1, 2, 3, 4)]
    assert [request.time_limit_s for request in (first, *others)] == [60, 120, 180, 240]
    assert all(request.work_dir is first.work_dir and request.rlimits is first.rlimits for request in others)
    assert len(made.core.state.submissions.completed) == 3  # one for all users, and one for each of the two
    late = JobSubmission(name="j", work_dir=b"/", partitions=("short",), time_limit_s=601)
    assert "Requested time limit is invalid" in made.submit(late, "ann")[0]
