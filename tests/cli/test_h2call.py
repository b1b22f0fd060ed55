"""The commands' HTTP/2: a controller that goes down while it answers; a stranger at the other end."""

import socket
import threading
import time
from collections.abc import Callable

import pytest
from hpack import Encoder
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, SettingsFrame
from patience import END_S

from penstock.calls import CallFailed
from penstock.h2call import Connection

ANSWER = b"\0\0\0\0\2hi"


def sent(*frames: Frame) -> bytes:
    return b"".join(frame.serialize() for frame in frames)


def answer(stream: int) -> list[Frame]:
    encoder = Encoder()
    head = encoder.encode([(":status", "200"), ("content-type", "application/grpc")])
    tail = encoder.encode([("grpc-status", "0")])
    return [
        HeadersFrame(stream, head, flags=["END_HEADERS"]),
        DataFrame(stream, ANSWER),
        HeadersFrame(stream, tail, flags=["END_HEADERS", "END_STREAM"]),
    ]


def goodbye(last_stream: int) -> list[Frame]:
    """What gRPC sends first when it goes down: GOAWAY, and a PING whose answer it waits for."""
    return [GoAwayFrame(0, last_stream_id=last_stream), PingFrame(0, b"goodbye!")]


def call(reply: Callable[[], bytes]) -> list[bytes]:
    """One call to a server that sends these bytes as soon as it is asked."""
    mine, theirs = socket.socketpair()

    def serve() -> None:
        if theirs.recv(65536):
            theirs.sendall(reply())

    server = threading.Thread(target=serve)
    server.start()
    connection = Connection(mine, "localhost", "code")
    try:
        return list(connection.call("/a/B", b"", [], time.monotonic() + END_S, 1 << 20))
    finally:
        connection.close()
        server.join()
        theirs.close()


@pytest.mark.parametrize("last_stream", [1, 2**31 - 1])
def test_a_call_that_was_taken_ends_although_the_server_goes(last_stream: int) -> None:
    assert call(lambda: sent(SettingsFrame(0), *goodbye(last_stream), *answer(1))) == [b"hi"]
    assert call(lambda: sent(SettingsFrame(0), *answer(1), *goodbye(last_stream))) == [b"hi"]


def test_a_call_that_was_not_taken_may_be_made_elsewhere() -> None:
    with pytest.raises(CallFailed) as failure:
        call(lambda: sent(SettingsFrame(0), *goodbye(0)))
    assert failure.value.status == "UNAVAILABLE"


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\4\1\0\0\0\0\1abcd" * 3])
def test_a_stranger_is_named_at_once(said: bytes) -> None:
    with pytest.raises(CallFailed, match="this is not our controller"):
        call(lambda: said)
