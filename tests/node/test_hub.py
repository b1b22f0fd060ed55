"""The hub of a step's streams with real pipes, without a network: what happens without an owner."""

import os

import pytest

from nodedaemon.stepd.streams import StreamHub
from penstock.eventloop import Loop
from penstock.values import stepframes
from penstock.values.packing import unpack
from penstock.values.stepframes import KEPT_BYTES_MAX, FrameKind, FrameReader, StreamRole


class Owner:
    """As much of a connection as the hub knows."""

    def __init__(self, role: StreamRole = StreamRole.OWNER) -> None:
        self.is_open = True
        self.role = role

    def close(self) -> None:
        self.is_open = False

    def pump(self) -> None:
        pass


@pytest.fixture
def hub():
    made = StreamHub(Loop())
    made.open()
    yield made
    made.close()


def frames(hub: StreamHub) -> list[tuple[int, int, int, bytes]]:
    reader, kept = FrameReader(), hub.kept
    for number in range(kept.first, kept.next):
        reader.feed(bytes(kept.read(number, 0)))
    return list(iter(reader.take, None))


def fill(hub: StreamHub, fd: int, size: int) -> int:
    """Write until so much has gone or the pipe is full; how much has gone."""
    gone = 0
    while gone < size:
        try:
            gone += os.write(fd, b"x" * min(size - gone, 50_000))
        except BlockingIOError:
            break
        hub.loop.turn()
    return gone


def test_reading_stops_and_without_an_owner_the_oldest_goes(hub, monkeypatch):
    ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    hub.add_output(ours, 4, 1)
    hub.send_started([77])
    hub.send_exited(3, 256)
    hub.loop.after(0, lambda: None)
    gone = 0
    for _ in range(100):  # until the pipe is full, too
        hub.loop.after(0, lambda: None)  # a turn that need not wait
        part = fill(hub, theirs, 50_000)
        gone += part
        if part < 50_000:
            break
    assert KEPT_BYTES_MAX <= hub.kept.size < KEPT_BYTES_MAX + 300_000
    assert hub.kept.base == 0
    monkeypatch.setattr(stepframes, "OWNER_WAIT_S", 0)
    gone_owner = Owner()
    hub.take_owner(gone_owner)
    hub.lose(gone_owner)
    hub.loop.turn()  # nobody has come
    hub.loop.turn()
    assert fill(hub, theirs, 2 * KEPT_BYTES_MAX) == 2 * KEPT_BYTES_MAX
    assert hub.kept.size < KEPT_BYTES_MAX + 300_000
    lost = hub.kept.base
    assert lost > KEPT_BYTES_MAX
    owner = Owner()
    hub.take_owner(owner)
    kinds = [(kind, task, payload) for kind, _, task, payload in frames(hub) if kind != FrameKind.DATA]
    assert [kind for kind, _, _ in kinds] == [FrameKind.LOST, FrameKind.STARTED, FrameKind.EXITED]
    assert int(kinds[0][2]) == lost
    assert unpack(kinds[1][2]) == [b"77"] and kinds[2][1:] == (3, b"256")
    os.close(theirs)


def test_a_second_owner_takes_the_firsts_place(hub):
    first, second = Owner(), Owner()
    hub.take_owner(first)
    hub.take_owner(second)
    hub.lose(first)
    assert (first.is_open, second.is_open, hub.owner) == (False, True, second)
    hub.lose(second)
    assert hub.owner is None and hub.owner_gone_s > 0


def test_standard_input_of_all_is_taken_when_the_slowest_has_it(hub):
    ends = []
    for rank in (0, 1):
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        hub.add_input(ours, rank)
        ends.append(theirs)
    data = bytes(range(256)) * 1024
    assert hub.take_stdin(0xFFFFFFFF, data, True)
    taken = [int(payload) for kind, _, _, payload in frames(hub) if kind == FrameKind.STDIN_TAKEN]
    assert taken in ([], [64 * 1024])
    got = {0: b"", 1: b""}
    while len(got[0]) < len(data):
        got[0] += os.read(ends[0], 1 << 20)
        hub.loop.after(0, lambda: None)
        hub.loop.turn()
    taken = [int(payload) for kind, _, _, payload in frames(hub) if kind == FrameKind.STDIN_TAKEN]
    assert taken in ([], [64 * 1024])  # the other has read nothing
    os.close(ends[1])
    hub.loop.turn()
    taken = [int(payload) for kind, _, _, payload in frames(hub) if kind == FrameKind.STDIN_TAKEN]
    assert got[0] == data and taken[-1] == len(data)
    os.close(ends[0])
    assert hub.take_stdin(5, b"", False)  # for nobody here: no fault of the sender's
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    hub.add_input(ours, 2)
    while hub.take_stdin(2, data, False):
        pass  # whoever sends without end is cut off
    os.close(theirs)


def test_input_for_an_ended_task_is_swallowed(hub):
    assert hub.take_stdin(9, b"abc", True)
    assert [payload for kind, _, _, payload in frames(hub) if kind == FrameKind.STDIN_TAKEN] == [b"3"]


def lone(hub: StreamHub, owner: Owner, is_cut: bool = False) -> None:
    """Two turns after the owner has gone; where a wait is 0 it is over then."""
    hub.take_owner(owner)
    hub.lose(owner, is_cut)
    for _ in range(2):
        hub.loop.after(0, lambda: None)
        hub.loop.turn()


def test_a_task_that_waits_for_input_does_not_wait_for_an_owner_that_has_ended(hub, monkeypatch):
    monkeypatch.setattr(stepframes, "OWNER_WAIT_S", 0)
    theirs, ours = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    hub.add_input(ours, 0)
    hub.take_stdin(0, b"the last", True)
    lone(hub, Owner(), is_cut=True)
    assert os.read(theirs, 99) == b"the last"
    with pytest.raises(BlockingIOError):  # the network may come back
        os.read(theirs, 99)
    lone(hub, Owner())
    assert os.read(theirs, 99) == b""
    os.close(theirs)


def test_a_viewer_may_go_on_typing(hub, monkeypatch):
    monkeypatch.setattr(stepframes, "OWNER_WAIT_S", 0)
    theirs, ours = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    hub.add_input(ours, 0)
    viewer = Owner(StreamRole.VIEWER)
    hub.connections.append(viewer)
    lone(hub, Owner())
    hub.take_stdin(0, b"more", False)
    assert os.read(theirs, 99) == b"more"
    hub.lose(viewer)
    hub.loop.turn()
    assert os.read(theirs, 99) == b""
    os.close(theirs)


def test_the_terminal_of_an_owner_that_has_ended_is_hung_up(hub, monkeypatch):
    monkeypatch.setattr(stepframes, "OWNER_WAIT_S", 0)
    ours, theirs = os.openpty()
    hub.add_terminal(ours, 0)
    lone(hub, Owner())
    assert os.read(theirs, 99) == b""  # as after a hangup
    with pytest.raises(OSError, match="Input/output error"):
        os.write(theirs, b"nobody is there")
    os.close(theirs)
