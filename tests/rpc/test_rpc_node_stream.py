"""From a submission over the wire to its end, with a node's stream driven by hand."""

import asyncio
import os
import pwd

import grpc
import pytest
from patience import ANSWER_S

from penstock.errors import PenstockError
from penstock.v1 import controller_pb2, node_pb2
from penstock.values.refusals import Code
from tests.rpc.clusterkit import BATCH, EOF, FakeNode, Site, jobs_of, submission, submit, wait_for

#: Who runs the tests, and so owns the jobs.
ME = (os.getuid(), pwd.getpwuid(os.getuid()).pw_name)


def test_a_job_from_submission_to_its_end(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            welcome = await node.register()
            assert (welcome.refusal, welcome.epoch, welcome.cluster_name) == ("", 1, "test")
            job_id = await submit(client, name="hello", time_limit_s=60, rlimits={"NOFILE": 99}, umask=0o27)
            command = await node.command("launch")
            launch = command.launch
            assert (command.epoch, command.sequence) == (1, 1)
            assert launch.key == node_pb2.StepKey(job_id=job_id, attempt=0, step_id=BATCH)
            assert (launch.user_id, launch.user_name, launch.work_dir) == (*ME, b"/tmp")
            assert (launch.spec.script, list(launch.spec.environment)) == (b"#!/bin/sh\ntrue\n", [b"A=1"])
            assert (dict(launch.rlimits), launch.umask) == ({"NOFILE": 99}, 0o27)
            assert (launch.allocation.node, launch.allocation.cpus, launch.allocation.mem_mb) == ("n1", 1, 10)
            facts = launch.facts
            assert (facts.job_name, facts.partition, facts.node_list) == ("hello", "debug", "n1")
            assert facts.end_at_us - facts.start_at_us == 60_000_000
            assert (facts.ntasks, facts.cpus_per_task, facts.array_job_id) == (0, 0, 0)
            assert (await wait_for(client, job_id, "RUNNING")).node_list == "n1"
            first = await node.started(launch.key)
            assert await node.acked() == first
            second = await node.exited(launch.key, code=7)
            assert (await node.command("forget")).forget.key == launch.key
            assert await node.acked() == second
            job = await wait_for(client, job_id, "FAILED")
            assert (job.exit.code, job.reason, job.node_list) == (7, "NonZeroExitCode", "n1")
            story = await client.call("Story", controller_pb2.StoryRequest(job_id=job_id))
            assert [line.event for line in story.lines] == ["submit", "start", "end"]

    asyncio.run(story())


def test_a_report_that_comes_again_changes_nothing(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            job_id = await submit(client)
            launch = (await node.command("launch")).launch
            for _ in range(2):
                await node.started(launch.key, sequence=1)
                assert await node.acked() == 1
            for _ in range(2):
                await node.exited(launch.key, code=5, sequence=2)
                await node.command("forget")
                assert await node.acked() == 2
            await node.exited(launch.key, code=6, sequence=3)  # another end of the same step: the first one holds
            await node.command("forget")
            assert await node.acked() == 3
            assert (await wait_for(client, job_id, "FAILED")).exit.code == 5
            lines = (await client.call("Story", controller_pb2.StoryRequest(job_id=job_id))).lines
            assert [line.event for line in lines] == ["submit", "start", "end"]

    asyncio.run(story())


def test_a_cancel_overtakes_the_start_report(tmp_path):
    """The launch is on its way when the job is cancelled: the node gets both, in that order, with the note."""
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            job_id = await submit(client)
            request = controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[str(job_id)]))
            results = (await client.call("CancelJobs", request)).results
            assert [(r.id, r.code) for r in results] == [(str(job_id), 0)]
            launch = (await node.command("launch")).launch
            end = (await node.command("terminate")).terminate
            assert (end.key, end.grace_ms) == (launch.key, 30_000)
            assert end.note.startswith(f"*** JOB {job_id} ON n1 CANCELLED AT ") and end.note.endswith(" ***")
            await node.exited(launch.key)
            await node.command("forget")
            job = await wait_for(client, job_id, "CANCELLED")
            assert job.exit.code == 0

    asyncio.run(story())


def test_a_cancelled_pending_job_never_starts(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            job_id = await submit(client)
            await client.call(
                "CancelJobs", controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[str(job_id)]))
            )
            other = await submit(client)
            async with FakeNode(site) as node:
                await node.register()
                assert (await node.command("launch")).launch.key.job_id == other
            states = {job.job_id: job.state for job in await jobs_of(client)}
            assert states[job_id] == "CANCELLED" and states[other] != "PENDING"

    asyncio.run(story())


