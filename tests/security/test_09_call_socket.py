"""The call socket: the kernel says who calls, and a client that breaks the framing harms only itself."""

import asyncio
import contextlib
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from patience import ANSWER_S, END_S

from ctld.rpc import callconnection
from ctld.rpc.callconnection import CALLS_PER_TURN, LARGE_BYTES, Method
from ctld.rpc.callserver import CallServer
from ctld.rpc.gate.receiving import AT_ONCE
from ctld.rpc.gate.unread import UnreadReplies
from penstock.acallsocket import CallChannel
from penstock.aclient import AsyncClient
from penstock.calls import CallFailed
from penstock.callsocket import CallConnection, dial_calls
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.frames import HELLO, MORE, NUMBERS, REPLY, REQUEST, REQUEST_BYTES_MAX, REQUEST_HEAD_BYTES, request_frame
from penstock.keep import Keeper, call_socket_key
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.refusals import Code
from tests.rpc.clusterkit import ROOT, Site, submit

FOREVER = float("inf")
NOBODY = 65_534
LONG_BYTES = 128 * 1024
LONG_NAME = controller_pb2.SubmitJobRequest(job=common_pb2.JobRequest(name="x" * 5000))
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
#: Becomes nobody, submits a job and asks for a shutdown; prints how both end.
CALLER = """
import os, sys, time
import google.protobuf.message_factory
from penstock.client import Client
from penstock.clusterfile import read_cluster
from penstock.errors import PenstockError
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.requestkey import new_request_key
import penstock.client
penstock.client.fetch_token = None  # no call needs one
key = new_request_key(time.time_ns() // 1000, os.urandom(16))
job = common_pb2.JobRequest(name="j", work_dir=b"/", std_out=b"/dev/null")
spec = common_pb2.JobSpec(script=b"#!/bin/sh" + bytes([10]))
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with Client(read_cluster(sys.argv[1]), 20.0) as client:
    print(client.call("SubmitJob", controller_pb2.SubmitJobRequest(request_key=key, job=job, spec=spec)).job_id)
    try:
        client.call("Shutdown", controller_pb2.ShutdownRequest())
    except PenstockError as error:
        print(error.code)
"""


def run(story):
    asyncio.run(asyncio.wait_for(story, END_S))


async def echo(data, call):
    return data


class Waits:
    """A method that does not answer, and records its cancellation."""

    def __init__(self):
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, data, call):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


class Watched(CallServer):
    """A server whose test knows its method Wait."""

    waits: Waits


@contextlib.asynccontextmanager
async def serving(folder, **options):
    """A server with three methods, and what the third one returns."""
    folder.chmod(0o711)
    waits = Waits()

    async def long(data, call):
        return bytes(LONG_BYTES)

    methods: dict[str, Method] = {"/t/Echo": echo, "/t/Wait": waits, "/t/Long": long}
    server = Watched(folder / "c", methods, UnreadReplies(), **options)
    await server.start()
    server.waits = waits
    try:
        yield server
    finally:
        await server.stop(0)


async def connect(server, hello=HELLO):
    reader, writer = await asyncio.open_unix_connection(str(server.path))
    writer.write(hello)
    return reader, writer


async def reply(reader):
    length, number, status = REPLY.unpack(await reader.readexactly(REPLY.size))
    return number, status, await reader.readexactly(length - 5)


def frame(number, path="/t/Echo", body=b"x", left_s=FOREVER):
    return request_frame(number, path.encode(), body, left_s)


async def closed(reader):
    """Waits until the server has closed the connection; whatever came before is dropped."""
    with contextlib.suppress(ConnectionResetError):
        while await reader.read(65536):
            pass


async def works(server):
    reader, writer = await connect(server)
    writer.write(frame(1, body=b"fine"))
    assert await reply(reader) == (1, 0, b"fine")
    writer.close()


def test_many_requests_in_one_write(tmp_path):
    async def story():
        async with serving(tmp_path) as server:
            reader, writer = await connect(server)
            number = 5 * CALLS_PER_TURN
            writer.write(b"".join(frame(i, body=b"%d" % i) for i in range(1, number + 1)))
            found = [await reply(reader) for _ in range(number)]
            assert sorted(found) == [(i, 0, b"%d" % i) for i in range(1, number + 1)]
            writer.close()

    run(story())


