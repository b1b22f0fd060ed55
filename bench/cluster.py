"""Measures a whole cluster: an array of `true` from submit to committed end, one command at a time, and durable
submissions from many clients at once.

An array is timed from before `sbatch --wait` starts to its return, which comes after the last task's end has committed.
A submission is durable when its reply is there: the order rule of the controller. For these one job keeps the nodes
busy, so that submitted jobs wait, as in a full cluster, and cost a scheduling pass but no launch.
"""

import asyncio
import os
import statistics
import time
from typing import NamedTuple

from bench.local import Local
from bench.measure import CannotMeasure, Times, cpu_s, rss_mb, timed, wait_until
from penstock.aclient import AsyncClient
from penstock.client import Client
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobRequest
from penstock.values.requestkey import new_request_key

TRUE = "#!/bin/sh\ntrue\n"
#: A first array, unmeasured: it absorbs one-time costs.
WARM_UP_TASKS = 50
CLIENTS = 32
SUBMIT_TIMEOUT_S = 30.0
#: Submissions before the clock starts: connections and caches.
WARM_UP_S = 0.5
BIG_ARRAY = 100_000
BLOCK_LIMIT_S = 20.0


class ArrayFigures(NamedTuple):
    """An array of `true`: the median of the runs, and CPU time per task by who used it."""

    jobs_per_s: float
    runs: list[float]
    controller_ms: float
    nodes_ms: float
    steps_ms: float


def run_arrays(cluster: Local, tasks: int, runs: int) -> ArrayFigures:
    """Several arrays, one after the other."""
    run_array(cluster, WARM_UP_TASKS)
    before = cluster.cpu_s()
    rates = [run_array(cluster, tasks) for _ in range(runs)]
    used = [1000 * (b - a) / (tasks * runs) for a, b in zip(before, cluster.cpu_s(), strict=True)]
    return ArrayFigures(statistics.median(rates), rates, *used)


def run_array(cluster: Local, tasks: int) -> float:
    """Jobs per second of one array."""
    began = time.perf_counter()
    words = ["--parsable", "--wait", f"--array=1-{tasks}", "-o", "/dev/null", "-D", "/"]
    job_id = cluster.run("sbatch", *words, stdin=TRUE).strip()
    took = time.perf_counter() - began
    done = cluster.run("sacct", "-X", "-n", "-P", "-j", job_id, "-o", "State").split()
    if done != ["COMPLETED"] * tasks:
        raise CannotMeasure(f"array of {tasks}: {len(done)} records, {done.count('COMPLETED')} of them COMPLETED")
    return tasks / took


class CommandFigures(NamedTuple):
    """One command at a time on an idle cluster."""

    sbatch: Times
    squeue: Times
    sacct: Times
    scontrol: Times


def time_commands(cluster: Local, runs: int) -> CommandFigures:
    """Wall and CPU time of the most common commands."""
    return CommandFigures(
        timed(cluster.command("sbatch", "-o", "/dev/null", "--hold"), runs, cluster.env, TRUE),
        timed(cluster.command("squeue"), runs, cluster.env),
        timed(cluster.command("sacct", "-X", "-n", "-j", "1"), runs, cluster.env),
        timed(cluster.command("scontrol", "show", "job", "1"), runs, cluster.env),
    )


class SubmitFigures(NamedTuple):
    """Durable submissions. `client_cpu` and `controller_cpu` are cores, of the machine's few, that each side used."""

    per_s: float
    median_ms: float
    p99_ms: float
    client_cpu: float
    controller_cpu: float
    controller_ms: float


def submit_load(cluster: Local, seconds: float, nodes: int) -> SubmitFigures:
    """CLIENTS clients in one process, each with a connection of its own and a submission at a time, on full nodes."""
    blocker = block(cluster, nodes)
    found = submit_to_full(cluster, seconds)
    cluster.run("scancel", blocker)
    return found


def submit_to_full(cluster: Local, seconds: float) -> SubmitFigures:
    """The submissions of `submit_load`, where a job has all nodes already."""
    latencies, took, own_cpu, their_cpu = asyncio.run(_submit_load(cluster, cluster.controller_pid(), seconds))
    number = len(latencies)
    ordered = sorted(latencies)
    return SubmitFigures(
        number / took, 1000 * statistics.median(ordered), 1000 * ordered[int(number * 0.99)], own_cpu / took,
        their_cpu / took, 1000 * their_cpu / number,
    )  # fmt: skip


def block(cluster: Local, nodes: int) -> str:
    """Occupies all nodes, so that further jobs wait. Returns the job's id."""
    words = ["--parsable", "-o", "/dev/null", "-D", "/", "-N", str(nodes), "--exclusive", "--wrap", "sleep 600"]
    job_id = cluster.run("sbatch", *words).strip()
    running = ["-h", "-j", job_id, "-t", "R", "-o", "%i"]
    wait_until(lambda: bool(cluster.run("squeue", *running).strip()), "the job that takes all nodes", BLOCK_LIMIT_S)
    return job_id


async def _submit_load(cluster: Local, pid: int, seconds: float) -> tuple[list[float], float, float, float]:
    clients = [AsyncClient.open(SUBMIT_TIMEOUT_S, cluster=cluster.file()) for _ in range(CLIENTS)]
    try:
        await _submit_for(clients, WARM_UP_S)
        began = time.perf_counter()
        own = time.process_time()
        theirs = cpu_s(pid)
        latencies = await _submit_for(clients, seconds)
        return latencies, time.perf_counter() - began, time.process_time() - own, cpu_s(pid) - theirs
    finally:
        for client in clients:
            await client.close()


async def _submit_for(clients: list[AsyncClient], seconds: float) -> list[float]:
    until = time.perf_counter() + seconds
    latencies: list[float] = []

    async def submit(client: AsyncClient) -> None:
        while (began := time.perf_counter()) < until:
            await client.call("SubmitJob", _true())
            latencies.append(time.perf_counter() - began)

    await asyncio.gather(*map(submit, clients))
    return latencies


def a_key() -> str:
    """A fresh request key."""
    return new_request_key(time.time_ns() // 1000, os.urandom(16))


def _true(array: str = "") -> SubmitJobRequest:
    """The request of `sbatch` for a script with `true` and an environment of typical size."""
    environment = [f"VARIABLE_{number}=value-{number}".encode() for number in range(30)]
    return SubmitJobRequest(
        request_key=a_key(),
        job=JobRequest(name="true", work_dir=b"/", std_out=b"/dev/null", command="true.sbatch", array=array),
        spec=JobSpec(script=TRUE.encode(), environment=environment),
    )


class BigArrayFigures(NamedTuple):
    """An array of BIG_ARRAY tasks in one call."""

    accept_ms: float
    growth_mb: float


def big_array(cluster: Local, nodes: int) -> BigArrayFigures:
    """Time to the acknowledgement and growth of the controller; the array is cancelled before any of it can start."""
    blocker = block(cluster, nodes)
    pid = cluster.controller_pid()
    with Client.open(SUBMIT_TIMEOUT_S, cluster=cluster.file()) as client:
        first = client.call("SubmitJob", _true()).job_id  # makes the connection
        before, request = rss_mb(pid), _true(f"0-{BIG_ARRAY - 1}")
        began = time.perf_counter()
        job_id = client.call("SubmitJob", request).job_id
        took = time.perf_counter() - began
        growth = rss_mb(pid) - before
    cluster.run("scancel", str(job_id), str(first))
    cluster.run("scancel", blocker)
    return BigArrayFigures(1000 * took, growth)
