"""Server-sent events of a REST daemon on a real cluster: read as a browser reads them, over restarts of everything."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from livecluster import CTLD
from liverest import PREFIX, LiveRest
from patience import ANSWER_S

EVENTS = "/penstock/v1/events"
New = Callable[..., LiveRest]


class Event(NamedTuple):
    """One event."""

    name: str
    data: Any
    number: int


@contextmanager
def stream(client: httpx.Client, query: str = "", last_id: int = 0) -> Iterator[Iterator[Event]]:
    headers = {"Last-Event-ID": str(last_id)} if last_id else {}
    with client.stream("GET", f"{EVENTS}?{query}", headers=headers) as reply:
        assert reply.status_code == 200, reply.read()
        yield events(reply)


def events(reply: httpx.Response) -> Iterator[Event]:
    text = ""
    for part in reply.iter_text():
        text += part
        while "\n\n" in text:
            block, _, text = text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "event" in fields:
                yield Event(fields["event"], json.loads(fields["data"]), int(fields.get("id", 0)))


def submit(client: httpx.Client) -> int:
    body = {"name": "events", "current_working_directory": "/tmp", "environment": ["A=1"], "hold": True}
    reply = client.post(f"{PREFIX}/job/submit", json={"job": {**body, "script": "#!/bin/sh\n"}})
    assert reply.status_code == 200, reply.text
    return int(reply.json()["job_id"])


def test_a_browser_that_comes_back_loses_nothing(rest: LiveRest) -> None:
    with rest.as_user() as client, rest.as_user() as other:
        with stream(client, "kinds=job") as first:
            hello = next(first)
            one = submit(other)
            found = next(first)
            assert (hello.name, found.name, found.data["job_id"], found.data["state"]) == (
                "hello",
                "job",
                one,
                "PENDING",
            )
            assert found.number > hello.number and abs(found.data["at"] - time.time()) < 600
        missed = [submit(other) for _ in range(3)]
        other.delete(f"{PREFIX}/job/{one}")
        with stream(client, "kinds=job", last_id=found.number) as again:
            assert next(again).name == "hello"
            seen = [next(again) for _ in range(4)]
            assert [(event.data["job_id"], event.data["state"]) for event in seen] == [
                *((job, "PENDING") for job in missed), (one, "CANCELLED")
            ]  # fmt: skip


def test_a_daemon_that_is_killed_and_another_one_lose_nothing(new_rest: New) -> None:
    rest = new_rest()
    cluster = rest.cluster
    with rest.as_user() as client, stream(client, "kinds=job") as first:
        number = next(first).number
    with rest.as_user() as client:
        one = submit(client)
        cluster.kill("restd")
    rest.start()
    with rest.as_user() as client, rest.as_user() as other, stream(client, "kinds=job", last_id=number) as again:
        assert next(again).name == "hello"
        found = next(again)
        assert found.data["job_id"] == one
        cluster.kill(CTLD)
        cluster.start_controller()
        told = next(again)
        assert told.name == "missed" and told.data["last"] > found.number
        two = submit(other)
        assert next(again).data["job_id"] == two
        # Streams do not hold up the daemon's end.
        rest.daemon.process.send_signal(signal.SIGTERM)
        assert [event.name for event in again] == []
        assert rest.daemon.process.wait(ANSWER_S) == 0


def test_a_revoked_token_ends_its_stream(rest: LiveRest) -> None:
    with rest.as_user() as client, stream(client) as found:
        next(found)
        rest.cluster.run("scontrol", "token", "revoke").ok()
        last = [event for event in found if event.name == "error"]
        assert [event.data for event in last] == [{"reason": "Access/permission denied: the token has been revoked"}]
    reply = client_of(rest, client.headers["X-SLURM-USER-TOKEN"]).get(EVENTS)
    assert reply.status_code == 401


def client_of(rest: LiveRest, token: str) -> httpx.Client:
    return rest.as_user(token=token)