def test_a_request_byte_by_byte(tmp_path):
    async def story():
        async with serving(tmp_path) as server:
            reader, writer = await connect(server, b"")
            for byte in HELLO + frame(7, body=b"slow") + frame(8, body=b"too"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert [await reply(reader), await reply(reader)] == [(7, 0, b"slow"), (8, 0, b"too")]
            writer.close()

    run(story())


def test_no_more_calls_at_a_time_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(callconnection, "CALLS_MAX", 3)

    async def story():
        async with serving(tmp_path) as server:
            reader, writer = await connect(server)
            writer.write(b"".join(frame(i, "/t/Wait") for i in range(1, 4)) + frame(9, body=b"later"))
            await server.waits.begun.wait()
            (connection,) = server.shared.connections
            assert len(connection.calls) == 3
            connection.give_up(2)
            assert {(await reply(reader))[:2], (await reply(reader))[:2]} == {(2, NUMBERS["CANCELLED"]), (9, 0)}
            writer.close()

    run(story())


@pytest.mark.parametrize("sent", [HELLO[:3], HELLO + frame(1)[:5], HELLO + frame(1)[:-1]])
def test_half_a_request_is_not_waited_for(tmp_path, sent):
    async def story():
        async with serving(tmp_path, sweep_s=0.01, receive_s=0.05) as server:
            reader, _writer = await connect(server, sent)
            await closed(reader)
            assert not server.shared.connections
            await works(server)

    run(story())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (REQUEST.pack(2**32 - 1, 5, 0, 7), "RESOURCE_EXHAUSTED"),
        (REQUEST.pack(REQUEST_BYTES_MAX + REQUEST_HEAD_BYTES + 256, 5, 0, 7), "RESOURCE_EXHAUSTED"),
        (REQUEST.pack(0, 5, 0, 0), "INTERNAL"),
        (REQUEST.pack(REQUEST_HEAD_BYTES + 6, 5, 0, 7), "INTERNAL"),  # the path is longer than the frame
    ],
)
def test_an_impossible_length_ends_the_connection(tmp_path, head, status):
    async def story():
        async with serving(tmp_path) as server:
            reader, writer = await connect(server)
            writer.write(head)
            number, found, _ = await reply(reader)
            assert (number, found) == (5, NUMBERS[status])
            await closed(reader)
            await works(server)

    run(story())


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n", HELLO[:-1] + b"\xff"])
def test_another_protocol_is_refused(tmp_path, sent):
    async def story():
        async with serving(tmp_path) as server:
            reader, _writer = await connect(server, sent)
            await closed(reader)
            await works(server)

    run(story())


def test_a_number_twice(tmp_path):
    async def story():
        async with serving(tmp_path) as server:
            reader, writer = await connect(server)
            writer.write(frame(1, "/t/Wait") + frame(1, "/t/Wait"))
            await closed(reader)
            await works(server)

    run(story())


def test_random_bytes(tmp_path):
    async def story():
        chance = random.Random(5)
        async with serving(tmp_path) as server:
            for _ in range(200):
                reader, writer = await connect(server)
                good = bytearray(frame(1) + frame(2, "/t/Long") + frame(3, "/no/Such"))
                for _ in range(chance.randrange(1, 9)):
                    good[chance.randrange(len(good))] = chance.randrange(256)
                writer.write(bytes(good))
                writer.write_eof()
                await closed(reader)
                writer.close()
            await works(server)

    run(story())


def test_an_unknown_method(tmp_path):
    async def story():
        async with serving(tmp_path) as server:
            reader, writer = await connect(server)
            writer.write(frame(1, "/no/Such") + frame(2))
            assert (await reply(reader))[1] == NUMBERS["UNIMPLEMENTED"]
            assert (await reply(reader))[1] == 0
            writer.close()

    run(story())


def test_a_caller_that_disconnects_cancels_its_calls(tmp_path):
    async def story():
        async with serving(tmp_path) as server:
            _reader, writer = await connect(server)
            writer.write(frame(1, "/t/Wait"))
            await server.waits.begun.wait()
            writer.close()
            await server.waits.cancelled.wait()

    run(story())


