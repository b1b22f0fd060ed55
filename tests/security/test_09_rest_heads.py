"""Item 9, for what the REST daemon's libraries read before anybody has checked a request: heads, chunks, cookies.

Found, each without a valid token: a cookie of 60 KB in quotes held the daemon for 10 s, a hundred heads of 15,000 lines for 3.4 s,
256 KiB of a body in chunks of one byte for 0.6 s, again and again on one connection, and a body of numbers of 4,000 digits for
0.8 s, although a thread read it.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fakerest import TOKEN, FakeRest
from patience import ANSWER_S
from restwire import MemoryTransport, connection_of, exchanged

from penstock.v1.controller_pb2 import PingReply
from rest.body import DIGITS_MAX
from rest.limits import PARAMETERS_MAX
from rest.pages import load
from rest.requesthead import HEAD_BYTES_MAX, HEAD_END, HEAD_LINES_MAX, RequestHead, refusal_of_head

PING = "/slurm/v0.0.46/ping"
HEAD = b"GET /x HTTP/1.1\r\nHost: x\r\n"
MANY = HEAD + b"a:\r\n" * 60_000 + b"\r\n"
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000


@pytest.mark.parametrize(("data", "status"), [
    (b"", 0), (HEAD, 0), (HEAD + b"\r\n", 0), (HEAD + b"\r\n" + b"\n" * 1000, 0), (b"GET / HTTP/1.1\nHost: x\n\n" + b"\n" * 1000, 0),
    (HEAD + b"a:\r\n" * (HEAD_LINES_MAX - 2) + b"\r\n", 0), (HEAD + b"a: " + b"x" * 8192 + b"\r\n\r\n", 0),
    (HEAD + b"Content-Length: 5\r\n\r\nx\ntransfer-encoding: chunked", 0),
    (HEAD + b"a:\r\n" * HEAD_LINES_MAX, 431), (HEAD + b"a:\n" * HEAD_LINES_MAX, 431), (MANY, 431),
    (HEAD + b"a: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    (CHUNKS, 406), (HEAD + b"TRANSFER-ENCODING : x\r\n\r\n", 406), (HEAD + b"Content-Length: 5\r\ntransfer-encoding: chunked\r\n\r\n", 406),
], ids=lambda value: repr(value)[:40])  # fmt: skip
def test_09_which_heads_are_not_parsed(data: bytes, status: int) -> None:
    refusal = refusal_of_head(data, HEAD_END.search(data))
    assert (refusal[0] if refusal is not None else 0) == status


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Says what it was asked; in parts if the path says so."""
    said, more = f"{scope['method']} {scope['path']} ".encode(), True
    while more:
        message = await receive()
        said, more = said + message["body"], message["more_body"]
    length = [] if scope["path"] == "/parts" else [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": said[:3], "more_body": True})
    await send({"type": "http.response.body", "body": said[3:]})


POST = b"POST /x HTTP/1.1\r\nHost: x\r\n"
#: A body that is a request with a chunked body and many lines.
INNER = CHUNKS[:80] + b"\r\n\r\n" + MANY[:600] + b"\r\n\r\n"
#: Heads of which two programs may think differently, each with an answer that somebody in between would not expect.
AMBIGUOUS = (
    b"GET /x HTTP/1.1\nHost: x\n\n", b"GET /x HTTP/1.1\r\nHost: x\r\n\n", b"GET /x HTTP/1.1\r\nHost: x\rA: b\r\n\r\n",
    b"GET /x HTTP/1.1\r\r\nHost: x\r\n\r\n", b"\r\n" + HEAD + b"\r\n", b"\n" + HEAD + b"\r\n",  # ends of lines
    HEAD + b"A: b\r\n c\r\n\r\n", HEAD + b"\tA: b\r\n\r\n", b"GET /x HTTP/1.1\r\n Host: x\r\n\r\n",  # fields of two lines
    HEAD + b"A : b\r\n\r\n", HEAD + b": b\r\n\r\n", HEAD + b"a\r\n\r\n", HEAD + b"A\x00: b\r\n\r\n", HEAD + b"\xc3\xa4: b\r\n\r\n",
    HEAD + b"A: a\x00b\r\n\r\n", HEAD + b"A: a\x01b\r\n\r\n", HEAD + b"A: a\x0bb\r\n\r\n", HEAD + b"A: a\x7fb\r\n\r\n",
    b"GET /x HTTP/1.1\r\n\r\n", HEAD + b"Host: x\r\n\r\n", HEAD + b"Host: y\r\n\r\n", b"GET /x HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET /x\r\n\r\n", b"GET /x HTTP/0.9\r\nHost: x\r\n\r\n", b"GET /x HTTP/2.0\r\nHost: x\r\n\r\n", b"GET /x HTTP/1.2\r\nHost: x\r\n\r\n",
    b"GET /x RTSP/1.0\r\nHost: x\r\n\r\n", b"SOURCE /x ICE/1.0\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET  /x HTTP/1.1\r\nHost: x\r\n\r\n", b"GET\t/x HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /x HTTP/1.1 \r\nHost: x\r\n\r\n",
    b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /x y HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01", b"get /x HTTP/1.1\r\nHost: x\r\n\r\n",
    *(POST + b"Content-Length: " + length + b"\r\n\r\nabc" for length in (
        b"+3", b"-3", b"0x3", b"3 3", b"3, 3", b"3;a", b"", b"3_0", b"\xd9\xa3", b"9" * 30, b"3\r\nContent-Length: 3", b"3\r\ncontent-length: 4",
    )),
    POST + b"Content-Length : 3\r\n\r\nabc",
)  # fmt: skip


@pytest.mark.parametrize("data", AMBIGUOUS, ids=lambda data: repr(data)[:60])
def test_09_heads_that_may_be_read_in_two_ways_are_refused(data: bytes) -> None:
    """Whatever comes behind them: a proxy in front may have taken that for a part of this request."""
    for size in (1, len(data), len(data) + len(HEAD) + 2):
        found = exchanged(echo, data + HEAD + b"\r\n", size)
        assert found.written.startswith(b"HTTP/1.1 400 ") and found.written.count(b"HTTP/1.1 ") == 1, (size, found)
        assert found.is_closed


def test_09_what_cannot_become_a_request_is_refused_at_once() -> None:
    """A client that speaks TLS where none is spoken waits for no time-out. Space around a value is no part of it."""
    found = exchanged(echo, b"\x16\x03\x01\x02\x00\x01", 1)
    assert found.written.startswith(b"HTTP/1.1 400 ") and found.is_closed
    head = RequestHead(b"GET /x HTTP/1.1\r\nHost: \t x \t\r\nA:\r\n\r\n")
    assert head.is_request and head.headers == [(b"host", b"x"), (b"a", b"")]


@pytest.mark.parametrize(("data", "answers", "is_closed"), [
    (HEAD + b"\r\n", [b"GET /x "], False), (3 * (HEAD + b"\r\n"), [b"GET /x "] * 3, False),
    (POST + b"Content-Length: 0003\r\n\r\nabc" + HEAD + b"\r\n", [b"POST /x abc", b"GET /x "], False),
    (HEAD + b"Content-Length: 3\r\n\r\nabc" + HEAD + b"\r\n", [b"GET /x abc", b"GET /x "], False),
    (POST + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER + HEAD + b"\r\n", [b"POST /x " + INNER, b"GET /x "], False),
    (POST + b"Content_Length: 9\r\n\r\n" + HEAD + b"\r\n", [b"POST /x ", b"GET /x "], False),
    (POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc" + HEAD + b"\r\n", [b"POST /x abc", b"GET /x "], False),
    (HEAD + b"Connection: close\r\n\r\n" + HEAD + b"\r\n", [b"GET /x "], True),
    (b"GET /x HTTP/1.0\r\n\r\n" + HEAD + b"\r\n", [b"GET /x "], True),
    (b"GET /parts HTTP/1.0\r\n\r\n", [b"GET /parts "], True),
    (b"GET /parts HTTP/1.1\r\nHost: x\r\n\r\n", [b"3\r\nGET\r\n8\r\n /parts \r\n0\r\n\r\n"], False),
    (b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD + b"\r\n", [b"GET /x "], False),
    (b"GET http://y/a HTTP/1.1\r\nHost: x\r\n\r\n", [b"GET http://y/a "], False),
    (POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n" + b"abc", [b"POST /x abc"], False),
], ids=lambda value: repr(value)[:60])  # fmt: skip
def test_09_where_a_request_ends(data: bytes, answers: list[bytes], is_closed: bool) -> None:
    for size in (1, 7, len(data)):
        done = exchanged(echo, data, size)
        found = [one.partition(b"\r\n\r\n")[2] for one in done.written.split(b"HTTP/1.1 ")[1:]]
        assert (b"".join(found), done.is_closed) == (b"".join(answers), is_closed), done


def test_09_requests_of_a_connection_are_taken_one_at_a_time() -> None:
    """10,000 of them in one packet are no 10,000 tasks: the rest is read when it is their turn."""

    async def story() -> None:
        begun: list[asyncio.Event] = []

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            begun.append(asyncio.Event())
            await begun[-1].wait()
            await answer(scope, receive, send)

        wire = MemoryTransport()
        connection = connection_of(slow, wire)
        connection.data_received(10_000 * (HEAD + b"\r\n"))
        for count in range(1, 4):
            async with asyncio.timeout(ANSWER_S):
                while len(begun) < count:
                    await asyncio.sleep(0)
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(begun) == count and len(connection.tasks) == 1 and not wire.reads
            begun[-1].set()
        connection.connection_lost(None)

    asyncio.run(story())


def test_09_who_may_send_a_body_or_not_sends_no_other_request() -> None:
    """An answer that waits for no body: what follows on the connection may be the body, or the next request."""
    data = POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(HEAD + b"\r\n") + HEAD + b"\r\n"
    found = exchanged(answer, data + HEAD + b"\r\n", len(POST))
    assert found.written.startswith(b"HTTP/1.1 200 ") and b"connection: close\r\n" in found.written
    assert found.written.count(b"HTTP/1.1 ") == 1 and found.is_closed


def test_09_an_answer_has_no_line_of_somebody_elses() -> None:
    async def split(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nset-cookie: b=c")]})

    found = exchanged(split, HEAD + b"\r\n", 1000)
    assert b"set-cookie" not in found.written and found.is_closed


def test_09_they_are_answered_and_the_connection_ends_also_behind_other_requests() -> None:
    async def story() -> None:
        for before in (b"", HEAD + b"\r\n"):
            for data, status in ((MANY, b"431 "), (CHUNKS, b"406 "), (HEAD + b"\r\n", b"200 ")):
                wire = MemoryTransport()
                connection = connection_of(answer, wire)
                connection.data_received(before + data)
                async with asyncio.timeout(ANSWER_S):
                    while wire.written.count(b"HTTP/1.1 ") < 1 + bool(before):
                        await asyncio.sleep(0)
                assert wire.written.split(b"HTTP/1.1 ")[-1].startswith(status)
                assert wire.is_closed == (status != b"200 ")
                connection.connection_lost(None)

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/", PING, "/web/session", "/web/login", "/penstock/v1/events"])
def test_09_cookies_are_read_as_they_are(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.html").write_text("page")
    rest = FakeRest({"Ping": PingReply()}, files=load(tmp_path))

    def parsed(text: str) -> dict[str, str]:
        raise AssertionError(f"cookies of {len(text)} characters are read by a library")

    monkeypatch.setattr("starlette.requests.cookie_parser", parsed)
    headers = {"X-Penstock-Web": "x", "Cookie": 'a="' + r"\1" * 1000 + '"; penstock="' + r"\1" * 1000 + '"'}
    method = "POST" if path == "/web/login" else "GET"
    assert rest.request(method, path, headers=headers).status_code in (200, 401, 422)


def test_09_a_body_that_is_compressed_is_refused() -> None:
    rest = FakeRest()
    for coding, status in (("gzip", 415), ("br, gzip", 415), ("identity", 422)):
        headers = TOKEN | {"Content-Type": "application/json", "Content-Encoding": coding}
        assert rest.request("POST", "/slurm/v0.0.46/job/submit", content=b"{}", headers=headers).status_code == status


def test_09_many_parameters_are_refused_and_of_many_types_the_first_are_read() -> None:
    rest = FakeRest({"Ping": PingReply()})
    for count, status in ((PARAMETERS_MAX, 200), (PARAMETERS_MAX + 1, 422)):
        query = "&".join(f"a{number}=" for number in range(count))
        assert rest.get(f"{PING}?{query}").status_code == status
    for types, status in (("a/b," * 10 + "*/*", 200), ("a/b," * 10_000 + "*/*", 415)):
        assert rest.get(PING, headers=TOKEN | {"Accept": types}).status_code == status


def test_09_long_numbers_are_not_read() -> None:
    rest = FakeRest()
    for digits, status in ((DIGITS_MAX, 422), (DIGITS_MAX + 1, 400), (4000, 400)):
        body = b'{"job": {"tasks": %s}}' % (b"9" * digits)
        headers = TOKEN | {"Content-Type": "application/json"}
        assert rest.request("POST", "/slurm/v0.0.46/job/submit", content=body, headers=headers).status_code == status
    job = {"current_working_directory": "/tmp", "environment": ["A=1"], "script": "#!/bin/sh\n"}
    for member in ("user_id", "group_id"):
        for digit in "09":  # found: an internal error
            odd = {"job": job | {member: digit * 5000}}
            reply = rest.request("POST", "/slurm/v0.0.46/job/submit", json=odd, headers=TOKEN)
            assert reply.status_code == 422 and "is no number of a user or group" in reply.text
