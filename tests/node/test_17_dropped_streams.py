"""A stream may be dropped in any phase and by either side: the link's task goes on and opens the next one (issue 14, 17)."""

import asyncio
import logging
import os

import grpc
import pytest
from patience import ANSWER_S, END_S

from nodedaemon.core.messages import LinkDown, LinkUp
from nodedaemon.daemon import link as link_module
from nodedaemon.daemon.link import Link, LinkTarget
from nodedaemon.launch import wire
from nodedaemon.spool.contact import ControllerContact
from penstock.v1 import node_pb2
from tests.node.fakectl import FakeController


class Node:
    """A link without a daemon, against a controller that a test makes behave."""

    def __init__(self, controller: FakeController, tmp_path) -> None:
        self.events: list[object] = []
        self.changed = asyncio.Event()
        self.on_up = lambda link: None
        node = wire.NodeFacts("n1", "n1", "")
        self.link = Link(
            LinkTarget(controller.address, None), node, lambda: node_pb2.Register(node_name="n1"),
            node_pb2.Heartbeat, self.post, lambda registered: None, ControllerContact(os.open(tmp_path, os.O_RDONLY)),
            lambda ticket: None,
        )  # fmt: skip
        self.task = asyncio.create_task(self.link.run())

    def post(self, event) -> None:
        self.events.append(event)
        if isinstance(event, LinkUp):
            self.on_up(event.link)
        self.changed.set()

    async def until(self, condition) -> None:
        async with asyncio.timeout(ANSWER_S):
            while not condition():
                assert not self.task.done(), self.task
                self.changed.clear()
                await self.changed.wait()

    def count(self, kind) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    async def end(self) -> None:
        assert not self.task.done(), self.task
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    for name in ("PAUSE_FIRST_S", "PAUSE_MAX_S", "REFUSED_PAUSE_MAX_S"):
        monkeypatch.setattr(link_module, name, 0.01)
    monkeypatch.setattr(link_module, "REGISTER_TIMEOUT_S", 0.2)


def run(tmp_path, story, controller=FakeController):
    async def whole():
        async with controller(f"unix:{tmp_path / 'ctld'}") as fake:
            node = Node(fake, tmp_path)
            await story(fake, node)
            await node.end()

    asyncio.run(whole())


@pytest.mark.parametrize("refused", [True, False])
def test_17_a_stream_that_this_side_gives_up_at_once(tmp_path, refused) -> None:
    """What a lower epoch leads to: before this the task died of CancelledError, and the daemon with it."""

    async def story(fake, node) -> None:
        node.on_up = lambda link: node.link.drop(link, "its epoch is too low", refused)
        await node.until(lambda: node.count(LinkDown) >= 3)

    run(tmp_path, story)


def test_17_given_up_while_it_waits_renews_and_sends(tmp_path) -> None:
    async def story(fake, node) -> None:
        ups = 0

        async def up() -> int:
            nonlocal ups
            ups += 1
            await node.until(lambda: node.count(LinkUp) >= ups)
            return next(event.link for event in reversed(node.events) if isinstance(event, LinkUp))

        node.link.drop(await up(), "while it waits")
        number = await up()
        await fake.until(lambda: fake.heartbeats >= 1)
        node.link.drop(number, "while it renews")
        number = await up()
        for _ in range(50):
            node.link.send(number, node_pb2.NodeMessage(report=node_pb2.Report(spool_id="x" * 100_000)))
        node.link.drop(number, "while it sends")
        node.link.drop(number, "twice")
        node.link.drop(number - 1, "an old one")
        await up()
        assert node.count(LinkDown) == 3

    run(tmp_path, story)


class Breaking(FakeController):
    """Ends streams itself, in another way each time."""

    async def Connect(self, requests, context):
        turn = len(self.registrations)
        if turn == 0:
            self.registrations.append(node_pb2.Register())
            await context.abort(grpc.StatusCode.CANCELLED, "before it has read anything")
        if turn == 1:
            self.registrations.append(node_pb2.Register())
            await asyncio.sleep(END_S)  # never answers the registration
        if turn == 2:
            self.registrations.append(node_pb2.Register())
            return
        if turn == 3:
            self.registrations.append(node_pb2.Register())
            yield node_pb2.ControllerMessage(registered=node_pb2.Registered(epoch=1))
            await context.abort(grpc.StatusCode.CANCELLED, "right behind the registration")
        if turn == 4:
            self.registrations.append(node_pb2.Register())
            yield node_pb2.ControllerMessage(registered=node_pb2.Registered(epoch=1))
            yield node_pb2.ControllerMessage(command=node_pb2.Command(epoch=1, sequence=1))  # of no kind
            await asyncio.sleep(END_S)
        async for message in FakeController.Connect(self, requests, context):
            yield message


def test_17_the_controller_ends_it_in_each_phase(tmp_path) -> None:
    async def story(fake, node) -> None:
        await fake.until(lambda: len(fake.registrations) == 6)  # five that broke, and one that lasts
        await node.until(lambda: node.count(LinkUp) == node.count(LinkDown) + 1)
        ups = node.count(LinkUp)
        await fake.stop()  # while it waits
        await node.until(lambda: node.count(LinkDown) == ups)
        await fake.start()
        await node.until(lambda: node.count(LinkUp) > ups)

    run(tmp_path, story, Breaking)


@pytest.mark.parametrize("turns", range(6))
def test_17_the_daemon_stops_while_its_stream_ends(tmp_path, turns) -> None:
    """As in `penstock down`: the task opened streams forever, and the daemon ended by SIGKILL."""

    async def whole() -> None:
        async with FakeController(f"unix:{tmp_path / 'ctld'}") as fake:
            node = Node(fake, tmp_path)
            async with asyncio.timeout(ANSWER_S):
                while not fake.heartbeats:  # all parts of the session run
                    await asyncio.sleep(0)
            node.link.drop(1, "the stream ends")
            for _ in range(turns):
                await asyncio.sleep(0)
            node.task.cancel()
            done, _ = await asyncio.wait([node.task], timeout=ANSWER_S)
            assert done and node.task.cancelled()

    asyncio.run(whole())


def test_16_a_refusal_is_logged_once_and_asked_for_ever_more_rarely(tmp_path, monkeypatch, caplog) -> None:
    pauses: list[float] = []

    async def pause(self, pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) >= 12:
            await asyncio.sleep(END_S)

    monkeypatch.setattr(link_module, "REFUSED_PAUSE_MAX_S", 30.0)
    monkeypatch.setattr(link_module, "REGISTER_TIMEOUT_S", ANSWER_S)  # a busy machine is no other cause
    monkeypatch.setattr(link_module, "PAUSE_FIRST_S", 0.1)
    monkeypatch.setattr(Link, "_pause", pause)  # private: twelve pauses are minutes long

    async def story(fake, node) -> None:
        node.on_up = lambda link: node.link.drop(link, "its epoch is too low", refused=True)
        async with asyncio.timeout(ANSWER_S):
            while len(pauses) < 12:
                await asyncio.sleep(0)
        node.on_up = lambda link: None

    with caplog.at_level(logging.INFO, "penstock.noded"):
        run(tmp_path, story)
    lines = [record.message for record in caplog.records if "its epoch is too low" in record.message]
    assert len(lines) == 1, lines
    assert sum("registered with" in record.message for record in caplog.records) == 1
    assert max(pauses) > 15 and sum(pauses[-3:]) > 45, pauses
    assert all(later > earlier for earlier, later in zip(pauses[::4], pauses[4::4], strict=False)), pauses
