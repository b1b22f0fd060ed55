"""Measures what open browsers cost: the event stream and the polls of the page Overview, played by many clients.

    python -m bench.browsers [--browsers 200] [--seconds 60] [--changes 6]

Each browser has a stream of changes, and asks for what is on the page again as web/src/api/live.ts does: GATHER_S after an
event, SLOW_POLL_S after the last time otherwise, with the entity tags that it has. `--changes`: jobs that are submitted
and cancelled in a minute. Printed are cores of the controller above those of the same changes without browsers, cores of
the REST daemon, and requests per second.
"""

import argparse
import asyncio
import json
import random
import sys

from bench.local import Local, private_cluster
from bench.measure import CannotMeasure, cpu_s
from bench.rawhttp import RawHttp
from bench.restbench import CALL_TIMEOUT_S, Restd, daemon, held, new_token
from penstock.aclient import AsyncClient
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter

EVENTS = "/penstock/v1/events"
#: What the page Overview asks for.
PATHS = (
    "/penstock/v1/jobs?users=root&order=-job_id&count=8", "/penstock/v1/jobs?states=PENDING&order=planned_start_at_us&count=8",
    "/penstock/v1/queue?states=PENDING,RUNNING,COMPLETING,CONFIGURING,SUSPENDED", "/slurm/v0.0.46/nodes", "/penstock/v1/gpus",
)  # fmt: skip
#: Of web/src/api/live.ts.
GATHER_S = 0.25
SLOW_POLL_S = 60.0
#: A caller has a bounded number of streams and of requests in progress.
BROWSERS_OF_A_TOKEN = 4
NODES = 16
CPUS = 64
GPUS = 8
START_S = 20.0


class Browser:
    """One page that is open."""

    def __init__(self, restd: Restd, token: str) -> None:
        self._restd = restd
        self._token = token
        self._tags: dict[str, str] = {}
        self._due = asyncio.Event()
        self.requests = 0
        self.failed = 0

    async def run(self) -> None:
        """Follows the cluster until it is cancelled."""
        await asyncio.sleep(random.random() * START_S / 2)
        stream = await RawHttp.open(self._restd.address, self._token)
        client = await RawHttp.open(self._restd.address, self._token)
        stream.send("GET", EVENTS)
        status, _ = await stream.head()
        if status != 200:
            raise CannotMeasure(f"GET {EVENTS}: {status}")
        reading = asyncio.create_task(self._read(stream))
        try:
            while True:
                for path in PATHS:
                    await self._ask(client, path)
                self._due.clear()
                try:
                    await asyncio.wait_for(self._due.wait(), SLOW_POLL_S)
                    await asyncio.sleep(GATHER_S)
                except TimeoutError:
                    pass
        finally:
            reading.cancel()
            stream.close()
            client.close()

    async def _read(self, stream: RawHttp) -> None:
        while data := await stream.some():
            if b"event:" in data:
                self._due.set()

    async def _ask(self, client: RawHttp, path: str) -> None:
        tag = self._tags.get(path)
        answer = await client.ask("GET", path, more=f"If-None-Match: {tag}\r\n" if tag else "")
        self.requests += 1
        self.failed += answer.status not in (200, 304)
        if "etag" in answer.headers:
            self._tags[path] = answer.headers["etag"]


async def _changes(cluster: Local, per_minute: int, seconds: float) -> None:
    """Submits and cancels jobs in a steady rhythm."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    async with AsyncClient.open(CALL_TIMEOUT_S, cluster=cluster.file()) as client:
        while per_minute and loop.time() + 60 / per_minute < end:
            await asyncio.sleep(60 / per_minute)
            job_id = (await client.call("SubmitJob", held())).job_id
            await client.call("CancelJobs", CancelJobsRequest(filter=JobFilter(ids=[str(job_id)])))
        await asyncio.sleep(max(0.0, end - loop.time()))


async def _measure(cluster: Local, restd: Restd, count: int, seconds: float, per_minute: int) -> dict[str, float]:
    controller = cluster.controller_pid()
    used = cpu_s(controller)
    await _changes(cluster, per_minute, seconds)
    alone = (cpu_s(controller) - used) / seconds
    tokens = [new_token(cluster, 4000 + number) for number in range(-(-count // BROWSERS_OF_A_TOKEN))]
    browsers = [Browser(restd, tokens[number % len(tokens)]) for number in range(count)]
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
        "failed": sum(one.failed for one in browsers), "ended": ended,
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