def test_a_deadline_and_a_cancellation(tmp_path):
    async def story():
        async with serving(tmp_path, sweep_s=0.01) as server:
            reader, writer = await connect(server)
            writer.write(frame(1, "/t/Wait", left_s=0.02))
            assert (await reply(reader))[:2] == (1, NUMBERS["DEADLINE_EXCEEDED"])
            assert server.waits.cancelled.is_set()
            writer.write(frame(2, "/t/Wait") + frame(2, ""))  # cancelled before its first step
            assert (await reply(reader))[:2] == (2, NUMBERS["CANCELLED"])
            writer.close()

    run(story())


def test_a_reader_that_does_not_read(tmp_path):
    """Its requests stay in its socket, and the connection ends; others are served meanwhile."""

    async def story():
        async with serving(tmp_path, sweep_s=0.01, receive_s=0.2) as server:
            wire = socket.socket(socket.AF_UNIX)
            wire.connect(str(server.path))
            wire.setblocking(False)
            loop = asyncio.get_running_loop()
            sending = loop.create_task(
                loop.sock_sendall(wire, HELLO + b"".join(frame(i, "/t/Long") for i in range(1, 20_000)))
            )
            while not server.shared.connections:
                await asyncio.sleep(0)
            (connection,) = server.shared.connections
            await works(server)
            while connection in server.shared.connections:
                assert connection.unread_bytes <= 4 * CALLS_PER_TURN * LONG_BYTES
                await asyncio.sleep(0.005)
            with contextlib.suppress(ConnectionError):
                await sending
            wire.close()

    run(story())


def test_large_requests_of_a_user_take_turns(tmp_path):
    """So many are received at a time; the others stay in their sockets until one is over."""

    async def story():
        async with serving(tmp_path) as server:
            wires = [await connect(server) for _ in range(AT_ONCE + 3)]
            body = bytes(4 * LARGE_BYTES)
            for _, writer in wires:
                writer.write(frame(1, body=body)[:-LARGE_BYTES])
            uid = os.geteuid()
            while server.shared.large.number_of(uid)[1] < 3:
                await asyncio.sleep(0)
            assert server.shared.large.number_of(uid) == (AT_ONCE, 3)
            for _, writer in wires:
                writer.write(bytes(LARGE_BYTES))
            for reader, _ in wires:
                assert await reply(reader) == (1, 0, body)
            assert server.shared.large.is_idle
            for _, writer in wires:
                writer.write(frame(2, body=body)[:LARGE_BYTES])
            while server.shared.large.number_of(uid)[1] < 3:
                await asyncio.sleep(0)
            for _, writer in wires:  # those that leave give their turn to others
                writer.close()
            while server.shared.connections:
                await asyncio.sleep(0)
            assert server.shared.large.is_idle

    run(story())


def test_clients_fail_in_their_words(tmp_path):
    """A server that closes, or says what is no reply, is no success."""

    async def story():
        async with serving(tmp_path) as server:
            channel = await channel_to(server)
            assert await channel.call("/t/Echo", b"a", FOREVER) == b"a"
            waiting = asyncio.create_task(channel.call("/t/Wait", b"", FOREVER))
            await server.waits.begun.wait()
            with pytest.raises(CallFailed) as failed:
                await channel.call("/t/Wait", b"", 0.0)
            assert (failed.value.status, failed.value.is_sent) == ("DEADLINE_EXCEEDED", True)
            waiting.cancel()
            await server.waits.cancelled.wait()
            with pytest.raises(CallFailed) as failed:
                await channel.call("/t/Echo", bytes(REQUEST_BYTES_MAX + 1), FOREVER)
            assert (failed.value.status, failed.value.is_sent) == ("RESOURCE_EXHAUSTED", False)
        with pytest.raises(CallFailed) as failed:
            await channel.call("/t/Echo", b"", FOREVER)
        assert failed.value.status == "UNAVAILABLE"

    run(story())


