"""Item 9, for what the REST daemon's libraries read before anybody has checked a request: heads, chunks, cookies.

Found, each without a valid token: a cookie of 60 KB in quotes held the daemon for 10 s, a hundred heads of 15,000 lines for 3.4 s,
256 KiB of a body in chunks of one byte for 0.6 s, again and again on one connection, and a body of numbers of 4,000 digits for
0.8 s, although a thread read it.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fakerest import TOKEN, FakeRest
from patience import ANSWER_S
from uvicorn.server import ServerState

from penstock.v1.controller_pb2 import PingReply
from rest.body import DIGITS_MAX
from rest.limits import PARAMETERS_MAX
from rest.pages import load
from rest.server import HEAD_BYTES_MAX, HEAD_LINES_MAX, RestProtocol, refusal_of_head

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
    refusal = refusal_of_head(data)
    assert (refusal[0] if refusal is not None else 0) == status


class MemoryTransport(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def test_09_they_are_answered_and_the_connection_ends_also_behind_other_requests() -> None:
    async def story() -> None:
        config = uvicorn.Config(answer, http=RestProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        for before in (b"", HEAD + b"\r\n"):
            for data, status in ((MANY, b"431 "), (CHUNKS, b"406 "), (HEAD + b"\r\n", b"200 ")):
                connection = RestProtocol(config, ServerState(), {}, asyncio.get_running_loop())
                wire = MemoryTransport()
                connection.connection_made(wire)
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
