"""Issue 26, number 1: hostile names in every call, stream, page and node message.

Hostile are 4.3 MB, a name one byte too long, NUL, control characters, and what no name of its kind has. They are tried in each
field that names somebody or something, at any depth and of any method; then, at a real controller, in what reads names only when
it is asked: streams of changes, changes by key, joining, a node's certificate; and at the REST daemon's events and the metrics
pages. What is asked of the system's databases is noted; it is never one of these names.
"""

import asyncio
import contextlib
import grp
import pwd
import socket
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Any: descriptors of protobuf, and a protobuf message of any type
from typing import Any
from urllib.parse import quote

import grpc
import grpc.aio
import hostile
import pytest
from google.protobuf.message_factory import GetMessageClass

from ctld.rpc.gate import bounds
from ctld.rpc.gate.incoming import OutOfBounds, Reader
from ctld.rpc.gate.rights import RIGHTS, LeastRole
from ctld.rpc.server import FILES
from ctld.runtime.helperprocess import HelperProcess
from penstock.calls import find_rpc
from penstock.exporter.endpoint import MetricsPage
from penstock.exporter.request import HEAD_BYTES_MAX, BadHead, parse_request
from penstock.security.tls import node_channel
from penstock.security.tokens import TokenIssuer
from penstock.v1 import controller_pb2, node_pb2, watch_pb2
from penstock.values.names import ENTITY_BYTES_MAX, why_no_host, why_no_login
from tests.observe.scraping import exchange, parsed, scrape
from tests.observe.test_endpoint import Counting, served
from tests.rest.test_events import story
from tests.rpc.clusterkit import FakeNode, Site, now_us

USER, OPERATOR = 771_003, 771_004
#: What is the name of nothing.
NO_NAMES = {
    "megabytes": "x" * hostile.LONG_NAME, "too long": "x" * (ENTITY_BYTES_MAX + 1), "too many bytes": "\u00e9" * 129,
    "NUL": "a\0b", "escape": "a\x1b[2J", "line": "a\nb", "bidi": "a\u202eb", "C1": "a\u009bb", "DEL": "a\x7f",
}  # fmt: skip
#: And of no user or group, of no host.
NO_LOGINS = {"colon": "root:x", "comma": "a,b"}
NO_HOSTS = {"blank": "a b", "shell": "$(id)", "path": "../n1", "colon": "n1:22"}
#: The longest question to a helper: two names, and the words around them.
QUESTION_BYTES_MAX = 3 * ENTITY_BYTES_MAX
#: More than the work of a head of HEAD_BYTES_MAX takes by a hundred times.
HEAD_CPU_S = 0.1


def bound_of(field: Any) -> bounds.Bound:
    bound = bounds.bound_of(field)
    return bound.one if isinstance(bound, bounds.Each) else bound


def hostile_to(field: Any) -> dict[str, str]:
    bound = bound_of(field)
    assert isinstance(bound, bounds.EntityName)
    logins = {} if bound.why_not is not why_no_login else NO_LOGINS
    return NO_NAMES | logins | ({} if bound.why_not is not why_no_host else NO_HOSTS)


@cache
def naming(method: str) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The fields of a method's request, at any depth, that have the bound of a name."""
    found = hostile.paths_of(bounds.requests(FILES)[method], (), 0)
    return tuple((path, fields) for path, fields in found if isinstance(bound_of(fields[-1]), bounds.EntityName))


def filled(method: str, fields: tuple[Any, ...], name: str) -> Any:
    message = GetMessageClass(bounds.requests(FILES)[method])()
    parent = hostile.parent_of(message, fields)
    if fields[-1].is_repeated:
        getattr(parent, fields[-1].name).append(name)
    else:
        setattr(parent, fields[-1].name, name)
    return message


def value_of(message: Any, fields: tuple[Any, ...]) -> str:
    value = getattr(hostile.parent_of(message, fields), fields[-1].name)
    found: str = value[0] if fields[-1].is_repeated else value
    return found


