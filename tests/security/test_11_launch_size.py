"""Item 11: what a request may carry is bounded, and a launch that does not fit a message fails its job and nothing else."""

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from ctld.agents import link
from ctld.agents.launch import facts_of
from ctld.agents.stepmessages import step_plan
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import StepPart
from ctld.rpc.jobs import submission as wanted
from ctld.rpc.jobs.step_request import wanted_step
from ctld.rpc.nodelink import HELD_STEPS_MAX
from ctld.runtime.errors import BadRequest
from nodedaemon.launch import wire
from penstock.errors import PenstockError
from penstock.v1 import common_pb2, node_pb2, steps_pb2
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.rlimits import RLIMITS, check_rlimits
from tests.rpc.clusterkit import FakeNode, Site, submission, submit, wait_for


def run(story):
    asyncio.run(story())


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"RTPRIO": 99}, "'RTPRIO' is not one of AS, CORE"),
        ({"x" * 1_000_000: 1}, "is not one of"),
        ({"NOFILE": -2}, "NOFILE=-2 is neither"),
        ({"nofile": 5}, "'nofile' is not one of"),
    ],
)
def test_only_known_limits_are_taken_of_jobs_and_of_steps(limits, why):
    take: Any
    for take in (wanted.decode_submission, wanted_step):
        message: Any = common_pb2.JobRequest() if take is wanted.decode_submission else steps_pb2.StepSpec()
        message.rlimits.update(limits)
        with pytest.raises(BadRequest) as refused:
            take(message)
        assert refused.value.code == Code.INVALID_VALUE and len(refused.value.text) < 300
        assert why in refused.value.text or "the limit is" in refused.value.text


def test_all_known_limits_are_taken():
    limits = dict.fromkeys(RLIMITS, -1)
    assert wanted.decode_submission(common_pb2.JobRequest(rlimits=limits)).rlimits == tuple(sorted(limits.items()))
    assert check_rlimits({"AS": 2**63 - 1}) == (("AS", 2**63 - 1),)
    with pytest.raises(BadValue):
        check_rlimits({"AS": 2**63})


def test_texts_that_are_each_allowed_are_not_allowed_together():
    texts = ("comment", "features", "licenses", "admin_comment", "extra", "submit_line")
    known = [name for name in texts if name in common_pb2.JobRequest.DESCRIPTOR.fields_by_name]
    assert len(known) >= 5
    texts_of: dict[str, Any] = dict.fromkeys(known, "x" * 60_000)
    message = common_pb2.JobRequest(**texts_of)
    with pytest.raises(BadRequest, match=f"the limit is {wanted.REQUEST_BYTES_MAX}"):
        wanted.decode_submission(message)


def test_a_launch_that_is_too_large_fails_its_job_and_the_stream_lives(tmp_path, monkeypatch):
    """Before, the stream broke, and broke again at each new registration: the node was lost for as long as the job was."""
    monkeypatch.setattr(link, "LAUNCH_BYTES_MAX", 60_000)

    async def story():
        site = Site(tmp_path)
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            large = await submit(client, script=b"#!/bin/sh\n#" + b"x" * 60_000)
            job = await wait_for(client, large, "FAILED")
            assert job.reason == "JobLaunchFailure" and "its launch has 6" in job.reason_detail
            assert "the limit is 60000" in job.reason_detail
            small = await submit(client)
            command = await node.command("launch")
            assert command.launch.key.job_id == small  # the first launch that this node has ever seen
            await node.started(command.launch.key)
            await wait_for(client, small, "RUNNING")
            async with FakeNode(site, boot_id="boot") as again:  # it comes back: the failed one is not sent again
                held = [node_pb2.HeldStep(key=command.launch.key, state=node_pb2.HeldStep.RUNNING, epoch=1)]
                await again.register(held=held)
                await again.exited(command.launch.key, sequence=2)
                await wait_for(client, small, "COMPLETED")

    run(story)


def test_a_node_that_floods_its_stream_loses_it_and_the_others_are_served(tmp_path):
    async def story():
        site = Site(tmp_path, nodes=2)
        async with site.controller(), site.client() as client, FakeNode(site, "n2") as other:
            await other.register()
            async with FakeNode(site) as hostile:
                await hostile.register()
                flood = node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat())
                flood.more.extend([node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat())] * 200_000)
                await hostile.call.write(flood)
                with pytest.raises((AssertionError, Exception)):
                    while True:
                        await hostile.read()
            job_id = await submit(client, partitions=["debug"])
            command = await other.command("launch")
            assert command.launch.key.job_id == job_id

    run(story)


