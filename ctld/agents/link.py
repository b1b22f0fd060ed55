"""One node's stream: what goes down in order, what comes up as events.

Rules
    - Everything for a node leaves in the order in which the core said it: effects wait here as they are and become
      messages when it is their turn, so a script that has to be fetched delays its own node only.
    - Commands carry (epoch, sequence). What was sent is kept until the node acknowledges it, to know what a refusal
      speaks of; it is not sent again on this stream (the stream is ordered and reliable), nor on the next one: when a
      stream ends its link drops everything, because at registration the core emits what the state calls for.
    - The queue is bounded. A node that lets COMMANDS_MAX pile up loses its stream, comes back and gets what the state
      calls for then.
    - A report becomes an event when the inbox has room; until then this stream is not read.
    - Silence for SILENT_BEATS heartbeats ends the stream.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from ctld.agents.gpumessages import GPUS_MAX, facts_of, opinion_of, plain
from ctld.agents.launch import FILL, launch_message, master_host, topology_address
from ctld.agents.specs import SpecCache
from ctld.core.effects import ClearGpu, Effect, ForgetStep, GpuWork, LaunchStep, RebootNode, TerminateStep
from ctld.core.events import (
    AnyEvent,
    GpuIdle,
    GpuReported,
    GpuWorkDone,
    LaunchRefused,
    NodeNotice,
    StepExited,
    StepStarted,
)
from ctld.core.gpu_model import GpuAction
from ctld.core.step_model import StepRow
from ctld.runtime.loop import Runtime
from ctld.runtime.points import crash_point
from penstock.v1 import common_pb2, node_pb2
from penstock.values.jobid import EXTERN_STEP

log = logging.getLogger("penstock.ctld")

HEARTBEAT_MS: Final = 5_000
SILENT_BEATS: Final = 3
#: Commands that wait or are not acknowledged. A node of 256 jobs has some hundred at its busiest.
COMMANDS_MAX: Final = 20_000
#: A bundle is closed when it has so much: with one more launch of the largest size it still fits a gRPC message.
BUNDLE_BYTES_MAX: Final = 1024 * 1024


class NodeLink:
    """One stream of one node, from its registration to its end."""

    def __init__(
        self, node: str, link_id: int, runtime: Runtime, specs: SpecCache, epoch: int, secret: bytes = b""
    ) -> None:
        self.node = node
        self.link_id = link_id
        self.heard_at = time.monotonic()
        self.cpu_load_centi = 0
        self.free_memory_mb = 0
        self._runtime = runtime
        self._specs = specs
        self._epoch = epoch
        self._secret = secret
        self._out: deque[Effect | node_pb2.ControllerMessage] = deque()
        self._unacked: dict[int, Effect] = {}
        self._sequence = 0
        self._wake = asyncio.Event()
        self._ended = ""  # why it ended; "" = it goes on
        self._takers: dict[str, Callable[[Any], None]] = {
            "heartbeat": self._heartbeat,
            "command_ack": self._command_ack,
            "report": self._report,
        }

    # ---- down ----------------------------------------------------------------------------------------------------

    def queued(self) -> int:
        """Messages that wait to be sent."""
        return len(self._out)

    def send(self, item: Effect | node_pb2.ControllerMessage) -> None:
        """Put something behind everything else."""
        if self._ended:
            return
        if len(self._out) + len(self._unacked) >= COMMANDS_MAX:
            self.end(f"{COMMANDS_MAX} commands wait for it")
            return
        self._out.append(item)
        self._wake.set()

    def end(self, why: str) -> None:
        """End the stream; what waits is dropped."""
        if not self._ended:
            self._ended = why
            self._runtime.metrics.links_dropped += 1
            log.warning("node %s: stream %d ends: %s", self.node, self.link_id, why)
            self._out.clear()
            self._wake.set()

    def finish(self, last: node_pb2.ControllerMessage) -> None:
        """Say one last thing and end."""
        self._out.clear()
        self._out.append(last)
        self._ended = "finished"
        self._wake.set()

    async def outgoing(self) -> AsyncIterator[node_pb2.ControllerMessage]:
        """The messages, as they become due, until the link ends. What is ready together travels together."""
        while True:
            while self._out:
                bundle, sent = await self._bundle()
                if bundle is not None:
                    yield bundle
                for point in sent:
                    crash_point(point)
            if self._ended:
                return
            self._wake.clear()
            await self._wake.wait()

    async def _bundle(self) -> tuple[node_pb2.ControllerMessage | None, list[str]]:
        """What waits, up to BUNDLE_BYTES_MAX, as one message; and the crash points that follow its sending."""
        bundle: node_pb2.ControllerMessage | None = None
        size_bytes, sent = 0, []
        while self._out and size_bytes < BUNDLE_BYTES_MAX:
            item = self._out.popleft()
            message = await self._message(item)
            if message is None:
                continue
            before, after = _points(item)
            if before:
                crash_point(before)
            if after:
                sent.append(after)
            size_bytes += message.ByteSize()
            if bundle is None:
                bundle = message
            else:
                bundle.more.append(message)
            if message.HasField("registered"):  # the answer to a registration is read alone
                break
        return bundle, sent

    async def _message(self, item: Effect | node_pb2.ControllerMessage) -> node_pb2.ControllerMessage | None:
        if isinstance(item, node_pb2.ControllerMessage):
            return item
        return await self._launch(item) if isinstance(item, LaunchStep) else self._command(item)

    async def _launch(self, effect: LaunchStep) -> node_pb2.ControllerMessage | None:
        spec = await self._spec_of(effect)
        if self._ended:
            return None
        if spec is None:
            why = "its script is not in the database any more"
            self._runtime.post(LaunchRefused(self.node, effect.job_id, effect.attempt, effect.step_id, why))
            return None
        message = self._numbered(effect)
        state = self._runtime.core.state
        launch = launch_message(effect, spec, state.config.cluster_name, self._secret)
        kind, above = state.config.topology.kind, state.switches_above.get(effect.node, ())
        launch.facts.master_host = master_host(state, effect.job)
        launch.facts.topology_addr, launch.facts.topology_pattern = topology_address(kind, above, effect.node)
        if effect.step is not None and effect.step.parts:
            first = state.nodes.get(_first_node(effect.step))
            launch.facts.master_host = first.config.addr if first is not None else ""
        partition = state.partitions.get(effect.job.partition)
        if partition is not None and partition.config.allow_new_privs is not None:
            launch.allow_new_privs = partition.config.allow_new_privs
        message.command.launch.CopyFrom(launch)
        return message

    async def _spec_of(self, effect: LaunchStep) -> common_pb2.JobSpec | None:
        if effect.step_id == EXTERN_STEP:
            return common_pb2.JobSpec()  # a holder runs nothing of the user's
        return await self._specs.get(effect.job.spec_hash if effect.step is None else effect.step.spec_hash)

    def _command(self, effect: Any) -> node_pb2.ControllerMessage:
        message = self._numbered(effect)
        FILL[type(effect)](message.command, effect, self._runtime.clock_us())
        return message

    def _numbered(self, effect: Effect) -> node_pb2.ControllerMessage:
        self._sequence += 1
        self._unacked[self._sequence] = effect
        self._runtime.metrics.commands_sent += 1
        return node_pb2.ControllerMessage(command=node_pb2.Command(epoch=self._epoch, sequence=self._sequence))

    # ---- up ------------------------------------------------------------------------------------------------------

    async def incoming(self, messages: AsyncIterator[node_pb2.NodeMessage]) -> None:
        """Take messages until the node has nothing more to say."""
        takers, runtime = self._takers, self._runtime
        async for bundle in messages:
            self.heard_at = time.monotonic()
            for message in (bundle, *bundle.more):
                kind = message.WhichOneof("kind")
                taker = takers.get(kind or "")
                if taker is None:
                    self.end(f"it sent {kind or 'an empty message'} after its registration")
                    return
                taker(getattr(message, kind))
            await runtime.room()
        if not self._ended:
            self.end("the node closed it")

    def _heartbeat(self, beat: node_pb2.Heartbeat) -> None:
        self.cpu_load_centi, self.free_memory_mb = beat.cpu_load_centi, beat.free_memory_mb
        at_us = self._runtime.clock_us()
        self.send(node_pb2.ControllerMessage(heartbeat_ack=node_pb2.HeartbeatAck(at_us=at_us)))

    def _command_ack(self, ack: node_pb2.CommandAck) -> None:
        effect = self._unacked.pop(ack.sequence, None)
        if not ack.refused or effect is None:
            return
        log.warning("node %s refused %s: %s", self.node, _describe(effect), ack.refused)
        if isinstance(effect, LaunchStep):
            self._runtime.post(
                LaunchRefused(self.node, effect.job_id, effect.attempt, effect.step_id, ack.refused[:WHY_MAX])
            )

    def _report(self, report: node_pb2.Report) -> None:
        kind = report.WhichOneof("kind")
        make = REPORTS.get(kind or "")
        if make is None:
            self.end("it sent a report of a kind that is not known here")
            return
        self._runtime.metrics.reports += 1
        crash_point(f"{kind}:before-step")
        self._runtime.post(make(self, report))


def _first_node(step: StepRow) -> str:
    """Where rank 0 of a step runs."""
    return next((part.node for part in step.parts or () if 0 in part.ranks), step.node)


#: Figures of a step on one node; there are some ten kinds.
METRICS_MAX: Final = 32
#: A node's explanation goes into the job's story; longer than this is not one.
WHY_MAX: Final = 1024


def _head(link: NodeLink, report: node_pb2.Report) -> dict[str, Any]:
    """Which report of whose it is: what every event made of one says."""
    return {"node": link.node, "spool_id": report.spool_id, "sequence": report.sequence, "link_id": link.link_id}


def _started(link: NodeLink, report: node_pb2.Report) -> StepStarted:
    started = report.started
    key = started.key
    return StepStarted(
        link.node, key.job_id, key.attempt, key.step_id, started.at_us, report.spool_id, report.sequence, link.link_id
    )


def _exited(link: NodeLink, report: node_pb2.Report) -> StepExited:
    end = report.exited
    key, usage = end.key, end.usage
    return StepExited(
        node=link.node,
        job_id=key.job_id,
        attempt=key.attempt,
        step_id=key.step_id,
        spool_id=report.spool_id,
        sequence=report.sequence,
        link_id=link.link_id,
        start_at_us=end.start_at_us,
        end_at_us=end.end_at_us,
        exit_code=end.exit.code,
        exit_signal=end.exit.signal,
        failure=end.failure[:WHY_MAX],
        out_of_memory=end.out_of_memory,
        untried=end.untried,
        holder_stage=end.holder_stage[:WHY_MAX],
        metrics=tuple((m.kind, m.total, m.max, m.max_task, m.min, m.min_task) for m in usage.metrics[:METRICS_MAX]),
        metric_tasks=usage.tasks,
        lease_lapsed=end.lease_lapsed,
        rebooted=end.rebooted,
        user_cpu_us=usage.user_cpu_us,
        system_cpu_us=usage.system_cpu_us,
        max_rss_kb=usage.max_rss_kb,
        max_vmsize_kb=usage.max_vmsize_kb,
        disk_read_bytes=usage.disk_read_bytes,
        disk_write_bytes=usage.disk_write_bytes,
    )


def _noticed(link: NodeLink, report: node_pb2.Report) -> NodeNotice:
    notice = report.notice
    return NodeNotice(
        **_head(link, report),
        at_us=notice.at_us,
        reason=notice.reason[:WHY_MAX],
        drain=notice.drain,
        fail=notice.fail,
        clear=notice.clear,
        job_id=notice.key.job_id,
        attempt=notice.key.attempt,
        step_id=notice.key.step_id,
    )


#: What a later version may say beside these is told and not done.
ACTIONS: Final = {int(action): action for action in GpuAction}


def _gpu_report(link: NodeLink, report: node_pb2.Report) -> GpuReported:
    said = report.gpus
    found = said.inventory
    return GpuReported(
        **_head(link, report),
        at_us=said.at_us,
        opinions=tuple(opinion_of(health) for health in said.health[:GPUS_MAX]),
        action=ACTIONS.get(said.action, GpuAction.NOTE),
        jobs=tuple(dict.fromkeys((key.job_id, key.attempt) for key in said.jobs)),
        cause=plain(said.cause),
        gpus=facts_of(said.inventory) if said.HasField("inventory") else None,
        versions=(plain(found.gpu_driver), plain(found.cuda_version), plain(found.nvml_version)),
        why=plain(found.gpu_why),
    )


def _gpu_work_done(link: NodeLink, report: node_pb2.Report) -> GpuWorkDone:
    done = report.gpu_work_done
    return GpuWorkDone(
        **_head(link, report),
        work_id=done.work_id,
        uuid=done.uuid,
        ok=done.ok,
        text=plain(done.text),
        untried=done.untried,
        gpus=facts_of(done.inventory) if done.HasField("inventory") else None,
    )


def _gpu_idle(link: NodeLink, report: node_pb2.Report) -> GpuIdle:
    idle = report.gpu_idle
    return GpuIdle(
        **_head(link, report),
        job_id=idle.key.job_id,
        attempt=idle.key.attempt,
        uuids=tuple(idle.uuid),
        since_us=idle.since_us,
        over=idle.over,
        unused=idle.unused,
    )


#: Reports as events, by their kind.
REPORTS: Final[dict[str, Callable[[NodeLink, node_pb2.Report], AnyEvent]]] = {
    "started": _started,
    "exited": _exited,
    "notice": _noticed,
    "gpus": _gpu_report,
    "gpu_work_done": _gpu_work_done,
    "gpu_idle": _gpu_idle,
}


def _points(item: Effect | node_pb2.ControllerMessage) -> tuple[str, str]:
    """Names of the crash points before and after something is sent; "" = none."""
    if isinstance(item, node_pb2.ControllerMessage):
        return ("report:before-ack", "report:after-ack") if item.HasField("report_ack") else ("", "")
    return POINTS.get(type(item), ("", ""))


POINTS: Final[dict[type, tuple[str, str]]] = {
    LaunchStep: ("launch:before-send", "launch:after-send"),
    TerminateStep: ("terminate:before-send", ""),
    ForgetStep: ("forget:before-send", ""),
}


def _describe(effect: Any) -> str:
    if isinstance(effect, RebootNode):
        return "to reboot"
    if isinstance(effect, GpuWork | ClearGpu):
        return f"{type(effect).__name__} of {effect.uuid}"
    return f"{type(effect).__name__} of job {effect.job_id} attempt {effect.attempt} step {effect.step_id}"
