"""Texts of jobs that are alike: from a template, or as ever, they are the same bytes. Compiled, and in Python."""

from collections.abc import Callable
from typing import Any

import pytest
from fakerest import FakeRest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from penstock.v1.common_pb2 import GresIndices, JobRequest, NodeAllocation
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply, PageItems
from rest.contract.conform import conform
from rest.contract.facts import ListOf, load
from rest.handlers.jobs import object_of
from rest.sending import json_bytes
from rest.templates import DIFFERENCES, KIND_BYTES_MAX, FieldOwner, JobTexts, PlainTexts, job_texts

SECOND_US = 1_000_000
AT_US = st.sampled_from([0, 1, 999_999, 1_795_551_627_050_932, 1_795_551_628_000_000])
PATHS = st.sampled_from([b"", b"/", b"/w d/%j", b"/a,b", b"/\xff", b"/\xc3\xa9", b"7", b"(null)"])
WORDS = st.sampled_from(
    ["", "a", "5", "job-12", 'a"b', "a\\\\b", "\u2028", "(null)", "100%", "%d", "a,b=c|d", "PENDING"]
)
NUMBERS = st.sampled_from([0, 1, 5, 4_000_000_000])
LIMITS = st.sampled_from([-1, 0, 1, 60, 90, 2**33])
ASKED = st.builds(
    JobRequest, name=WORDS, work_dir=PATHS, submit_line=WORDS, command=WORDS, begin_at_us=AT_US, ntasks=NUMBERS,
    nodes_min=NUMBERS, account=WORDS, qos=WORDS, comment=WORDS, std_out=PATHS, std_err=PATHS, std_in=PATHS, dependency=WORDS, submit_host=WORDS, submit_dir=PATHS, time_limit_s=st.none() | LIMITS, mem_per_node_mb=st.sampled_from([None, 0, 5]),
    mem_per_gpu_mb=st.sampled_from([None, 3]), licenses=st.sampled_from(["", "a:1"]),
)  # fmt: skip
NODES = st.sampled_from(["", "n1", "n-2.x", "n[1-2]", "a,b"])
GRES = st.builds(
    GresIndices, name=st.just("gpu"), type=st.sampled_from(["", "h200"]), index=st.lists(st.integers(0, 3), max_size=2),
    uuid=st.lists(st.sampled_from(["GPU-1", "GPU-2"]), max_size=2),
)  # fmt: skip
PARTS = st.builds(
    NodeAllocation, node=NODES, cpus=NUMBERS, mem_mb=NUMBERS, tasks=NUMBERS, gres=st.lists(GRES, max_size=1),
    cpu_ids=st.sampled_from([b"", b"\0", b"\1", b"\x0f", b"\0\0\x81", b"\xff" * 2000]),
)  # fmt: skip
JOBS = st.builds(
    JobInfo, allocation=st.lists(PARTS, max_size=2), reason_detail=WORDS, dependency=WORDS, job_id=NUMBERS, array_job_id=NUMBERS, array_task_id=st.sampled_from([None, 0, 5]),
    state=st.sampled_from(["PENDING", "RUNNING", "CANCELLED"]), reason=st.sampled_from(["BeginTime", "Priority"]),
    priority=NUMBERS, submit_at_us=AT_US, eligible_at_us=AT_US, start_at_us=AT_US, end_at_us=AT_US, last_sched_at_us=AT_US,
    planned_start_at_us=AT_US, time_limit_s=LIMITS, user_id=NUMBERS, group_id=NUMBERS, user_name=WORDS, group_name=WORDS,
    partition=WORDS, cpus=NUMBERS, nodes=NUMBERS, tasks=NUMBERS, mem_mb=NUMBERS, mem_is_per_cpu=st.booleans(),
    batch_node=WORDS, tres_req=WORDS, tres_alloc=st.sampled_from(["", "cpu=2,mem=100M,billing=2"]), suspended_at_us=AT_US, suspended_us=AT_US,
    planned_node_list=st.sampled_from(["", "n[1-2]"]), node_list=NODES, std_out=PATHS, std_err=PATHS,
    std_in=PATHS, request=ASKED,
)  # fmt: skip


def form_of(version: str) -> Callable[[bytes], bytes]:
    """How the text of a job is made in a version."""
    found = load().versions[version].operations["/slurm/{v}/jobs/"]["get"].answer.members["jobs"]
    assert isinstance(found, ListOf)
    call: Any = type("Call", (), {"cluster": "test"})
    return lambda data: json_bytes(conform(object_of(JobInfo.FromString(data), call), found.item))


