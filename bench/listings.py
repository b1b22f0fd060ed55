"""Measures the cost of listings of a long queue, for the commands and for the controller.

    python -m bench listing

4,000 jobs that are held, then an array of 100,000 tasks beside them: `squeue` of the jobs, `squeue --json` of them,
`squeue -r` of the array, each as a command of its own. Then POLLERS clients, each with a connection of its own, ask
squeue's question every POLL_S, while one more submits all the time: what the pollers take of the controller's CPU, and
how long a submission waits among them.
"""

import asyncio
import os
import statistics
import time
from typing import NamedTuple

from bench.local import Local
from bench.measure import Times, cpu_s, timed
from penstock.aclient import AsyncClient
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest, SubmitJobRequest
from penstock.values.requestkey import new_request_key

JOBS = 4_000
SUBMITTERS = 16
TASKS = 100_000
POLLERS = 200
POLL_S = 2.0
TIMEOUT_S = 30.0
#: What plain squeue asks for (cli/squeue.py), in its order.
COLUMNS = (
    "job_id", "array_job_id", "array_task_id", "array_throttle", "het_job_id", "het_offset", "partition",
    "request.name", "user_name", "user_id", "state", "start_at_us", "end_at_us", "suspended_us", "suspended_at_us",
    "nodes", "node_list", "reason", "reason_detail", "priority", "array_tasks",
)  # fmt: skip
STATES = ("COMPLETING", "CONFIGURING", "PENDING", "RUNNING", "SUSPENDED")


class ListingFigures(NamedTuple):
    """Commands, and a controller that is polled."""

    squeue: Times
    json: Times
    expanded: Times
    polls_per_s: float
    poll_median_ms: float
    controller_cores: float
    submit_median_ms: float
    submit_p99_ms: float


def measure(cluster: Local, jobs: int, tasks: int, runs: int, seconds: float) -> ListingFigures:
    """All of it, on a cluster without jobs."""
    asyncio.run(fill(cluster, jobs))
    squeue = timed(cluster.command("squeue"), runs, cluster.env)
    json = timed(cluster.command("squeue", "--json"), runs, cluster.env)
    polled = asyncio.run(_poll(cluster, seconds))
    words = ["--parsable", "--hold", f"--array=0-{tasks - 1}", "-o", "/dev/null", "-D", "/", "--wrap", "true"]
    array = cluster.run("sbatch", *words).strip()
    expanded = timed(cluster.command("squeue", "-r", "-j", array), runs, cluster.env)
    return ListingFigures(squeue, json, expanded, *polled)


async def fill(cluster: Local, jobs: int) -> None:
    """Submits so many held jobs, from several clients."""
    left = iter(range(jobs))

    async def submit() -> None:
        async with AsyncClient.open(TIMEOUT_S, cluster=cluster.file()) as client:
            for number in left:
                await client.call("SubmitJob", _held(f"job-{number}"))

    await asyncio.gather(*(submit() for _ in range(SUBMITTERS)))


def _held(name: str) -> SubmitJobRequest:
    job = JobRequest(name=name, work_dir=b"/", std_out=b"/dev/null", ntasks=1, cpus_per_task=1, hold=True)
    key = new_request_key(time.time_ns() // 1000, os.urandom(16))
    return SubmitJobRequest(request_key=key, job=job, spec=JobSpec(script=b"#!/bin/sh\ntrue\n"))


async def _poll(cluster: Local, seconds: float) -> tuple[float, float, float, float, float]:
    pid = cluster.controller_pid()
    polls: list[float] = []
    submits: list[float] = []
    question = ListJobsRequest(filter=JobFilter(states=STATES), columns=COLUMNS, hide_hidden=True)

    async def poll(client: AsyncClient, first_s: float) -> None:
        await asyncio.sleep(first_s)
        while (began := time.perf_counter()) < until:
            async for _ in client.stream("ListJobs", question):
                pass
            polls.append(time.perf_counter() - began)
            await asyncio.sleep(max(0.0, began + POLL_S - time.perf_counter()))

    async def submit(client: AsyncClient) -> None:
        while (began := time.perf_counter()) < until:
            await client.call("SubmitJob", _held("more"))
            submits.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)

    clients = [AsyncClient.open(TIMEOUT_S, cluster=cluster.file()) for _ in range(POLLERS + 1)]
    try:
        used, begun = cpu_s(pid), time.perf_counter()
        until = begun + seconds
        await asyncio.gather(
            submit(clients[0]), *(poll(client, i * POLL_S / POLLERS) for i, client in enumerate(clients[1:]))
        )
        took = time.perf_counter() - begun
        used = cpu_s(pid) - used
    finally:
        for client in clients:
            await client.close()
    submits.sort()
    return (
        len(polls) / took, 1000 * statistics.median(polls), used / took, 1000 * statistics.median(submits),
        1000 * submits[int(len(submits) * 0.99)],
    )  # fmt: skip
