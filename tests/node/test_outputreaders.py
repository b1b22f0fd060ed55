"""Readers of the output of jobs that have ended: real processes of a node daemon, tickets of a controller that tests play."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

# Any: answers, whose values are of several types
from typing import Any

import pytest
from openway import open_way
from patience import ANSWER_S

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon import outputreaders
from nodedaemon.daemon.outputreaders import TICKETS_MAX, TICKETS_OF_USER_MAX, OutputReaders
from nodedaemon.launch.wire import NodeFacts
from nodedaemon.stepd import tail
from nodedaemon.stepd.outputreader import present_group
from penstock.v1 import node_pb2
from penstock.values.jobid import OUTPUT_STEP
from penstock.values.outputtail import FROM_END, QUESTIONS_MAX, STDERR, STDOUT, question
from penstock.values.stepframes import StreamRole
from tests.node.fakectl import IO_KEY, cluster
from tests.node.streamclient import Client
from tests.node.test_steps import port_of

END = question(STDOUT, FROM_END)


def ticket(number: int, out: Path, user_id: int = os.getuid(), **more: Any) -> node_pb2.OutputTicket:
    known: dict[str, Any] = {"job_id": 7, "number": number, "user_id": user_id, "group_id": os.getgid(), "user_name": "u",
             "std_out": os.fsencode(out), "io_key": IO_KEY}  # fmt: skip
    return node_pb2.OutputTicket(**(known | more))


async def asked(controller: Any, number: int, *texts: str, key: bytes = IO_KEY) -> list[Any]:
    """The answers to questions on one connection."""

    def ask() -> list[Any]:
        with Client(port_of(controller), (7, number, OUTPUT_STEP)) as client:
            client.hello(key, StreamRole.QUERY)
            return [client.ask(text) for text in texts]

    return await asyncio.to_thread(ask)


def test_a_ticket_is_for_one_connection_with_its_key(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("one\ntwo\n")
    err.write_text("bad\n")

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            early = asyncio.create_task(asked(controller, 1, END, question(STDERR, 1), question(STDOUT, 4)))
            await asyncio.sleep(0)
            controller.send(node_pb2.ControllerMessage(output=ticket(1, out, std_err=os.fsencode(err))))
            whole, error, rest = await early  # the client may be there before the ticket
            assert whole == {"path": str(out), "at": 0, "size": 8, "data": b"one\ntwo\n"}
            assert (error["data"], rest["data"]) == (b"ad\n", b"two\n")
            controller.send(node_pb2.ControllerMessage(output=ticket(2, out)))
            with pytest.raises((EOFError, ConnectionResetError)):
                await asked(controller, 2, END, key=b"x" * 32)
            numbers = range(3, 13)
            for number in numbers:
                controller.send(node_pb2.ControllerMessage(output=ticket(number, out)))
            found = await asyncio.gather(*(asked(controller, number, END) for number in numbers))
            assert [one["data"] for (one,) in found] == [b"one\ntwo\n"] * len(numbers), "one after the other"
            controller.send(node_pb2.ControllerMessage(output=ticket(14, out)))
            parts = await asked(controller, 14, *[question(STDOUT, at % 8) for at in range(QUESTIONS_MAX)])
            assert [one["data"] for one in parts] == [b"one\ntwo\n"[at % 8 :] for at in range(QUESTIONS_MAX)]
            controller.send(node_pb2.ControllerMessage(output=ticket(15, out)))
            with pytest.raises((EOFError, ConnectionResetError)):
                await asked(controller, 15, *[question(STDOUT, 0)] * (QUESTIONS_MAX + 1))
            controller.send(node_pb2.ControllerMessage(output=ticket(20, out, std_out=b"")))
            assert await asked(controller, 20, END) == [{"error": tail.OF_CLIENT}]

    asyncio.run(scenario())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_it_is_read_as_the_user_is_now(tmp_path: Path) -> None:
    """Not with a group that the user has lost, and not for a user who is gone."""
    open_way(tmp_path)
    out = tmp_path / "out"
    out.write_text("of root's group")
    out.chmod(0o640)
    nobody: dict[str, Any] = {"user_id": 65534, "user_name": "nobody"}

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            for number, group_id in ((1, 0), (2, 65534)):
                controller.send(node_pb2.ControllerMessage(output=ticket(number, out, group_id=group_id, **nobody)))
                assert await asked(controller, number, END) == [{"error": f"{out}: Permission denied"}]
            out.chmod(0o644)
            controller.send(node_pb2.ControllerMessage(output=ticket(3, out, **nobody)))
            assert (await asked(controller, 3, END))[0]["data"] == b"of root's group"
            controller.send(node_pb2.ControllerMessage(output=ticket(4, out, 61_234, user_name="gone")))
            assert await asked(controller, 4, END) == [{"error": f"{out}: user unknown on this node: uid 61234 (gone)"}]

    asyncio.run(scenario())


def test_the_group_of_a_user_who_is_not_known_stays() -> None:
    order = LaunchOrder(
        key="7.1.-20", user_id=61_234, group_id=5, user_name="gone", script=b"", work_dir=b"/", std_out=b""
    )
    assert present_group(order) == 5


def test_tickets_are_few_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one user the oldest goes, then the oldest of all; and none is served twice or late."""
    now_s = time.monotonic()
    monkeypatch.setattr(outputreaders, "time", SimpleNamespace(monotonic=lambda: now_s))
    started: list[LaunchOrder] = []

    def start(order: LaunchOrder, *_: object) -> subprocess.Popen[bytes]:
        started.append(order)
        return subprocess.Popen(["true"])

    monkeypatch.setattr(outputreaders, "start_reader", start)

    async def scenario() -> None:
        nonlocal now_s
        node = NodeFacts("n1", "n1", "")
        node.site.settings.private_tmp = "/scratch"
        node.site.settings.private_tmp_folders.append(str(tmp_path))
        readers = OutputReaders(node, "")
        nothing: Any = None
        ended = asyncio.Event()
        readers.on_free = ended.set
        key, other = readers.announce(ticket(5000, tmp_path)), readers.announce(ticket(5001, tmp_path))
        assert (readers.serve(key, nothing), readers.serve(other, nothing)) == ("", None), "one at a time"
        await asyncio.wait_for(ended.wait(), ANSWER_S)
        assert (readers.serve(key, nothing), readers.serve(other, nothing)) == (None, ""), "one connection each"
        assert {(one.private_tmp, *one.private_folders) for one in started} == {("/scratch", str(tmp_path))}
        for number in range(TICKETS_OF_USER_MAX + 1):
            readers.announce(ticket(number, tmp_path))
        assert readers.serve(StepKey(7, 0, OUTPUT_STEP), nothing) is None
        for number in range(TICKETS_MAX + 1):
            readers.announce(ticket(1000 + number, tmp_path, user_id=1000 + number))
        assert readers.serve(StepKey(7, 1, OUTPUT_STEP), nothing) is None
        now_s += outputreaders.TICKET_S + 1
        assert readers.serve(StepKey(7, 1000 + TICKETS_MAX, OUTPUT_STEP), nothing) is None
        ended.clear()
        await asyncio.wait_for(ended.wait(), ANSWER_S)

    asyncio.run(scenario())
