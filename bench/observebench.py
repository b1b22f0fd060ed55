"""What it costs to be seen: profiles of 10,000 jobs, and a cluster with everything on against one with everything off.

    python -m bench.observebench profiles [--jobs 10000] [--gpus 1]
    python -m bench.observebench everything [--rounds 5] [--parts metrics,traces,profiles,json] [--one-in 1] [--per-s 10]

`profiles`: the jobs run on hollow nodes and end at a fixed rate, once without and once with a profile of an hour each; the
difference of the controller's CPU time is theirs, and what a job of an hour costs a second follows.

`everything`: two private clusters, `on` and `off`, measured in turns; the one that begins alternates. On are metrics with
scrapes of the controller and of the node, traces to a collector that takes them, profiles, the watch for jobs
that hang, and JSON lines; or some of these. Figures are CPU time: wall time on a shared machine says little.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

from bench import cluster, hollow
from bench.livecluster import LiveSite, command_nodes
from bench.livecluster import cluster as live_cluster
from bench.local import Local, private_cluster
from bench.measure import cpu_s, free_port, rss_mb
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobRequest

NODES: Final = 160  # of bench/schedqueue.py's size: 64 CPUs and more each
ENDS_PER_S: Final = 400
CPUS, TASKS = 128, 600
QUEUE_NODES: Final = 1
SUBMIT_S: Final = 2.0
HOUR_S: Final = 3600
_PAUSE_S: Final = 0.2
_LIMIT_S: Final = 300.0
OFF: Final = "AcctGatherProfileType=acct_gather_profile/none", "PenstockHangAfter=0"
PAGES: Final = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler", "penstock")


class Asked(NamedTuple):
    """What `everything` has on, and how often it is measured."""

    rounds: int
    parts: set[str]
    scrape_s: float
    one_in: int
    per_s: int


# ---- profiles ------------------------------------------------------------------------------------------------------


async def profiles(jobs: int, gpus: int) -> dict[str, float]:
    """The figures of profiles."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        site = LiveSite(Path(folder), NODES)
        async with live_cluster(site) as (controller, nodes):
            used: dict[str, list[float]] = {"none": [], "with": []}
            before_mb = 0.0
            for kind in ("none", "none", "with"):  # the first one pays for caches
                before_mb = rss_mb(controller.pid)
                await command_nodes(nodes, f"profile {gpus if kind == 'with' else 'none'}")
                used[kind].append(await _ended(site, controller.pid, nodes, jobs))
            growth_mb = rss_mb(controller.pid) - before_mb
    each_ms = 1000 * (used["with"][-1] - used["none"][-1]) / jobs
    return {
        "profile_bytes": len(hollow.an_hour(gpus)),
        "end_cpu_ms": 1000 * used["none"][-1] / jobs,
        "profile_cpu_ms": each_ms,
        "core_percent_of_10000_jobs_of_an_hour": 100 * each_ms / 1000 * 10_000 / HOUR_S,
        "growth_mb": growth_mb,
    }


async def _ended(site: LiveSite, pid: int, nodes: asyncio.subprocess.Process, jobs: int) -> float:
    """CPU time of the controller while so many running jobs end."""
    start = (await command_nodes(nodes, "ends 0"))["began"]
    ended = (await command_nodes(nodes, "stats"))["ended"]
    client = site.client()
    job = JobRequest(name="j", work_dir=b"/", std_out=b"/dev/null", array=f"1-{jobs}", mem_per_node_mb=1)
    spec = JobSpec(script=b"#!/bin/sh\nsleep 100000\n")
    try:
        await client.call("SubmitJob", SubmitJobRequest(request_key=cluster.a_key(), job=job, spec=spec))
        await _until(nodes, "began", start + jobs)
        before = cpu_s(pid)
        await command_nodes(nodes, f"ends {ENDS_PER_S}")
        await _until(nodes, "ended", ended + jobs)
        await asyncio.sleep(2)  # the last reports and their commits
        return cpu_s(pid) - before
    finally:
        await client.close()


async def _until(nodes: asyncio.subprocess.Process, what: str, number: int) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while (await command_nodes(nodes, "stats"))[what] < number:
            await asyncio.sleep(_PAUSE_S)


# ---- everything ----------------------------------------------------------------------------------------------------


