"""Measures what open browsers cost: the event stream and the polls of the page Overview, played by many clients.

    python -m bench.browsers [--browsers 200] [--seconds 60] [--changes 6]

Each browser has a stream of changes, and asks for what is on the page again as web/src/api/live.ts does: what an event
concerns soon after it, all of it SLOW_POLL_S after the last time, with the entity tags that it has. They are of all users of
this machine in turn. `--changes`: jobs of one user that are submitted, run and end in a minute. Printed are cores of the
controller above those of the same changes without browsers, cores of the REST daemon, and requests per second.
"""

import argparse
import asyncio
import json
import pwd
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from bench.local import Local, private_cluster
from bench.measure import CannotMeasure, cpu_s
from bench.rawhttp import RawHttp
from bench.restbench import CALL_TIMEOUT_S, Restd, daemon, held
from penstock.aclient import AsyncClient

EVENTS = "/penstock/v1/events"
_ACTIVE = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED"
#: What the page Overview asks for, and which changes concern it (web/src/lib/changes.ts).
_Concern: TypeAlias = Callable[[Mapping[str, object], str], bool]
PATHS: Final[Mapping[str, _Concern]] = {
    "/penstock/v1/jobs?users={user}&order=-job_id&count=8": lambda one, user: one["user_name"] == user,
    f"/penstock/v1/jobs?users={{user}}&states={_ACTIVE}&order=-start_at_us&count=8": lambda one, user: (
        one["user_name"] == user
    ),
    "/penstock/v1/jobs?states=PENDING&order=planned_start_at_us&count=8": lambda one, user: True,
    f"/penstock/v1/queue?states=PENDING,{_ACTIVE}": lambda one, user: one["kind"] == "job",
    "/slurm/v0.0.46/nodes": lambda one, user: one["kind"] != "job" or bool(one["start_time"]),
    "/penstock/v1/gpus": lambda one, user: one["kind"] != "job" or bool(one["start_time"]),
    "/penstock/v1/gpus/readings": lambda one, user: False,
    "/penstock/v1/budgets": lambda one, user: False,
    "/penstock/v1/utilization": lambda one, user: False,
}
#: What is asked for in each RARE_ROUNDS-th slow poll (web/src/pages/lastday.tsx).
RARE: Final = ("/penstock/v1/utilization",)
RARE_ROUNDS = 10
#: Of web/src/api/live.ts.
GATHER_S = 0.2
SPREAD_S = 0.1
SLOW_POLL_S = 60.0
#: A user has a login for each browser, or some tabs of one.
BROWSERS_OF_A_TOKEN = 4
NODES = 16
CPUS = 64
GPUS = 8
START_S = 20.0


class BrowserUser(NamedTuple):
    """A user, and a token of this user."""

    user: str
    token: str


class Browser:
    """One page that is open."""

    def __init__(self, restd: Restd, viewer: BrowserUser) -> None:
        self._restd = restd
        self._viewer = viewer
        self._tags: dict[str, str] = {}
        self._due: set[str] = set(PATHS)
        self._has_due = asyncio.Event()
        self.requests = 0
        self.refused = 0

    async def run(self) -> None:
        """Follows the cluster until it is cancelled."""
        await asyncio.sleep(random.random() * START_S / 2)
        stream = await RawHttp.open(self._restd.address, self._viewer.token)
        client = await RawHttp.open(self._restd.address, self._viewer.token)
        stream.send("GET", EVENTS)
        status, _ = await stream.head()
        if status != 200:
            raise CannotMeasure(f"GET {EVENTS}: {status}")
        reading = asyncio.create_task(self._read(stream))
        polling = asyncio.create_task(self._poll())
        try:
            while True:
                await self._has_due.wait()
                await asyncio.sleep(GATHER_S + SPREAD_S * random.random())
                asked = [path for path in PATHS if path in self._due]
                self._due.clear()
                self._has_due.clear()
                for path in asked:
                    await self._ask(client, path.format(user=self._viewer.user))
        finally:
            reading.cancel()
            polling.cancel()
            stream.close()
            client.close()

    async def _read(self, stream: RawHttp) -> None:
        tail = b""
        while data := await stream.some():
            *lines, tail = (tail + data).split(b"\n")
            for line in lines:
                if line.startswith(b'data: {"sequence":'):
                    change = json.loads(line[6:])
                    self._add(path for path, concern in PATHS.items() if concern(change, self._viewer.user))

    async def _poll(self) -> None:
        for number in count():
            self._add(path for path in PATHS if path not in RARE or number % RARE_ROUNDS == 0)
            await asyncio.sleep(SLOW_POLL_S)

    def _add(self, paths: Iterable[str]) -> None:
        self._due.update(paths)
        if self._due:
            self._has_due.set()

    async def _ask(self, client: RawHttp, path: str) -> None:
        tag = self._tags.get(path)
        answer = await client.ask("GET", path, more=f"If-None-Match: {tag}\r\n" if tag else "")
        self.requests += 1
        self.refused += answer.status not in (200, 304)
        if "etag" in answer.headers:
            self._tags[path] = answer.headers["etag"]


