"""The time-out of a listing over the call socket is that of each page."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from penstock import callsocket, transport
from penstock.calls import CallFailed
from penstock.callsocket import CallConnection
from penstock.frames import HELLO, MORE, REPLY, REQUEST

PAGE_S = 10.0
PAGE_BYTES = 20
FRAME_BYTES = REPLY.size + PAGE_BYTES


class SlowSocket(socket.socket):
    """A socket whose reads take time by a clock of its own."""

    now = 1000.0
    read_s = 0.0
    read_bytes = FRAME_BYTES

    def recv(self, size: int, flags: int = 0) -> bytes:
        SlowSocket.now += self.read_s
        return super().recv(min(size, self.read_bytes), flags)


def reply(number: int, status: int) -> bytes:
    return REPLY.pack(REPLY.size - 4 + PAGE_BYTES, number, status) + b"x" * PAGE_BYTES


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SlowSocket, socket.socket]]:
    clock = SimpleNamespace(monotonic=lambda: SlowSocket.now)
    monkeypatch.setattr(callsocket, "time", clock)
    monkeypatch.setattr(transport, "time", clock)
    ours, theirs = socket.socketpair()
    with SlowSocket(fileno=ours.detach()) as slow, theirs:
        yield slow, theirs


def test_a_listing_may_take_longer_than_one_page(sockets: tuple[SlowSocket, socket.socket]) -> None:
    slow, theirs = sockets
    theirs.sendall(b"".join(reply(1, MORE) for _ in range(5)) + reply(1, 0))
    slow.read_s = 0.8 * PAGE_S
    pages = CallConnection(slow).pages("/penstock.v1.Controller/ListJobs", b"", PAGE_S, 100)
    assert list(pages) == [b"x" * PAGE_BYTES] * 5
    timeout_ms = REQUEST.unpack_from(theirs.recv(1000), len(HELLO))[2]
    assert timeout_ms == 0, "the controller would end the call"


def test_a_page_that_does_not_arrive_ends_a_listing(sockets: tuple[SlowSocket, socket.socket]) -> None:
    slow, theirs = sockets
    theirs.sendall(reply(1, MORE) + reply(1, MORE)[:-1])
    slow.read_s, slow.read_bytes = 0.6 * PAGE_S, FRAME_BYTES - 1
    with pytest.raises(CallFailed) as failed:
        CallConnection(slow).pages("/penstock.v1.Controller/ListJobs", b"", PAGE_S, 100)
    assert failed.value.status == "DEADLINE_EXCEEDED"
