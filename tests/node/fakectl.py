"""A controller as small as it can be: admits one node, sends commands, keeps acknowledgements and reports, acks and forgets.

It runs in the test's own event loop and speaks the real protocol over a Unix socket.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import grpc
import grpc.aio
from patience import ANSWER_S, END_S
from warmstart import Child, start_daemon

from penstock.v1 import common_pb2, node_pb2, node_pb2_grpc, steps_pb2

BATCH, EXTERN = -5, -4


async def unbundled(messages):
    """The messages of a stream one by one."""
    async for bundle in messages:
        for message in (bundle, *bundle.more):
            yield message


class FakeController(node_pb2_grpc.NodeLinkServicer):
    """The controller of one node. `registrations`, `acks`, `reports` and `heartbeats` are what it has received."""

    def __init__(self, address: str, epoch: int = 1) -> None:
        self.address = address
        self.epoch = epoch
        self.refusal = ""
        self.settings = node_pb2.NodeSettings()
        self.unkillable_s = 0  # 0 = the node's default
        self.ack_reports = True
        self.kill_wait_s = 1
        self.registrations: list[node_pb2.Register] = []
        self.acks: dict[int, str] = {}  # of the present stream
        self.reports: list[node_pb2.Report] = []
        self.heartbeats = 0
        self.kinds: list[str] = []  # of the messages of the present stream, after the registration
        self.calls = 0  # streams that nodes have opened
        self.door = asyncio.Event()  # unset: it takes calls, and does not serve them yet
        self.door.set()
        self.sequence = 0
        self._down: asyncio.Queue | None = None
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> "FakeController":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens on its address."""
        self._server = grpc.aio.server()
        node_pb2_grpc.add_NodeLinkServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        """Closes the server and the node's stream with it."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def Connect(self, requests, context):
        """Serves the stream of a node: greets it, answers its registration, then sends what is queued."""
        self.calls += 1
        await self._notify()
        await self.door.wait()
        await context.send_initial_metadata(())
        first = await anext(aiter(requests))
        self.registrations.append(first.register)
        registered = node_pb2.Registered(
            epoch=self.epoch, heartbeat_interval_ms=500, refusal=self.refusal, cluster_name="test", kill_wait_s=self.kill_wait_s,
            settings=self.settings, unkillable_step_timeout_s=self.unkillable_s,
        )  # fmt: skip
        yield node_pb2.ControllerMessage(registered=registered)
        if self.refusal:
            await self._notify()
            return
        down = self._down = asyncio.Queue()
        self.sequence, self.acks, self.kinds = 0, {}, []
        await self._notify()
        reader = asyncio.create_task(self._read(requests, down))
        try:
            while (message := await down.get()) is not None:
                yield message
        finally:
            reader.cancel()
            if self._down is down:
                self._down = None
            await self._notify()

    async def _read(self, requests, down) -> None:
        async for message in unbundled(requests):
            kind = message.WhichOneof("kind")
            self.kinds.append(kind)
            if kind == "heartbeat":
                self.heartbeats += 1
                down.put_nowait(node_pb2.ControllerMessage(heartbeat_ack=node_pb2.HeartbeatAck(at_us=1)))
            elif kind == "command_ack":
                self.acks[message.command_ack.sequence] = message.command_ack.refused
            elif kind == "report":
                self.reports.append(message.report)
                if self.ack_reports:
                    self.ack(message.report)
            await self._notify()
        down.put_nowait(None)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- what tests do

    async def until(self, condition) -> None:
        """Waits until the condition holds; it is checked after each message of the node."""
        async with asyncio.timeout(ANSWER_S), self._changed:
            await self._changed.wait_for(condition)

    async def connected(self, times: int = 1) -> None:
        """Waits until the node has registered so many times, and is connected."""
        await self.until(lambda: len(self.registrations) >= times and self._down is not None)

    def ack(self, report: node_pb2.Report) -> None:
        """Acknowledges a report and those before it."""
        if self._down is not None:
            acked = node_pb2.ReportAck(through_sequence=report.sequence, spool_id=report.spool_id)
            self._down.put_nowait(node_pb2.ControllerMessage(report_ack=acked))

    def hang_up(self) -> None:
        """Ends the node's stream."""
        if self._down is not None:
            self._down.put_nowait(None)

    @property
    def is_connected(self) -> bool:
        """Whether the node's stream is open."""
        return self._down is not None

    def send(self, message: node_pb2.ControllerMessage) -> None:
        """Send down the node's stream."""
        self._down.put_nowait(message)

    def command(self, epoch: int | None = None, **kind) -> int:
        """Sends a command, given as the field of its kind; its number. `epoch`: another one than the controller's."""
        self.sequence += 1
        command = node_pb2.Command(epoch=self.epoch if epoch is None else epoch, sequence=self.sequence, **kind)
        self._down.put_nowait(node_pb2.ControllerMessage(command=command))
        return self.sequence

    async def acked(self, sequence: int) -> str:
        """Waits for a command's acknowledgement; the refusal in it, "" = none."""
        await self.until(lambda: sequence in self.acks)
        return self.acks[sequence]

    def launch(self, job_id: int, script: str | bytes, epoch: int | None = None, **fields) -> int:
        """Sends the launch of a batch script (fields as for `make_launch`); the command's number."""
        return self.command(epoch, launch=make_launch(job_id, script, **fields))

    def launch_step(self, job_id: int, argv, **fields) -> int:
        """Sends the launch of a step of srun (fields as for `make_step_launch`); the command's number."""
        return self.command(launch=make_step_launch(job_id, argv, **fields))

    def terminate(
        self, job_id: int, grace_ms: int = 1000, note: str = "", attempt: int = 1, epoch=None, step_id: int = BATCH
    ) -> int:
        """Orders the end of a step; the command's number."""
        end = node_pb2.TerminateStep(key=make_key(job_id, attempt, step_id), grace_ms=grace_ms, note=note)
        return self.command(epoch, terminate=end)

    def forget(self, job_id: int, attempt: int = 1, step_id: int = BATCH) -> int:
        """Lets the node forget a step that has ended; the command's number."""
        return self.command(forget=node_pb2.ForgetStep(key=make_key(job_id, attempt, step_id)))

    def signal(self, job_id: int, signum: int, step_id: int = BATCH, **flags) -> int:
        """Sends a signal to a step; the command's number."""
        return self.command(signal=node_pb2.SignalStep(key=make_key(job_id, 1, step_id), signal=signum, **flags))

    def hold(self, job_id: int, environment=None, **fields) -> int:
        """Launch a job's holder (its extern step)."""
        launch = make_launch(job_id, "", **fields)
        launch.key.step_id = EXTERN
        launch.holder.run_prolog = launch.holder.run_epilog = launch.holder.is_batch_node = True
        launch.holder.environment.update(environment or {})
        return self.command(launch=launch)

    async def step_started(self, job_id: int, step_id: int) -> None:
        """Waits for the report that a step has started."""
        await self.until(lambda: any(s.key.step_id == step_id for s in self.starts(job_id)))

    async def step_exited(self, job_id: int, step_id: int) -> node_pb2.StepExited:
        """Waits for the report of a step's end; the report."""
        await self.until(lambda: any(e.key.step_id == step_id for e in self.exits(job_id)))
        return next(e for e in self.exits(job_id) if e.key.step_id == step_id)

    def exits(self, job_id: int) -> list[node_pb2.StepExited]:
        """Distinct exit reports (a report may come again after a reconnect)."""
        found = {
            (r.spool_id, r.sequence): r.exited
            for r in self.reports
            if r.WhichOneof("kind") == "exited" and r.exited.key.job_id == job_id
        }
        return list(found.values())

    def starts(self, job_id: int) -> list[node_pb2.StepStarted]:
        """Distinct reports of starts of a job's steps."""
        found = {
            (r.spool_id, r.sequence): r.started
            for r in self.reports
            if r.WhichOneof("kind") == "started" and r.started.key.job_id == job_id
        }
        return list(found.values())

    def notices(self) -> list[node_pb2.NodeNotice]:
        """Distinct notices, in the order of their reports."""
        found = {(r.spool_id, r.sequence): r.notice for r in self.reports if r.WhichOneof("kind") == "notice"}
        return list(found.values())

    async def started(self, job_id: int) -> node_pb2.StepStarted:
        """Waits for the first start of a step of the job; its report."""
        await self.until(lambda: self.starts(job_id))
        return self.starts(job_id)[0]

    async def exited(self, job_id: int) -> node_pb2.StepExited:
        """Waits for the first end of a step of the job; its report."""
        await self.until(lambda: self.exits(job_id))
        return self.exits(job_id)[0]


