"""srun's standard input on a terminal: a read that fails once, as one in the background does, ends nothing."""

import errno
import os
import pty
from collections.abc import Iterator
from typing import Any

import pytest

from cli.steps import stdin
from cli.steps.streamclient import State
from penstock.eventloop import Loop
from penstock.values.stepframes import FrameKind, frame


class Stream:
    """A connection that is open, and keeps what it is given."""

    state = State.OPEN
    welcomed = True
    received = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes, *, keep: bool) -> None:
        """Takes a frame."""
        self.sent.append(bytes(data))


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(theirs)


def failing(monkeypatch: pytest.MonkeyPatch, fd: int, times: int) -> None:
    """The next reads of the terminal fail as those of a process in the background."""
    read, left = os.read, [times]

    def fails(number: int, size: int) -> bytes:
        if number == fd and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(number, size)

    monkeypatch.setattr(os, "read", fails)


def pump(loop: Loop, fd: int) -> Any:
    stream = Stream()
    one: Any = stream
    stdin.StdinPump(loop, fd, [one]).welcomed(one)
    return stream


def test_one_failure_in_front_is_no_end(monkeypatch: pytest.MonkeyPatch, ends: tuple[int, int]) -> None:
    """It was in the background when it read, and is in front when it looks."""
    ours, theirs = ends
    loop = Loop()
    failing(monkeypatch, theirs, 1)
    stream = pump(loop, theirs)
    os.write(ours, b"typed\n")
    while not stream.sent:
        loop.turn()
    assert stream.sent == [frame(FrameKind.STDIN, b"typed\n")]
    os.close(ours)


def test_a_terminal_that_is_gone_is_the_end(monkeypatch: pytest.MonkeyPatch, ends: tuple[int, int]) -> None:
    ours, theirs = ends
    loop = Loop()
    failing(monkeypatch, theirs, 5)
    stream = pump(loop, theirs)
    os.close(ours)
    while not stream.sent:
        loop.turn()
    assert stream.sent == [frame(FrameKind.STDIN, b"")]
