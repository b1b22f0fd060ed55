"""The load generator of bench/ speaks the node protocol: a real controller, five hollow nodes, fifty jobs, no process."""

import asyncio
import contextlib
import json
from typing import Any

from patience import ANSWER_S

from bench.hollow import Steps, serve, settings
from penstock.v1 import common_pb2, controller_pb2
from tests.rpc.clusterkit import Site, jobs_of, submit, wait_for

NODES, JOBS = 5, 50


def make_site(folder) -> Site:
    site = Site(folder, nodes=NODES, extra="GresTypes=gpu\n")
    site.conf.write_text(site.conf.read_text().replace("CPUs=4 ", "CPUs=4 Gres=gpu:2 "))
    return site


@contextlib.asynccontextmanager
async def hollow(site: Site, has_gpus: bool = False):
    """Hollow nodes in this process, all registered; what they count, and where to tell them something."""
    words, steps = asyncio.StreamReader(), Steps()
    said: asyncio.Queue[Any] = asyncio.Queue()
    serving = asyncio.create_task(serve(settings(site.conf, 100, has_gpus), steps, words, said.put_nowait))
    try:
        async with asyncio.timeout(ANSWER_S):
            assert json.loads(await said.get()) == {"registered": NODES}
        yield steps, words
        words.feed_eof()
        async with asyncio.timeout(ANSWER_S):
            await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def until(true) -> None:
    async with asyncio.timeout(ANSWER_S):
        while not true():
            await asyncio.sleep(0.01)


def test_fifty_jobs_complete_on_five_hollow_nodes(tmp_path):
    site = make_site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client, hollow(site) as (steps, _):
            gpu = [common_pb2.GresCount(name="gpu", count=1)]
            script = b"#!/bin/sh\nsleep 0.2\n"
            job = {"script": script, "gres_per_node": gpu, "time_limit_s": 60}
            ids = sorted(await asyncio.gather(*(submit(client, **job) for _ in range(JOBS))))
            for job_id in ids:
                await wait_for(client, job_id, "COMPLETED")
            found = await jobs_of(client)
            assert [(job.job_id, job.attempt, job.exit.code) for job in found] == [(job_id, 0, 0) for job_id in ids]
            assert {job.node_list for job in found} == {f"n{i}" for i in range(1, NODES + 1)}
            assert (steps.began, steps.ended, len(steps.running)) == (JOBS, JOBS, 0)
            controller.runtime.core.check()

    asyncio.run(story())


def test_steps_end_when_told_to(tmp_path):
    """By the controller with a signal, by the words `ends N` without one."""
    site = make_site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, hollow(site) as (steps, words):
            script = b"#!/bin/sh\nsleep 10000\n"
            first, second = [await submit(client, script=script, nodes_min=nodes, nodes_max=nodes) for nodes in (1, 3)]
            await wait_for(client, second, "RUNNING")
            await until(lambda: steps.began == 2)
            which = controller_pb2.JobFilter(ids=[str(first)])
            await client.call("CancelJobs", controller_pb2.CancelJobsRequest(filter=which))
            cancelled = await wait_for(client, first, "CANCELLED")
            assert cancelled.exit.signal == 15
            await until(lambda: steps.ended == 1)
            words.feed_data(b"ends 50\n")
            assert (await wait_for(client, second, "COMPLETED")).nodes == 3
            assert (steps.began, steps.ended) == (2, 2)

    asyncio.run(story())


def test_gpus_say_what_they_do_and_jobs_get_them(tmp_path):
    site = make_site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, hollow(site, has_gpus=True):
            async with asyncio.timeout(ANSWER_S):
                while True:
                    said = await client.call("ListGpuReadings", controller_pb2.ListGpuReadingsRequest())
                    if len(said.readings) == 2 * NODES:
                        break
                    await asyncio.sleep(0.01)
            assert len({one.uuid for one in said.readings}) == 2 * NODES
            assert all(0 <= one.utilization_percent <= 100 and one.power_w > 0 for one in said.readings)
            gpu = [common_pb2.GresCount(name="gpu", count=2)]
            job_id = await submit(client, script=b"#!/bin/sh\nsleep 10000\n", gres_per_node=gpu, time_limit_s=60)
            await wait_for(client, job_id, "RUNNING")
            listed = await client.call("ListNodes", controller_pb2.ListNodesRequest(gpus=True))
            held = [gpu.uuid for node in listed.nodes for gpu in node.gpus if job_id in gpu.job_ids]
            assert len(held) == 2 and set(held) <= {one.uuid for one in said.readings}

    asyncio.run(story())
