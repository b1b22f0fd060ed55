"""Measures the REST daemon: lists, pollers, idle clients, submissions, watchers of changes.

    python -m bench rest

One `penstock restd` on a TCP port of the loopback address, with tokens, beside a private cluster. Its clients are in this
process and do not decode what they read (bench/rawhttp.py). Submissions over REST and over gRPC take turns, on one
connection each, with the same token: what the machine does meanwhile is the same for both. The changes for the watchers are
jobs that are submitted and cancelled in a steady rhythm; what they cost the controller without watchers is taken off.
"""

import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import listings, restart
from bench.fill import fill
from bench.local import BIN, Local
from bench.measure import CannotMeasure, cpu_s, free_port, rss_mb, wait_until
from bench.rawhttp import RawHttp
from penstock.aclient import AsyncClient
from penstock.calls import USER_TOKEN_KEY
from penstock.config import load
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, ListJobsRequest, SubmitJobRequest
from penstock.values.requestkey import new_request_key

#: Jobs that have ended before a long queue is filled in: bench/fill.py makes some.
ENDED = 100
JOBS = "/slurm/v0.0.46/jobs"
SUBMIT = "/slurm/v0.0.46/job/submit"
PING = "/slurm/v0.0.46/ping"
EVENTS = "/penstock/v1/events?kinds=job"
START_LIMIT_S = 30.0
CALL_TIMEOUT_S = 30.0
#: One caller has at most 256 streams: the watchers have several tokens.
WATCHERS_OF_A_TOKEN = 250
#: Submissions of a second while watchers look on; each job is cancelled, which is a second change.
PAIRS_PER_S = 100
#: Sizes and limits of mixed jobs, and the parts that are held, begin later, and have ended; others wait or run.
MIXED_KINDS = 200
SHARES = 5
HELD_SHARE, BEGIN_SHARE, ENDED_SHARE = range(3)
#: Lists of mixed jobs after the first one.
LATER_LISTS = 5
SCRIPT = "#!/bin/sh\ntrue\n"
ENVIRONMENT = tuple(f"VARIABLE_{number}=value-{number}" for number in range(30))


class Restd(NamedTuple):
    """A running daemon."""

    address: str
    pid: int
    token: str


