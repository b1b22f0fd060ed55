"""Login by a password over REST, in process: what the browser may send, and what a helper may answer or do."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from fakerest import FakeRest

from penstock.v1.controller_pb2 import PingReply
from rest.pages import load
from rest.passwords import AWAY, PasswordLogin

PAGE = {"X-Penstock-Web": "none", "Origin": "http://rest"}
PASSWORD = "correct horse"


class Helper:
    """A stand-in for `penstock pamd` that answers with these bytes; b"" = it closes the connection unread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer = b'{"status": "no", "text": "wrong"}\n'
        self.questions: list[dict[str, str]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_unix_server(self._talk, str(path)), self._loop
        ).result()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.answer:
            self.questions.append(json.loads(await reader.readline()))
            writer.write(self.answer)
            await writer.drain()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class World:
    """A REST daemon with a helper."""

    def __init__(self, folder: Path, owner: int | None = None) -> None:
        (folder / "static").mkdir()
        (folder / "static" / "index.html").write_text("<!doctype html>page")
        self.helper = Helper(folder / "s")
        login = PasswordLogin(str(folder / "s"), os.geteuid() if owner is None else owner)
        self.rest = FakeRest({"Ping": PingReply(cluster_name="test")}, files=load(folder / "static"), passwords=login)

    def login(self, body: Any, **more: Any) -> httpx.Response:
        return self.rest.post("/web/login", body, **{"headers": PAGE} | more)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.helper.close()


def test_a_password_becomes_a_session_of_the_token(world: World) -> None:
    world.helper.answer = b'{"status": "yes", "token": "e30.eyJzdW4iOiJhbm4ifQ.c2ln"}\n'
    reply = world.login({"user": "ann", "password": PASSWORD})
    assert reply.status_code == 200 and reply.json()["user"] == "ann" and reply.json()["key"]
    assert world.helper.questions == [{"name": "ann", "password": PASSWORD, "address": "127.0.0.1"}]
    words = [word.strip() for word in reply.headers["set-cookie"].split(";")]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(words) and "e30" not in reply.headers["set-cookie"]
    assert reply.headers["cache-control"] == "no-store"
    session = world.rest.get("/web/session", headers=PAGE).json()
    assert session["passwords"] is True and session["user"] == ""


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (b'{"status": "no", "text": "wrong"}\n', 401, "wrong"),
        (b'{"status": "closed", "text": "expired"}\n', 403, "expired"),
        (b'{"status": "busy", "text": "wait", "retry_after_s": 17}\n', 429, "wait"),
        (b'{"status": "broken", "text": "see the log"}\n', 503, "see the log"),
        (b'{"status": "root"}\n', 503, AWAY), (b"\n", 503, AWAY), (b"no line", 503, AWAY), (b"", 503, AWAY),
        (b"\xff\n", 503, AWAY), (b"x" * 40_000, 503, AWAY), (b'{"status": "yes"}\n', 401, "Authentication"),
    ],
)  # fmt: skip
def test_other_answers(world: World, answer: bytes, status: int, text: str) -> None:
    world.helper.answer = answer
    reply = world.login({"user": "ann", "password": PASSWORD})
    assert reply.status_code == status and text in reply.text and "set-cookie" not in reply.headers
    assert reply.headers.get("retry-after") == ("17" if status == 429 else "5" if text == AWAY else None)
    assert PASSWORD not in reply.text


@pytest.mark.parametrize(
    "body",
    [
        {"password": PASSWORD}, {"user": "ann", "password": 7}, {"user": ["ann"], "password": PASSWORD},
        {"user": "ann", "password": ""}, {"user": "ann", "password": "x" * 513}, {"user": "ann", "password": "a\0b"},
        {"user": "", "password": PASSWORD}, {"user": "0", "password": PASSWORD}, {"user": "a\nb", "password": PASSWORD},
        {"user": "x" * 100_000, "password": "x" * 100_000},
    ],
)  # fmt: skip
def test_what_is_no_login_reaches_no_helper(world: World, body: Any) -> None:
    reply = world.login(body)
    assert reply.status_code == 422 and not world.helper.questions and PASSWORD not in reply.text


def test_another_page_logs_nobody_in(world: World) -> None:
    for headers in ({}, {"X-Penstock-Web": "none", "Origin": "http://evil"}, {"Origin": "http://rest"}):
        reply = world.login({"user": "ann", "password": PASSWORD}, headers=headers)
        assert reply.status_code == 403 and not world.helper.questions


def test_a_socket_that_is_not_roots_gets_no_password(tmp_path: Path) -> None:
    world = World(tmp_path, owner=os.geteuid() + 1)
    try:
        reply = world.login({"user": "ann", "password": PASSWORD})
        assert reply.status_code == 503 and not world.helper.questions
    finally:
        world.helper.close()


def test_without_a_helper(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("page")
    rest = FakeRest({}, files=load(tmp_path), passwords=PasswordLogin(str(tmp_path / "nothing")))
    assert rest.post("/web/login", {"user": "ann", "password": "x"}, headers=PAGE).status_code == 503
    rest = FakeRest({}, files=load(tmp_path))
    reply = rest.post("/web/login", {"user": "ann", "password": "x"}, headers=PAGE)
    assert reply.status_code == 422 and "no login by password" in reply.text
    assert rest.get("/web/session", headers=PAGE).json()["passwords"] is False