METHODS = [method for method in bounds.requests(FILES) if naming(method)]


def test_the_methods_that_name_somebody_are_many() -> None:
    assert "/penstock.v1.Watch/Watch" in METHODS and "/penstock.v1.NodeLink/Connect" in METHODS
    assert len(METHODS) > 20


@pytest.mark.parametrize("method", sorted(set(METHODS) - bounds.NODE_METHODS))
def test_every_call_refuses_what_is_no_name(method: str) -> None:
    """Before a handler has the message."""
    reader = Reader(method)
    for path, fields in naming(method):
        asyncio.run(reader.read(filled(method, fields, "n1").SerializeToString()))
        for what, name in hostile_to(fields[-1]).items():
            is_listed = bound_of(fields[-1]).listed  # type: ignore[union-attr]  # naming() has such alone
            if what == "comma" and is_listed:
                continue
            data = filled(method, fields, name).SerializeToString()
            with pytest.raises(OutOfBounds):
                asyncio.run(reader.read(data))
                raise AssertionError(f"{path}={what} is accepted")


@pytest.mark.parametrize("method", sorted(bounds.NODE_METHODS))
def test_a_node_s_message_has_short_names_in_one_line(method: str) -> None:
    """A node repeats a refused report forever, so its texts are corrected instead."""
    reader = Reader(method)
    for path, fields in naming(method):
        for what, name in hostile_to(fields[-1]).items():
            message = asyncio.run(reader.read(filled(method, fields, name).SerializeToString()))
            kept = value_of(message, fields)
            assert len(kept) <= ENTITY_BYTES_MAX and kept.isprintable(), (path, what)


# ---- a controller


@contextlib.contextmanager
def noted_questions() -> Iterator[list[bytes]]:
    """What helpers are asked. Whatever this process asked the system itself would be an error."""
    asked: list[bytes] = []
    ask = HelperProcess.ask

    def noted(helper: HelperProcess, question: bytes) -> bytes:
        asked.append(question)
        return ask(helper, question)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HelperProcess, "ask", noted)
        with no_own_lookup(patch) as names:
            yield asked
        assert names == []
    assert [one[:80] for one in asked if len(one) > QUESTION_BYTES_MAX] == []
    assert [
        one[:80] for one in asked if any(bad in one for bad in (b"\\0", b"\\u0000", b"\x1b", b"root:x", b"\n"))
    ] == []


