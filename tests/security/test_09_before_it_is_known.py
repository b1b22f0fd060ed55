"""Issue 14, number 9 (what a request costs): nothing is taken from who has not said who they are.

The attack: gRPC takes a message of 16 MiB before the handler is asked, so 4,000 requests of 0.9 MB without a token, or with a
token of nobody's, put 2.4 GB into the controller's memory, and others waited for 12 s.
"""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from patience import ANSWER_S, END_S

from ctld.rpc.gate.receiving import PROOFS_MAX, Receiving
from penstock.calls import TOKEN_KEY
from tests.auth.tiny_controller import TinyController


class Stream:
    """A call's messages, of which it is seen whether one was taken."""

    def __init__(self, come: asyncio.Event | None = None) -> None:
        self.taken = False
        self._come = come

    async def read(self) -> bytes:
        self.taken = True
        if self._come is not None:
            await self._come.wait()
        return b"request"


def test_09_so_many_messages_of_one_caller_at_a_time() -> None:
    async def attack() -> None:
        receiving, come = Receiving(at_once=2), asyncio.Event()
        mine = [Stream(come) for _ in range(9)]
        calls = [asyncio.create_task(receiving.message(1001, stream.read)) for stream in mine]
        await asyncio.sleep(0)  # each has begun
        assert await receiving.message(1002, Stream().read) == b"request"
        assert [stream.taken for stream in mine].count(True) == 2
        come.set()
        assert await asyncio.gather(*calls) == [b"request"] * 9
        assert receiving.is_idle

    asyncio.run(attack())


def test_09_who_sends_nothing_loses_the_turn() -> None:
    async def attack() -> None:
        receiving = Receiving(at_once=1, limit_s=0.01)
        assert await receiving.message("ipv4:127.0.0.1", Stream(asyncio.Event()).read) is None
        assert await receiving.message("ipv4:127.0.0.1", Stream().read) == b"request"

    asyncio.run(attack())


def test_09_proofs_of_one_address_are_few() -> None:
    import contextlib

    receiving = Receiving()
    with contextlib.ExitStack() as stack:
        assert all(stack.enter_context(receiving.proofs("unix")) for _ in range(PROOFS_MAX))
        with receiving.proofs("unix") as is_let_in, receiving.proofs("node n1") as is_node_let_in:
            assert (is_let_in, is_node_let_in) == (False, True)
    with receiving.proofs("unix") as is_let_in:
        assert is_let_in
    assert receiving.is_idle


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[TinyController]:
    started = TinyController(tmp_path)
    started.start()
    yield started
    started.stop()


@pytest.mark.parametrize("token", [None, b"of nobody's"])
@pytest.mark.parametrize("method", ["Controller/SubmitJob", "Controller/ListJobs", "Governance/ChangeMany"])
def test_09_who_is_nobody_is_refused_before_the_request_is_taken(
    controller: TinyController, token: bytes | None, method: str
) -> None:
    """The request never comes: a server that waits for it before it checks the caller does not answer."""
    never = threading.Event()

    def nothing() -> Iterator[bytes]:
        never.wait(2 * END_S)
        yield from ()

    metadata = ((TOKEN_KEY, token),) if token is not None else ()
    with grpc.insecure_channel(f"unix:{controller.folder / 'ctld.sock'}") as channel:
        call = channel.stream_unary(f"/penstock.v1.{method}", bytes, bytes)
        try:
            with pytest.raises(grpc.RpcError) as refused:
                call(nothing(), timeout=ANSWER_S, metadata=metadata)
        finally:
            never.set()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert not controller.calls
