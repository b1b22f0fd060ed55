"""A controller with everything real but the node: configuration, certificates, tokens, database, gRPC.

`Site` is a folder with a slurm.conf; `controller()` runs the controller in this process, `Process` as a process of its
own. `FakeNode` is a node's stream that a test drives by hand; `AutoNode` is a node daemon without processes: its steps
and reports survive streams; it asserts that a step starts at most once.
"""

import asyncio
import contextlib
import os
import pwd
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import compiledsql
import grpc
import grpc.aio
from livecluster import free_ports
from migrated import lay_database
from patience import ANSWER_S
from warmstart import start_daemon

from ctld.daemon import Controller, ControllerDaemon
from ctld.runtime.statefolder import StateFolder
from penstock.aclient import AsyncClient
from penstock.calls import CODE_KEY, TOKEN_KEY, find_rpc
from penstock.clusterfile import ClusterFile, read_cluster
from penstock.config import load
from penstock.logs.daemonlog import DaemonLog, LogSettings
from penstock.security.ca import issue_to_folder, load_ca, load_credentials
from penstock.security.tls import node_channel
from penstock.security.tokens import TokenIssuer
from penstock.v1 import common_pb2, controller_pb2, node_pb2, node_pb2_grpc
from penstock.values.refusals import Code
from penstock.values.requestkey import new_request_key

compiledsql.share()
EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it
ROOT = Path(__file__).parents[2]
#: The user of the tests, who runs the controller and is its administrator.
OWN = pwd.getpwuid(os.geteuid())
CONF = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={command_port}
PenstockNodePort={node_port}
SlurmUser=root
StateSaveLocation={state}
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=10
{extra}NodeName=n[1-{nodes}] CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes=n[1-{nodes}] Default=YES MaxTime=UNLIMITED State=UP
"""
BATCH = -5


def now_us() -> int:
    """The wall clock."""
    return time.time_ns() // 1000


class Site:
    """A folder with a configuration."""

    def __init__(self, folder: Path, nodes: int = 1, extra: str = "") -> None:
        self.folder = folder
        self.state = folder / "s"
        self.conf = folder / "slurm.conf"
        self.ports = free_ports(2)  # below those that the kernel uses for outgoing connections
        self.nodes = nodes
        if "PenstockDatabaseUrl" not in extra:
            self.state.mkdir(mode=0o711)
            lay_database(self.state / "penstock.db")
        self.write(extra)

    def write(self, extra: str = "", nodes: int | None = None) -> None:
        """Writes slurm.conf: `extra` lines before those of nodes and partition, and so many nodes."""
        command_port, node_port = self.ports
        text = CONF.format(
            command_port=command_port, node_port=node_port, state=self.state, nodes=nodes or self.nodes, extra=extra
        )
        self.conf.write_text(text)

    def cluster(self) -> ClusterFile:
        """The addresses and the CA of the controller, which has written them."""
        return read_cluster(self.state / "cluster.json")

    def client(self, **options) -> AsyncClient:
        """A client with the rights of the user of the tests."""
        return AsyncClient(self.cluster(), ANSWER_S, **options)

    def node_credentials(self, name: str):
        """A new certificate for a node, with its key."""
        folder = self.folder / "certs" / name
        issue_to_folder(load_ca(self.state / "ca"), folder, "node", name, now_us())
        return load_credentials(folder, "node", now_us())

    @contextlib.asynccontextmanager
    async def controller(self) -> AsyncIterator[Controller]:
        """The controller in this process, until the block ends."""
        with StateFolder(str(self.state)) as folder:
            controller = Controller(ControllerDaemon(str(self.conf), load(str(self.conf)).config, folder, QuietLog()))
            await controller.start()
            try:
                yield controller
            finally:
                await controller.stop()

    def token(self, uid: int) -> bytes:
        """A token of this machine's auth socket for a user, for one call."""
        return TokenIssuer(load_credentials(self.state / "ca", "controller", now_us())).issue(uid, uid, now_us())

    async def call_as(self, uid: int, method: str, request):
        """One call with a token for another user, as issued by this machine's auth socket, over a connection of its own."""
        rpc = find_rpc(method, request)
        alone = [("grpc.use_local_subchannel_pool", 1)]  # else calls share a connection, and its limit of calls
        async with grpc.aio.insecure_channel(f"unix:{self.state}/ctld.sock", options=alone) as channel:
            metadata = ((TOKEN_KEY, self.token(uid)),)
            if rpc.is_stream:
                call = channel.unary_stream(rpc.path, rpc.serialize, rpc.deserialize)(request, metadata=metadata)
                return [page async for page in call]
            return await channel.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)(request, metadata=metadata)


