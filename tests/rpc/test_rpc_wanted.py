"""Requests in: every field arrives, nothing too large does, and two specs never share a hash."""

import asyncio
from typing import Any

import pytest
from filled import filled
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import JobSubmission
from ctld.core.records.request import JobRequest as JobRecord
from ctld.rpc.gate.incoming import OutOfBounds, Reader
from ctld.rpc.jobs import submission
from ctld.rpc.jobs.jobinfo import request_message
from ctld.runtime.errors import BadRequest
from penstock.v1.common_pb2 import GresCount, JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobRequest, UpdateJobsRequest
from penstock.values.config import Config
from penstock.values.refusals import Code
from penstock.values.requestkey import new_request_key

CONFIG = Config(max_script_bytes=100, max_environment_bytes=50)
#: Values that are looked at below, and those whose zero would be nothing.
GIVEN: dict[str, Any] = {
    "work_dir": b"/\xff", "partitions": ["a", "b"], "gres_per_node": [GresCount(name="gpu", type="a100", count=2)],
    "rlimits": {"NOFILE": 5, "CORE": -1}, "open_truncate": True,
}  # fmt: skip
OF_TYPE = {FieldDescriptor.TYPE_STRING: "x", FieldDescriptor.TYPE_BYTES: b"x", FieldDescriptor.TYPE_BOOL: True}


def full_message() -> JobRequest:
    """Says something in each field: 0 or no where that is something."""
    message = JobRequest(**GIVEN)
    for field in JobRequest.DESCRIPTOR.fields:
        if field.name in GIVEN:
            continue
        value = OF_TYPE.get(field.type, 1)
        if field.message_type is not None:
            getattr(message, field.name).add(name="gpu", count=1)
        elif field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, type(value)() if field.has_presence else value)
    return message


def test_every_field_of_a_request_arrives():
    job = submission.decode_submission(full_message())
    for field in JobRequest.DESCRIPTOR.fields:
        assert field.name in JobSubmission.__struct_fields__, field.name
    for name in JobSubmission.__struct_fields__:
        assert getattr(job, name) != getattr(JobSubmission(), name), f"{name} was lost"
    assert job.work_dir == b"/\xff" and job.partitions == ("a", "b")
    assert (job.gres_per_node, job.rlimits) == ((("gpu", "a100", 2),), (("CORE", -1), ("NOFILE", 5)))
    assert (job.mem_per_node_mb, job.requeue, job.priority, job.umask) == (0, False, 0, 0)


def test_every_field_that_a_job_asks_for_is_shown():
    message = request_message(filled(JobRecord, gres_per_node=(("gpu", "a100", 2),)), detail=True)
    shown = {field.name for field, _ in message.ListFields()}
    not_shown = {"priority", "signal", "gpus_per_node_asked"}  # the first in JobInfo, the others nowhere
    assert shown == set(JobRecord.__struct_fields__) & set(JobRequest.DESCRIPTOR.fields_by_name) - not_shown
    assert message.gres_per_node == [GresCount(name="gpu", type="a100", count=2)]
    least = request_message(JobRecord(requeue=False), detail=False)
    zeros = {"work_dir", "nodes_min", "ntasks", "cpus_per_task", "requeue"}
    assert {field.name for field, _ in least.ListFields()} == zeros


def read(method, request):
    return asyncio.run(Reader(f"/penstock.v1.{method}").read(request.SerializeToString()))


def test_what_is_not_said_stays_unsaid():
    assert submission.decode_submission(JobRequest()) == JobSubmission()


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        ({"array": "1," * 40_000}, Code.INVALID_ARRAY, "job.array: 80000 characters"),
        ({"nodes_required": "n" * 70_000}, Code.INVALID_NODE_NAME, "job.nodes_required: 70000 characters"),
        ({"partitions": ["p"] * 2000}, Code.INVALID_VALUE, "job.partitions: 2000 entries"),
        ({"rlimits": {str(i): 1 for i in range(2000)}}, Code.INVALID_VALUE, "job.rlimits: 2000 entries"),
    ],
)
def test_what_is_too_long_is_refused(job, code, words):
    with pytest.raises(OutOfBounds) as refused:
        read("Controller/SubmitJob", SubmitJobRequest(job=JobRequest(**job)))
    assert refused.value.code is code and words in refused.value.text


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({}, Code.JOB_SCRIPT_MISSING, "Batch job script missing"),
        ({"script": b"x" * 101}, Code.SCRIPT_TOO_LARGE, "101 bytes, the limit is 100"),
        ({"script": b"#", "environment": [b"A=" + b"x" * 49]}, Code.ENVIRONMENT_TOO_LARGE, "51 bytes"),
        ({"script": b"#!\0"}, Code.INVALID_VALUE, "NUL byte at position 2"),
        ({"script": b"#", "argv": [b"a", b"b\0"]}, Code.INVALID_VALUE, "argument 2 has a NUL byte at position 1"),
        ({"script": b"#", "environment": [b"\0"]}, Code.INVALID_VALUE, "environment variable 1 has a NUL"),
        ({"script": b"#", "argv": [b"a" * 131_072]}, Code.INVALID_VALUE, "131072 bytes"),
        ({"script": b"#", "argv": [b"a" * 100_000] * 6}, Code.INVALID_VALUE, "600000 bytes"),
    ],
)
def test_a_spec_that_cannot_run_is_refused(spec, code, words):
    with pytest.raises(BadRequest) as refused:
        submission.spec_row(JobSpec(**spec), CONFIG)
    assert refused.value.code is code and words in refused.value.text


def test_a_spec_that_was_read_before_is_checked_under_the_present_limits():
    reader = submission.SpecReader()
    message = JobSpec(script=b"x" * 60, environment=[b"A=1"])
    row = reader.read(message, CONFIG)
    assert reader.read(JobSpec(script=b"x" * 60, environment=[b"A=1"]), CONFIG) is row
    assert row == submission.spec_row(message, CONFIG)
    assert reader.read(JobSpec(script=b"x" * 60, environment=[b"A=2"]), CONFIG) != row
    with pytest.raises(BadRequest):
        reader.read(message, Config(max_script_bytes=50, max_environment_bytes=50))


def test_few_specs_are_kept():
    reader = submission.SpecReader()
    first = reader.read(JobSpec(script=b"first"), CONFIG)
    for number in range(submission.KEPT_MAX):
        reader.read(JobSpec(script=b"%d" % number), CONFIG)
    assert reader.read(JobSpec(script=b"first"), CONFIG) is not first


words_of = st.lists(st.binary(max_size=4), max_size=4).map(tuple)


@given(st.tuples(st.binary(max_size=6), words_of, words_of), st.tuples(st.binary(max_size=6), words_of, words_of))
def test_different_specs_have_different_hashes(one, other):
    assert (submission.spec_hash(*one) == submission.spec_hash(*other)) == (one == other)
    assert len(submission.spec_hash(*one)) == 32


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_clients_key_is_read_with_its_time(at_ms, random):
    key = new_request_key(at_ms * 1000, random)
    dashed = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}"
    assert submission.submit_key(key) == submission.submit_key(dashed.upper()) == (key, at_ms * 1000)


@pytest.mark.parametrize("text", ["", "x" * 32, "0" * 32, "0" * 5000, "00000000-0000-4000-8000-000000000000"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(BadRequest):
        submission.submit_key(text)


def test_a_change_has_a_limit():
    for changes in ({"comment": "x" * 70_000}, {str(i): "" for i in range(2000)}):
        with pytest.raises(OutOfBounds, match="the limit is"):
            read("Controller/UpdateJobs", UpdateJobsRequest(changes=changes))
