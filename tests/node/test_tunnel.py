"""The bytes of a session's connection in stepd: all arrive, a side that reads nothing stops the other, turns are bounded, idle ends."""

import socket

import pytest

from nodedaemon.stepd import tunnel
from nodedaemon.stepd.tunnel import CHUNK_BYTES, CHUNKS_AT_ONCE, ByteTunnel
from penstock.eventloop import Loop


class World:
    """A tunnel between two socket pairs; the tests have the far ends."""

    def __init__(self, first: bytes = b"") -> None:
        self.loop = Loop()
        self.client, near = socket.socketpair()
        self.program, local = socket.socketpair()
        for one in (self.client, near, self.program):
            one.setblocking(False)
        self.passed = 0
        self.ended: list[ByteTunnel] = []
        self.tunnel = ByteTunnel(self.loop, near, local, first, self._pass, self.ended.append)

    def _pass(self) -> None:
        self.passed += 1

    def turn(self) -> None:
        """One turn of stepd's loop, which never waits here."""
        self.loop.soon(lambda: None)
        self.loop.turn()

    def fill(self) -> int:
        """Sends from the program until nothing is taken any more, also not after turns."""
        sent = 0
        idle_turns = 0
        while idle_turns < 3:
            try:
                sent += self.program.send(b"x" * CHUNK_BYTES)
                idle_turns = 0
            except BlockingIOError:
                self.turn()
                idle_turns += 1
        return sent


def read_all(wire: socket.socket, world: World) -> int:
    """Bytes that arrive until nothing more does."""
    count = idle_turns = 0
    while idle_turns < 3:
        try:
            count += len(wire.recv(1024 * 1024))
            idle_turns = 0
        except BlockingIOError:
            world.turn()
            idle_turns += 1
    return count


def test_bytes_arrive_in_order_after_the_first_and_until_the_end() -> None:
    world = World(b"welcome ")
    world.client.send(b"asked")
    world.program.send(b"answer")
    for _ in range(3):
        world.turn()
    assert (world.client.recv(100), world.program.recv(100)) == (b"welcome answer", b"asked")
    world.program.send(b"last")
    world.program.close()
    for _ in range(3):
        world.turn()
    assert (world.client.recv(100), world.client.recv(100)) == (b"last", b"")
    assert world.ended == [world.tunnel] and world.passed > 0
    world.tunnel.close()  # twice is once
    assert len(world.ended) == 1


def test_a_side_that_reads_nothing_stops_the_other_and_nothing_is_lost() -> None:
    world = World()
    sent = world.fill()
    assert sent < 4 * 1024 * 1024  # the kernel's buffers, and one chunk
    assert read_all(world.client, world) == sent and world.ended == []


def test_a_fast_sender_leaves_the_turn_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(tunnel, "CHUNK_BYTES", 16)
    world.program.send(b"y" * 4096)
    world.turn()
    count = len(world.client.recv(65536))
    assert 0 < count <= 4 * CHUNKS_AT_ONCE * 16  # by the event, and by what waited for this turn
    assert count + read_all(world.client, world) == 4096


def test_a_tunnel_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "IDLE_S", 0.0)
    world = World()
    world.turn()
    assert world.ended == [world.tunnel] and world.client.recv(10) == b""
