"""Headers of a submission. Idempotency-Key: what is repeated is made once, also when the daemon dies in between; traceparent."""

import os
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest
from fakerest import TOKEN, FakeRest
from liverest import PREFIX, LiveRest
from patience import ANSWER_S

from penstock.v1.controller_pb2 import SubmitJobReply
from penstock.v1.steps_pb2 import AllocationReply
from penstock.values.requestkey import new_request_key

KEY = "01a2226a87cf7000bdb16d2603851553"
JOB = {"name": "once", "current_working_directory": "/tmp", "environment": ["A=1"], "hold": True}
BODY = {"job": {**JOB, "script": "#!/bin/sh\n"}}
New = Callable[..., LiveRest]


def new_key() -> str:
    return str(uuid.UUID(new_request_key(time.time_ns() // 1000, os.urandom(16))))


@pytest.mark.parametrize("text", [KEY, str(uuid.UUID(KEY)), str(uuid.UUID(KEY)).upper(), f'"{uuid.UUID(KEY)}"'])
@pytest.mark.parametrize("path", ["job/submit", "job/allocate"])
def test_the_header_is_the_key_of_the_request(path: str, text: str) -> None:
    rest = FakeRest({"SubmitJob": SubmitJobReply(job_id=7), "AwaitAllocation": AllocationReply(state="RUNNING")})
    reply = rest.post(f"{PREFIX}/{path}", BODY, headers={**TOKEN, "Idempotency-Key": text})
    assert (reply.status_code, reply.json()["job_id"]) == (200, 7)
    assert rest.calls[0][1].request_key == KEY
    rest.post(f"{PREFIX}/{path}", BODY)
    assert [one[1].request_key for one in rest.calls if one[0] == "SubmitJob"][1] != KEY


@pytest.mark.parametrize("path", ["job/submit", "job/allocate"])
def test_the_header_traceparent_is_the_trace_context_of_the_job(path: str) -> None:
    context = f"00-{'a' * 32}-{'b' * 16}-01"
    rest = FakeRest({"SubmitJob": SubmitJobReply(job_id=7), "AwaitAllocation": AllocationReply(state="RUNNING")})
    sent = [[("traceparent", context)], [], [("traceparent", context[:-1])], [("traceparent", context)] * 2]
    for headers in sent:
        assert rest.post(f"{PREFIX}/{path}", BODY, headers=[*TOKEN.items(), *headers]).status_code == 200
    calls = [request for name, request, *_ in rest.calls if name == "SubmitJob"]
    assert [request.job.trace_parent for request in calls] == [context, "", "", ""]
    assert all(0 < request.received_at_us <= time.time_ns() // 1000 for request in calls)


@pytest.mark.parametrize("text", ["x", "f47ac10b-58cc-4372-a567-0e02b2c3d479", KEY[:-1], KEY + "0", "", f"{KEY},{KEY}"])
def test_another_key_is_refused_with_words(text: str) -> None:
    rest = FakeRest()
    for path in ("job/submit", "job/allocate"):
        reply = rest.post(f"{PREFIX}/{path}", BODY, headers={**TOKEN, "Idempotency-Key": text})
        assert (reply.status_code, reply.text) == (400, "Idempotency-Key must be a UUID of version 7 in hex")
    twice = [*TOKEN.items(), ("Idempotency-Key", KEY), ("Idempotency-Key", KEY)]
    reply = rest.post(f"{PREFIX}/job/submit", BODY, headers=twice)
    assert (reply.status_code, reply.text) == (400, "Idempotency-Key: give one")
    assert rest.calls == []


def test_a_repetition_is_the_same_job(rest: LiveRest) -> None:
    with rest.as_user() as client, rest.as_user("nobody") as other:
        mine = {"Idempotency-Key": new_key()}
        ids = [client.post(f"{PREFIX}/job/submit", json=BODY, headers=mine).json()["job_id"] for _ in range(3)]
        assert len(set(ids)) == 1
        theirs = other.post(f"{PREFIX}/job/submit", json=BODY, headers=mine).json()["job_id"]
        assert theirs != ids[0], "a key is its user's"
        old = {
            "Idempotency-Key": str(uuid.UUID(new_request_key((time.time_ns() // 1000) - 3600 * 10**6, os.urandom(16))))
        }
        assert client.post(f"{PREFIX}/job/submit", json=BODY, headers=old).status_code == 422
        room = {"Idempotency-Key": new_key()}
        ids = [
            client.post(f"{PREFIX}/job/allocate", json={"job": JOB}, headers=room).json()["job_id"] for _ in range(2)
        ]
        assert len(set(ids)) == 1


def test_a_daemon_that_is_killed_under_load_loses_and_doubles_nothing(new_rest: New) -> None:
    """Each caller repeats its request until it has an answer; the daemon is killed again and again meanwhile."""
    rest = new_rest()
    token = rest.token()
    callers, each, kills = 4, 25, 3
    begun = Barrier(callers + 1)

    def story(number: int) -> dict[str, int]:
        found = {}
        for count in range(each):
            if count % (each // kills) == 0 and count // (each // kills) < kills:
                begun.wait(ANSWER_S)  # the daemon is killed while these go on
            key = new_key()
            until = time.monotonic() + ANSWER_S
            while key not in found:
                assert time.monotonic() < until
                try:
                    with rest.as_user(token=token) as client:
                        reply = client.post(f"{PREFIX}/job/submit", json=BODY, headers={"Idempotency-Key": key})
                    found[key] = reply.json()["job_id"]
                except httpx.TransportError:
                    continue
        return found

    with ThreadPoolExecutor(callers) as threads:
        stories = [threads.submit(story, number) for number in range(callers)]
        for _ in range(kills):
            begun.wait(ANSWER_S)
            rest.cluster.kill("restd")
            rest.start()
        answers = [one.result() for one in stories]
    ids = [job_id for found in answers for job_id in found.values()]
    with rest.as_user(token=token) as client:
        there = [job["job_id"] for job in client.get(f"{PREFIX}/jobs").json()["jobs"]]
    assert len(ids) == callers * each and sorted(ids) == sorted(there)