def make_key(job_id: int, attempt: int = 1, step_id: int = BATCH) -> node_pb2.StepKey:
    """The key of a step, by default of a batch script."""
    return node_pb2.StepKey(job_id=job_id, attempt=attempt, step_id=step_id)


IO_KEY = bytes(range(32))


def make_step_launch(
    job_id: int, argv, *, step_id: int = 0, ranks=(0,), tasks=None, env=None, spec=None, work_dir=b"/", **fields
) -> node_pb2.LaunchStep:
    """Step of srun on this node, number `node_index` (default 0) of the nodes with so many `tasks` each."""
    counts = list(tasks or [len(ranks)])
    index = fields.pop("node_index", 0)
    plan = steps_pb2.StepPlan(
        node_list="n1",
        nodes=[f"n{number + 1}" for number in range(len(counts))],
        tasks=counts,
        ranks=[steps_pb2.RankSet(rank=ranks if number == index else []) for number in range(len(counts))],
        ntasks=sum(counts),
    )
    asked = steps_pb2.StepSpec(work_dir=os.fsencode(work_dir), **(spec or {}))
    io_key = fields.pop("io_key", IO_KEY)
    message = make_launch(job_id, b"#!", env=env, **fields)
    message.key.step_id = step_id
    message.spec.script = b""
    message.spec.argv[:] = [word.encode() if isinstance(word, str) else word for word in argv]
    message.io_key = io_key
    message.step.CopyFrom(node_pb2.StepLaunch(spec=asked, plan=plan, node_index=index))
    return message


