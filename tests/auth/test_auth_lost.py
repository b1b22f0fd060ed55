"""Answers that are lost: what is sent again, and which error the caller gets when the outcome is unknown."""

import asyncio
import re
import socket
import threading

import grpc
import pytest
from patience import ANSWER_S

from ctld.rpc.server import FILES
from penstock.aclient import AsyncClient
from penstock.client import Client
from penstock.errors import RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, NotKnown, PenstockError, Unreachable
from penstock.lost import CHANGES, MAY_BE_REPEATED, NOT_KNOWN, ONCE, SENT_BEFORE
from penstock.v1.controller_pb2 import PingRequest, SubmitJobRequest, UpdateJobsRequest
from penstock.v1.periodic_pb2 import ClearTriggersRequest
from penstock.values.refusals import Code

#: What gRPC says when a controller goes in the middle of a call: no number, so nobody has looked at it to the end.
LOST = (grpc.StatusCode.UNAVAILABLE, 0, "going down")
#: What our controller says while it is not ready: nothing was done.
NOT_READY = (grpc.StatusCode.UNAVAILABLE, int(Code.ACCESS_DENIED), "not ready")
REFUSED = (grpc.StatusCode.NOT_FOUND, int(Code.NO_TRIGGER), "there is none")
READING = re.compile(
    "Ping|List|Show|Get|Await|Why|Fits|Diagnostics|Story|Render|Report|Attach|Connect|Watch|OpenOutput"
)


def ask(cluster, method, request, timeout_s=ANSWER_S):
    with Client.open(timeout_s, cluster=cluster) as client:
        return client.call(method, request)


def names(controller):
    return [method for method, _ in controller.calls]


def test_every_method_that_changes_something_has_a_rule():
    methods = {m for file in FILES for s in file.services_by_name.values() for m in s.methods_by_name}
    assert {m for m in methods if not READING.match(m)} == set(CHANGES)


def test_who_gives_up_does_not_know(started):
    started.refusals["SubmitJob"] = [LOST] * 1000
    with pytest.raises(NotKnown) as caught:
        ask(started.cluster, "SubmitJob", SubmitJobRequest(), 0.3)
    # The deadline may come between two tries or within one.
    assert caught.value.text in ("Unable to contact slurm controller (connect failure)", RECEIVE_FAILURE_TEXT)
    assert caught.value.detail == MAY_BE_REPEATED and len(started.calls) > 1


def test_what_would_do_more_is_sent_once(started):
    started.refusals["UpdateJobs"] = [LOST]
    with pytest.raises(NotKnown) as caught:
        ask(started.cluster, "UpdateJobs", UpdateJobsRequest())
    assert caught.value.detail == NOT_KNOWN and names(started) == ["UpdateJobs"]


def test_a_controller_that_says_that_it_did_nothing_is_asked_again(started):
    started.refusals["UpdateJobs"] = [NOT_READY] * 3
    ask(started.cluster, "UpdateJobs", UpdateJobsRequest())
    assert CHANGES["UpdateJobs"] == ONCE and names(started) == ["UpdateJobs"] * 4


def test_a_refusal_may_be_ones_own_work(started):
    """`strigger --clear` whose first answer was lost gets the error that there is no such trigger; so `sacctmgr add` that there is one."""
    started.refusals["ClearTriggers"] = [LOST, REFUSED]
    with pytest.raises(PenstockError) as caught:
        ask(started.cluster, "ClearTriggers", ClearTriggersRequest())
    assert (caught.value.code, caught.value.text) == (Code.NO_TRIGGER, "there is none")
    assert caught.value.detail == SENT_BEFORE and not isinstance(caught.value, Unreachable)
    started.refusals["ClearTriggers"] = [REFUSED]
    with pytest.raises(PenstockError) as caught:
        ask(started.cluster, "ClearTriggers", ClearTriggersRequest())
    assert caught.value.detail == ""


@pytest.mark.parametrize(
    ("code", "is_known"), [(Code.INVALID_PARTITION, True), (Code.BUSY, False), (Code.STALE_REQUEST, False)]
)
def test_a_key_is_recognised_unless_nobody_looked_at_it(started, code, is_known):
    started.refusals["SubmitJob"] = [LOST, (grpc.StatusCode.FAILED_PRECONDITION, int(code), "no")]
    with pytest.raises(PenstockError) as caught:
        ask(started.cluster, "SubmitJob", SubmitJobRequest())
    assert (caught.value.code, caught.value.text) == (code, "no")
    assert isinstance(caught.value, NotKnown) is not is_known
    assert caught.value.detail == ("" if is_known else MAY_BE_REPEATED)


def test_who_only_reads_is_told_nothing_new(started):
    started.refusals["Ping"] = [LOST] * 1000
    with pytest.raises(Unreachable) as caught:
        ask(started.cluster, "Ping", PingRequest(), 0.3)
    assert not isinstance(caught.value, NotKnown)


def test_what_was_never_sent_was_not_done(started, tmp_path):
    cluster = started.cluster._replace(socket=str(tmp_path / "nobody.sock"))
    with Client.open(0.3, retry=True, cluster=cluster) as client, pytest.raises(Unreachable) as caught:
        client.call("SubmitJob", SubmitJobRequest())
    assert not isinstance(caught.value, NotKnown)


class Deaf:
    """Takes a connection and a request, then says nothing, or hangs up."""

    def __init__(self, path, hangs_up):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._hangs_up = hangs_up
        self.kept = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
                connection.recv(65536)
            except OSError:
                return
            if self._hangs_up:
                connection.close()
            else:
                self.kept.append(connection)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self.kept):
            one.close()


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_controller_that_dies_or_hangs_after_it_has_the_request(started, tmp_path, hangs_up):
    deaf = Deaf(tmp_path / "deaf.sock", hangs_up)
    cluster = started.cluster._replace(socket=str(tmp_path / "deaf.sock"))
    with pytest.raises(NotKnown) as caught:
        ask(cluster, "UpdateJobs", UpdateJobsRequest(), 1.0)
    assert hangs_up or caught.value.code == RECEIVE_FAILURE
    deaf.close()


def test_the_async_client_has_the_same_rules(tiny):
    async def refused(client, method, request, timeout_s=None):
        try:
            await client.call(method, request, timeout_s)
        except PenstockError as error:
            return error
        raise AssertionError("it was done")

    async def go():
        await tiny.serve()
        async with AsyncClient.open(cluster=tiny.cluster) as client:
            tiny.refusals |= {"UpdateJobs": [LOST], "ClearTriggers": [LOST, REFUSED], "SubmitJob": [LOST] * 1000}
            found = [
                await refused(client, "UpdateJobs", UpdateJobsRequest()),
                await refused(client, "ClearTriggers", ClearTriggersRequest()),
                await refused(client, "SubmitJob", SubmitJobRequest(), 0.3),
            ]
        await tiny.leave()
        async with AsyncClient.open(0.3, retry=True, cluster=tiny.cluster) as client:
            return [*found, await refused(client, "SubmitJob", SubmitJobRequest())]

    once, repeated, keyed, never = asyncio.run(go())
    assert (type(once), once.detail) == (NotKnown, NOT_KNOWN)
    assert (type(repeated), repeated.detail) == (PenstockError, SENT_BEFORE)
    assert (type(keyed), keyed.detail) == (NotKnown, MAY_BE_REPEATED)
    assert type(never) is Unreachable
    assert names(tiny).count("UpdateJobs") == 1 and names(tiny).count("ClearTriggers") == 2