FORMS = {version: form_of(version) for version in load().versions}
#: Differences that a job keeps, so that many are of one kind.
KEPT = ("std_err", "std_in", "planned_node_list", "work_dir", "submit_line", "user_id", "tasks")
#: How the texts of a page are made: the compiled way, and its oracle.
WAYS = {"compiled": job_texts, "plain": PlainTexts}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


class Texts:
    """Texts of jobs, one page after the other. `made`: the messages whose text was made, for a template or not."""

    def __init__(self, texts: JobTexts) -> None:
        self.texts = texts
        self.made: list[bytes] = []
        self.alone: list[bytes] = []  # of these those without a template

    def of(self, form: str, jobs: list[bytes], version: str = "v0.0.46") -> bytes:
        def make(data: bytes) -> bytes:
            self.made.append(data)
            return FORMS[version](data)

        def other(data: bytes) -> bytes:
            self.alone.append(data)
            return make(data)

        return b",".join(self.texts.parts(form, PageItems(items=jobs).SerializeToString(), make, other))


def test_the_compiled_way_is_there():
    """All tests of lists run with it."""
    assert not isinstance(job_texts(), PlainTexts)


@given(st.lists(JOBS, min_size=1, max_size=2), st.lists(JOBS, min_size=2, max_size=3), st.sampled_from(sorted(FORMS)))
def test_a_text_of_a_template_is_the_one_that_is_made(kinds, others, version):
    """What differs is taken from other jobs, so that many are of one kind, and each kind comes more than once."""
    jobs = []
    for kind in kinds:
        for other in (kind, *others):
            job = JobInfo()
            job.CopyFrom(kind)
            for one in DIFFERENCES[1:]:
                for owner, taken in owners(job, other, one.owner):
                    if one.name not in KEPT:
                        setattr(owner, one.name, getattr(taken, one.name))
            jobs.append(job.SerializeToString() + other_end(other))
    expected = b",".join(map(FORMS[version], jobs))
    for way in WAYS.values():
        texts = Texts(way())
        assert [texts.of("f", jobs, version) for _ in range(2)] == [expected, expected]


def owners(job: JobInfo, other: JobInfo, owner: FieldOwner) -> list[tuple[Any, Any]]:
    """The messages of two jobs that have the fields of an owner."""
    if owner is FieldOwner.ALLOCATION:
        return [*zip(job.allocation, other.allocation, strict=False)]
    return [(job, other) if owner is FieldOwner.JOB else (job.request, other.request)]


def other_end(job: JobInfo) -> bytes:
    """What the controller appends to a message: parts whose values are others than those before."""
    asked = JobRequest(submit_line=job.request.submit_line, rlimits={"core": job.job_id})
    return JobInfo(request=asked, priority=job.priority, last_sched_at_us=job.last_sched_at_us).SerializeToString()


def job(number: int, **more: Any) -> bytes:
    asked = JobRequest(name=f"j{number}", work_dir=b"/home/%d" % number, submit_line=f"sbatch {number}.sh")
    fields: dict[str, Any] = {
        "state": "PENDING",
        "submit_at_us": number * SECOND_US + 7,
        "time_limit_s": 60 * number + 1,
    } | more
    return JobInfo(job_id=number, request=asked, **fields).SerializeToString()


@ways
def test_jobs_that_are_alike_cost_one_template(way):
    make, texts = FORMS["v0.0.46"], Texts(way())
    jobs = [job(number) for number in range(1, 100)]
    for _ in range(3):
        assert texts.of("f", jobs) == b",".join(map(make, jobs))
    assert texts.made[:2] == jobs[:2] and len(texts.made) == 4  # the second one, and two with marks
    assert texts.alone == jobs[:1]
    planned = [job(number, planned_start_at_us=number * SECOND_US) for number in (4, 5, 6)]  # the end is computed
    assert texts.of("f", planned) == b",".join(map(make, planned)) and len(texts.made) == 8
    texts.of("other form", jobs[:1])
    assert texts.alone == [jobs[0], planned[0], jobs[0]] and len(texts.made) == 9