def test_a_refused_launch_is_queued_again_and_held(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            job_id = await submit(client)
            message = await node.read()
            await node.acknowledge(message.command, refused="the spool is full")
            job = await wait_for(client, job_id, "PENDING")
            assert (job.attempt, job.reason) == (1, "launch failed requeued held")
            lines = (await client.call("Story", controller_pb2.StoryRequest(job_id=job_id))).lines
            assert ("launch refused", "the spool is full") in [(line.event, line.detail) for line in lines]

    asyncio.run(story())


def test_the_same_node_may_register_again_and_gets_what_it_missed(tmp_path):
    """A new stream of the same boot and spool takes over; the launch that the old one may have lost comes again."""
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as old:
            await old.register()
            job_id = await submit(client)
            first = (await old.command("launch")).launch
            async with FakeNode(site) as new:
                assert (await new.register()).refusal == ""
                again = (await new.command("launch")).launch
                assert again.key == first.key and again.spec == first.spec
                assert await old.call.read() is EOF
                await new.started(again.key)
                await new.acked()
                await wait_for(client, job_id, "RUNNING")
            async with FakeNode(site) as third:
                held = [node_pb2.HeldStep(key=first.key, state=node_pb2.HeldStep.RUNNING, epoch=1)]
                third.sequence = 1
                assert (await third.register(held=held)).refusal == ""
                await third.exited(first.key)
                await third.command("forget")  # and no third launch before it
                assert await third.acked() == 2
                await wait_for(client, job_id, "COMPLETED")

    asyncio.run(story())


def test_a_second_machine_with_the_name_of_a_living_node_is_refused(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as first:
            await first.register()
            async with FakeNode(site, boot_id="another") as second:
                assert "registered already from another place" in (await second.register()).refusal
                assert await second.call.read() is EOF
            await submit(client)
            await first.command("launch")  # the first is not disturbed

    asyncio.run(story())


def test_a_node_that_is_not_in_the_configuration_is_refused(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), FakeNode(site, name="n9") as node:
            assert "n9 is not in the configuration" in (await node.register()).refusal

    asyncio.run(story())


def test_a_node_may_not_pose_as_another(tmp_path):
    site = Site(tmp_path, nodes=2)

    async def story():
        async with site.controller() as controller, FakeNode(site, name="n2") as node:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await node.register(name="n1")
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert not controller.registry.by_node
            assert not controller.runtime.core.state.nodes["n1"].connected

    asyncio.run(story())


def test_a_node_reports_only_its_own_steps(tmp_path):
    """A compromised node's report of another's step is acknowledged and believed by nobody."""
    site = Site(tmp_path, nodes=2)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as n1, FakeNode(site, "n2") as n2:
            await n1.register()
            await n2.register()
            job_id = await submit(client, nodes_required="n1")
            launch = (await n1.command("launch")).launch
            await n2.exited(launch.key, code=1)
            await n2.command("forget")
            await n2.acked()
            (job,) = await jobs_of(client)
            assert (job.job_id, job.state) == (job_id, "RUNNING")

    asyncio.run(story())


def test_a_node_cannot_call_a_users_method(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), FakeNode(site) as node:
            method = node.channel.unary_unary(
                "/penstock.v1.Controller/SubmitJob",
                controller_pb2.SubmitJobRequest.SerializeToString,
                controller_pb2.SubmitJobReply.FromString,
            )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(submission())
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(story())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat()), "first message must be its registration"),
        (node_pb2.NodeMessage(register=node_pb2.Register(node_name="n1", protocol=2)), "protocol 2"),
        (node_pb2.NodeMessage(register=node_pb2.Register(node_name="n1", protocol=1)), "no boot_id"),
    ],
)
def test_what_is_no_registration_is_refused(tmp_path, message, words):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, FakeNode(site) as node:
            await node.call.write(message)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await node.read()
            assert words in refused.value.details()
            assert not controller.registry.links

    asyncio.run(story())


def test_an_array_shares_one_script(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client, FakeNode(site) as node:
            await node.register()
            job_id = await submit(client, array="3,5,7")
            launches = [(await node.command("launch")).launch for _ in range(3)]
            assert [launch.facts.array_task_id for launch in launches] == [3, 5, 7]
            assert {launch.facts.array_job_id for launch in launches} == {job_id}
            facts = launches[0].facts
            assert (facts.array_task_count, facts.array_task_min, facts.array_task_max) == (3, 3, 7)
            metrics = controller.runtime.metrics
            assert (metrics.spec_hits, metrics.spec_misses) == (3, 0)

    asyncio.run(story())


def test_a_launch_after_a_restart_fetches_its_script_from_the_database(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            job_id = await submit(client, script=b"#!/bin/sh\necho \xff\xfe\n")
        async with site.controller() as controller, FakeNode(site) as node:
            assert (await node.register()).epoch == 2
            launch = (await node.command("launch")).launch
            assert (launch.key.job_id, launch.spec.script) == (job_id, b"#!/bin/sh\necho \xff\xfe\n")
            assert controller.runtime.metrics.spec_misses == 1

    asyncio.run(story())


def test_await_answers_at_the_end_and_is_dropped_when_its_caller_goes(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client, FakeNode(site) as node:
            await node.register()
            job_id = await submit(client)
            launch = (await node.command("launch")).launch
            waiting = asyncio.create_task(client.call("AwaitJob", controller_pb2.AwaitJobRequest(job_id=job_id)))
            gone = asyncio.create_task(client.call("AwaitJob", controller_pb2.AwaitJobRequest(job_id=job_id)))
            state = controller.runtime.core.state
            async with asyncio.timeout(ANSWER_S):
                while len(state.awaiting) < 2:
                    await asyncio.sleep(0.01)
                gone.cancel()
                while len(state.awaiting) > 1:
                    await asyncio.sleep(0.01)
            await node.exited(launch.key, code=9)
            reply = await waiting
            assert (reply.state, reply.exit.code) == ("FAILED", 9)
            with pytest.raises(PenstockError) as unknown:
                await client.call("AwaitJob", controller_pb2.AwaitJobRequest(job_id=99))
            assert unknown.value.code == Code.INVALID_JOB_ID

    asyncio.run(story())


def test_the_answer_to_a_registration_comes_alone(tmp_path):
    """A node reads it before it is ready for commands: a launch that travelled with it would be lost."""
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            await submit(client, array="1-3")
            async with FakeNode(site) as node:
                await node.register()
                assert node.unread == []
                for _ in range(3):
                    await node.command("launch")

    asyncio.run(story())
