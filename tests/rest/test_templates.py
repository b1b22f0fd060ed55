"""Texts of jobs that are alike: from a template, or as ever, they are the same bytes."""

from collections.abc import Callable
from typing import Any

import pytest
from fakerest import FakeRest
from hypothesis import given
from hypothesis import strategies as st

from penstock.v1.common_pb2 import JobRequest, NodeAllocation
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply
from rest.contract.conform import conform
from rest.contract.facts import ListOf, load
from rest.handlers.jobs import object_of
from rest.sending import json_bytes
from rest.templates import KIND_BYTES_MAX, JobTemplates

SECOND_US = 1_000_000
AT_US = st.sampled_from([0, 1, 999_999, 1_795_551_627_050_932, 1_795_551_628_000_000])
PATHS = st.sampled_from([b"", b"/", b"/w d/%j", b"/a,b", b"/\xff", b"/\xc3\xa9", b"7", b"(null)"])
WORDS = st.sampled_from(
    ["", "a", "5", "job-12", 'a"b', "a\\\\b", "\u2028", "(null)", "100%", "%d", "a,b=c|d", "PENDING"]
)
NUMBERS = st.sampled_from([0, 1, 5, 4_000_000_000])
ASKED = st.builds(
    JobRequest, name=WORDS, work_dir=PATHS, submit_line=WORDS, command=WORDS, begin_at_us=AT_US, ntasks=NUMBERS,
    mem_per_gpu_mb=st.sampled_from([None, 3]), licenses=st.sampled_from(["", "a:1"]),
)  # fmt: skip
JOBS = st.builds(
    JobInfo, job_id=NUMBERS, array_job_id=NUMBERS, array_task_id=st.sampled_from([None, 0, 5]),
    state=st.sampled_from(["PENDING", "RUNNING", "CANCELLED"]), reason=st.sampled_from(["BeginTime", "Priority"]),
    priority=NUMBERS, submit_at_us=AT_US, eligible_at_us=AT_US, start_at_us=AT_US, end_at_us=AT_US, last_sched_at_us=AT_US,
    planned_start_at_us=AT_US, time_limit_s=st.sampled_from([-1, 0, 90]), suspended_at_us=AT_US, suspended_us=AT_US,
    planned_node_list=st.sampled_from(["", "n[1-2]"]), node_list=st.sampled_from(["", "n1"]), std_out=PATHS, std_err=PATHS,
    std_in=PATHS, request=ASKED,
)  # fmt: skip


def form_of(version: str) -> Callable[[bytes], bytes]:
    """How the text of a job is made in a version."""
    found = load().versions[version].operations["/slurm/{v}/jobs/"]["get"].answer.members["jobs"]
    assert isinstance(found, ListOf)
    call: Any = type("Call", (), {"cluster": "test"})
    return lambda data: json_bytes(conform(object_of(JobInfo.FromString(data), call), found.item))


FORMS = {version: form_of(version) for version in ("v0.0.43", "v0.0.46")}


@given(st.lists(JOBS, min_size=1, max_size=3), st.lists(JOBS, min_size=2, max_size=4))
def test_a_text_of_a_template_is_the_one_that_is_made(kinds, others):
    """What differs is taken from other jobs, so that many are of one kind, and each kind comes more than once."""
    templates = JobTemplates()
    for kind in kinds:
        for other in (kind, *others):
            job = JobInfo()
            job.CopyFrom(kind)
            for name in ("job_id", "priority", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "std_out"):
                setattr(job, name, getattr(other, name))
            job.request.name, job.request.command = other.request.name, other.request.command
            data = job.SerializeToString()
            for version, make in FORMS.items():
                found = templates.of(version, data, make)
                assert found is None or found == make(data), job


def job(number: int, **more: Any) -> bytes:
    asked = JobRequest(name=f"j{number}", work_dir=b"/home/%d" % number, submit_line=f"sbatch {number}.sh")
    return JobInfo(
        job_id=number, state="PENDING", submit_at_us=number * SECOND_US + 7, time_limit_s=60, request=asked, **more
    ).SerializeToString()


def test_jobs_that_are_alike_cost_one_template():
    make, asked = FORMS["v0.0.46"], list[bytes]()

    def counted(data: bytes) -> bytes:
        asked.append(data)
        return make(data)

    templates = JobTemplates()
    assert [templates.of("f", job(number), counted) for number in (1, 2, 3)] == [None, make(job(2)), make(job(3))]
    assert len(asked) == 3  # the second one, and two with marks
    planned = [job(number, planned_start_at_us=number * SECOND_US) for number in (4, 5, 6)]  # the end is computed
    assert [templates.of("f", one, counted) for one in planned] == [None, *map(make, planned[1:])] and len(asked) == 6
    assert templates.of("other form", job(7), counted) is None and len(asked) == 6


@pytest.mark.parametrize(
    "more",
    [
        {"std_out": b'/"'},
        {"std_out": "/\u00e9".encode()},
        {"allocation": [NodeAllocation(node="n" * KIND_BYTES_MAX)]},
        {"start_at_us": 5, "suspended_at_us": 2 * SECOND_US},  # how long it ran is in the text
    ],
)
def test_what_has_no_template_is_made(more):
    templates = JobTemplates()
    for number in range(1, 5):
        data = job(number, **more)
        assert templates.of("f", data, FORMS["v0.0.46"]) in (None, FORMS["v0.0.46"](data))
    assert templates.of("f", job(9, **more), FORMS["v0.0.46"]) is None


def test_the_least_lately_used_kinds_go_first():
    templates, make = JobTemplates(kinds_max=2), FORMS["v0.0.46"]
    for state in ("A", "B", "C"):
        for number in (1, 2):
            templates.of(state, job(number), make)
    assert templates.of("C", job(3), make) == templates.of("B", job(3), make) == make(job(3))
    assert templates.of("A", job(3), make) is None


@pytest.mark.parametrize("path", ["/slurm/v0.0.46/jobs", "/penstock/v1/jobs", "/penstock/v1/forecast"])
def test_a_long_list_says_what_short_ones_say(path):
    """Short lists are made without templates."""
    jobs = [JobInfo.FromString(job(number, reason_detail="x" * 400)) for number in range(1, 201)]
    found = FakeRest({"ListJobs": ListJobsReply(jobs=jobs)}).get(path).json()["jobs"]
    alone = [FakeRest({"ListJobs": ListJobsReply(jobs=[one])}).get(path).json()["jobs"][0] for one in jobs[::40]]
    assert found[::40] == alone and len(found) == 200