class QuietLog(DaemonLog):
    """A log without output."""

    def __init__(self) -> None: ...
    def set(self, settings: LogSettings) -> None:
        """Ignores it."""

    def hang_up(self) -> None:
        """Ignores it."""

    def flush(self) -> None:
        """Ignores it."""


class Process:
    """The controller as a process of its own, that can be made to die at a crash point."""

    next: "Process | None" = None  # the one that was started next

    def __init__(self, site: Site, crash_at: str = "", crash_list: Path | None = None) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CRASH_AT": crash_at}
        if crash_list:
            environment["PENSTOCK_CRASH_LIST"] = str(crash_list)
        (site.state / "cluster.json").unlink(missing_ok=True)
        self.site = site
        self.log = site.folder / "ctld.log"
        with open(self.log, "ab") as log:
            self.child = start_daemon(["ctld", "--config", str(site.conf)], log, ROOT, environment)

    async def up(self) -> None:
        """Return when it serves (it writes cluster.json last)."""
        async with asyncio.timeout(ANSWER_S):
            while not (self.site.state / "cluster.json").exists():
                assert self.child.poll() is None, self.log.read_text()
                await asyncio.sleep(0.01)

    async def ended(self) -> int:
        """Waits for its end; the exit status."""
        return await asyncio.to_thread(self.child.wait, ANSWER_S)

    def kill(self) -> None:
        """Kills it, and waits for its end."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(ANSWER_S)

    def stop(self) -> int:
        """Ends it in order, if it runs; the exit status."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait(ANSWER_S)


# ---- requests ------------------------------------------------------------------------------------------------------


def submission(script: bytes = b"#!/bin/sh\ntrue\n", key: str = "", **job) -> controller_pb2.SubmitJobRequest:
    """A request that submits a batch script. `key`: of an earlier submission; `job`: fields of JobRequest."""
    return controller_pb2.SubmitJobRequest(
        request_key=key or new_request_key(now_us(), os.urandom(10)),
        job=common_pb2.JobRequest(work_dir=b"/tmp", **job),
        spec=common_pb2.JobSpec(script=script, environment=[b"A=1"]),
    )


def code_of(error: grpc.aio.AioRpcError) -> Code:
    """The code of the refusal."""
    metadata: Any = error.trailing_metadata()
    return Code(int(dict(metadata)[CODE_KEY]))


async def submit(client: AsyncClient, **options) -> int:
    """Submits a script (options as for `submission`); the job's id."""
    return (await client.call("SubmitJob", submission(**options))).job_id


async def jobs_of(client: AsyncClient, **options) -> list[controller_pb2.JobInfo]:
    """All jobs that the controller lists."""
    request = controller_pb2.ListJobsRequest(all_states=True, **options)
    return [job async for page in client.stream("ListJobs", request) for job in page.jobs]


