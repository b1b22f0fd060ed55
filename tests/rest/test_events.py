"""Server-sent events, in process: whose Watch a stream reads, where it begins, how it ends."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from patience import ANSWER_S

from penstock.clusterfile import ClusterFile
from penstock.errors import NotProven, PenstockError, Unreachable
from penstock.v1.watch_pb2 import ChangedObject, WatchReply
from penstock.values.refusals import TEXT, Code
from rest import events
from rest.app import make_app
from rest.contract.facts import load

CONTRACT = load()


class FakeWatch:
    """A controller whose changes a test makes."""

    cluster = ClusterFile("test")

    def __init__(self, last: int = 100) -> None:
        self.last = last
        self.known_from = 0
        self.changes: list[ChangedObject] = []
        self.asked: list[tuple[Any, Any]] = []  # request and proof of each Watch
        self.refusal: PenstockError | None = None
        self.open = 0
        self._wake = asyncio.Event()

    def change(self, job_id: int = 7, kind: str = "JOB", state: str = "RUNNING") -> None:
        self.last += 1
        one = ChangedObject(sequence=self.last, at_us=1_500_000, kind=kind, id=str(job_id), state=state, job_id=job_id)
        self.changes.append(one)
        self.wake()

    def wake(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()

    def end(self, error: PenstockError) -> None:
        """Ends all open streams."""
        self.refusal = error
        self.wake()

    async def call(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def follow(
        self, method: str, request: Any, timeout_s: float = 0, *, proof: Any = None, read_as: Any = None
    ) -> AsyncIterator[Any]:
        assert method == "Watch"
        self.asked.append((request, proof))
        if self.refusal is not None:
            raise self.refusal
        at = request.after or self.last
        self.open += 1
        try:
            if not self.known_from <= at <= self.last:
                at = self.last
                yield WatchReply(last=at, missed=True)
            while True:
                found = [one for one in self.changes if one.sequence > at]
                at = self.last
                yield WatchReply(last=at, changes=found)
                await self._wake.wait()
                if self.refusal is not None:
                    raise self.refusal
        finally:
            self.open -= 1


class Browser:
    """One request to the application, whose answer is read while it grows."""

    def __init__(self, app: Any, query: str = "", token: str = "a.b.c", last_id: int = 0, reads: bool = True) -> None:
        headers = [(b"x-slurm-user-token", token.encode())]
        headers += [(b"last-event-id", b"%d" % last_id)] if last_id else []
        scope = {"type": "http", "method": "GET", "path": "/penstock/v1/events", "raw_path": b"", "root_path": "",
                 "query_string": query.encode(), "headers": headers, "client": ("127.0.0.1", 4000), "server": ("h", 80),
                 "scheme": "http", "http_version": "1.1"}  # fmt: skip
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = ""
        self._reads = reads
        self._left = asyncio.Event()
        self.parts: asyncio.Queue[str | None] = asyncio.Queue()
        self._task = asyncio.create_task(app(scope, self._receive, self._send))
        self._task.add_done_callback(lambda _: self.parts.put_nowait(None))

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
            return
        if not self._reads:
            await asyncio.Event().wait()
        self.parts.put_nowait(message["body"].decode())

    async def event(self) -> tuple[str, Any, int]:
        """The next event: name, data, id."""
        async with asyncio.timeout(ANSWER_S):
            while "\n\n" not in self.text:
                part = await self.parts.get()
                assert part is not None, self.text
                self.text += part
        block, _, self.text = self.text.partition("\n\n")
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        return fields.get("event", ""), json.loads(fields.get("data", "null")), int(fields.get("id", 0))

    async def rest(self) -> str:
        """What comes until the answer's end."""
        async with asyncio.timeout(ANSWER_S):
            while (part := await self.parts.get()) is not None:
                self.text += part
            await self._task
        return self.text

    async def leave(self) -> None:
        self._left.set()
        async with asyncio.timeout(ANSWER_S):
            await self._task


class Story:
    """A controller, an application, and its browsers."""

    def __init__(self) -> None:
        self.watch = FakeWatch()
        self.streams = events.EventStreams(self.watch)
        self.app = make_app(self.watch, "test", CONTRACT, streams=self.streams)
        self.browsers: list[Browser] = []

    def browser(self, query: str = "", **more: Any) -> Browser:
        made = Browser(self.app, query, **more)
        self.browsers.append(made)
        return made


