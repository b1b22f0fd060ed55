"""Item 13, by the REST daemon: one machine, or one user of this one, does not keep everybody else out.

The attack: tokens that nobody has checked yet are as many callers as somebody likes. 256 of them, each with a body that never
comes, held all requests of the daemon; four bodies of 16 MB all of its room for bodies; 4,096 connections all of these.
"""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fakerest import TOKEN, FakeRest
from patience import ANSWER_S

import rest.protocol
import rest.server
from penstock.v1.controller_pb2 import PingReply
from rest.answers import RestError
from rest.callers import UnixPeer, peer_key
from rest.events import EventStreams
from rest.limits import (
    BODIES_BYTES_MAX,
    CALLER_STREAMS_MAX,
    CONNECTIONS_MAX,
    PEER_BODIES_BYTES_MAX,
    PEER_CONNECTIONS_MAX,
    PEER_REQUESTS_MAX,
    PEER_STREAMS_MAX,
    PEER_WAITING_MAX,
    REQUESTS_MAX,
    STREAMS_MAX,
    Requests,
)
from rest.protocol import RestProtocol
from rest.server import Tls, serve

MEGABYTE = 1024 * 1024


def test_13_nobody_has_more_than_half() -> None:
    for of_peer, of_all in (
        (PEER_REQUESTS_MAX, REQUESTS_MAX), (PEER_STREAMS_MAX, STREAMS_MAX), (PEER_CONNECTIONS_MAX, CONNECTIONS_MAX),
        (PEER_BODIES_BYTES_MAX, BODIES_BYTES_MAX),
    ):  # fmt: skip
        assert 0 < of_peer <= of_all // 2