async def wait_for(client: AsyncClient, job_id: int, state: str) -> controller_pb2.JobInfo:
    """The job, as soon as it is listed in that state."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            found = [job for job in await jobs_of(client) if job.job_id == job_id]
            if found and found[0].state == state:
                return found[0]
            await asyncio.sleep(0.01)


# ---- nodes ---------------------------------------------------------------------------------------------------------


class FakeNode:
    """One stream of a node."""

    def __init__(self, site: Site, name: str = "n1", boot_id: str = "boot", spool_id: str = "") -> None:
        self.name, self.boot_id, self.spool_id = name, boot_id, spool_id or f"spool-{name}"
        self.site = site
        self.credentials = site.node_credentials(name)
        self.sequence = 0
        self.unread: list[node_pb2.ControllerMessage] = []

    async def __aenter__(self) -> "FakeNode":
        self.channel = grpc.aio.secure_channel(
            f"127.0.0.1:{self.site.ports[1]}", node_channel(self.credentials), [("grpc.use_local_subchannel_pool", 1)]
        )
        self.call = node_pb2_grpc.NodeLinkStub(self.channel).Connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        await self.channel.close(None)

    async def register(self, name: str = "", held=(), cpus: int = 4, gpus=()) -> node_pb2.Registered:
        """Registers the node, with the steps that it holds, and its GPUs; the answer."""
        register = node_pb2.Register(
            node_name=name or self.name, boot_id=self.boot_id, spool_id=self.spool_id, version="1", protocol=1,
            inventory=node_pb2.Inventory(cpus=cpus, real_memory_mb=4000, sockets=1, cores_per_socket=4, gpus=gpus),
            held=held,
        )  # fmt: skip
        await self.call.write(node_pb2.NodeMessage(register=register))
        return (await self.read()).registered

    async def read(self) -> node_pb2.ControllerMessage:
        """The next message of the controller."""
        if not self.unread:
            async with asyncio.timeout(ANSWER_S):
                bundle = await self.call.read()
            assert bundle is not EOF, "the controller has ended the stream"
            self.unread = [bundle, *bundle.more]
        return self.unread.pop(0)

    async def command(self, kind: str) -> node_pb2.Command:
        """The next message, which must be that command; it is acknowledged."""
        message = await self.read()
        assert message.WhichOneof("kind") == "command", message
        assert message.command.WhichOneof("kind") == kind, message
        await self.acknowledge(message.command)
        return message.command

    async def acknowledge(self, command: node_pb2.Command, refused: str = "") -> None:
        """Acknowledges a command, or refuses it."""
        ack = node_pb2.CommandAck(sequence=command.sequence, refused=refused)
        await self.call.write(node_pb2.NodeMessage(command_ack=ack))

    async def started(self, key: node_pb2.StepKey, sequence: int = 0) -> int:
        """Reports the start of a step; the report's number. `sequence`: that of an earlier report, to repeat it."""
        return await self.report(sequence, started=node_pb2.StepStarted(key=key, at_us=now_us(), pid=1))

    async def exited(self, key: node_pb2.StepKey, code: int = 0, sequence: int = 0) -> int:
        """Reports the end of a step; the report's number. `sequence`: that of an earlier report, to repeat it."""
        end = node_pb2.StepExited(
            key=key, start_at_us=now_us(), end_at_us=now_us(), exit=common_pb2.ExitStatus(code=code)
        )
        return await self.report(sequence, exited=end)

    async def report(self, sequence: int, **kind) -> int:
        """Reports anything; the report's number. `sequence`: that of an earlier report, to repeat it."""
        if not sequence:
            self.sequence += 1
        report = node_pb2.Report(
            boot_id=self.boot_id, spool_id=self.spool_id, sequence=sequence or self.sequence, **kind
        )
        await self.call.write(node_pb2.NodeMessage(report=report))
        return report.sequence

    async def acked(self) -> int:
        """The next message, which must be an acknowledgement of reports."""
        message = await self.read()
        assert message.WhichOneof("kind") == "report_ack", message
        assert message.report_ack.spool_id == self.spool_id
        return message.report_ack.through_sequence


