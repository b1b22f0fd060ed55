"""The call socket: a program that calls for others sends the token of each, and then the kernel's word counts for nothing.

The attacks: a call of root's connection with a token of somebody else, with none, with one that was revoked, or that ends in the
middle of its proof; a reader of a followed answer who does not read.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from patience import ANSWER_S, END_S

from ctld.rpc import callconnection
from ctld.rpc.callconnection import Method
from ctld.rpc.callserver import CallServer
from ctld.rpc.gate.unread import UnreadReplies
from penstock.acallsocket import HELD_BYTES_MAX, CallChannel
from penstock.aclient import FOLLOWED_MAX, AsyncClient
from penstock.calls import USER_NAME_KEY, USER_TOKEN_KEY, CallFailed
from penstock.errors import NotProven, PenstockError
from penstock.frames import HELLO, PROOF_BYTES_MAX, PROOF_LENGTH, CarriedProof, proof_bytes, request_frame, split_proof
from penstock.v1 import controller_pb2 as c
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, submit
from tests.security.test_02_user_tokens import NOBODY, site_of, token_of

if TYPE_CHECKING:
    from penstock.calls import Proof

FOREVER = float("inf")
PAGES = 64
PAGE_BYTES = 64 * 1024


def run(story: Any) -> None:
    asyncio.run(asyncio.wait_for(story(), END_S))


def proof_of(token: str, user: str = "") -> "Proof":
    return ((USER_TOKEN_KEY, token), *(((USER_NAME_KEY, user),) if user else ()))


def only_calls(site: Site) -> AsyncClient:
    """A client that has no other way to the controller."""
    return AsyncClient(site.cluster()._replace(socket="/no/such", auth_socket="", address=""), ANSWER_S)


@pytest.mark.parametrize("proof", [("a.b.c", ""), ("a.b.c", "ann"), ("x" * (PROOF_BYTES_MAX - 1), "")])
def test_a_proof_is_read_as_it_was_written(proof: tuple[str, str]) -> None:
    data = proof_bytes(CarriedProof(*proof))
    assert data is not None and split_proof(data + b"message") == (proof, b"message")


@pytest.mark.parametrize(
    "proof", [("", "root"), ("t\xe4", ""), ("a\0root", ""), ("a", "b\0c"), ("x" * PROOF_BYTES_MAX, "")]
)
def test_what_the_framing_does_not_carry_goes_another_way(proof: tuple[str, str]) -> None:
    assert proof_bytes(CarriedProof(*proof)) is None


@pytest.mark.root
def test_who_calls_is_whom_the_token_names(tmp_path: Path) -> None:
    """The connection is root's, and the calls are nobody's; also those whose answers are followed."""
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, only_calls(site) as client:
            job_id = await submit(client)
            nobody = proof_of(token_of(NOBODY.pw_name))
            asked = c.PingRequest()
            assert [(await client.call("Ping", asked, proof=one)).user_id for one in (None, nobody)] == [
                0,
                NOBODY.pw_uid,
            ]
            for user, code in ((NOBODY.pw_name, Code.ACCESS_DENIED), ("root", 0)):
                mine = proof_of(token_of(user))
                if code:
                    with pytest.raises(PenstockError) as refused:
                        await client.call("RevokeTokens", c.RevokeTokensRequest(for_user="root"), proof=mine)
                    assert refused.value.code == code
                pages = [page async for page in client.follow("ListJobs", c.ListJobsRequest(), ANSWER_S, proof=mine)]
                assert [job.job_id for page in pages for job in page.jobs] == [job_id]
            root_for_nobody = proof_of(token_of("root"), NOBODY.pw_name)
            assert (await client.call("Ping", asked, proof=root_for_nobody)).user_id == NOBODY.pw_uid
            for bad in (proof_of("x"), proof_of(token_of(NOBODY.pw_name), "root"), proof_of(token_of("no-such-user"))):
                with pytest.raises(NotProven):
                    await client.call("Ping", asked, proof=bad)
                with pytest.raises(NotProven):
                    await anext(client.follow("ListJobs", c.ListJobsRequest(), ANSWER_S, proof=bad))
            await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
            with pytest.raises(NotProven):
                await client.call("Ping", asked, proof=nobody)
            assert (await client.call("Ping", asked)).user_id == 0
            assert not (controller.gate.underway.calls or controller.gate.unread.bytes)

    run(story)


def test_a_controller_of_an_earlier_release_is_asked_over_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To it the path is one of no method."""
    monkeypatch.setattr(callconnection, "PROVEN_PATH", b"\0")
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            job_id = await submit(client)
            nobody = proof_of(token_of(NOBODY.pw_name))
            assert (await client.call("Ping", c.PingRequest(), proof=nobody)).user_id == NOBODY.pw_uid
            pages = [page async for page in client.follow("ListJobs", c.ListJobsRequest(), ANSWER_S, proof=nobody)]
            assert [job.job_id for page in pages for job in page.jobs] == [job_id]

    run(story)