@ways
def test_jobs_on_one_node_are_alike(way):
    """Whatever node, CPUs and GPUs of it they have: those that have as many GPUs with the same numbers are of one kind."""
    texts = Texts(way())
    jobs = []
    for number in range(1, 30):
        gres = GresIndices(name="gpu", type="h200", index=[number % 2], uuid=[f"GPU-{number}"])
        part = NodeAllocation(
            node=f"n{number}", cpus=number, cpu_ids=(2**number - 1).to_bytes(8, "little"), gres=[gres]
        )
        where = {"node_list": part.node, "batch_node": part.node, "start_at_us": number * SECOND_US}
        jobs.append(job(number, state="RUNNING", allocation=[part], **where))
    assert texts.of("f", jobs) == b",".join(map(FORMS["v0.0.46"], jobs))
    assert texts.alone == jobs[:2] and len(texts.made) == 8


@ways
def test_a_job_that_is_alone_needs_no_template(way):
    """However often its list is asked for: its text is kept, or made."""
    texts = Texts(way())
    for _ in range(3):
        texts.of("f", [job(1)])
    assert texts.made == texts.alone == [job(1)] * 3


@ways
@pytest.mark.parametrize(
    "more",
    [
        {"allocation": [NodeAllocation(node="n" * KIND_BYTES_MAX)] * 2},
        {"start_at_us": 5, "suspended_at_us": 2 * SECOND_US},  # how long it ran is in the text
    ],
)
def test_what_has_no_template_is_made(way, more):
    texts, jobs = Texts(way()), [job(number, **more) for number in range(1, 6)]
    assert texts.of("f", jobs) == b",".join(map(FORMS["v0.0.46"], jobs))
    assert texts.alone[-2:] == jobs[-2:]


@ways
@pytest.mark.parametrize(
    "more", [{"std_out": b'/"'}, {"std_out": "/\u00e9".encode()}, {"priority": -5}, {"time_limit_s": -1}]
)
def test_what_is_not_written_as_it_is_stays_in_the_kind(way, more):
    texts, jobs = Texts(way()), [job(number, **more) for number in range(1, 6)]
    assert texts.of("f", jobs) == b",".join(map(FORMS["v0.0.46"], jobs))
    assert texts.alone == jobs[:1] and len(texts.made) == 4


@ways
def test_the_least_lately_used_kinds_go_first(way):
    texts = Texts(way(kinds_max=2))
    for form in ("A", "B", "C"):
        texts.of(form, [job(1), job(2)])
    count = len(texts.made)
    texts.of("C", [job(3)])
    texts.of("B", [job(3)])
    assert len(texts.made) == count
    texts.of("A", [job(3)])
    assert texts.made[count:] == texts.alone[-1:] == [job(3)]


@ways
def test_a_message_that_is_cut_off_is_refused_as_ever(way):
    page = PageItems(items=[job(1), job(2)]).SerializeToString()
    for end in range(1, len(page)):
        if end == len(PageItems(items=[job(1)]).SerializeToString()):
            continue
        with pytest.raises((DecodeError, ValueError)):
            list(way().parts("f", page[:end], FORMS["v0.0.46"], FORMS["v0.0.46"]))


@given(st.binary(max_size=60), st.integers(0, 200))
def test_what_is_no_message_is_left_to_others(data, at):
    """Any bytes, alone and amid a job: no text of a template, and nothing is read that is not there."""
    whole = job(7)
    for message in (data, whole[:at] + data + whole[at:]):
        page = PageItems(items=[message]).SerializeToString()
        assert list(job_texts().parts("f", page, FORMS["v0.0.46"], lambda one: b"<" + one + b">")) == [
            b"<" + message + b">"
        ]


@pytest.mark.parametrize("path", ["/slurm/v0.0.46/jobs", "/penstock/v1/jobs", "/penstock/v1/forecast"])
def test_a_long_list_says_what_short_ones_say(path):
    """Short lists are made without templates."""
    others: tuple[dict[str, Any], ...] = ({}, {"cpus": 3, "time_limit_s": -1}, {"planned_start_at_us": 7 * SECOND_US, "planned_node_list": "n[1-2]"},
              {"state": "RUNNING", "start_at_us": 9 * SECOND_US, "node_list": "n1", "batch_node": "n1", "partition": "a,b"})  # fmt: skip
    jobs = [JobInfo.FromString(job(n, reason_detail="x" * 400, **others[n % 4])) for n in range(1, 201)]
    found = FakeRest({"ListJobs": ListJobsReply(jobs=jobs)}).get(path).json()["jobs"]
    alone = [FakeRest({"ListJobs": ListJobsReply(jobs=[one])}).get(path).json()["jobs"][0] for one in jobs[::39]]
    assert found[::39] == alone and len(found) == 200