@contextmanager
def daemon(cluster: Local) -> Iterator[Restd]:
    """A REST daemon of its own, ended with the block."""
    address = f"127.0.0.1:{free_port()}"
    token = new_token(cluster, 3600)
    words = [str(BIN / "penstock"), "restd", "--allow-privileged", "--listen", address]
    log = cluster.home / "log" / "bench-restd.log"
    log.write_bytes(b"")
    with log.open("ab") as output:
        process = subprocess.Popen(words, env=cluster.env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_until(lambda: _listens(process, log), "the REST daemon listens", START_LIMIT_S)
        yield Restd(address, process.pid, token)
    finally:
        process.terminate()
        process.wait(START_LIMIT_S)


def _listens(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        raise CannotMeasure(f"penstock restd ended with {process.returncode}: {log.read_text()[-500:]}")
    return "listening on" in log.read_text()


def new_token(cluster: Local, lifespan_s: int) -> str:
    """A token of the user; those with other lifetimes are other callers."""
    return cluster.run("scontrol", "token", f"lifespan={lifespan_s}").strip().partition("=")[2]


@asynccontextmanager
async def connected(restd: Restd) -> AsyncIterator[RawHttp]:
    """A connection, closed with the block."""
    client = await RawHttp.open(restd.address, restd.token)
    try:
        yield client
    finally:
        client.close()


# ---- lists


class ListFigures(NamedTuple):
    """A list of some thousand jobs: the first answer, later ones, and that nothing has changed."""

    first_ms: float
    list_ms: float
    list_mb: float
    short_ms: float
    poll_ms: float
    poll_restd_cpu_ms: float
    poll_controller_cpu_ms: float


def lists(cluster: Local, restd: Restd, jobs: int, runs: int) -> ListFigures:
    """GET of all jobs, of the same in short, and with If-None-Match."""
    asyncio.run(listings.fill(cluster, jobs))
    return asyncio.run(_lists(cluster, restd, runs))


async def _lists(cluster: Local, restd: Restd, runs: int) -> ListFigures:
    controller = cluster.controller_pid()
    async with connected(restd) as client:
        await client.ask("GET", PING)
        began = time.perf_counter()
        first = await client.ask("GET", JOBS)
        first_ms = 1000 * (time.perf_counter() - began)
        if first.status != 200 or "etag" not in first.headers:
            raise CannotMeasure(f"GET {JOBS}: {first.status}, tag {first.headers.get('etag')}")
        whole = [await _timed_ms(client, JOBS, 200) for _ in range(runs)]
        short = [await _timed_ms(client, "/penstock/v1/jobs", 200) for _ in range(runs)]
        known = f"If-None-Match: {first.headers['etag']}\r\n"
        before = cpu_s(restd.pid), cpu_s(controller)
        polls = [await _timed_ms(client, JOBS, 304, known) for _ in range(10 * runs)]
        after = cpu_s(restd.pid), cpu_s(controller)
    used = [1000 * (late - early) / len(polls) for early, late in zip(before, after, strict=True)]
    return ListFigures(
        first_ms,
        statistics.median(whole),
        first.size / 2**20,
        statistics.median(short),
        statistics.median(polls),
        *used,
    )


async def _timed_ms(client: RawHttp, path: str, status: int, more: str = "") -> float:
    began = time.perf_counter()
    answer = await client.ask("GET", path, more=more)
    took = time.perf_counter() - began
    if answer.status != status:
        raise CannotMeasure(f"GET {path}: {answer.status} instead of {status}")
    return 1000 * took


class MixedFigures(NamedTuple):
    """Lists of jobs of many kinds: a daemon's first one, with the CPU of daemon and controller, and its later ones; medians of
    some daemons."""

    first_ms: float
    list_ms: float
    mb: float
    restd_cpu_ms: float
    controller_cpu_ms: float


def mixed_lists(cluster: Local, jobs: int, daemons: int) -> MixedFigures:
    """GET of all jobs: held, with a begin time, waiting, running and ended ones, of MIXED_KINDS sizes and limits."""
    asyncio.run(_fill_mixed(cluster, jobs))
    controller = cluster.controller_pid()
    found = []
    for _ in range(daemons + 1):  # the first one warms the controller
        with daemon(cluster) as restd:
            found.append(asyncio.run(_mixed_lists(restd, controller)))
    return MixedFigures(*(statistics.median(values) for values in zip(*found[1:], strict=True)))


async def _mixed_lists(restd: Restd, controller: int) -> MixedFigures:
    async with connected(restd) as client:
        await client.ask("GET", PING)
        before = cpu_s(restd.pid), cpu_s(controller)
        began = time.perf_counter()
        answer = await client.ask("GET", JOBS)
        took_ms = 1000 * (time.perf_counter() - began)
        after = cpu_s(restd.pid), cpu_s(controller)
        if answer.status != 200:
            raise CannotMeasure(f"GET {JOBS}: {answer.status}")
        later = [await _timed_ms(client, JOBS, 200) for _ in range(LATER_LISTS)]
    used = [1000 * (late - early) for early, late in zip(before, after, strict=True)]
    return MixedFigures(took_ms, statistics.median(later), answer.size / 2**20, *used)


async def _fill_mixed(cluster: Local, jobs: int) -> None:
    left = iter(range(jobs))
    ended: list[str] = []

    async def submit() -> None:
        async with AsyncClient.open(CALL_TIMEOUT_S, cluster=cluster.file()) as client:
            for number in left:
                request = _mixed(number)
                job_id = (await client.call("SubmitJob", request)).job_id
                if _share(number) == ENDED_SHARE:
                    ended.append(str(job_id))

    await asyncio.gather(*(submit() for _ in range(listings.SUBMITTERS)))
    async with AsyncClient.open(CALL_TIMEOUT_S, cluster=cluster.file()) as client:
        await client.call("CancelJobs", CancelJobsRequest(filter=JobFilter(ids=ended)))
        running = JobFilter(states=["RUNNING"])
        while not [page async for page in client.stream("ListJobs", ListJobsRequest(filter=running)) if page.jobs]:
            await asyncio.sleep(0.1)


def _share(number: int) -> int:
    return number // MIXED_KINDS % SHARES


def _mixed(number: int) -> SubmitJobRequest:
    request = held()
    kind, share = number % MIXED_KINDS, _share(number)
    job = request.job
    job.name = f"mixed-{number}"
    job.time_limit_s = 60 * (1 + kind)
    job.ntasks = 1 + kind % 7
    job.comment = f"kind {kind}"
    job.hold = share in (HELD_SHARE, ENDED_SHARE)
    if share == BEGIN_SHARE:
        job.begin_at_us = time.time_ns() // 1000 + 86_400 * 1_000_000
    request.spec.script = b"#!/bin/sh\nsleep 3600\n"
    return request


class StreamFigures(NamedTuple):
    """A list that is sent while it is made. `growth_mb`: of the daemon's memory, at its peak."""

    stream_s: float
    stream_mb: float
    growth_mb: float


def stream(cluster: Local, jobs: int) -> StreamFigures:
    """GET of a long queue: a cluster without jobs is stopped, filled, and its controller started alone."""
    cluster.run("penstock", "down", "--keep-jobs")
    fill(cluster.home / "ctld" / "penstock.db", load(str(cluster.home / "slurm.conf")).config, ENDED, jobs, ENDED)
    with restart.started(cluster), daemon(cluster) as restd:
        return asyncio.run(_stream(restd))


async def _stream(restd: Restd) -> StreamFigures:
    async with connected(restd) as client:
        await client.ask("GET", PING)
        before = rss_mb(restd.pid)
        began = time.perf_counter()
        answer = await client.ask("GET", JOBS)
        took = time.perf_counter() - began
    return StreamFigures(took, answer.size / 2**20, peak_mb(restd.pid) - before)


def peak_mb(pid: int) -> float:
    """The highest resident memory that a process has had, MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


# ---- idle clients


class IdleFigures(NamedTuple):
    """Clients that keep their connections open."""

    growth_mb: float
    cores: float
    ping_ms: float


def idle(restd: Restd, clients: int, seconds: float) -> IdleFigures:
    """Each has asked once."""
    return asyncio.run(_idle(restd, clients, seconds))


async def _idle(restd: Restd, clients: int, seconds: float) -> IdleFigures:
    before = rss_mb(restd.pid)
    made = [await RawHttp.open(restd.address, restd.token) for _ in range(clients)]
    try:
        for client in made:
            await client.ask("GET", PING)
        growth = rss_mb(restd.pid) - before
        used, began = cpu_s(restd.pid), time.perf_counter()
        await asyncio.sleep(seconds)
        cores = (cpu_s(restd.pid) - used) / (time.perf_counter() - began)
        pings = [await _timed_ms(client, PING, 200) for client in made]  # all are still served
    finally:
        for client in made:
            client.close()
    return IdleFigures(growth, cores, statistics.median(pings))


# ---- submissions


class TurnsFigures(NamedTuple):
    """Submissions by either way, milliseconds."""

    rest_p50: float
    rest_p99: float
    grpc_p50: float
    grpc_p99: float


def submissions(cluster: Local, restd: Restd, count: int) -> TurnsFigures:
    """So many of each, in turns."""
    return asyncio.run(_submissions(cluster, restd, count))


async def _submissions(cluster: Local, restd: Restd, count: int) -> TurnsFigures:
    job = {
        "name": "true",
        "current_working_directory": "/",
        "environment": ENVIRONMENT,
        "standard_output": "/dev/null",
        "hold": True,
    }
    body = json.dumps({"job": job | {"script": SCRIPT}}).encode()
    proof = ((USER_TOKEN_KEY, restd.token),)
    rest: list[float] = []
    grpc: list[float] = []
    async with connected(restd) as client, AsyncClient.open(CALL_TIMEOUT_S, cluster=cluster.file()) as direct:
        for number in range(count + count // 10):  # the first ones warm both
            began = time.perf_counter()
            answer = await client.ask("POST", SUBMIT, body)
            between = time.perf_counter()
            await direct.call("SubmitJob", held(), proof=proof)
            ended = time.perf_counter()
            if answer.status != 200:
                raise CannotMeasure(f"POST {SUBMIT}: {answer.status}")
            if number >= count // 10:
                rest.append(1000 * (between - began))
                grpc.append(1000 * (ended - between))
    return TurnsFigures(statistics.median(rest), _p99(rest), statistics.median(grpc), _p99(grpc))


def held() -> SubmitJobRequest:
    """The same job for gRPC."""
    return SubmitJobRequest(
        request_key=new_request_key(time.time_ns() // 1000, os.urandom(16)),
        job=JobRequest(name="true", work_dir=b"/", std_out=b"/dev/null", hold=True),
        spec=JobSpec(script=SCRIPT.encode(), environment=[one.encode() for one in ENVIRONMENT]),
    )


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


# ---- watchers


class WatchFigures(NamedTuple):
    """Changes and who reads them. `controller_percent`: of a core, beyond what the changes cost without watchers."""

    changes_per_s: float
    controller_percent: float
    controller_alone_percent: float
    restd_cores: float
    delivered_per_s: float
    dropped: int


def watchers(cluster: Local, restd: Restd, count: int, seconds: float) -> WatchFigures:
    """Alone first, then with so many watchers."""
    tokens = [new_token(cluster, 4000 + number) for number in range(-(-count // WATCHERS_OF_A_TOKEN))]
    return asyncio.run(_watchers(cluster, restd, [tokens[number % len(tokens)] for number in range(count)], seconds))


async def _watchers(cluster: Local, restd: Restd, tokens: list[str], seconds: float) -> WatchFigures:
    controller = cluster.controller_pid()
    alone, _ = await _changes(cluster, controller, seconds)
    streams = [await RawHttp.open(restd.address, token) for token in tokens]
    seen = [0] * len(streams)

    async def read(number: int) -> None:
        while data := await streams[number].some():
            seen[number] += data.count(b"event: job")

    for stream in streams:
        stream.send("GET", EVENTS)
        status, _ = await stream.head()
        if status != 200:
            raise CannotMeasure(f"GET {EVENTS}: {status}")
    readers = [asyncio.create_task(read(number)) for number in range(len(streams))]
    used = cpu_s(restd.pid)
    watched, per_s = await _changes(cluster, controller, seconds)
    restd_cores = (cpu_s(restd.pid) - used) / seconds
    dropped = sum(one.done() for one in readers)
    for one in readers:
        one.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    for stream in streams:
        stream.close()
    return WatchFigures(per_s, 100 * (watched - alone), 100 * alone, restd_cores, sum(seen) / seconds, dropped)


async def _changes(cluster: Local, controller: int, seconds: float) -> tuple[float, float]:
    """Submits and cancels; the cores that the controller used, and the changes per second."""
    used = cpu_s(controller)
    began = time.perf_counter()
    count = 0
    async with AsyncClient.open(CALL_TIMEOUT_S, cluster=cluster.file()) as client:
        while (now := time.perf_counter()) < began + seconds:
            if (early := began + count / PAIRS_PER_S - now) > 0:
                await asyncio.sleep(early)
            job_id = (await client.call("SubmitJob", held())).job_id
            await client.call("CancelJobs", CancelJobsRequest(filter=JobFilter(ids=[str(job_id)])))
            count += 1
    took = time.perf_counter() - began
    return (cpu_s(controller) - used) / took, 2 * count / took