@contextlib.contextmanager
def no_own_lookup(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names that this process looks up, but those of addresses."""
    names: list[str] = []

    def unknown(name: str) -> None:
        names.append(name[:80])
        raise KeyError(name[:80])

    resolve = socket.getaddrinfo

    def address(host: Any, *more: Any, **words: Any) -> Any:
        if host not in (None, "127.0.0.1"):
            names.append(str(host)[:80])
        return resolve(host, *more, **words)

    patch.setattr(pwd, "getpwnam", unknown)
    patch.setattr(grp, "getgrnam", unknown)
    patch.setattr(socket, "getaddrinfo", address)
    patch.setattr(socket, "gethostbyname", address)
    yield names


async def refused(call: Any) -> None:
    """It ends with a refusal, and soon."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        if hasattr(call, "__aiter__"):
            async for _ in call:
                pass
        else:
            await call
    assert error.value.code() in (
        grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
    ), error.value  # fmt: skip


def test_a_stream_of_changes_looks_no_such_user_up(tmp_path: Path) -> None:
    """Nor does it find out what a kind of change is by more than its first letters."""

    async def body() -> None:
        site = Site(tmp_path)
        async with site.controller():
            with noted_questions() as asked:
                for name in (NO_NAMES | NO_LOGINS).values():
                    for request in (
                        watch_pb2.WatchRequest(users=[name]),
                        watch_pb2.WatchRequest(users=["root"] * 1023 + [name]),
                        watch_pb2.WatchRequest(kinds=[name]),
                    ):
                        with pytest.raises(grpc.aio.AioRpcError):
                            await site.call_as(USER, "Watch", request)
            assert not [one for one in asked if b"uid_of" in one]

    asyncio.run(body())


def test_a_change_by_key_looks_no_such_user_or_group_up(tmp_path: Path) -> None:
    """Keys and values of changes are texts; names are in some of them."""

    async def body() -> None:
        site = Site(tmp_path, extra=f"PenstockOperators={OPERATOR}\n")
        async with site.controller():
            with noted_questions() as asked:
                for name in (NO_NAMES | {"colon": "root:x"}).values():
                    for key in ("users", "groups", "nodes", *(() if name == "root:x" else ("accounts",))):
                        changes = {"starttime": "now", "duration": "60", "nodes": "n1"} | {key: name}
                        with pytest.raises(grpc.aio.AioRpcError):
                            await site.call_as(
                                OPERATOR, "CreateReservation", controller_pb2.CreateReservationRequest(changes=changes)
                            )
                for name in NO_NAMES.values():
                    for key in ("account", "Partition", "qos", "wckey"):
                        with pytest.raises(grpc.aio.AioRpcError):
                            await site.call_as(
                                OPERATOR, "UpdateJobs", controller_pb2.UpdateJobsRequest(ids=["1"], changes={key: name})
                            )
            assert not [one for one in asked if b"root:x" in one]

    asyncio.run(body())


def node_calls(name: str) -> Iterator[tuple[str, Any]]:
    """What a node daemon may call before it is known, and what it may not call with its certificate."""
    yield "JoinNode", controller_pb2.JoinNodeRequest(node_name=name, token=name[:4000], csr_pem=name[:4000].encode())
    pem = name[:4000].encode()
    yield "RenewCertificate", controller_pb2.RenewCertificateRequest(certificate_pem=pem, csr_pem=pem)
    yield "Watch", watch_pb2.WatchRequest(users=[name])
    yield "ListJobs", controller_pb2.ListJobsRequest(filter=controller_pb2.JobFilter(users=[name]))
    yield "UpdateNodes", controller_pb2.UpdateNodesRequest(names=name)


@pytest.mark.parametrize("word", [*NO_NAMES, *NO_HOSTS])
def test_a_node_s_certificate_has_no_such_name_looked_up(tmp_path: Path, word: str) -> None:
    name = (NO_NAMES | NO_HOSTS)[word]
    assert {method for method, right in RIGHTS.items() if right in (LeastRole.NODE, LeastRole.PROOF)} == {
        "/penstock.v1.NodeLink/Connect",
        *(f"/penstock.v1.Controller/{one}" for one in ("JoinNode", "RenewCertificate")),
    }  # else node_calls lacks one

    async def body() -> None:
        site = Site(tmp_path)
        async with site.controller():
            credentials = site.node_credentials("n1")
            forged = TokenIssuer(credentials).issue(USER, USER, now_us())
            options: Any = [("grpc.max_send_message_length", -1)]
            with noted_questions() as asked:
                address = f"127.0.0.1:{site.ports[1]}"
                async with grpc.aio.secure_channel(address, node_channel(credentials), options) as channel:
                    for method, request in node_calls(name):
                        rpc = find_rpc(method, request)
                        make: Any = channel.unary_stream if rpc.is_stream else channel.unary_unary
                        for metadata in ((), (("penstock-token-bin", forged),)):
                            call = make(rpc.path, rpc.serialize, rpc.deserialize)(request, metadata=metadata)
                            await refused(call)
                async with FakeNode(site) as node:
                    register = node_pb2.Register(node_name=name, boot_id="b", spool_id="s", version="1", protocol=1)
                    await node.call.write(node_pb2.NodeMessage(register=register))
                    with pytest.raises(grpc.aio.AioRpcError):
                        await node.call.read()
                        await node.call.read()
                async with FakeNode(site) as node:
                    assert await node.register() is not None
            assert not [one for one in asked if b"uid_of" in one]

    asyncio.run(body())


# ---- the REST daemon's stream, and metrics


@pytest.mark.parametrize("word", [*NO_NAMES, *NO_LOGINS])
def test_events_over_rest_look_nothing_up(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """The daemon passes users on as they are, and the controller refuses them (above); all else it refuses itself."""
    name = (NO_NAMES | NO_LOGINS)[word]

    async def body() -> None:
        with no_own_lookup(monkeypatch) as names:
            async with story() as its:
                await its.browser(f"users={quote(name)}").event()
                ((request, _),) = its.watch.asked
                assert list(request.users) == sorted(set(name.split(",")))
                for query in (f"kinds={quote(name)}", f"after={quote(name)}"):
                    browser = its.browser(query)
                    text = await browser.rest()
                    assert browser.status == 422 and len(text) < 4096 and text.isprintable()
                assert len(its.watch.asked) == 1
            if word != "comma":  # it stands between two names
                with pytest.raises(OutOfBounds):
                    await Reader("/penstock.v1.Watch/Watch").read(request.SerializeToString())
        assert names == []

    asyncio.run(body())


@pytest.mark.parametrize("word", [*NO_NAMES, *NO_LOGINS, *NO_HOSTS])
def test_metrics_look_nothing_up(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """In the path, the query, headers that name a host or a user, the name of a header."""
    name = (NO_NAMES | NO_LOGINS | NO_HOSTS)[word].encode()
    heads = (
        b"GET /metrics/%s HTTP/1.1\r\n\r\n", b"GET /metrics/a?user=%s HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET http://%s/metrics/a HTTP/1.1\r\n\r\n", b"GET /metrics/a HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
        b"GET /metrics/a HTTP/1.1\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n",
        b"GET /metrics/a HTTP/1.1\r\nX-Forwarded-For: %s\r\nConnection: close\r\n\r\n",
        b"GET /metrics/a HTTP/1.1\r\n%s: x\r\nConnection: close\r\n\r\n",
    )  # fmt: skip

    async def body() -> None:
        with no_own_lookup(monkeypatch) as names:
            async with served(a=MetricsPage("page a", Counting().families)) as port:
                for head in heads:
                    with contextlib.suppress(ConnectionError):  # it is closed while the rest of a long head comes
                        answer = parsed(await exchange(port, head % name))
                        assert answer.status in (200, 400, 404, 431) and len(answer.body) < HEAD_BYTES_MAX
                        assert name not in answer.body.encode()
                assert (await scrape(port, "/metrics/a")).status == 200
        assert names == []

    asyncio.run(body())


@pytest.mark.parametrize("piece", [b" ", b"\t", b" \t", b"x ", b":", b"a:", b"\x00", b"/", b"/ ", b"\r\n "])
@pytest.mark.parametrize("before", [b"GET /metrics HTTP/1.1\r\nA: x", b"GET /metrics HTTP/1.1\r\nA", b"GET ", b""])
def test_no_head_takes_the_square_of_its_length(before: bytes, piece: bytes) -> None:
    """As a pattern with blanks at both ends did: 0.4 s of the daemon's loop for 8 KiB. In CPU time of this thread."""
    data = before + piece * ((HEAD_BYTES_MAX - len(before) - 8) // len(piece)) + b"x\r\n\r\n"
    began_s = time.thread_time()
    with contextlib.suppress(BadHead):
        parse_request(data)
    assert time.thread_time() - began_s < HEAD_CPU_S


def test_what_a_header_says_has_no_blanks_around_it() -> None:
    request = parse_request(b"GET / HTTP/1.1\r\nA: \t x  y\t \r\nB:\r\na: second\r\n\r\n")
    assert request.headers == {"a": "x  y", "b": ""}
