"""The launcher keeps idle stepds for the next storm, and lets most of them go when it is quiet."""

import contextlib
import itertools
import os
import signal
import socket
from typing import Any

import pytest

from nodedaemon.base import orders
from nodedaemon.daemon import launcher

STEPDS = 20


@pytest.fixture
def quiet(monkeypatch):
    """A launcher with idle stepds that are only sockets, each with one step behind it, and our ends of these."""
    far_ends = []
    real_pair = socket.socketpair

    def pair(*kind: int):
        ours, theirs = real_pair(*kind)
        far_ends.append(theirs.dup())
        return ours, theirs

    noded, order_end = socket.socketpair()
    heard, packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    context: Any = type("Context", (), {"lacks_tls": False, "packets": packets})
    made = launcher.Launcher(context, order_end, -1)
    monkeypatch.setattr(launcher, "IDLE_S", 0.0)
    monkeypatch.setattr(socket, "socketpair", pair)
    monkeypatch.setattr(os, "fork", itertools.count(2**22 + 1).__next__)
    for number in range(STEPDS):
        noded.sendall(orders.LaunchOrder(key=f"{number}.1.-5").encode())
    made.turn()
    for end in far_ends:
        end.send(b"d")  # its step has ended
    with contextlib.ExitStack() as stack:
        for end in (*far_ends, noded, order_end, heard, packets):
            stack.enter_context(end)
        yield made, far_ends
    signal.set_wakeup_fd(-1)


def until_idle(made: launcher.Launcher, number: int) -> None:
    """Turns that take what the stepds say, until so many are idle."""
    for _ in range(10 * STEPDS):
        if len(made.idle) == number:
            return
        made.turn()
    raise AssertionError(len(made.idle))


def test_most_idle_stepds_are_told_to_end(quiet):
    made, far_ends = quiet
    until_idle(made, STEPDS)
    kept = made.idle[: launcher.IDLE_KEPT]
    made.turn()
    assert made.idle == kept
    ended = 0
    for end in far_ends:
        end.setblocking(False)
        assert b".1.-5" in end.recv(65536)  # the order that it had
        with contextlib.suppress(BlockingIOError):
            ended += end.recv(1) == b""
    assert ended == STEPDS - launcher.IDLE_KEPT