async def _changes(cluster: Local, per_minute: int, seconds: float) -> None:
    """Submits jobs in a steady rhythm; each runs and ends at once."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with AsyncClient.open(CALL_TIMEOUT_S, cluster=cluster.file()) as client:
        for number in range(round(per_minute * seconds / 60)):
            await asyncio.sleep(begin + (number + 0.5) * 60 / per_minute - loop.time())
            request = held()
            request.job.hold = False
            await client.call("SubmitJob", request)
        await asyncio.sleep(max(0.0, begin + seconds - loop.time()))


def _viewers(cluster: Local, count: int) -> list[BrowserUser]:
    """Tokens with different ends, so that each is another caller of the REST daemon."""
    users = sorted({one.pw_uid: one.pw_name for one in pwd.getpwall()}.values())
    tokens = []
    for number in range(-(-count // BROWSERS_OF_A_TOKEN)):
        user = users[number % len(users)]
        words = ["token", f"username={user}", f"lifespan={4000 + number}"]
        tokens.append(BrowserUser(user, cluster.run("scontrol", *words).strip().partition("=")[2]))
    return [tokens[number % len(tokens)] for number in range(count)]


async def _measure(cluster: Local, restd: Restd, count: int, seconds: float, per_minute: int) -> dict[str, float]:
    controller = cluster.controller_pid()
    used = cpu_s(controller)
    await _changes(cluster, per_minute, seconds)
    alone = (cpu_s(controller) - used) / seconds
    browsers = [Browser(restd, viewer) for viewer in _viewers(cluster, count)]
    tasks = [asyncio.create_task(one.run()) for one in browsers]
    await asyncio.sleep(START_S)
    before = cpu_s(controller), cpu_s(restd.pid), sum(one.requests for one in browsers)
    await _changes(cluster, per_minute, seconds)
    after = cpu_s(controller), cpu_s(restd.pid), sum(one.requests for one in browsers)
    ended = sum(one.done() for one in tasks)
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "browsers": count, "changes_per_minute": per_minute, "controller_alone_percent": round(100 * alone, 2),
        "controller_percent_above": round(100 * ((after[0] - before[0]) / seconds - alone), 2),
        "restd_percent": round(100 * (after[1] - before[1]) / seconds, 1),
        "requests_per_s": round((after[2] - before[2]) / seconds, 1),
        "refused": sum(one.refused for one in browsers), "ended": ended,
    }  # fmt: skip


def main(words: list[str]) -> int:
    """Measures, and prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.browsers", description=__doc__)
    parser.add_argument("--browsers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--changes", type=int, nargs="*", default=[0, 6, 60])
    options = parser.parse_args(words)
    with private_cluster(NODES, CPUS, GPUS) as cluster, daemon(cluster) as restd:
        for per_minute in options.changes:
            found = asyncio.run(_measure(cluster, restd, options.browsers, options.seconds, per_minute))
            print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