@contextlib.asynccontextmanager
async def story() -> AsyncIterator[Story]:
    made = Story()
    yield made
    for browser in made.browsers:
        await browser.leave()
    await until(lambda: not made.watch.open)
    assert (made.streams.watches, made.streams.open_streams) == (0, 0)


async def until(holds: Any) -> None:
    """Gives the loop its turns until this holds."""
    async with asyncio.timeout(ANSWER_S):
        while not holds():
            await asyncio.sleep(0)


def test_a_change_is_an_event_with_its_number() -> None:
    async def body() -> None:
        async with story() as its:
            browser = its.browser("kinds=job,NODE&users=ann&users=sam")
            assert await browser.event() == ("hello", {"last": 100}, 100)
            assert browser.status == 200 and browser.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
            its.watch.change(7)
            name, data, number = await browser.event()
            assert (name, number) == ("job", 101)
            assert list(data) == list(events.CHANGE_MEMBERS)
            assert (data["sequence"], data["at"], data["kind"], data["id"], data["state"]) == (
                101,
                1.5,
                "job",
                "7",
                "RUNNING",
            )
            its.watch.change(8, "NODE")
            assert (await browser.event())[0] == "node"
            ((request, proof),) = its.watch.asked
            assert (list(request.kinds), list(request.users), request.after) == (["JOB", "NODE"], ["ann", "sam"], 0)
            assert proof == (("x-slurm-user-token", "a.b.c"),)

    asyncio.run(body())


def test_many_browsers_of_one_user_are_one_watcher_and_others_are_not() -> None:
    async def body() -> None:
        async with story() as its:
            browsers = [its.browser() for _ in range(200)]
            other, narrow = its.browser(token="d.e.f"), its.browser("kinds=job")
            for browser in (*browsers, other, narrow):
                await browser.event()
            its.watch.change()
            for browser in (*browsers, other, narrow):
                assert (await browser.event())[2] == 101
            assert len(its.watch.asked) == 3, "not more than proofs and demands"
            for browser in browsers[1:]:
                await browser.leave()
            its.watch.change()
            assert (await browsers[0].event())[2] == 102

    asyncio.run(body())


def test_a_stream_continues_after_the_last_event() -> None:
    async def body() -> None:
        async with story() as its:
            first = its.browser()
            await first.event()
            for _ in range(3):
                its.watch.change()
            for _ in range(3):
                await first.event()
            for more in ({"last_id": 101}, {"query": "after=101"}):
                again = its.browser(**more)
                assert await again.event() == ("hello", {"last": 101}, 101)
                assert [(await again.event())[2] for _ in range(2)] == [102, 103]
            assert len(its.watch.asked) == 1, "kept here"
            its.watch.changes.insert(0, ChangedObject(sequence=100, kind="GPU", id="GPU-1"))
            older = its.browser(last_id=99)
            await older.event()
            assert [(await older.event())[2] for _ in range(4)] == [100, 101, 102, 103]
            assert [request.after for request, _ in its.watch.asked] == [0, 99]
            late = its.browser(last_id=100)
            await late.event()
            assert [(await late.event())[2] for _ in range(3)] == [101, 102, 103]
            assert len(its.watch.asked) == 2

    asyncio.run(body())


def test_what_is_not_kept_any_more_is_said_and_browsers_that_come_back_share() -> None:
    async def body() -> None:
        async with story() as its:
            its.watch.known_from = 50
            browsers = [its.browser(last_id=number) for number in (40, 30, 20, 35, 45)]
            for browser in browsers:
                assert (await browser.event())[0] == "hello"
                assert await browser.event() == ("missed", {"last": 100}, 100)
            assert len(its.watch.asked) <= 2
            its.watch.change()
            for browser in browsers:
                assert (await browser.event())[2] == 101
            future = its.browser(last_id=5000)
            await future.event()
            assert (await future.event())[0] == "missed"

    asyncio.run(body())