def make_launch(job_id: int, script: str | bytes, attempt: int = 1, env=None, argv=(), **fields) -> node_pb2.LaunchStep:
    """The launch of a batch script on one node. `fields`: those of LaunchStep, and `allocation`, `facts`, `rlimits`."""
    body = script.encode() if isinstance(script, str) else script
    if not body.startswith(b"#!"):
        body = b"#!/bin/sh\n" + body
    environment = [b"PATH=/usr/bin:/bin"] if env is None else env
    part = fields.pop("allocation", None) or common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=100, tasks=1)
    facts = fields.pop("facts", None) or node_pb2.JobFacts(
        cluster_name="test", job_name=f"job{job_id}", partition="p", node_list="n1", nodes=[part]
    )
    message = node_pb2.LaunchStep(
        key=make_key(job_id, attempt),
        user_id=fields.pop("user_id", os.getuid()),
        group_id=fields.pop("group_id", os.getgid()),
        user_name=fields.pop("user_name", "user"),
        facts=facts,
        spec=common_pb2.JobSpec(script=body, argv=argv, environment=environment),
        allocation=part,
    )
    for name, value in fields.items():
        if name == "rlimits":
            message.rlimits.update(value)
        else:
            setattr(message, name, value)
    return message


class NodedProcess:
    """A daemon's process, for a test that runs in an event loop."""

    def __init__(self, child: "subprocess.Popen[bytes] | Child") -> None:
        self._child = child
        self.pid = child.pid
        self.kill = child.kill
        self.terminate = child.terminate

    @property
    def returncode(self) -> int | None:
        """Exit status; None while it runs."""
        return self._child.poll()

    async def wait(self) -> int:
        """Exit status, once it has ended."""
        return await asyncio.to_thread(self._child.wait)


class Noded:
    """A real node daemon as a child process."""

    def __init__(self, folder: Path, address: str, *options: str) -> None:
        self.folder = folder
        self.spool = folder / "spool"
        self.address = address
        self.options = options
        self.prefix: list[str] = []  # a command that runs the daemon
        self.process: NodedProcess | None = None
        self.log = folder / "noded.log"

    async def start(self, crash_at: str = "", boot_id: str = "") -> None:
        """Starts the daemon. `crash_at`: a point of penstock/crash.py; `boot_id`: that of a machine that has rebooted."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        env |= {"PENSTOCK_CRASH_AT": crash_at, "PENSTOCK_BOOT_ID": boot_id}
        words = ["noded", "--node-name", "n1", "--controller", self.address, "--spool", str(self.spool)]
        words += ["--stream-port", "0", "--cpus", "4", "--real-memory", "1000", "--gpus", "2:fake", *self.options]
        with self.log.open("ab") as log:
            self.process = NodedProcess(start_daemon(words, log, Path.cwd(), env, self.prefix))

    async def kill(self) -> None:
        """Kills the daemon, and waits for its end."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ends the daemon in order, if it runs; its exit status."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(ANSWER_S):
            return await self.process.wait()

    def folders(self) -> list[str]:
        """Step folders that belong to a step."""
        return [name for name in os.listdir(self.spool / "steps") if not name.startswith("spare-")]

    def text(self) -> str:
        """The daemon's log."""
        return self.log.read_text()


@contextlib.asynccontextmanager
async def cluster(
    folder: Path,
    *options: str,
    settings: node_pb2.NodeSettings | None = None,
    unkillable_s: int = 0,
    prefix: Iterable[str] = (),
):
    """A fake controller and a node daemon that has registered; both are gone afterwards, and every step with them."""
    address = f"unix:{folder}/ctl.sock"
    daemon = Noded(folder, address, *options)
    daemon.prefix[:] = prefix
    async with FakeController(address) as controller:
        controller.unkillable_s = unkillable_s
        if settings is not None:
            controller.settings = settings
        await daemon.start()
        try:
            await controller.connected()
            yield controller, daemon
        finally:
            if daemon.process.returncode is None and controller.is_connected:
                for key in daemon.folders():
                    job_id, attempt, step_id = map(int, key.split("."))
                    controller.terminate(job_id, grace_ms=0, attempt=attempt, step_id=step_id)
                    await controller.step_exited(job_id, step_id)
            await daemon.stop()


def lines(path: Path) -> list[str]:
    """The lines of a file; none if it does not exist."""
    return path.read_text().splitlines() if path.exists() else []


def processes_with(word: str) -> list[int]:
    """Pids whose command line or environment holds a word: what a job left behind."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if word.encode() in Path("/proc", name, "cmdline").read_bytes():
                    found.append(int(name))
    return found


async def eventually(condition, wait_s: float = END_S):
    """Poll for something that only the file system or /proc can tell."""
    async with asyncio.timeout(wait_s):
        while not (value := condition()):
            await asyncio.sleep(0.02)
        return value
