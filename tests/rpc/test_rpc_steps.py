"""Allocations without a script and their steps, over the wire, with a node's stream driven by hand."""

import asyncio
import hmac
import os
import random
import stat
from typing import Any

import grpc
import grpc.aio
import pytest
from oddmessages import odd_message

from ctld.agents.stepmessages import step_spec
from ctld.core.records.step import StepRequest
from ctld.rpc.jobs.step_request import wanted_step
from ctld.runtime.errors import BadRequest
from penstock.errors import PenstockError
from penstock.v1 import common_pb2, controller_pb2, node_pb2, steps_pb2
from penstock.values.refusals import Code
from penstock.values.requestkey import new_request_key
from penstock.values.stepframes import asking_key
from tests.rpc.clusterkit import FakeNode, Site, jobs_of, now_us, submission, wait_for

#: An identity that is surely not that of the job's owner.
OTHER_UID = 54321
#: Odd requests that are made; PENSTOCK_FUZZ_ROUNDS for more.
ROUNDS = int(os.environ.get("PENSTOCK_FUZZ_ROUNDS", "200"))


def request_key() -> str:
    return new_request_key(now_us(), os.urandom(10))


def wish(
    job_id: int, wait_s: int = 5, key: str = "", argv=(b"/bin/hostname", b"-f"), **spec
) -> steps_pb2.CreateStepRequest:
    return steps_pb2.CreateStepRequest(
        job_id=job_id, step_key=key or request_key(), wait_s=wait_s, step=steps_pb2.StepSpec(**spec),
        spec=common_pb2.JobSpec(argv=argv, environment=[b"B=2"]),
    )  # fmt: skip


async def allocate(client, **options) -> int:
    job = submission(script=b"", kind=common_pb2.SALLOC, **options)
    return (await client.call("SubmitJob", job)).job_id


async def seen(client, job_id: int, wait_s: int = 5) -> steps_pb2.AllocationReply:
    return await client.call("AwaitAllocation", steps_pb2.AwaitAllocationRequest(job_id=job_id, wait_s=wait_s))


async def register(node: FakeNode, held=()) -> node_pb2.Registered:
    """With a stream port."""
    register = node_pb2.Register(
        node_name=node.name, boot_id=node.boot_id, spool_id=node.spool_id, version="1", protocol=1, held=held,
        stream_port=7777, stream_tls=True, inventory=node_pb2.Inventory(cpus=4, real_memory_mb=4000),
    )  # fmt: skip
    await node.call.write(node_pb2.NodeMessage(register=register))
    return (await node.read()).registered