class _Collector(BaseHTTPRequestHandler):
    """Takes spans, and forgets them."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def _collector() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def _scraped(urls: list[str], every_s: float) -> Iterator[None]:
    """Reads these pages at that interval, as OpenMetrics."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(every_s):
            for url in urls:
                request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text"})
                urllib.request.urlopen(request, timeout=30).read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _with_conf(local: Local, *lines: str) -> None:
    """Adds lines to slurm.conf, and starts the daemons again."""
    local.run("penstock", "down")
    conf = local.home / "slurm.conf"
    conf.write_text(conf.read_text() + "".join(f"{line}\n" for line in lines))
    local.run("penstock", "up")


def _node_metrics(local: Local) -> Iterator[str]:
    for path in sorted((local.home / "log").glob("n*.log")):
        for text in path.read_text().splitlines():
            if text.startswith("{") and (line := json.loads(text))["event"] == "metrics_listening":
                yield f"http://127.0.0.1:{line['port']}/metrics"


def everything(asked: Asked) -> dict[str, float]:
    """The figures of both clusters: medians, and the median of each round's quotient in per cent."""
    with ExitStack() as stack:
        url, port = stack.enter_context(_collector()), free_port()
        on, off = (stack.enter_context(private_cluster(QUEUE_NODES, CPUS)) for _ in range(2))
        _with_conf(off, *OFF)
        lines = {
            "metrics": ("MetricsType=metrics/openmetrics", f"PenstockMetricsPort={port}"),
            "traces": (
                f"PenstockTraceUrl={url}",
                f"PenstockTraceOneIn={asked.one_in}",
                f"PenstockTracesPerSecond={asked.per_s}",
            ),
            "json": ("PenstockLogFormat=json",),
        }
        _with_conf(on, *(line for part in lines if part in asked.parts for line in lines[part]))
        if "profiles" not in asked.parts:
            _with_conf(on, *OFF)
        urls = [f"http://127.0.0.1:{port}/metrics/{page}" for page in PAGES] if "metrics" in asked.parts else []
        urls += _node_metrics(on)
        found: dict[str, list[tuple[float, float]]] = {}
        with _scraped(urls, asked.scrape_s):
            for local in (off, on):
                cluster.run_array(local, cluster.WARM_UP_TASKS)
            _in_turns(asked.rounds, off, on, _array, found)
            for local in (off, on):
                cluster.block(local, QUEUE_NODES)
            _in_turns(asked.rounds, off, on, _submits, found)
    figures: dict[str, float] = {}
    for name, pairs in found.items():
        figures[f"{name}_off"], figures[f"{name}_on"] = (statistics.median(side) for side in zip(*pairs, strict=True))
        figures[f"{name}_more_percent"] = statistics.median(100 * (b / a - 1) for a, b in pairs)
    return figures


def _in_turns(
    rounds: int,
    off: Local,
    on: Local,
    measure: Callable[[Local], dict[str, float]],
    found: dict[str, list[tuple[float, float]]],
) -> None:
    for number in range(rounds):
        first, second = (off, on) if number % 2 else (on, off)
        one, other = measure(first), measure(second)
        of_off, of_on = (one, other) if number % 2 else (other, one)
        for name, value in of_off.items():
            found.setdefault(name, []).append((value, of_on[name]))


def _array(local: Local) -> dict[str, float]:
    before = local.cpu_s()
    rate = cluster.run_array(local, TASKS)
    time.sleep(1)  # spans, profiles and lines that follow the last end
    controller, node, steps = (1000 * (b - a) / TASKS for a, b in zip(before, local.cpu_s(), strict=True))
    sums = {"array_controller_cpu_ms": controller, "array_node_cpu_ms": node, "array_steps_cpu_ms": steps}
    return sums | {"array_all_cpu_ms": controller + node + steps, "array_jobs_per_s": rate}


def _submits(local: Local) -> dict[str, float]:
    found = cluster.submit_to_full(local, SUBMIT_S)
    local.run("scancel", "--state=PENDING")
    return {"submit_controller_cpu_ms": found.controller_ms, "submits_per_s": found.per_s}


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.observebench", description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=("profiles", "everything"))
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default="metrics,traces,profiles,json")
    parser.add_argument("--scrape-s", type=float, default=15.0)
    parser.add_argument("--one-in", type=int, default=1, help="trace one job in so many")
    parser.add_argument("--per-s", type=int, default=10, help="trace at most so many a second, 0 = no limit")
    asked = parser.parse_args()
    if asked.part == "profiles":
        figures = asyncio.run(profiles(asked.jobs, asked.gpus))
    else:
        figures = everything(
            Asked(asked.rounds, set(asked.parts.split(",")), asked.scrape_s, asked.one_in, asked.per_s)
        )
    for name, value in figures.items():
        print(f"{name:42} {value:10.3f}")


if __name__ == "__main__":
    main()