def test_a_token_that_ends_ends_its_streams_with_the_reason() -> None:
    async def body() -> None:
        async with story() as its:
            browsers = [its.browser() for _ in range(3)]
            for browser in browsers:
                await browser.event()
            its.watch.change()
            its.watch.end(NotProven(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: the token has expired 0 s ago"))
            for browser in browsers:
                text = await browser.rest()
                assert text.endswith(
                    'event: error\ndata: {"reason":"Access/permission denied: the token has expired 0 s ago"}\n\n'
                )
            refused = its.browser()
            assert "Protocol authentication error" in await refused.rest() and refused.status == 401
            its.watch.refusal = None
            assert (await its.browser().event())[0] == "hello"

    asyncio.run(body())


def test_a_controller_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "RECONNECT_S", 0)

    async def body() -> None:
        async with story() as its:
            browser = its.browser()
            await browser.event()
            its.watch.change()
            await browser.event()
            its.watch.end(Unreachable())
            await until(lambda: len(its.watch.asked) > 3)
            its.watch.refusal = None
            its.watch.change()
            assert (await browser.event())[2] == 102
            assert {request.after for request, _ in its.watch.asked[1:]} == {101}

    asyncio.run(body())


@pytest.mark.parametrize(
    ("query", "status"), [("kinds=moon", 422), ("after=x", 422), ("after=-1", 422), ("after=" + "9" * 40, 422)]
)
def test_demands_are_checked(query: str, status: int) -> None:
    async def body() -> None:
        async with story() as its:
            browser = its.browser(query)
            text = await browser.rest()
            assert browser.status == status and "errors" in text and not its.watch.asked

    asyncio.run(body())


def test_streams_are_counted_for_a_caller_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "STREAMS_MAX", 3)
    monkeypatch.setattr(events, "CALLER_STREAMS_MAX", 2)

    async def body() -> None:
        async with story() as its:
            for token in ("a.b.c", "a.b.c", "d.e.f"):
                await its.browser(token=token).event()
                if token == "a.b.c" and len(its.browsers) == 2:
                    await refused(its.browser(token=token), "2 streams of events of this caller are open")
            await refused(its.browser(token="g.h.i"), "3 streams of events are open here")
            await its.browsers[0].leave()
            assert (await its.browser(token="g.h.i").event())[0] == "hello"

    async def refused(browser: Browser, words: str) -> None:
        assert words in await browser.rest()
        assert browser.status == 429 and browser.headers[b"retry-after"] == b"1"

    asyncio.run(body())


def test_an_unreachable_controller_is_503() -> None:
    async def body() -> None:
        async with story() as its:
            its.watch.refusal = Unreachable()
            browser = its.browser()
            await browser.rest()
            assert browser.status == 503 and browser.headers[b"retry-after"] == b"1"

    asyncio.run(body())


def test_a_client_that_reads_nothing_is_dropped_and_one_that_is_behind_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "STALL_TIMEOUT_S", 0.01)
    monkeypatch.setattr(events, "EVENTS_KEPT_MAX", 2)

    async def body() -> None:
        async with story() as its:
            silent, reading = its.browser(reads=False), its.browser()
            await reading.event()
            assert await silent.rest() == ""
            for _ in range(5):
                its.watch.change()
            found = await reading.rest()
            assert "event: error" not in found and "id: 105" not in found, "it comes again, with what it has"

    asyncio.run(body())


def test_one_that_was_away_for_more_than_is_kept_here_gets_on_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: it got nothing but `hello` with its own id, at each reconnection, while the controller had all."""
    monkeypatch.setattr(events, "EVENTS_KEPT_MAX", 2)
    monkeypatch.setattr(events, "PART_EVENTS", 3)

    async def body() -> None:
        async with story() as its:
            first = its.watch.last + 1
            for _ in range(7):
                its.watch.change()
            seen: list[int] = []
            tries = 0
            while its.watch.last not in seen and tries < 3:
                tries += 1
                again = its.browser(last_id=max(seen, default=first - 1))
                while its.watch.last not in seen and (part := await again.parts.get()) is not None:
                    seen += map(int, re.findall(r"id: (\d+)\nevent: job", part))
                await again.leave()
            assert seen == list(range(first, its.watch.last + 1))

    asyncio.run(body())


def test_a_quiet_stream_shows_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_S", 0.01)

    async def body() -> None:
        async with story() as its:
            browser = its.browser()
            await browser.event()
            its.watch.last = 105  # changes that this caller does not see
            its.watch.wake()
            await until(lambda: "id: 105" in browser.text or not browser.parts.empty())
            name, data, number = await browser.event()
            while number != 105:
                name, data, number = await browser.event()
            assert (name, data) == ("", None)

    asyncio.run(body())


def test_a_daemon_that_stops_ends_its_streams() -> None:
    async def body() -> None:
        async with story() as its:
            browser = its.browser()
            await browser.event()
            its.streams.stop()
            assert await browser.rest() == ""

    asyncio.run(body())