def test_a_registration_with_very_many_steps_does_not_hold_the_others(tmp_path):
    async def story():
        site = Site(tmp_path, nodes=2)
        async with site.controller(), FakeNode(site, "n2") as other, FakeNode(site) as hostile:
            held = [
                node_pb2.HeldStep(key=node_pb2.StepKey(job_id=i + 1, attempt=0, step_id=-5), state="RUNNING", epoch=1)
                for i in range(5_000)
            ]
            registering = asyncio.create_task(hostile.register(held=held))
            await other.register()
            await registering

    run(story)


NODES = 65_536


def test_the_launch_of_a_job_of_the_largest_size_fits():
    class Effect:
        array_count = array_min = array_max = array_step = master_port = 0
        components = cpus_used = ()

    class Job:
        job_id, partition, attempt, start_at_us, time_limit_s, array_task_id = 1, "p", 0, 0, 60, None
        request = None
        alloc = tuple(
            NodeAlloc(f"node-{i:05}", 128, 512_000, 61, (("gpu", "h200", 255),), (1 << 128) - 1) for i in range(NODES)
        )

    from ctld.core.records.request import JobRequest

    job = Job()
    job.request = JobRequest(name="x", partitions=("p",))
    effect: Any = Effect()
    effect.job = job
    facts = facts_of(effect, "c")
    assert [(run.cpus, run.tasks, run.count) for run in facts.node_runs] == [(128, 61, NODES)]
    assert facts.ByteSize() < 10_000

    class Row:
        node_list, node, tasks, request, ports = "node-[00000-65535]", "node-00000", NODES * 61, None, ()
        parts = tuple(
            StepPart(f"node-{i:05}", 128, 512_000, (("gpu", "h200", 255),), (), (1 << 128) - 1,
                     tuple(range(i * 61, (i + 1) * 61)))
            for i in range(NODES)
        )  # fmt: skip

    plan = step_plan(cast(Any, Row()), "node-00007")
    largest_spec = 4 * 1024 * 1024 + 1024 * 1024 + 512 * 1024
    assert plan.ByteSize() + facts.ByteSize() + largest_spec + 2 * wanted.REQUEST_BYTES_MAX < link.LAUNCH_BYTES_MAX
    assert plan.ranks[7].rank[0] == 7 * 61 and not plan.ranks[8].rank


def test_the_node_reads_what_the_job_has_elsewhere():
    facts = node_pb2.JobFacts(node_runs=[node_pb2.NodeRun(cpus=4, tasks=2, count=3), node_pb2.NodeRun(cpus=2, count=1)])
    assert [(share.cpus, share.tasks) for share in wire.job_nodes(facts)] == [(4, 2)] * 3 + [(2, 0)]
    old = node_pb2.JobFacts(nodes=[common_pb2.NodeAllocation(node="n1", cpus=4, tasks=2)] * 2)
    assert [(share.cpus, share.tasks) for share in wire.job_nodes(old)] == [(4, 2)] * 2
    with pytest.raises(BadValue, match="more than 65536 nodes"):
        wire.job_nodes(node_pb2.JobFacts(node_runs=[node_pb2.NodeRun(count=4_000_000_000)]))


def test_thirty_jobs_of_the_attack_are_refused_one_by_one(tmp_path):
    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client:
            hostile = {f"{i:04}" + "x" * 15_000: i for i in range(1000)}
            for _ in range(3):
                with pytest.raises(PenstockError) as refused:
                    await client.call("SubmitJob", submission(rlimits=hostile))
                assert refused.value.code == Code.INVALID_VALUE
            assert not controller.runtime.core.state.jobs

    run(story)


def test_a_registration_of_more_steps_than_commands_can_wait_is_refused_in_words(tmp_path):
    """Before, its stream ended when 20,000 commands waited, at each registration."""
    assert HELD_STEPS_MAX < link.COMMANDS_MAX

    async def story():
        site = Site(tmp_path)
        async with site.controller(), FakeNode(site) as node:
            with pytest.raises(grpc.aio.AioRpcError, match="holds 16001 steps, the limit is 16000"):
                await node.register(held=[node_pb2.HeldStep()] * (HELD_STEPS_MAX + 1))

    run(story)
