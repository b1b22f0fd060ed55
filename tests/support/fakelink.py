"""Both ends of the node stream under a test's control: a node for a real controller, a controller for a real node
daemon. A test decides what is sent, when, and how often; messages of the other side are recorded in order. Waiting is
polling with a deadline.
"""

import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from patience import END_S

from penstock.v1 import common_pb2 as m
from penstock.v1 import node_pb2 as n
from penstock.v1 import node_pb2_grpc as services

T = TypeVar("T")

POLL_S = 0.01
BATCH = -5


def wait(condition: Callable[[], T], what: str) -> T:
    """Polls until the answer is true, and returns it."""
    deadline = time.monotonic() + END_S
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {END_S:.0f} s until {what}"
        time.sleep(POLL_S)
    return answer


def step_key(job_id: int, attempt: int = 0) -> n.StepKey:
    return n.StepKey(job_id=job_id, attempt=attempt, step_id=BATCH)


class FakeNode:
    """A node of the cluster without processes: opens the stream with the node's certificate and sends the test's
    messages."""

    def __init__(self, address: str, certificates: Path, name: str, cpus: int = 16, memory_mb: int = 16000) -> None:
        self.name = name
        self.boot_id = secrets.token_hex(8)
        self.spool_id = secrets.token_hex(8)
        self.inventory = n.Inventory(
            cpus=cpus,
            boards=1,
            sockets=1,
            cores_per_socket=cpus,
            threads_per_core=1,
            real_memory_mb=memory_mb,
            pretended=True,
        )
        self.sequence = 0
        self.received: list[n.ControllerMessage] = []
        pems = [(certificates / f).read_bytes() for f in ("ca.pem", "node.key", "node.pem")]
        self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(*pems))
        self._out: queue.SimpleQueue[n.NodeMessage | None] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.put(None)
        self._channel.close()

    def connect(self, held: list[n.HeldStep] | None = None, **more: Any) -> n.Registered:
        """Open a stream (an earlier one is closed) and register."""
        self._out.put(None)
        out: queue.SimpleQueue[n.NodeMessage | None] = queue.SimpleQueue()
        self._out = out
        stream = services.NodeLinkStub(self._channel).Connect(iter(out.get, None), wait_for_ready=True)
        before = len(self.received)
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()
        register = n.Register(
            node_name=self.name, boot_id=self.boot_id, spool_id=self.spool_id, version="0.1.0", protocol=1,
            inventory=self.inventory, held=held or [], started_at_us=time.time_ns() // 1000, **more,
        )  # fmt: skip
        out.put(n.NodeMessage(register=register))
        message = wait(lambda: self.received[before:], "the registration is answered")[0]
        return message.registered

    def _read(self, stream: Any) -> None:
        try:
            for message in stream:
                self.received += [message, *message.more]
        except grpc.RpcError:
            return  # the stream is over; earlier messages count

    def send(self, **kind: Any) -> None:
        self._out.put(n.NodeMessage(**kind))

    def report(self, **kind: Any) -> n.Report:
        """A new report, sent once; send the result again with `send(report=...)`."""
        self.sequence += 1
        report = n.Report(boot_id=self.boot_id, spool_id=self.spool_id, sequence=self.sequence, **kind)
        self.send(report=report)
        return report

    def started(self, key: n.StepKey) -> n.Report:
        return self.report(started=n.StepStarted(key=key, at_us=time.time_ns() // 1000, pid=1))

    def exited(self, key: n.StepKey, code: int = 0, failure: str = "") -> n.Report:
        now_us = time.time_ns() // 1000
        start_us = 0 if failure else now_us
        ended = n.StepExited(
            key=key, start_at_us=start_us, end_at_us=now_us, exit=m.ExitStatus(code=code), failure=failure
        )
        return self.report(exited=ended)

    def commands(self, kind: str, job_id: int) -> list[n.Command]:
        """The commands of that kind for a job, acknowledged as they are seen."""
        found = [r.command for r in self.received if r.WhichOneof("kind") == "command"]
        return [x for x in found if x.WhichOneof("kind") == kind and getattr(x, kind).key.job_id == job_id]

    def await_command(self, kind: str, job_id: int) -> n.Command:
        command = wait(lambda: self.commands(kind, job_id), f"{kind} for job {job_id} arrives")[-1]
        self.send(command_ack=n.CommandAck(sequence=command.sequence))
        return command

    def await_ack(self, report: n.Report) -> None:
        def acked() -> bool:
            acks = [r.report_ack for r in self.received if r.WhichOneof("kind") == "report_ack"]
            return any(a.through_sequence >= report.sequence and a.spool_id in ("", report.spool_id) for a in acks)

        wait(acked, f"report {report.sequence} is acknowledged")


class FakeController(services.NodeLinkServicer):
    """A controller for one node daemon, on a Unix socket: admits it and sends the test's commands."""

    def __init__(self, path: Path, epoch: int = 1) -> None:
        self.epoch = epoch
        self.registrations: list[n.Register] = []
        self.acks: dict[int, str] = {}
        self.reports: list[n.Report] = []
        self.sequence = 0
        self.hold_acks = False
        self._down: queue.SimpleQueue[n.ControllerMessage | None] = queue.SimpleQueue()
        self._server = grpc.server(ThreadPoolExecutor(8))
        services.add_NodeLinkServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{path}")
        self.address = f"unix:{path}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._down.put(None)
        self._server.stop(None).wait()

    def Connect(
        self, requests: Iterator[n.NodeMessage], context: grpc.ServicerContext
    ) -> Iterator[n.ControllerMessage]:
        context.send_initial_metadata(())  # the node registers when it is served
        register = next(requests).register
        down: queue.SimpleQueue[n.ControllerMessage | None] = queue.SimpleQueue()
        self._down = down
        self.sequence, self.acks = 0, {}
        yield n.ControllerMessage(
            registered=n.Registered(epoch=self.epoch, heartbeat_interval_ms=1000, cluster_name="e2e", kill_wait_s=1)
        )
        threading.Thread(target=self._read, args=(requests, down), daemon=True).start()
        self.registrations.append(register)
        yield from iter(down.get, None)

    def _read(self, requests: Iterator[n.NodeMessage], down: "queue.SimpleQueue[n.ControllerMessage | None]") -> None:
        try:
            for message in (m for bundle in requests for m in (bundle, *bundle.more)):
                kind = message.WhichOneof("kind")
                if kind == "command_ack":
                    self.acks[message.command_ack.sequence] = message.command_ack.refused
                elif kind == "heartbeat":
                    down.put(n.ControllerMessage(heartbeat_ack=n.HeartbeatAck(at_us=message.heartbeat.at_us)))
                elif kind == "report":
                    self.reports.append(message.report)
                    if not self.hold_acks:
                        self.acknowledge(message.report)
        except grpc.RpcError:
            pass  # the node is gone
        down.put(None)

    def acknowledge(self, report: n.Report) -> None:
        ack = n.ReportAck(through_sequence=report.sequence, spool_id=report.spool_id)
        self._down.put(n.ControllerMessage(report_ack=ack))

    def hang_up(self) -> None:
        """Ends the stream; the node reconnects."""
        count = len(self.registrations)
        self._down.put(None)
        wait(lambda: len(self.registrations) > count, "the node has come again")

    def admitted(self, times: int = 1) -> None:
        wait(lambda: len(self.registrations) >= times, "the node has registered")

    def command(self, epoch: int | None = None, **kind: Any) -> str:
        """Sends a command and waits for its acknowledgement: "" or the reason of the refusal."""
        self.sequence += 1
        sequence = self.sequence
        command = n.Command(epoch=self.epoch if epoch is None else epoch, sequence=sequence, **kind)
        self._down.put(n.ControllerMessage(command=command))
        return wait(
            lambda: [self.acks[sequence]] if sequence in self.acks else [], f"command {sequence} is acknowledged"
        )[0]

    def exits(self, job_id: int) -> list[n.StepExited]:
        """Exit reports for a job, without duplicates."""
        found = {(r.spool_id, r.sequence): r.exited for r in self.reports if r.WhichOneof("kind") == "exited"}
        return [e for e in found.values() if e.key.job_id == job_id]