@pytest.mark.parametrize(("peer", "key"), [
    (UnixPeer("unix", 7), "uid 7"), (("10.0.0.1", 4), "10.0.0.1"), (("10.0.0.1", 5), "10.0.0.1"),
    (("2001:db8::1", 4, 0, 0), "2001:db8::/64"), (("2001:db8::ffff:2", 5, 0, 0), "2001:db8::/64"),
    (("fe80::1%eth0", 5, 0, 2), "fe80::/64"), (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"), (None, ""),
])  # fmt: skip
def test_13_who_a_peer_is(peer: Any, key: str) -> None:
    """The ports of a machine are one peer, and so are the addresses of a network that is one machine's."""
    assert peer_key(peer) == key


def test_13_requests_of_one_machine_leave_half_to_others() -> None:
    requests = Requests()
    held = [requests.one(f"token {number}", "10.0.0.1") for number in range(PEER_REQUESTS_MAX)]
    for one in held:
        one.__enter__()
    with pytest.raises(RestError, match="from this machine"):
        requests.one("another", "10.0.0.1").__enter__()
    with requests.one("another", "10.0.0.2") as share:
        share.hold(1)
    for one in held:
        one.__exit__(None, None, None)
    with requests.one("another", "10.0.0.1"):
        pass
    assert not requests.peer_body_bytes


def test_13_browsers_behind_one_address_wait_for_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    """They ask at the same moment, and none is refused. A peer's line does not hold up others, and who leaves is left out."""
    requests = Requests(requests_max=3, peer_max=2)
    began: list[str] = []
    ended: dict[str, asyncio.Event] = {}

    async def ask(name: str, peer: str, caller: str = "") -> None:
        ended[name] = asyncio.Event()
        with await requests.in_turn(caller or name, peer):
            began.append(name)
            await ended[name].wait()

    async def rest() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def story() -> None:
        tasks = {name: asyncio.create_task(ask(name, name[0])) for name in ("a1", "a2", "a3", "a4", "a5", "b1", "b2")}
        await rest()
        assert began == ["a1", "a2", "b1"]  # `a` has all that one machine may have
        tasks["a3"].cancel()
        ended["a1"].set()
        await rest()
        assert began[3:] == ["a4"]
        ended["a2"].set()
        await rest()
        assert began[4:] == ["b2"]  # in turns
        ended["b1"].set()
        await rest()
        assert began[5:] == ["a5"]
        for name in ("a4", "a5", "b2"):
            ended[name].set()
        done = await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert [one for one in done if one is not None] == [done[2]] and isinstance(done[2], asyncio.CancelledError)
        with await requests.in_turn("a6", "a"), await requests.in_turn("a7", "a"), await requests.in_turn("b3", "b"):
            pass

    asyncio.run(asyncio.wait_for(story(), ANSWER_S))
    assert caplog.text == ""


def test_13_a_line_is_short_and_its_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        impatient = Requests(requests_max=2, peer_max=1, wait_s=0)
        with await impatient.in_turn("a", "10.0.0.1"):
            for caller in ("b", "c"):
                with pytest.raises(RestError, match="behind one proxy, count together") as refused:
                    (await impatient.in_turn(caller, "10.0.0.1")).__enter__()
                assert refused.value.status == 429
        with await impatient.in_turn("b", "10.0.0.1"):
            pass
        patient = Requests(requests_max=2, peer_max=1, caller_max=2)
        with await patient.in_turn("a", "10.0.0.1"):
            waiting = [asyncio.ensure_future(patient.in_turn("b", "10.0.0.1")) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(RestError, match="of this caller"):  # those that wait count
                await patient.in_turn("b", "10.0.0.1")
            more = [
                asyncio.ensure_future(patient.in_turn(str(number), "10.0.0.1"))
                for number in range(PEER_WAITING_MAX - 2)
            ]
            await asyncio.sleep(0)
            with pytest.raises(RestError, match="from this machine"):
                (await patient.in_turn("one more", "10.0.0.1")).__enter__()
            for one in (*waiting, *more):
                one.cancel()
            await asyncio.gather(*waiting, *more, return_exceptions=True)
        with await patient.in_turn("b", "10.0.0.1"):
            pass

    asyncio.run(asyncio.wait_for(story(), ANSWER_S))
    assert [one.getMessage()[:56] for one in caplog.records] == [
        f"1 requests refused, the last one of 10.0.0.1: {count}"[:56] for count in ("1 requests", "2 requests")
    ]


def test_13_so_do_their_bodies() -> None:
    requests = Requests()
    with (
        requests.one("a", "10.0.0.1") as first,
        requests.one("b", "10.0.0.1") as second,
        requests.one("c", "uid 7") as other,
    ):
        first.hold(PEER_BODIES_BYTES_MAX)
        with pytest.raises(RestError, match="from this machine"):
            second.hold(1)
        other.hold(16 * MEGABYTE)
    assert requests.body_bytes == 0 and not requests.peer_body_bytes


def test_13_and_their_streams() -> None:
    streams = EventStreams(SimpleNamespace())
    held = [streams.counted(f"token {n // CALLER_STREAMS_MAX}", "10.0.0.1") for n in range(PEER_STREAMS_MAX)]
    for one in held:
        one.__enter__()
    with pytest.raises(RestError, match="from this machine"):
        streams.counted("another", "10.0.0.1").__enter__()
    with streams.counted("another", "10.0.0.2"):
        pass
    for one in held:
        one.__exit__(None, None, None)
    assert streams.open_streams == 0


def test_13_logins_are_their_machines() -> None:
    """Nobody is proven at a login: all of them were one caller, and so was the daemon's own user."""
    seen: list[tuple[str, str]] = []

    class Noted(Requests):
        def one(self, caller: str, peer: str) -> Any:
            seen.append((caller, peer))
            return super().one(caller, peer)  # that of a request that has waited for its turn, too

    files: Any = {"/": SimpleNamespace()}
    rest_app = FakeRest({"Ping": PingReply()}, Noted(), files=files)
    rest_app.request("POST", "/web/login", json={}, headers={"x-penstock-web": "1"})
    rest_app.get("/slurm/v0.0.46/ping", headers=TOKEN)
    assert seen == [("login from 127.0.0.1", "127.0.0.1"), (TOKEN["X-SLURM-USER-TOKEN"], "127.0.0.1")]


def test_13_slow_bodies_over_tcp_keep_no_user_of_the_socket_out(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real sockets: one machine has all connections and requests that it gets, each with a token of its own."""
    monkeypatch.setattr(rest.protocol, "PEER_CONNECTIONS_MAX", 6)
    monkeypatch.setattr(rest.protocol, "CONNECTIONS_MAX", 8)
    fake = FakeRest({"Ping": PingReply()}, Requests(requests_max=8, peer_max=4, wait_s=0))
    app = fake.transport.app
    head = "POST /slurm/v0.0.46/job/submit HTTP/1.1\r\nHost: x\r\nX-SLURM-USER-TOKEN: {}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"

    async def is_closed(reader: asyncio.StreamReader) -> bool:
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True

    async def story() -> None:
        port_socket = rest.server.listen_tcp("127.0.0.1", 0)
        path = str(tmp_path / "s")
        serving = asyncio.create_task(serve(app, [port_socket, rest.server.listen_unix(path)], Tls()))
        port = port_socket.getsockname()[1]
        slow = []
        for number in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.format(f"a.b.{number}").encode())
            slow.append((reader, writer))
        # Four have a request, two are told that there are too many of this machine, two are closed at once.
        first = [asyncio.ensure_future(reader.read(12)) for reader, _ in slow[4:6]]
        assert [await one for one in first] == [b"HTTP/1.1 429"] * 2
        assert all([await is_closed(reader) for reader, _ in slow[6:]])
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=path), base_url="http://x", timeout=ANSWER_S
        ) as user:
            reply = await user.get("/slurm/v0.0.46/ping", headers=TOKEN)
            assert reply.status_code == 200, reply.text
            body = json.dumps({"hostlist": "n[1-2]"})
            headers = TOKEN | {"Content-Type": "application/json"}
            assert (await user.post("/util/v0.0.46/hostnames", content=body, headers=headers)).status_code == 200
        for _, writer in slow:
            writer.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    assert issubclass(RestProtocol, asyncio.Protocol)
    asyncio.run(asyncio.wait_for(story(), ANSWER_S))
