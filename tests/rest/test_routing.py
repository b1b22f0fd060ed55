"""Paths and their endpoints, and the writes of an answer."""

import asyncio
from typing import Any

import h11
import httpx
import pytest
from restwire import exchanged

from rest.contract.facts import VERSION_MARK, load
from rest.handlers.own import PREFIX, operations
from rest.routing import Routes

PATHS = [
    f"/{path.strip('/')}".replace(VERSION_MARK, version.name)
    for version in load().versions.values()
    for path in version.operations
] + [f"{PREFIX}{path}" for path in operations()]


class Named:
    """An endpoint that says its path and its parameters."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await say(send, repr((self._path, scope.get("path_params", {}))).encode())


async def say(send: Any, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def asked(routes: Routes, *paths: str) -> list[str]:
    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(routes), base_url="http://rest") as client:
            return [(await client.get(path)).text for path in paths]

    return asyncio.run(ask())


def test_every_path_has_its_endpoint() -> None:
    """With and without a slash at its end; a parameter is one part of a path."""
    routes = Routes((path, Named(path)) for path in PATHS)
    for path in PATHS:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        url = path
        for name in names:
            url = url.replace(f"{{{name}}}", f"{name}%20of")
        answer = repr((path, {name: f"{name} of" for name in names}))
        assert asked(routes, url, f"{url}/") == [answer] * 2
    assert any("{" in path for path in PATHS) and len(PATHS) > 100


def test_what_is_written_out_comes_first_and_the_rest_is_not_there() -> None:
    routes = Routes((path, Named(path)) for path in ("/a/1/job/{job_id}", "/a/1/job/submit", "/a/1/job/{job_id}/why"))
    assert asked(routes, "/a/1/job/submit", "/a/1/job/5/why") == [
        repr(("/a/1/job/submit", {})), repr(("/a/1/job/{job_id}/why", {"job_id": "5"})),
    ]  # fmt: skip
    for path in (
        "/",
        "/a/1/job",
        "/a/1/job/5/6",
        "/a/1/job//why",
        "/a/2/job/5",
        "/a/1/job/5/why/x",
        "/a/1/job/submit%0a/x",
    ):
        assert asked(routes, path) == ["Not found"], path


@pytest.mark.parametrize("has_length", [True, False])
def test_a_whole_answer_is_one_write(has_length: bool) -> None:
    """The head of one whose length is not known leaves at once: a stream's first event may be minutes later."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        length = [(b"content-length", b"2")] if has_length else []
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": b"ok"})

    client = h11.Connection(h11.CLIENT)
    request = (h11.Request(method="GET", target="/", headers=[("Host", "x")]), h11.EndOfMessage())
    sent = b"".join(client.send(event) or b"" for event in request)
    writes = exchanged(answer, 2 * sent, 2 * len(sent)).writes
    assert len(writes) == (2 if has_length else 4)
    client.receive_data(b"".join(writes))
    for _ in range(2):
        found = [client.next_event() for _ in range(3)]
        assert [type(one) for one in found] == [h11.Response, h11.Data, h11.EndOfMessage]
        if client.our_state is h11.DONE:
            client.start_next_cycle()
            for event in request:
                client.send(event)
