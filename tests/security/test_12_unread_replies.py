"""Item 12: what a user asks for and does not read counts, and many answers at once leave turns to others."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest
from patience import ANSWER_S, LONGEST_S

from ctld.core.records.events import Actor, Role
from ctld.rpc import callconnection
from ctld.rpc.accounting.counters import CountersService
from ctld.rpc.accounting.shares import SharesService
from ctld.rpc.control.controller import ControllerService
from ctld.rpc.gate import entry, services
from ctld.rpc.gate.auth import Peer, set_peer
from ctld.rpc.gate.turnshare import ALL_NS, USER_NS, TurnShare
from ctld.rpc.gate.unread import MESSAGE_BYTES, POINTER_BYTES, UNREAD_BYTES_MAX, UnreadReplies
from ctld.rpc.jobs import jobcolumns, jobinfo, joblists
from penstock.calls import TOKEN_KEY
from penstock.frames import HELLO, NUMBERS, REPLY, request_frame
from penstock.v1 import controller_pb2, shares_pb2
from penstock.v1.governance_pb2 import ListCountersRequest
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of, submission

SOMEBODY, OTHER = 54_321, 54_322
ANSWER_BYTES = 4 * 1024 * 1024
FOREVER = float("inf")
SHOW = "/penstock.v1.Controller/ShowConfig"


def run(story: Any) -> None:
    asyncio.run(asyncio.wait_for(story, LONGEST_S))


async def until(what: Callable[[], object]) -> None:
    async with asyncio.timeout(ANSWER_S):
        while not what():
            await asyncio.sleep(0.01)


class Answers:
    """ShowConfig with an answer of megabytes; how many were made."""

    made = 0


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """And who connects to calls.sock is somebody."""
    found = Answers()

    async def show(self: object, request: object, context: object) -> controller_pb2.ShowConfigReply:
        found.made += 1
        return controller_pb2.ShowConfigReply(lines=[controller_pb2.ConfigLine(value="x" * ANSWER_BYTES)])

    monkeypatch.setattr(ControllerService, "ShowConfig", show)
    known = SimpleNamespace(uid=SOMEBODY, gid=SOMEBODY, is_known=True)
    monkeypatch.setattr(callconnection, "peer_credentials", lambda wire: known)
    return found


@contextlib.asynccontextmanager
async def asking(site: Site, number: int) -> AsyncIterator[tuple[socket.socket, int]]:
    """A client that has asked so often, and reads nothing."""
    wire = socket.socket(socket.AF_UNIX)
    wire.setblocking(False)
    with wire:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(wire, str(site.state / "calls.sock"))
        sent = HELLO + b"".join(request_frame(i, SHOW.encode(), b"", FOREVER) for i in range(1, number + 1))
        await loop.sock_sendall(wire, sent)
        yield wire, number


async def statuses(wire: socket.socket, number: int) -> list[int]:
    """Reads all replies; their statuses."""
    reader, writer = await asyncio.open_unix_connection(sock=wire)
    found = []
    for _ in range(number):
        length, _, status = REPLY.unpack(await reader.readexactly(REPLY.size))
        await reader.readexactly(length - 5)
        found.append(status)
    writer.close()
    return found


def test_replies_that_nobody_reads_are_counted_and_bounded(tmp_path: Any, answers: Answers) -> None:
    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller:
            held = controller.gate.unread.bytes
            async with asking(site, 64) as (one, number), asking(site, 64) as (another, _):
                await until(lambda: held[SOMEBODY] >= ANSWER_BYTES)
                await until(lambda: not controller.gate.share.waiting(SOMEBODY))
                assert held[SOMEBODY] <= UNREAD_BYTES_MAX + 2 * ANSWER_BYTES
                assert await site.call_as(OTHER, "Ping", controller_pb2.PingRequest())
                for wire in (one, another):
                    found = await statuses(wire, number)
                    assert set(found) <= {0, NUMBERS["RESOURCE_EXHAUSTED"]}
            await until(lambda: not held)

    run(story())


def test_a_user_with_too_many_unread_bytes_has_no_further_call_served(tmp_path: Any, answers: Answers) -> None:
    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller:
            gate = controller.gate
            gate.unread.add(SOMEBODY, UNREAD_BYTES_MAX)
            for method, request in (
                ("Ping", controller_pb2.PingRequest()),
                ("ListJobs", controller_pb2.ListJobsRequest()),
            ):
                with pytest.raises(
                    grpc.aio.AioRpcError, match="bytes wait for you to read them, the limit is"
                ) as refused:
                    await site.call_as(SOMEBODY, method, request)
                assert code_of(refused.value) is Code.RATE_LIMITED
            async with asking(site, 1) as (wire, number):
                assert await statuses(wire, number) == [NUMBERS["RESOURCE_EXHAUSTED"]]
            assert answers.made == 0
            assert await site.call_as(OTHER, "Ping", controller_pb2.PingRequest())
            gate.unread.drop(SOMEBODY, UNREAD_BYTES_MAX)
            assert await site.call_as(SOMEBODY, "Ping", controller_pb2.PingRequest())
            await until(lambda: not gate.unread.bytes)

    run(story())


def test_a_client_that_leaves_takes_its_replies_along(tmp_path: Any, answers: Answers) -> None:
    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller:
            held = controller.gate.unread.bytes
            async with asking(site, 64):
                await until(lambda: held[SOMEBODY] >= ANSWER_BYTES)
            await until(lambda: not held)

    run(story())


def test_answers_over_grpc_are_counted_until_they_are_sent(
    tmp_path: Any, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[int] = []

    class Noted(UnreadReplies):
        def add(self, uid: int, size: int) -> None:
            added.append(size)
            super().add(uid, size)

    monkeypatch.setattr(services, "UnreadReplies", Noted)

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller:
            await site.call_as(SOMEBODY, "ListJobs", controller_pb2.ListJobsRequest())
            await site.call_as(SOMEBODY, "Ping", controller_pb2.PingRequest())
            assert added
            await until(lambda: not controller.gate.unread.bytes)

    run(story())


#: Pages of a list of LIST_PAGES jobs, each of a MiB, in two of its forms.
LIST_PAGES, LIST_PAGE_BYTES = 8, 1024 * 1024
LIST_BYTES = LIST_PAGES * LIST_PAGE_BYTES


def list_call(channel: grpc.aio.Channel, site: Site, number: int, form: str) -> Any:
    """A list of all jobs, whose filter no other call has."""
    request = controller_pb2.ListJobsRequest(
        filter=controller_pb2.JobFilter(states=["PENDING"] * number), columns=["job_id"] if form == "table" else []
    )
    call = channel.unary_stream("/penstock.v1.Controller/ListJobs", None, None)
    return call(request.SerializeToString(), metadata=((TOKEN_KEY, site.token(SOMEBODY)),))


@pytest.mark.parametrize("form", ["table", "messages"])
def test_a_list_is_held_until_its_reader_has_all_of_it_and_counts_so_long(
    form: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists that nobody reads: a user has some of them in memory, and the next ones are refused."""
    monkeypatch.setattr(joblists, "PAGE_ROWS", 1)
    monkeypatch.setattr(joblists, "POINTER_BYTES", LIST_PAGE_BYTES)
    monkeypatch.setattr(jobcolumns, "page", lambda *_: b"x" * LIST_PAGE_BYTES)
    monkeypatch.setattr(jobinfo, "estimate", lambda *_: b"x" * LIST_PAGE_BYTES)

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client:
            for number in range(LIST_PAGES):
                await client.call("SubmitJob", submission(name=f"j{number}", hold=True))
            unread = controller.gate.unread
            others = UNREAD_BYTES_MAX - 2 * LIST_BYTES
            unread.add(SOMEBODY, others)
            path = f"unix:{site.state}/ctld.sock"
            async with grpc.aio.insecure_channel(path, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
                calls = [list_call(channel, site, number, form) for number in range(1, 13)]
                firsts = await asyncio.gather(*(call.read() for call in calls), return_exceptions=True)
                refused = [error for error in firsts if isinstance(error, grpc.aio.AioRpcError)]
                assert all(code_of(error) is Code.RATE_LIMITED for error in refused)
                served = [call for call, first in zip(calls, firsts, strict=True) if isinstance(first, bytes)]
                assert 1 <= len(served) <= 3 and len(refused) == 12 - len(served)
                assert unread.bytes[SOMEBODY] >= others + len(served) * LIST_BYTES
                served[0].cancel()
                for call in served[1:]:
                    while await call.read():  # until the end
                        pass
                await until(lambda: unread.bytes[SOMEBODY] == others)
                again = list_call(channel, site, 20, form)
                assert await again.read()

    run(story())


class Aborted(Exception):
    """How a handler refuses a call: by its context."""


class HandlerContext:
    """The context of a handler that is called without a wire."""

    async def abort(self, status: object, details: str = "", metadata: object = ()) -> None:
        raise Aborted(details)


def test_lists_of_priorities_associations_and_counters_count_so_too(tmp_path: Any) -> None:
    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client:
            for number in range(3):
                await client.call("SubmitJob", submission(name=f"j{number}"))
            shared, context = controller.services, cast("grpc.aio.ServicerContext[Any, Any]", HandlerContext())
            shares, unread = SharesService(shared), shared.unread
            set_peer(Peer(actor=Actor(SOMEBODY, SOMEBODY, "somebody", "somebody")))
            lists: tuple[tuple[Callable[[], AsyncIterator[Any]], int, int], ...] = (
                (lambda: shares.ListPriorities(shares_pb2.ListPrioritiesRequest(), context), 2, 3 * POINTER_BYTES),
                (lambda: shares.ListAssociations(shares_pb2.ListAssociationsRequest(), context), 1, MESSAGE_BYTES),
                (lambda: CountersService(shared).ListCounters(ListCountersRequest(), context), 1, MESSAGE_BYTES),
            )
            for begin, pages, size in lists:
                pages_of = begin()
                for _ in range(pages):
                    await anext(pages_of)
                assert unread.bytes[SOMEBODY] >= size
                assert [page async for page in pages_of] == [] and not unread.bytes  # the reader has the last page
                unread.add(SOMEBODY, UNREAD_BYTES_MAX)
                with pytest.raises(Aborted, match="wait for you to read them"):
                    async for _ in begin():
                        pass
                unread.drop(SOMEBODY, UNREAD_BYTES_MAX)

    run(story())


def test_a_call_that_fails_before_the_gate_has_admitted_it_is_answered(
    tmp_path: Any, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over both sockets: whatever went wrong, its caller learns that it did."""

    async def broken(self: object, method: object, context: object) -> int:
        raise RuntimeError("the directory is gone")

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller():
            monkeypatch.setattr(entry.Gate, "enter", broken)
            async with asking(site, 2) as (wire, number):
                assert await statuses(wire, number) == [NUMBERS["INTERNAL"]] * 2
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await site.call_as(SOMEBODY, "Ping", controller_pb2.PingRequest())
            assert failed.value.code() is grpc.StatusCode.INTERNAL

    run(story())


# ---- shares of a turn


def test_a_user_who_has_used_a_share_waits_for_the_next_turn_and_others_do_not() -> None:
    async def story() -> None:
        share = TurnShare(lambda: 0)
        assert not share.must_wait(SOMEBODY)
        share.charge(SOMEBODY, share.mark(), USER_NS // 10)  # a reply of a MiB
        assert share.must_wait(SOMEBODY)
        assert not share.must_wait(OTHER)
        await share.wait(SOMEBODY)
        assert not share.must_wait(SOMEBODY)

    run(story())


def test_time_counts_and_all_together_have_a_share() -> None:
    async def story() -> None:
        now_ns = [0]
        share = TurnShare(lambda: now_ns[0])
        for uid in (1, 2, 3):
            mark = share.mark()
            now_ns[0] += USER_NS - 1
            share.charge(uid, mark, 0)
        assert 3 * (USER_NS - 1) >= ALL_NS
        assert share.must_wait(4)
        await asyncio.sleep(0)
        assert not share.must_wait(4)

    run(story())


def test_calls_in_line_are_served_in_order_some_in_each_turn() -> None:
    async def story() -> None:
        share = TurnShare(lambda: 0)
        order: list[tuple[int, int]] = []
        turns: list[int] = []

        async def call(uid: int, number: int, size: int) -> None:
            if share.must_wait(uid):
                await share.wait(uid)
            mark = share.mark()
            order.append((uid, number))
            turns.append(mark.turn)
            share.charge(uid, mark, size)

        heavy = [asyncio.create_task(call(SOMEBODY, i, USER_NS // 10)) for i in range(20)]
        light = [asyncio.create_task(call(OTHER, i, 1)) for i in range(20)]
        await asyncio.gather(*heavy, *light)
        assert [i for uid, i in order if uid == SOMEBODY] == list(range(20))
        assert [i for uid, i in order if uid == OTHER] == list(range(20))
        of_heavy = [turn for (uid, _), turn in zip(order, turns, strict=True) if uid == SOMEBODY]
        assert len(set(of_heavy)) == 20  # one a turn: each of them uses a share up
        assert max(order.index((OTHER, i)) for i in range(20)) < 21  # a user who has a share left never waits
        assert not share.waiting(SOMEBODY)

    run(story())


def test_a_caller_that_leaves_the_line_holds_up_nobody() -> None:
    async def story() -> None:
        share = TurnShare(lambda: 0)
        share.charge(SOMEBODY, share.mark(), USER_NS)
        waiting = [asyncio.create_task(share.wait(SOMEBODY)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(*waiting[1:])
        assert share.waiting(SOMEBODY) == 0

    run(story())


def test_administrators_are_not_limited() -> None:
    replies = UnreadReplies(10)
    replies.add(0, 100)
    assert replies.refusal(Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR)) is None
    assert replies.refusal(Actor(0, 0, "x", "x", (), Role.OPERATOR)) is not None
