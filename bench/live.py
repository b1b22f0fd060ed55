"""A controller under load: 1,000 hollow nodes, 12,000 GPU jobs, and the latency of its callers, idle and during full
passes.

    python -m bench.live [--seconds 10] [--jobs 12000] [--nodes 1000] [--out FILE]      (`make bench-live`)

One machine, three processes: the controller (its real store with fsync), the hollow nodes, and this one as the clients.
The jobs are those of bench/schedqueue.py (seed 7); some hundred start, the rest stays pending. Then, in each phase, CALLERS
callers with a connection each do one thing for some seconds: submit (a job that will wait), ask for one job, ask for one
account's jobs (about 120 of all), cancel what was submitted.

    idle     no full pass, nothing ends (bf_interval is an hour)
    burner   the same, and another process takes as much CPU as it can get: the cost of a pass to callers through CPU
    contention alone ends     no full pass; steps end all the time, and others start in their place
    passes   steps end all the time, and full passes run one after the other (bf_interval=1)

In `passes`, a call counts as *during* a pass when it began while one ran (calls that overlap one would be a choice of
the long ones), and the others are *between*: both saw the same machine. Fewer than CALLS_LEAST calls give no figures.
Before the first phase the controller is left alone for some seconds: what it uses then is the nodes' heartbeats.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.livecluster import NO_PASSES_S, PASSES_S, START_LIMIT_S, LiveSite, Pass, cluster, command_nodes, process
from bench.measure import CannotMeasure, cpu_s, rss_mb
from bench.report import machine
from bench.schedqueue import CPUS_A_GPU, MEM_MB_A_GPU, NODE_CPUS, NODE_GPUS, NODE_MEM_MB, generate
from penstock.aclient import AsyncClient
from penstock.v1.common_pb2 import GresCount, JobRequest, JobSpec
from penstock.v1.controller_pb2 import (
    CancelJobsRequest,
    JobFilter,
    ListJobsRequest,
    ReconfigureRequest,
    SubmitJobRequest,
)
from penstock.values.requestkey import new_request_key

OUT = Path(__file__).parent / "out" / "live.json"
CALLERS = 8
SUBMITTERS = 64
ENDS_PER_S = 20.0
ACCOUNTS = 100
#: A p99 of fewer is their longest.
CALLS_LEAST = 100
REST_S = 3.0
#: Far longer than a run: steps run until the load generator ends them.
SCRIPT = b"#!/bin/sh\nsleep 100000\n"
Call = tuple[int, int]  # begin and end, ns


def queue(jobs: int) -> list[SubmitJobRequest]:
    """The generator's jobs as submissions."""
    made = generate(jobs)
    return [
        submission(number, int(gpus), int(nodes), int(limit))
        for number, (gpus, nodes, limit) in enumerate(zip(made.gpus, made.nodes, made.limit_min, strict=True))
    ]


