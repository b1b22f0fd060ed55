"""Item 10: no number that nodes report ends the controller, or spoils a record for its readers.

Each numeric field of a node's messages, as far as the wire holds it, from both nodes of a step; the gate takes it as the
field's bound. The fields come from the descriptors: a new one is covered. What two nodes report must be committed (an
acknowledgement leaves after its commit), and what is stored must be readable with every command that shows it.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
from hostile import INTS, WIDTH
from patience import LONGEST_S

from cli.base.format import DisplayClock
from cli.listings.sacct_fields import VALUES, RecordRow, RecordView
from cli.listings.stepusage import FIELDS, Sizes, merged
from penstock.aclient import AsyncClient
from penstock.v1 import accounting_pb2, common_pb2, controller_pb2, governance_pb2, node_pb2, steps_pb2
from tests.rpc.clusterkit import FakeNode, Site, jobs_of, now_us, submission, submit
from tests.rpc.test_rpc_steps import allocate, seen, wish

Path_ = tuple[Any, ...]
ENTRIES = 2
#: The GPU of each node.
GPU = "GPU-1"


def leaves(descriptor: Any, above: Path_ = ()) -> Iterator[Path_]:
    """The numeric fields in a message, and in those inside it."""
    for field in descriptor.fields:
        if field in above:
            continue
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            yield from leaves(field.message_type, (*above, field))
        elif field.type in INTS:
            yield (*above, field)


def fill(message: Any, path: Path_) -> None:
    """Sets the field to the largest number of its type, in two entries of each list on the way; of a GPU it is ours."""
    field, *rest = path
    if "uuid" in message.DESCRIPTOR.fields_by_name and not message.DESCRIPTOR.fields_by_name["uuid"].is_repeated:
        message.uuid = GPU
    largest = (1 << WIDTH.get(field.type, 0)) - 1
    value = getattr(message, field.name)
    if not rest and field.is_repeated:
        value.extend([largest] * ENTRIES)
    elif not rest:
        setattr(message, field.name, largest)
    elif field.is_repeated:
        for _ in range(ENTRIES - len(value)):
            value.add()
        for one in value:
            if isinstance(one, common_pb2.UsageMetric):
                one.kind = common_pb2.UsageMetric.GPU_UTIL
            fill(one, tuple(rest))
    else:
        fill(value, tuple(rest))


def name_of(path: Path_) -> str:
    return ".".join(field.name for field in path)


def fields_of(message: Any) -> list[Path_]:
    return list(leaves(message.DESCRIPTOR))


REPORTS = [path for path in fields_of(node_pb2.Report) if len(path) > 1]
SESSIONS = [path for path in fields_of(node_pb2.NodeMessage) if path[0].name == "register"]
OTHERS = [
    path for path in fields_of(node_pb2.NodeMessage)
    if path[0].name in ("heartbeat", "command_ack") or name_of(path) == "report.sequence"
]  # fmt: skip


async def launched(node: FakeNode, step_id: int) -> node_pb2.StepKey:
    """Takes the order to start the step."""
    while True:
        message = await node.read()
        if message.WhichOneof("kind") == "command":
            await node.acknowledge(message.command)
            launch = message.command.launch
            if message.command.WhichOneof("kind") == "launch" and launch.key.step_id == step_id:
                return launch.key


async def committed(node: FakeNode) -> None:
    """Returns when the controller has committed all reports of the node."""
    while True:
        message = await node.read()
        kind = message.WhichOneof("kind")
        if kind == "command":
            await node.acknowledge(message.command)
        elif kind == "report_ack" and message.report_ack.through_sequence >= node.sequence:
            return


async def registered(node: FakeNode) -> None:
    """A node with a GPU."""
    register = node_pb2.Register(
        node_name=node.name, boot_id=node.boot_id, spool_id=node.spool_id, version="1", protocol=1,
        inventory=node_pb2.Inventory(cpus=4, real_memory_mb=4000, gpus=[node_pb2.GpuDevice(uuid=GPU, type="h")]),
    )  # fmt: skip
    await node.call.write(node_pb2.NodeMessage(register=register))
    assert not (await node.read()).registered.refusal


async def exits(client: AsyncClient, nodes: list[FakeNode], job_id: int, paths: list[Path_]) -> None:
    """A step on both nodes, whose reports have these fields at their largest; then it ends as any other."""
    created = await client.call("CreateStep", wish(job_id, nodes_min=2, ntasks=2, overlap=True, work_dir=b"/tmp"))
    keys = [await launched(node, created.step_id) for node in nodes]
    for node, key in zip(nodes, keys, strict=True):
        await node.started(key)
        for kind in dict.fromkeys(path[0].name for path in paths):
            report = node_pb2.Report()
            body = getattr(report, kind)
            body.SetInParent()
            if "key" in body.DESCRIPTOR.fields_by_name:
                body.key.CopyFrom(key)
            for path in paths:
                if path[0].name == kind:
                    fill(report, path)
            await node.report(0, **{kind: body})
        await node.exited(key)
    for node in nodes:
        await committed(node)


async def readable(client: AsyncClient, job_id: int) -> None:
    """Every command that shows what the nodes reported answers."""
    request = accounting_pb2.ListRecordsRequest(ids=[str(job_id)])
    [record] = [one for page in [p async for p in client.stream("ListRecords", request)] for one in page.records]
    assert record.steps
    view = RecordView(DisplayClock(now_us()))
    for row in (RecordRow(record, None), *(RecordRow(record, step) for step in record.steps)):
        for show in VALUES.values():
            assert isinstance(show(row, view), str)
    latest_us = now_us() + 600_000_000
    assert max(step.end_at_us for step in record.steps) < latest_us
    for kind, number in governance_pb2.ReportRequest.Kind.items():
        if number:
            report = governance_pb2.ReportRequest(kind=kind, start_at_us=1, end_at_us=now_us())
            assert [page async for page in client.stream("Report", report)]
    assert await jobs_of(client, detail=True)
    assert await client.call("ListSteps", steps_pb2.ListStepsRequest(ids=[str(job_id)]))
    assert (await client.call("ListNodes", controller_pb2.ListNodesRequest(gpus=True))).nodes
    assert await submit(client, hold=True)


def test_the_largest_numbers_of_two_nodes_are_committed_and_readable(tmp_path: Path) -> None:
    site = Site(tmp_path, nodes=2, extra="GresTypes=gpu\n")
    site.conf.write_text(site.conf.read_text().replace("RealMemory=4000", "RealMemory=4000 Gres=gpu:1"))

    async def story() -> None:
        async with site.controller(), site.client() as client, FakeNode(site) as one, FakeNode(site, "n2") as two:
            nodes = [one, two]
            for node in nodes:
                await registered(node)
            job_id = await allocate(client, nodes_min=2, ntasks=2)
            assert (await seen(client, job_id)).state == "RUNNING"
            for path in REPORTS:
                await exits(client, nodes, job_id, [path])
            await exits(client, nodes, job_id, [path for path in REPORTS if path[-1].containing_type.name != "StepKey"])
            assert (await seen(client, job_id)).state == "RUNNING"
            await client.call(
                "CancelJobs", controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[str(job_id)]))
            )
            await readable(client, job_id)

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def test_the_largest_numbers_of_a_batch_job_are_the_jobs_end(tmp_path: Path) -> None:
    """The end of the script is that of the job."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            for path in [path for path in REPORTS if path[0].name == "exited" and path[1].name != "key"]:
                job_id = (await client.call("SubmitJob", submission())).job_id
                key = await launched(node, -5)
                assert key.job_id == job_id
                await node.started(key)
                report = node_pb2.Report(exited=node_pb2.StepExited(key=key, start_at_us=now_us(), end_at_us=now_us()))
                fill(report, path)
                await node.report(0, exited=report.exited)
                await committed(node)
                await readable(client, job_id)

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