class AutoNode:
    """A node daemon without processes: a launch starts at once and ends with that code, or (None) on request."""

    def __init__(self, site: Site, name: str = "n1", code: int | None = 0) -> None:
        self.site, self.name, self.code = site, name, code
        self.starts: list[tuple[int, int]] = []  # (job, attempt), in order
        self.states: dict[tuple[int, int], node_pb2.HeldStep.State] = {}
        self.reports: dict[int, node_pb2.Report] = {}
        self.over: set[tuple[int, int]] = set()
        self.call = None  # of the stream that is registered
        self.sequence = 0
        self.credentials = site.node_credentials(name)

    async def run(self) -> None:
        """Connects, registers and serves, until cancelled."""
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._session()
            self.call = None
            await asyncio.sleep(0.05)

    async def _session(self) -> None:
        target = f"127.0.0.1:{self.site.ports[1]}"
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.secure_channel(target, node_channel(self.credentials), options) as channel:
            call = node_pb2_grpc.NodeLinkStub(channel).Connect()
            held = [node_pb2.HeldStep(key=self._key(key), state=state, epoch=1) for key, state in self.states.items()]
            register = node_pb2.Register(
                node_name=self.name, boot_id="boot", spool_id=f"spool-{self.name}", version="1", protocol=1, held=held,
                inventory=node_pb2.Inventory(cpus=4, real_memory_mb=4000),
            )  # fmt: skip
            await call.write(node_pb2.NodeMessage(register=register))
            answer = await call.read()
            if answer is EOF or answer.registered.refusal:
                return
            self.call = call
            for report in list(self.reports.values()):
                await call.write(node_pb2.NodeMessage(report=report))
            while (bundle := await call.read()) is not EOF:
                for message in (bundle, *bundle.more):
                    kind = message.WhichOneof("kind")
                    if kind == "report_ack":
                        through = message.report_ack.through_sequence
                        self.reports = {n: r for n, r in self.reports.items() if n > through}
                    elif kind == "command":
                        await self._execute(call, message.command)

    async def _execute(self, call, command: node_pb2.Command) -> None:
        kind = command.WhichOneof("kind")
        step = getattr(command, kind).key
        key = (step.job_id, step.attempt)
        known = key in self.states or key in self.over
        if kind == "launch" and not known:
            self.starts.append(key)
            self.states[key] = node_pb2.HeldStep.RUNNING
        await call.write(node_pb2.NodeMessage(command_ack=node_pb2.CommandAck(sequence=command.sequence)))
        if kind == "launch" and not known:
            await self._report(call, started=node_pb2.StepStarted(key=step, at_us=now_us(), pid=1))
            if self.code is not None:
                await self.end(key, self.code)
        elif kind == "terminate" and self.states.get(key) == node_pb2.HeldStep.RUNNING:
            await self.end(key, 0, 15)
        elif kind == "terminate" and not known:  # its launch is still to come, and is not executed then
            self.over.add(key)
            end = node_pb2.StepExited(key=step, end_at_us=now_us(), failure="ended before it was started")
            await self._report(call, exited=end)
        elif kind == "forget":
            self.states.pop(key, None)
            self.over.add(key)

    async def end(self, key: tuple[int, int], code: int, number: int = 0) -> None:
        """Ends the step, whether or not there is a stream."""
        self.states[key] = node_pb2.HeldStep.EXITED
        end = node_pb2.StepExited(
            key=self._key(key), start_at_us=now_us(), end_at_us=now_us(),
            exit=common_pb2.ExitStatus(code=code, signal=number),
        )  # fmt: skip
        await self._report(self.call, exited=end)

    async def launched(self, key: tuple[int, int]) -> None:
        """Waits until the launch has arrived: a job is RUNNING before that."""
        async with asyncio.timeout(ANSWER_S):
            while key not in self.states:
                await asyncio.sleep(0.01)

    async def notice(self, reason: str) -> None:
        """Handles commands that do not concern steps."""
        await self._report(self.call, notice=node_pb2.NodeNotice(at_us=now_us(), reason=reason, drain=False))

    async def tell_of_gpus(self, key: tuple[int, int]) -> None:
        """Sends one report of each kind about GPUs: states, the end of unrequested work, an idle GPU."""
        await self._report(self.call, gpus=node_pb2.GpuReport(at_us=now_us()))
        await self._report(self.call, gpu_work_done=node_pb2.GpuWorkDone(work_id="none", ok=True))
        await self._report(self.call, gpu_idle=node_pb2.GpuIdle(key=self._key(key), since_us=now_us()))

    async def profile(self, key: tuple[int, int]) -> None:
        """Sends the profile of a step."""
        await self._report(self.call, profile=node_pb2.StepProfile(key=self._key(key), profile=b"lines"))

    async def _report(self, call, **kind) -> None:
        self.sequence += 1
        report = node_pb2.Report(boot_id="boot", spool_id=f"spool-{self.name}", sequence=self.sequence, **kind)
        self.reports[self.sequence] = report
        if call is not None:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await call.write(node_pb2.NodeMessage(report=report))

    @staticmethod
    def _key(key: tuple[int, int]) -> node_pb2.StepKey:
        return node_pb2.StepKey(job_id=key[0], attempt=key[1], step_id=BATCH)


async def some_of_each(site: Site, client) -> None:
    """Jobs that wait for this and that, one that runs, one that has ended."""
    node = AutoNode(site)
    serving = asyncio.create_task(node.run())
    done = await submit(client, name="done", std_out=b"%x-%j.out", comment="ü")
    await wait_for(client, done, "COMPLETED")
    node.code = None
    await wait_for(client, await submit(client, name="runs", mem_per_node_mb=20, time_limit_s=60), "RUNNING")
    await submit(client, name="array", array="1-9%2", hold=True, nice=7)
    await submit(client, begin_at_us=now_us() + 10**10, name="later", mem_per_cpu_mb=30, cpus_per_task=2, ntasks=2)
    await submit(client, name="lim", account="a", nodes_required="n1", hold=True, time_limit_s=-1)
    await submit(client, dependency="after:3", exclusive=True, wckey="w", sockets_per_node=1, mincpus=2, requeue=False)
    request = submission(name="het", hold=True)
    request.components.append(submission(name="het2", hold=True).job)
    await client.call("SubmitJob", request)
    serving.cancel()