def submission(number: int, gpus: int, nodes: int, limit_min: int) -> SubmitJobRequest:
    """One job: several nodes are taken whole."""
    whole = nodes > 1
    job = JobRequest(
        name=f"job-{number}", account=f"project{number % ACCOUNTS}", work_dir=b"/tmp", std_out=b"/dev/null",
        nodes_min=nodes, nodes_max=nodes, ntasks=nodes, cpus_per_task=NODE_CPUS if whole else CPUS_A_GPU * gpus,
        mem_per_node_mb=NODE_MEM_MB if whole else MEM_MB_A_GPU * gpus, time_limit_s=60 * limit_min,
        gres_per_node=[GresCount(name="gpu", count=gpus)],
    )  # fmt: skip
    environment = [f"VARIABLE_{n}=value-{n}".encode() for n in range(30)]
    key = new_request_key(time.time_ns() // 1000, os.urandom(16))
    return SubmitJobRequest(request_key=key, job=job, spec=JobSpec(script=SCRIPT, environment=environment))


async def submit_all(clients: list[AsyncClient], requests: list[SubmitJobRequest]) -> tuple[float, list[int]]:
    """Seconds until all are acknowledged, and the ids."""
    left = iter(requests)
    ids: list[int] = []

    async def work(client: AsyncClient) -> None:
        for request in left:
            ids.append((await client.call("SubmitJob", request)).job_id)

    began = time.perf_counter()
    await asyncio.gather(*map(work, clients))
    return time.perf_counter() - began, ids


_Act = Callable[[AsyncClient], Awaitable[bool]]  # False = there is nothing left to do


class Acts:
    """The actions of callers. Jobs that are submitted in a phase are cancelled in the same phase."""

    def __init__(self, ids: list[int]) -> None:
        self._asked = ids
        self._turn = 0
        self._new: list[int] = []

    def by_name(self) -> dict[str, _Act]:
        """In the order in which they are measured."""
        return {
            "submit": self.submit,
            "query_job": self.query,
            "query_account": self.query_account,
            "cancel": self.cancel,
        }

    async def submit(self, client: AsyncClient) -> bool:
        """A job of a whole node and two days: it waits behind all others."""
        self._turn += 1
        reply = await client.call("SubmitJob", submission(1_000_000 + self._turn, NODE_GPUS, 1, 2880))
        self._new.append(reply.job_id)
        return True

    async def cancel(self, client: AsyncClient) -> bool:
        """The last one that is left of those."""
        if not self._new:
            return False
        which = JobFilter(ids=[str(self._new.pop())])
        await client.call("CancelJobs", CancelJobsRequest(filter=which))
        return True

    async def query(self, client: AsyncClient) -> bool:
        """One job, as `squeue -j`."""
        self._turn += 1
        await self._list(client, JobFilter(ids=[str(self._asked[self._turn * 7919 % len(self._asked)])]))
        return True

    async def query_account(self, client: AsyncClient) -> bool:
        """One account's jobs, as `squeue -A`: which scans all rows."""
        self._turn += 1
        await self._list(client, JobFilter(accounts=[f"project{self._turn % ACCOUNTS}"]))
        return True

    async def _list(self, client: AsyncClient, which: JobFilter) -> None:
        async for _ in client.stream("ListJobs", ListJobsRequest(filter=which)):
            pass


async def call_for(clients: list[AsyncClient], act: _Act, seconds: float) -> list[Call]:
    """Each client does it again and again."""
    until = time.monotonic_ns() + int(seconds * 1e9)
    calls: list[Call] = []

    async def work(client: AsyncClient) -> None:
        while (begin := time.monotonic_ns()) < until:
            if not await act(client):
                return
            calls.append((begin, time.monotonic_ns()))

    await asyncio.gather(*map(work, clients))
    return calls


def during(calls: list[Call], passes: list[Pass]) -> list[Call]:
    """Calls that began while a pass ran."""
    return [call for call in calls if any(begin <= call[0] < end for begin, end, _ in passes)]


class _Seen(NamedTuple):
    """The latencies of one kind of call."""

    calls: int
    per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    controller_cpu_ms: float  # for each call, with all concurrent work


def seen(calls: list[Call], controller_s: float) -> _Seen | None:
    """The figures of calls; None for too few."""
    if len(calls) < CALLS_LEAST:
        return None
    times = sorted((end - begin) / 1e6 for begin, end in calls)
    took_s = (max(end for _, end in calls) - min(begin for begin, _ in calls)) / 1e9
    return _Seen(
        len(times), len(times) / took_s, statistics.median(times), times[int(len(times) * 0.99)], times[-1],
        1000 * controller_s / len(times),
    )  # fmt: skip


class Phase(NamedTuple):
    """One phase's figures by act; `during` only of calls that began while a pass ran, `between` of the others."""

    seen: dict[str, _Seen | None]
    between: dict[str, _Seen | None]
    during: dict[str, _Seen | None]
    passes: list[Pass]
    held: list[tuple[float, str]]
    controller_cpu: float


async def phase(site: LiveSite, pid: int, clients: list[AsyncClient], ids: list[int], seconds: float) -> Phase:
    """All acts, one after the other."""
    began, used = time.monotonic_ns(), cpu_s(pid)
    calls: dict[str, list[Call]] = {}
    cpu: dict[str, float] = {}
    for name, act in Acts(ids).by_name().items():
        before = cpu_s(pid)
        calls[name] = await call_for(clients, act, seconds)
        cpu[name] = cpu_s(pid) - before
    ended = time.monotonic_ns()
    passes = site.passes(began)
    return Phase(
        {name: seen(found, cpu[name]) for name, found in calls.items()},
        {name: seen(sorted({*found} - {*during(found, passes)}), 0.0) for name, found in calls.items()},
        {name: seen(during(found, passes), 0.0) for name, found in calls.items()},
        passes, site.held(began, ended), (cpu_s(pid) - used) / ((ended - began) / 1e9),
    )  # fmt: skip


async def run(site: LiveSite, jobs: int, seconds: float, names: list[str]) -> dict[str, Any]:
    """Everything; the figures."""
    async with cluster(site) as (controller, nodes):
        clients = [site.client() for _ in range(SUBMITTERS)]
        try:
            took_s, ids = await submit_all(clients, queue(jobs))
            for client in clients[CALLERS:]:
                await client.close()
            del clients[CALLERS:]
            figures: dict[str, Any] = {"live_queue_s": took_s, "live_queue_submits_per_s": jobs / took_s}
            figures["live_started"] = (await command_nodes(nodes, "stats"))["running"]
            used = cpu_s(controller.pid)
            await asyncio.sleep(REST_S)
            figures["live_nodes_controller_cpu_cores"] = (cpu_s(controller.pid) - used) / REST_S
            found: dict[str, Phase] = {}
            for name in names:
                print(f"{name} ...", file=sys.stderr, flush=True)
                async with load_around(site, nodes, clients[0], name):
                    found[name] = await phase(site, controller.pid, clients, ids, seconds)
            figures["live_rss_mb"] = rss_mb(controller.pid)
            figures["live_pending"] = await _pending(clients[0])
            return figures | {"live_phases": found}
        finally:
            for client in clients:
                await client.close()


async def _pending(client: AsyncClient) -> int:
    pages = client.stream("ListJobs", ListJobsRequest(filter=JobFilter(states=["PENDING"])))
    return sum([len(page.jobs) async for page in pages])


@asynccontextmanager
async def load_around(
    site: LiveSite, nodes: asyncio.subprocess.Process, client: AsyncClient, name: str
) -> AsyncIterator[None]:
    """The background load of a phase."""
    await command_nodes(nodes, f"ends {ENDS_PER_S if name in ('ends', 'passes') else 0}")
    site.write_conf(PASSES_S if name == "passes" else NO_PASSES_S)
    await client.call("Reconfigure", ReconfigureRequest())
    if name == "passes":
        began = time.monotonic_ns()
        async with asyncio.timeout(START_LIMIT_S):
            while not site.passes(began):
                await asyncio.sleep(0.1)
    if name != "burner":
        yield
        return
    async with process("-c", "while True: pass", log=site.folder / "processes.log"):
        yield


PHASES = ["idle", "burner", "ends", "passes"]


def document(figures: dict[str, Any]) -> dict[str, Any]:
    """Flat figures for programs."""
    phases: dict[str, Phase] = figures.pop("live_phases")
    flat: dict[str, Any] = dict(figures)
    for name, found in phases.items():
        flat[f"live_{name}_controller_cpu_cores"] = found.controller_cpu
        flat[f"live_{name}_loop_held_max_ms"] = found.held[0][0] if found.held else 0.0
        for act in found.seen:
            kinds = {"": found.seen[act]}
            if name == "passes":
                kinds |= {"_between": found.between[act], "_during": found.during[act]}
            for suffix, one in kinds.items():
                for field, value in (one._asdict() if one else dict.fromkeys(_Seen._fields)).items():
                    flat[f"live_{name}_{act}{suffix}_{field}"] = value
    if "passes" in phases:
        took = [(end - begin) / 1e9 for begin, end, _ in phases["passes"].passes]
        flat |= {"live_full_passes": len(took), "live_full_pass_s": statistics.median(took) if took else None}
        flat["live_full_pass_max_s"] = max(took, default=None)
        flat["live_full_pass_rows"] = max((rows for _, _, rows in phases["passes"].passes), default=None)
        for act, one in phases["passes"].during.items():
            for base in (n for n in ("idle", "burner", "ends") if n in phases):
                of = phases[base].seen[act]
                flat[f"live_{act}_p99_during_to_{base}"] = one.p99_ms / of.p99_ms if one and of else None
            other = phases["passes"].between[act]
            flat[f"live_{act}_p99_during_to_between"] = one.p99_ms / other.p99_ms if one and other else None
    return flat


def show(phases: dict[str, Phase]) -> None:
    """A table."""
    print(f"{'':8} {'':14} {'calls/s':>8} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'CPU ms':>7}")
    for name, found in phases.items():
        for act in found.seen:
            rows = [(name, found.seen[act])]
            if name == "passes":
                rows += [("  between", found.between[act]), ("  in pass", found.during[act])]
            for label, one in rows:
                if one:
                    times = f"{one.p50_ms:7.1f} {one.p99_ms:7.1f} {one.max_ms:7.1f} {one.controller_cpu_ms:7.2f}"
                    print(f"{label:9} {act:13} {one.per_s:8,.0f} {times}")
    for name, found in phases.items():
        longest = ", ".join(f"{ms:.0f} ms {what}" for ms, what in found.held[:6])
        print(
            f"{name}: controller {found.controller_cpu:.2f} cores; the loop was held {len(found.held)} times: {longest}"
        )


def main() -> int:
    """0 when all was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.live", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=12_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each kind of call in each phase (%(default)s)")
    parser.add_argument("--phases", default=",".join(PHASES), help="which, in order (%(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the JSON goes (%(default)s)")
    asked = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory(prefix="penstock-live-", ignore_cleanup_errors=True) as folder:
        site = LiveSite(Path(folder), asked.nodes)
        try:
            figures = asyncio.run(run(site, asked.jobs, asked.seconds, asked.phases.split(",")))
        except CannotMeasure as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1
    show(figures["live_phases"])
    flat = document(figures)
    asked.out.parent.mkdir(exist_ok=True)
    asked.out.write_text(json.dumps({"machine": about, **flat}, indent=1) + "\n")
    for name, value in flat.items():
        if not name.startswith(tuple(f"live_{phase}_" for phase in PHASES)):
            print(f"{name:40} {value:,.3g}" if isinstance(value, float) else f"{name:40} {value}")
    print(f"written to {asked.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