async def one_session(node: FakeNode, path: Path_) -> None:
    """A session with that field at its largest, until the controller answers what comes after it."""
    message = node_pb2.NodeMessage(
        register=node_pb2.Register(
            node_name="n1", boot_id="boot", spool_id="other", version="1", protocol=1,
            inventory=node_pb2.Inventory(cpus=4, real_memory_mb=4000),
        )
    )  # fmt: skip
    if path in SESSIONS:
        fill(message, path)
    await node.call.write(message)
    await node.read()
    if path in OTHERS:
        message = node_pb2.NodeMessage()
        fill(message, path)
        if path[0].name == "report":
            message.report.boot_id, message.report.spool_id = "boot", "other"
            message.report.notice.SetInParent()
        await node.call.write(message)
    await node.call.write(node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat()))
    while not (await node.read()).HasField("heartbeat_ack"):
        pass


def test_the_largest_numbers_of_a_session_end_at_most_the_session(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            for path in [*SESSIONS, *OTHERS]:
                async with FakeNode(site) as node:
                    # the controller may end the stream, which FakeNode and gRPC say so
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, AssertionError):
                        await one_session(node, path)
                assert (await client.call("ListNodes", controller_pb2.ListNodesRequest(gpus=True))).nodes, path
                assert await submit(client, hold=True), path
            async with FakeNode(site) as node:
                assert not (await node.register()).refusal

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def test_figures_that_a_step_answers_with_are_shown() -> None:
    """sstat asks the nodes of a step themselves."""
    largest = (1 << 64) - 1
    metrics = [[kind, largest, largest, 1, -largest, 1] for kind in common_pb2.UsageMetric.Kind.values()]
    usage = merged({node: {"tasks": 1, "metrics": metrics} for node in ("n1", "n2")})
    for kind, one in usage.metrics.items():
        assert accounting_pb2.StepMetric(kind=kind, total=one.total, max=one.max, min=one.min).total == (1 << 63) - 1  # type: ignore[arg-type]  # an enum's number
    for show in FIELDS.values():
        assert isinstance(show(usage, Sizes()), str)