class Pages:
    """A method that answers in pages, and counts those that it has made."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, data: bytes, call: Any) -> bytes:
        for number in range(PAGES):
            await call.send_page(bytes([number]) * PAGE_BYTES)
            self.sent += 1
        return b""


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[CallServer, Pages]]:
    """A server with a method of pages, and one that returns whose call it is."""
    folder.chmod(0o711)

    async def whose(data: bytes, call: Any) -> bytes:
        return repr((call.invocation_metadata(), data)).encode()

    pages = Pages()
    methods: dict[str, Method] = {"/t/Whose": whose, "/t/Pages": pages}
    server = CallServer(folder / "c", methods, UnreadReplies())
    await server.start()
    try:
        yield server, pages
    finally:
        await server.stop(0)


async def channel_to(server: CallServer) -> CallChannel:
    loop = asyncio.get_running_loop()
    return (await loop.create_unix_connection(lambda: CallChannel(1024 * 1024), str(server.path)))[1]


def test_half_a_proof_ends_the_connection(tmp_path: Path) -> None:
    """Nothing of it is taken for a call without one, which would be by the kernel's word."""

    async def story() -> None:
        async with serving(tmp_path) as (server, _):
            channel = await channel_to(server)
            sent = proof_bytes(CarriedProof("a.b.c", ""))
            assert sent is not None
            assert await channel.call("/t/Whose", b"x", FOREVER, sent) == repr((proof_of("a.b.c"), b"x")).encode()
            assert await channel.call("/t/Whose", b"x", FOREVER) == repr(((), b"x")).encode()
            empty = PROOF_LENGTH.pack(1) + b"\0"  # carries a token that nobody has made
            assert await channel.call("/t/Whose", b"", FOREVER, empty) == repr((proof_of(""), b"")).encode()
            for bad in (
                b"", b"\0", PROOF_LENGTH.pack(0), PROOF_LENGTH.pack(9) + b"short", PROOF_LENGTH.pack(1) + b"\xe4",
                PROOF_LENGTH.pack(PROOF_BYTES_MAX + 1) + bytes(PROOF_BYTES_MAX + 1),
            ):  # fmt: skip
                reader, writer = await asyncio.open_unix_connection(str(server.path))
                writer.write(HELLO + request_frame(1, b"+/t/Whose", bad, FOREVER))
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
            with pytest.raises(CallFailed) as failed:
                await channel.call("/t/None", b"", FOREVER, sent)
            assert failed.value.status == "UNIMPLEMENTED"
            channel.close()

    run(story)


def test_a_followed_answer_is_made_as_it_is_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (server, pages):
            channel = await channel_to(server)
            followed = channel.follow("/t/Pages", b"", FOREVER)
            assert await anext(followed) == bytes([0]) * PAGE_BYTES
            (connection,) = server.shared.connections
            while connection.unread_bytes <= callconnection.UNREAD_BYTES:
                await asyncio.sleep(0)
            assert pages.sent < PAGES
            rest = [page[0] async for page in followed]
            assert (rest, pages.sent) == (list(range(1, PAGES)), PAGES)
            assert channel.is_open and await channel.call("/t/Whose", b"", FOREVER)
            left = channel.follow("/t/Pages", b"", FOREVER)
            await anext(left)
            await left.aclose()
            while connection.calls or connection.is_connected:
                await asyncio.sleep(0)
            assert not channel.is_open
            assert PAGES * PAGE_BYTES > 8 * (HELD_BYTES_MAX + callconnection.UNREAD_BYTES)

    run(story)


def test_connections_of_followed_answers_are_used_again(tmp_path: Path) -> None:
    """One that is left before its end is not; more at a time than have a connection come over gRPC."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, site.client() as client:
            await submit(client)
            asked = c.ListJobsRequest(known=b"")
            for _ in range(3):
                assert [page async for page in client.follow("ListJobs", asked, ANSWER_S)]
            assert len(controller.calls.shared.connections) == 2  # calls, and the one for answers
            left = client.follow("ListJobs", asked, ANSWER_S)
            await anext(left)
            await left.aclose()
            assert [page async for page in client.follow("ListJobs", asked, ANSWER_S)]
            while len(controller.calls.shared.connections) > 2:
                await asyncio.sleep(0)
            many = [client.follow("ListJobs", asked, ANSWER_S) for _ in range(FOLLOWED_MAX + 4)]
            firsts = [await anext(one) for one in many]
            assert len(firsts) == len(many) and len(controller.calls.shared.connections) <= FOLLOWED_MAX + 1
            for one in many:
                await one.aclose()

    run(story)