async def channel_to(server):
    loop = asyncio.get_running_loop()
    return (await loop.create_unix_connection(lambda: CallChannel(1024 * 1024), str(server.path)))[1]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", "UNAVAILABLE"),
        (REPLY.pack(5, 99, 0), "INTERNAL"),
        (REPLY.pack(2**31, 1, 0), "RESOURCE_EXHAUSTED"),
        (REPLY.pack(5, 1, 0) + b"more", "INTERNAL"),
        (REPLY.pack(8, 1, 200) + b"1\0x", "UNKNOWN"),
    ],
)
def test_a_server_that_is_not_ours(said, status):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        connection = CallConnection(ours)
        with pytest.raises(CallFailed) as failed:
            connection.call("/t/Echo", b"", FOREVER, 1024)
        assert failed.value.status == status
        assert not connection.usable()


@as_root
def test_a_connection_is_not_used_by_another_user():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = CallConnection(ours)
        assert connection.usable()
        os.setegid(NOBODY)
        try:
            assert not connection.usable()
        finally:
            os.setegid(os.getgid())
        assert connection.usable()


@as_root
def test_the_kernel_says_who_submits():
    """No token, no field: the job is the calling process's user's, who may not do what only others may."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-calls-"))
    folder.chmod(0o755)
    try:

        async def story():
            site = Site(folder)
            async with site.controller() as controller:
                done = await asyncio.to_thread(
                    subprocess.run,
                    [sys.executable, "-c", CALLER, str(site.state / "cluster.json")],
                    cwd=ROOT, capture_output=True, text=True, check=False, timeout=ANSWER_S,
                )  # fmt: skip
                job_id, code = done.stdout.split()
                row = controller.runtime.snapshot.jobs[int(job_id)]
                assert (row.user_id, row.group_id) == (NOBODY, NOBODY)
                assert int(code) == Code.ACCESS_DENIED
                denied = controller.services.audit_head
                assert denied.audit_id > 0

        run(story())
    finally:
        shutil.rmtree(folder)


def test_the_gate_is_the_same(tmp_path):
    """Bounds of fields, the count of calls and the refusals of the core are those of calls over gRPC."""

    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller:
            only_calls = site.cluster()._replace(socket="/no/such", auth_socket="", address="")
            client = AsyncClient(only_calls, ANSWER_S)
            assert await submit(client)
            with pytest.raises(PenstockError) as refused:
                await client.call("SubmitJob", LONG_NAME)
            direct = refused.value
            await client.close()
            over_grpc = site.cluster()._replace(call_socket="")
            async with AsyncClient(over_grpc, ANSWER_S) as other:
                with pytest.raises(PenstockError) as refused:
                    await other.call("SubmitJob", LONG_NAME)
            assert (direct.code, direct.text) == (refused.value.code, refused.value.text)
            while controller.runtime.diagnostics.by_method["SubmitJob"][0] < 3:  # gRPC's is counted after its answer
                await asyncio.sleep(0)
            assert not (controller.gate.underway.calls or controller.gate.underway.bytes)

    run(story())


class Pages:
    """A method that answers in so many pages of a size, and counts those that it has sent."""

    def __init__(self, number, size=1):
        self.number, self.size, self.sent = number, size, 0

    async def __call__(self, data, call):
        for number in range(self.number):
            await call.send_page(bytes([number % 256]) * self.size)
            self.sent += 1
        return b""


def test_an_answer_in_pages(tmp_path):
    """Both clients get all of them in order, and use the connection again."""

    async def story():
        async with serving(tmp_path) as server:
            for number in (0, 1, 300):
                server.shared.methods[b"/t/Pages"] = Pages(number)
                expected = [bytes([n % 256]) for n in range(number)]
                channel = await channel_to(server)
                waiting = asyncio.create_task(channel.pages("/t/Pages", b"", FOREVER))
                assert await channel.call("/t/Echo", b"beside", FOREVER) == b"beside"
                assert list(await waiting) == expected
                wire = dial_calls(ClusterFile("c", call_socket=str(server.path)), ANSWER_S)
                assert wire is not None
                connection = CallConnection(wire)
                assert list(await asyncio.to_thread(connection.pages, "/t/Pages", b"", FOREVER, 1024)) == expected
                assert connection.usable()
                assert await asyncio.to_thread(connection.call, "/t/Echo", b"x", FOREVER, 1024) == b"x"
                connection.close()
                channel.close()

    run(story())


def test_pages_wait_for_their_reader(tmp_path):
    """What is made ahead of a reader is bounded; they go on when it reads, and end when it leaves."""

    async def story():
        async with serving(tmp_path) as server:
            pages = Pages(64, 128 * 1024)
            server.shared.methods[b"/t/Pages"] = pages
            reader, writer = await connect(server)
            writer.write(frame(1, "/t/Pages"))
            while not server.shared.connections:
                await asyncio.sleep(0)
            (connection,) = server.shared.connections
            while not connection.unread_bytes > callconnection.UNREAD_BYTES:
                await asyncio.sleep(0)
            assert pages.sent < pages.number
            assert connection.unread_bytes <= callconnection.UNREAD_BYTES + pages.size + REPLY.size
            await works(server)
            for number in range(pages.number):
                assert await reply(reader) == (1, MORE, bytes([number]) * pages.size)
            assert await reply(reader) == (1, 0, b"")
            writer.write(frame(2, "/t/Pages"))
            await reply(reader)
            writer.close()
            while connection.calls:
                await asyncio.sleep(0)
            assert not connection.is_connected

    run(story())


def test_listings_need_no_token_and_no_grpc(tmp_path):
    """So they do not wait for calls over gRPC, which are received before it is known whose they are."""

    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller:
            only_calls = site.cluster()._replace(socket="/no/such", auth_socket="", address="")
            async with AsyncClient(only_calls, ANSWER_S) as client:
                job_id = await submit(client)
                request = controller_pb2.ListJobsRequest()
                [page] = [page async for page in client.stream("ListJobs", request)]
                assert [job.job_id for job in page.jobs] == [job_id]
            with Client(only_calls, ANSWER_S) as blocking:
                [page] = await asyncio.to_thread(lambda: list(blocking.stream("ListJobs", request)))
                assert [job.job_id for job in page.jobs] == [job_id]
            assert not (controller.gate.underway.calls or controller.gate.unread.bytes)

    run(story())


def test_a_controller_of_an_earlier_release_lists_over_grpc(tmp_path):
    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client:
            assert controller.calls.shared.methods.pop(b"/penstock.v1.Controller/ListJobs")
            job_id = await submit(client)
            request = controller_pb2.ListJobsRequest()
            [page] = [page async for page in client.stream("ListJobs", request)]
            assert [job.job_id for job in page.jobs] == [job_id]
            with Client(site.cluster(), ANSWER_S) as blocking:
                [page] = await asyncio.to_thread(lambda: list(blocking.stream("ListJobs", request)))
                assert [job.job_id for job in page.jobs] == [job_id]

    run(story())


def test_nobody_listens(tmp_path):
    """An older controller has left its call socket, or none: gRPC is used."""
    assert dial_calls(ClusterFile("c"), 1.0) is None
    assert dial_calls(ClusterFile("c", call_socket=str(tmp_path / "no")), 1.0) is None
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    assert dial_calls(ClusterFile("c", call_socket=str(tmp_path / "left")), 1.0) is None
    assert struct.calcsize(">IIIB") == REQUEST.size


def test_a_worker_keeps_its_connection(tmp_path, monkeypatch):
    """The next client of the process uses it again, until the controller is another one."""
    keeper = Keeper[CallConnection](701, call_socket_key)
    monkeypatch.setattr(Client, "calls_keeper", keeper)
    cluster = ClusterFile("c", call_socket=str(tmp_path / "c"))

    async def ping(data, call):
        return controller_pb2.PingReply(pid=os.getpid()).SerializeToString()

    def call():
        with Client(cluster, ANSWER_S) as client:
            assert client.call("Ping", controller_pb2.PingRequest()).pid == os.getpid()

    async def story():
        tmp_path.chmod(0o711)
        for _ in range(2):
            server = CallServer(tmp_path / "c", {"/penstock.v1.Controller/Ping": ping}, UnreadReplies())
            await server.start()
            await asyncio.to_thread(call)
            (first,) = server.shared.connections
            assert keeper.number() == 701
            await asyncio.to_thread(call)
            assert list(server.shared.connections) == [first]
            await server.stop(0)

    try:
        run(story())
    finally:
        keeper.drop()