def test_an_allocation_and_a_step_of_it(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await register(node)
            job_id = await allocate(client, ntasks=4, time_limit_s=600)
            reply = await seen(client, job_id)
            assert (reply.state, reply.node_list, reply.nodes[0].cpus) == ("RUNNING", "n1", 4)
            assert reply.environment["SLURM_JOB_ID"] == str(job_id)
            assert reply.end_at_us - reply.start_at_us == 600_000_000
            step = wish(job_id, ntasks=2, name="two", exact=True, work_dir=b"/w", pty=True)
            created = await client.call("CreateStep", step)
            assert (created.busy, created.step_id, created.attempt) == (False, 0, 0)
            assert (list(created.plan.nodes), list(created.plan.tasks), created.plan.ntasks) == (["n1"], [2], 2)
            assert [list(one.rank) for one in created.plan.ranks] == [[0, 1]]
            address = created.streams[0]
            assert (address.node, address.host, address.port, address.tls) == ("n1", "n1", 7777, True)
            launch = (await node.command("launch")).launch
            assert launch.key == node_pb2.StepKey(job_id=job_id, attempt=0, step_id=0)
            assert (launch.io_key, len(created.io_key)) == (created.io_key, 32)
            assert (list(launch.spec.argv), launch.work_dir) == ([b"/bin/hostname", b"-f"], b"/w")
            assert (launch.step.spec.pty, launch.step.spec.name, launch.step.node_index) == (True, "two", 0)
            assert (launch.allocation.cpus, launch.allocation.tasks, launch.job_allocation.cpus) == (2, 2, 4)
            assert (launch.facts.kind, launch.step.plan.ntasks) == ("salloc", 2)
            again = await client.call("CreateStep", step)
            assert (again.step_id, again.io_key) == (0, created.io_key)
            await node.started(launch.key)
            await node.acked()
            await _goes_on(client, job_id, created)
            await node.exited(launch.key, code=3)
            assert (await node.command("forget")).forget.key == launch.key
            await node.acked()
            request = steps_pb2.AwaitStepRequest(job_id=job_id, wait_s=5)
            ended = await client.call("AwaitStep", request)
            assert (ended.state, ended.exit.code, ended.nodes[0].exit.code) == ("FAILED", 3, 3)
            end = steps_pb2.EndAllocationRequest(job_id=job_id, exit=common_pb2.ExitStatus(code=3))
            await client.call("EndAllocation", end)
            job = await wait_for(client, job_id, "FAILED")
            assert job.exit.code == 3
            assert (await seen(client, job_id)).exit.code == 3

    asyncio.run(story())
    assert stat.S_IMODE((site.state / "stream.key").stat().st_mode) == 0o600


async def _goes_on(client, job_id: int, created: steps_pb2.CreateStepReply) -> None:
    """What others see of a step that runs."""
    now = await client.call("AwaitStep", steps_pb2.AwaitStepRequest(job_id=job_id))
    assert (now.state, now.job_state) == ("RUNNING", "RUNNING")
    listed = (await client.call("ListSteps", steps_pb2.ListStepsRequest(ids=[f"{job_id}.0"]))).steps
    assert [(s.job_id, s.step_id, s.name, s.tasks, s.cpus, s.node_list) for s in listed] == [
        (job_id, 0, "two", 2, 2, "n1")
    ]
    assert listed[0].tres == "cpu=2,mem=40M,node=1"
    attached = await client.call("AttachStep", steps_pb2.AttachStepRequest(job_id=job_id, step_id=0))
    assert (attached.io_key, attached.streams[0].port) == (created.io_key, 7777)
    with pytest.raises(PenstockError) as caught:
        await client.call("AttachStep", steps_pb2.AttachStepRequest(job_id=job_id, step_id=4))
    assert caught.value.code == Code.INVALID_STEP
    with pytest.raises(PenstockError) as caught:
        await client.call("AttachStep", steps_pb2.AttachStepRequest(job_id=999, step_id=0))
    assert caught.value.code == Code.INVALID_JOB_ID


def test_a_step_waits_for_what_another_has(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await register(node)
            job_id = await allocate(client, ntasks=4)
            await seen(client, job_id)
            await client.call("CreateStep", wish(job_id, ntasks=4))
            first = (await node.command("launch")).launch.key
            key = request_key()
            assert (await client.call("CreateStep", wish(job_id, 0, key, ntasks=1))).busy
            with pytest.raises(PenstockError) as caught:
                await client.call("CreateStep", wish(job_id, ntasks=1, immediate_s=0))
            assert caught.value.code == Code.NODES_BUSY
            assert (await client.call("CreateStep", wish(job_id, 1, key, ntasks=1))).busy
            waiting = asyncio.create_task(client.call("CreateStep", wish(job_id, 20, key, ntasks=1)))
            await node.exited(first)
            assert (await waiting).step_id == 1
            for text, fields in (
                ("More processors requested than permitted", {"ntasks": 5}),
                ("Requested node configuration is not available", {"ntasks": 1, "nodes_required": "n2"}),
            ):
                with pytest.raises(PenstockError, match=text):
                    await client.call("CreateStep", wish(job_id, **fields))

    asyncio.run(story())


def test_batch_steps_can_be_attached_and_others_may_not(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await register(node)
            job_id = (await client.call("SubmitJob", submission(name="b"))).job_id
            launch = (await node.command("launch")).launch
            secret = (site.state / "stream.key").read_bytes()
            assert launch.io_key == hmac.digest(secret, b"%d.0.-5" % job_id, "sha256")
            await node.started(launch.key)
            await wait_for(client, job_id, "RUNNING")
            attached = await client.call("AttachStep", steps_pb2.AttachStepRequest(job_id=job_id, step_id=-5))
            assert (attached.io_key, list(attached.plan.nodes)) == (launch.io_key, ["n1"])
            for method, request in (
                ("AttachStep", steps_pb2.AttachStepRequest(job_id=job_id, step_id=-5)),
                ("CreateStep", wish(job_id, ntasks=1)),
                ("EndAllocation", steps_pb2.EndAllocationRequest(job_id=job_id)),
                ("AwaitAllocation", steps_pb2.AwaitAllocationRequest(job_id=job_id)),
                ("NotifyJob", steps_pb2.NotifyJobRequest(id=str(job_id), text="boo")),
            ):
                with pytest.raises(Exception, match="Access/permission denied"):
                    await site.call_as(OTHER_UID, method, request)
            await client.call("NotifyJob", steps_pb2.NotifyJobRequest(id=str(job_id), text="look up"))
            message = await node.read()
            while message.WhichOneof("kind") != "command":
                message = await node.read()
            assert message.command.notify.text == "look up"
            assert [s.step_id for s in (await client.call("ListSteps", steps_pb2.ListStepsRequest())).steps] == [-5]

    asyncio.run(story())


def test_a_step_survives_the_controller(tmp_path):
    site = Site(tmp_path)
    created: dict[str, Any] = {}

    async def before():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await register(node)
            job_id = created["job"] = await allocate(client, ntasks=4)
            await seen(client, job_id)
            reply = await client.call("CreateStep", wish(job_id, ntasks=4, distribution="cyclic"))
            created["key"], created["launch"] = reply.io_key, (await node.command("launch")).launch
            await node.started(created["launch"].key)
            await node.acked()

    async def after():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            held = node_pb2.HeldStep(key=created["launch"].key, state=node_pb2.HeldStep.RUNNING, epoch=1)
            await register(node, [held])
            attached = await client.call("AttachStep", steps_pb2.AttachStepRequest(job_id=created["job"]))
            assert (attached.io_key, attached.spec.distribution) == (created["key"], "cyclic")
            waiting = asyncio.create_task(
                client.call("AwaitStep", steps_pb2.AwaitStepRequest(job_id=created["job"], wait_s=20))
            )
            which = controller_pb2.JobFilter(ids=[f"{created['job']}.0"])
            await client.call("CancelJobs", controller_pb2.CancelJobsRequest(filter=which))
            terminate = (await node.command("terminate")).terminate
            assert terminate.note.startswith(f"*** STEP {created['job']}.0 ON n1 CANCELLED AT ")
            node.sequence = 100
            await node.exited(terminate.key, code=0)
            ended = await waiting
            assert (ended.state, ended.note) == ("CANCELLED", "CANCELLED")
            assert [job.state for job in await jobs_of(client)] == ["RUNNING"]

    asyncio.run(before())
    asyncio.run(after())


def test_a_wish_is_read_and_shown_alike():
    spec = steps_pb2.StepSpec(
        name="x", nodes_min=1, ntasks=2, mem_per_cpu_mb=0, relative=0, nodes_required="n2,n1,n2", immediate_s=0,
        gres_per_task=[common_pb2.GresCount(name="gpu", type="a", count=1)], std_out=b"o-%t", umask=0,
        rlimits={"NOFILE": 5}, multi_prog=[steps_pb2.RankCommand(ranks="0-1", argv=[b"a", b"%t"])],
    )  # fmt: skip
    request = wanted_step(spec)
    assert request.nodes_required == ("n2", "n1", "n2")
    assert step_spec(request) == spec
    assert wanted_step(steps_pb2.StepSpec()) == StepRequest()
    for bad in (
        steps_pb2.StepSpec(name="x" * 5000),
        steps_pb2.StepSpec(work_dir=b"a\0b"),
        steps_pb2.StepSpec(nodes_required="n[1-"),
        steps_pb2.StepSpec(multi_prog=[steps_pb2.RankCommand(argv=[b"a\0"])]),
    ):
        with pytest.raises(BadRequest):
            wanted_step(bad)


def test_operators_may_ask_steps_and_not_type_into_them(tmp_path):
    """Who could type into a step of root's could do everything; ARCHITECTURE.md: nobody runs programs as another."""
    nobody = 65534
    site = Site(tmp_path, extra="PenstockOperators=nobody\n")

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await register(node)
            job_id = await allocate(client, ntasks=1)
            await seen(client, job_id)
            created = await client.call("CreateStep", wish(job_id, ntasks=1))
            request = steps_pb2.AttachStepRequest(job_id=job_id, step_id=0)
            attached = await site.call_as(nobody, "AttachStep", request)
            assert attached.io_key == asking_key(created.io_key)
            assert (await client.call("AttachStep", request)).io_key == created.io_key
            for text in ("\x1b]0;x\x07", "a\rb", "a\0b", "\u202e"):
                with pytest.raises(PenstockError, match="control character|message"):
                    await client.call("NotifyJob", steps_pb2.NotifyJobRequest(id=str(job_id), text=text))
            await client.call("NotifyJob", steps_pb2.NotifyJobRequest(id=str(job_id), text="two\nlines\tand"))

    asyncio.run(story())


def test_whatever_is_asked_of_the_steps_service_is_answered_or_refused(tmp_path):
    """No traceback, no internal error, and the controller goes on."""
    site = Site(tmp_path)
    dice = random.Random(4)
    methods = ("AwaitAllocation", "EndAllocation", "CreateStep", "AwaitStep", "AttachStep", "ListSteps", "NotifyJob")
    bad: list[str] = []

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await register(node)
            job_id = await allocate(client, ntasks=4)
            await seen(client, job_id)
            for number in range(ROUNDS):
                method = methods[number % len(methods)] if number % 2 else "CreateStep"
                request = odd_message(dice, getattr(steps_pb2, f"{method}Request"))
                request_words = {field.name for field in request.DESCRIPTOR.fields}
                if "wait_s" in request_words:
                    request.wait_s = 0
                if "job_id" in request_words and method != "EndAllocation":
                    request.job_id = job_id
                if method == "CreateStep":
                    request.step_key = request_key()
                    if dice.random() < 0.7:
                        request.spec.Clear()
                        request.spec.argv.append(b"x")
                try:
                    await site.call_as(os.getuid(), method, request)
                except grpc.aio.AioRpcError as error:
                    if error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
                        bad.append(f"{method} {error.details()} {str(request)[:3000]}")
            assert (await seen(client, job_id)).job_id == job_id
            assert bad == []

    asyncio.run(story())
