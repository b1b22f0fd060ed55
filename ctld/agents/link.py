"""One node's stream: outgoing messages in order, incoming ones as events.

Rules
    - Messages to a node are sent in the order in which the core emitted them: effects are queued here and encoded
      when they are sent, so a script that has to be fetched delays its own node only.
    - Commands carry (epoch, sequence). A sent command is kept until the node acknowledges it, to relate a refusal to it;
      it is not sent again on this stream (the stream is ordered and reliable), nor on the next one: when a stream ends
      its link drops everything, because at registration the core emits what follows from the state.
    - The queue is bounded. A node with COMMANDS_MAX pending commands loses its stream, registers again and gets what
      follows from the state then.
    - A report becomes an event when the inbox has room; until then this stream is not read.
    - Silence for SILENT_BEATS heartbeats ends the stream.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

# Any: an effect or report of the kind by which its function is selected
from typing import Any, Final, TypedDict

import msgspec

from ctld.agents.gpumessages import GPUS_MAX, facts_of, one_line, opinion_of
from ctld.agents.launch import FILL, launch_message, master_host, step_span, topology_address, trace_parent
from ctld.agents.nodetime import NodeTime
from ctld.agents.specs import SpecCache
from ctld.core.records.effects import ClearGpu, Effect, ForgetStep, GpuWork, LaunchStep, RebootNode, TerminateStep
from ctld.core.records.events import (
    Event,
    GpuIdle,
    GpuReported,
    GpuWorkDone,
    LaunchRefused,
    NodeNotice,
    StepExited,
    StepProfiled,
    StepStarted,
)
from ctld.core.records.gpu import GpuAction
from ctld.core.records.step import StepRow
from ctld.runtime.loop import Runtime
from penstock.crash import crash_point
from penstock.exporter.pace import WorkPace
from penstock.v1 import common_pb2, node_pb2
from penstock.values.jobid import EXTERN_STEP
from penstock.values.signals import SIGNAL_MAX
from penstock.values.taskends import GROUPS_MAX, RANKS_CHARS_MAX

log = logging.getLogger("penstock.ctld")

HEARTBEAT_MS: Final = 5_000
SILENT_BEATS: Final = 3
#: Maximum number of commands that are queued or not acknowledged. A node of 256 jobs has some hundred at its busiest.
COMMANDS_MAX: Final = 20_000
#: A bundle is closed at this size: with one more launch of the largest size it still fits a gRPC message of 16 MiB.
BUNDLE_BYTES_MAX: Final = 1024 * 1024
#: Maximum size of a launch: script, environment and request at their limits, and the layout of a step of 65,536 nodes
#: with short names.
LAUNCH_BYTES_MAX: Final = 14 * 1024 * 1024
#: Maximum size of the readings of a node's GPUs that are kept: of a thousand, which have some 25 bytes each.
READINGS_BYTES_MAX: Final = 32 * 1024
#: Messages of a node in one bundle; its daemon closes one at 256.
BUNDLE_MESSAGES_MAX: Final = 4096


class NodeLink:
    """One stream of one node, from its registration to its end."""

    def __init__(self, node: str, link_id: int, runtime: Runtime, specs: SpecCache, secret: bytes = b"") -> None:
        self.node = node
        self.link_id = link_id
        self.heard_at = time.monotonic()
        self.cpu_load_centi = 0
        self.free_memory_mb = 0
        self.gpu_readings: node_pb2.GpuReadings | None = None  # of its last heartbeat, as it said them
        self.gpus_at_us = 0  # when they were taken
        self.time = NodeTime()
        self.clock_off_us = 0  # by how much its machine's clock is ahead of ours;
        self.clock_limit_us = 0  # the limit that it exceeds by that (nodetime.judged), and since when
        self.clock_since_us = 0
        self.judge_clock: Callable[[NodeLink], None] = lambda link: None  # called at the first heartbeat
        self.certificate_end_us = 0  # until when the node's identity is valid; 0 = unauthenticated
        self.certificate_serial = 0  # of the certificate with which it was opened
        self._runtime = runtime
        self._specs = specs
        self._secret = secret
        self._out: deque[Effect | node_pb2.ControllerMessage] = deque()
        self._unacked: dict[int, Effect] = {}
        self._sequence = 0
        self._wake = asyncio.Event()
        self._has_beaten = False
        self._ended = ""  # why it ended; "" = it is open
        self._takers: dict[str, Callable[[Any], Awaitable[None] | None]] = {
            "heartbeat": self._heartbeat,
            "command_ack": self._command_ack,
            "report": self._report,
        }

    # ---- outgoing ------------------------------------------------------------------------------------------------

    def queued(self) -> int:
        """Returns the number of queued messages."""
        return len(self._out)

    def send(self, item: Effect | node_pb2.ControllerMessage) -> None:
        """Queues a message after all others."""
        if self._ended:
            return
        if len(self._out) + len(self._unacked) >= COMMANDS_MAX:
            self.end(f"{COMMANDS_MAX} commands wait for it")
            return
        self._out.append(item)
        self._wake.set()

    def end(self, why: str) -> None:
        """Ends the stream; queued messages are dropped."""
        if not self._ended:
            self._ended = why
            self._runtime.metrics.links_dropped += 1
            log.warning("node %s: stream %d ends: %s", self.node, self.link_id, why)
            self._out.clear()
            self._wake.set()

    def finish(self, last: node_pb2.ControllerMessage) -> None:
        """Sends one last message and ends."""
        self._out.clear()
        self._out.append(last)
        self._ended = "finished"
        self._wake.set()

    async def outgoing(self) -> AsyncIterator[node_pb2.ControllerMessage]:
        """Yields the messages, as they become due, until the link ends. Messages that are ready together are bundled."""
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
        """Encodes queued messages, up to BUNDLE_BYTES_MAX, as one; and returns the crash points that follow its
        sending."""
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
            if message.HasField("registered"):  # the answer to a registration is sent alone
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
            why = "its script is no longer in the database"
            self._runtime.post(LaunchRefused(self.node, effect.job_id, effect.attempt, effect.step_id, why))
            return None
        message = node_pb2.ControllerMessage()
        self._fill(message.command.launch, effect, spec)
        size = message.ByteSize()
        if size > LAUNCH_BYTES_MAX:
            why = f"its launch has {size} bytes, the limit is {LAUNCH_BYTES_MAX}: make script, environment or layout smaller"
            log.error("node %s: %s is not sent: %s", self.node, _describe(effect), why)
            self._runtime.post(LaunchRefused(self.node, effect.job_id, effect.attempt, effect.step_id, why, never=True))
            return None
        return self._numbered(effect, message)

    def _fill(self, launch: node_pb2.LaunchStep, effect: LaunchStep, spec: common_pb2.JobSpec) -> None:
        state = self._runtime.core.state
        launch_message(effect, spec, state.config.cluster_name, self._secret, launch)
        kind, above = state.config.topology.kind, state.layout.switches_above.get(effect.node, ())
        launch.facts.master_host = master_host(state, effect.job)
        launch.facts.topology_addr, launch.facts.topology_pattern = topology_address(kind, above, effect.node)
        launch.span = step_span(state.config, effect.job, effect.step_id)
        if effect.step is None:  # steps have what their srun has
            launch.facts.trace_parent = trace_parent(state.config, effect.job)
        if effect.step is not None and effect.step.parts:
            first = state.nodes.get(_first_node(effect.step))
            launch.facts.master_host = first.config.addr if first is not None else ""
        partition = state.partitions.get(effect.job.partition)
        if partition is not None and partition.config.allow_new_privs is not None:
            launch.allow_new_privs = partition.config.allow_new_privs

    async def _spec_of(self, effect: LaunchStep) -> common_pb2.JobSpec | None:
        if effect.step_id == EXTERN_STEP:
            return common_pb2.JobSpec()  # the extern step runs no user code
        return await self._specs.get(effect.job.spec_hash if effect.step is None else effect.step.spec_hash)

    def _command(self, effect: Effect) -> node_pb2.ControllerMessage:
        message = self._numbered(effect, node_pb2.ControllerMessage())
        FILL[type(effect)](message.command, effect, self._runtime.clock_us())
        return message

    def _numbered(self, effect: Effect, message: node_pb2.ControllerMessage) -> node_pb2.ControllerMessage:
        self._sequence += 1
        self._unacked[self._sequence] = effect
        self._runtime.metrics.commands_sent += 1
        message.command.epoch = self._runtime.epoch
        message.command.sequence = self._sequence
        return message

    # ---- incoming ------------------------------------------------------------------------------------------------

    async def incoming(self, messages: AsyncIterator[node_pb2.NodeMessage]) -> None:
        """Handles messages until the node closes its side."""
        takers, runtime = self._takers, self._runtime
        pace = WorkPace()
        async for bundle in messages:
            await pace.begin()
            self.heard_at = time.monotonic()
            if len(bundle.more) > BUNDLE_MESSAGES_MAX:
                self.end(f"it sent {len(bundle.more)} messages at once, the limit is {BUNDLE_MESSAGES_MAX}")
                return
            async for message in pace.over((bundle, *bundle.more)):
                kind = message.WhichOneof("kind")
                taker = takers.get(kind or "")
                if taker is None:
                    self.end(f"it sent {kind or 'an empty message'} after its registration")
                    return
                if (working := taker(getattr(message, kind))) is not None:
                    await working
            await runtime.room()
        if not self._ended:
            self.end("the node closed it")

    def _heartbeat(self, beat: node_pb2.Heartbeat) -> None:
        self.cpu_load_centi = beat.cpu_load_centi
        self.free_memory_mb = beat.free_memory_mb
        self.time.heard(beat.at_us, beat.wall_at_us)
        self._take_readings(beat)
        if not self._has_beaten:
            self._has_beaten = True
            self.judge_clock(self)
        at_us = self._runtime.clock_us()
        self.send(node_pb2.ControllerMessage(heartbeat_ack=node_pb2.HeartbeatAck(at_us=at_us)))

    def _take_readings(self, beat: node_pb2.Heartbeat) -> None:
        """Keeps what it says of its GPUs, in place of what it said before; rpc/cluster/gpureadings.py judges it."""
        self.gpu_readings = None
        if beat.HasField("gpus") and beat.gpus.ByteSize() <= READINGS_BYTES_MAX:
            self.gpu_readings = node_pb2.GpuReadings()
            self.gpu_readings.CopyFrom(beat.gpus)  # the heartbeat itself would keep all of its bundle
            self.gpus_at_us = self.by_our_clock(beat.gpus.at_us)

    def by_our_clock(self, node_us: int) -> int:
        """Returns a time of the node's by the controller's clock."""
        return self.time.by_our_clock(node_us, self._runtime.clock_us())

    def takes_profiles(self) -> bool:
        """Whether the inbox has room for events as large as a profile; else the report is acknowledged without it."""
        return len(self._runtime.inbox.events) < PROFILE_EVENTS_MAX

    def _command_ack(self, ack: node_pb2.CommandAck) -> None:
        effect = self._unacked.pop(ack.sequence, None)
        if not ack.refused or effect is None:
            return
        log.warning("node %s refused %s: %s", self.node, _describe(effect), ack.refused)
        if isinstance(effect, LaunchStep):
            self._runtime.post(
                LaunchRefused(self.node, effect.job_id, effect.attempt, effect.step_id, ack.refused[:WHY_MAX])
            )

    def _report(self, report: node_pb2.Report) -> Awaitable[None] | None:
        kind = report.WhichOneof("kind")
        make = REPORTS.get(kind or "")
        if len(report.spool_id) > SPOOL_ID_MAX:
            self.end(f"the name of its spool has {len(report.spool_id)} characters, the limit is {SPOOL_ID_MAX}")
            return None
        if make is None:
            self.end("it sent a report of a kind that is not known here")
            return None
        self._runtime.metrics.reports += 1
        crash_point(f"{kind}:before-step")
        event = make(self, report)
        if isinstance(event, GpuReported) and report.gpus.health:
            return self._post_with_opinions(event, report.gpus)
        self._runtime.post(event)
        return None

    async def _post_with_opinions(self, event: GpuReported, said: node_pb2.GpuReport) -> None:
        """Adds the health of GPUs, of which a report may have thousands, in turns of the loop."""
        opinions = tuple([opinion_of(health) async for health in WorkPace().over(said.health[:GPUS_MAX])])
        self._runtime.post(msgspec.structs.replace(event, opinions=opinions))


def _first_node(step: StepRow) -> str:
    """Returns the node of rank 0 of a step."""
    return next((part.node for part in step.parts or () if 0 in part.ranks), step.node)


#: As in a registration.
SPOOL_ID_MAX: Final = 256
#: Maximum number of usage figures of a step on one node; there are some ten kinds.
METRICS_MAX: Final = 32
#: Queued events above which profiles are dropped: each may have 63 KiB, other events a kilobyte.
PROFILE_EVENTS_MAX: Final = 1_000
#: Maximum number of jobs in one report of a GPU: more than can share it.
JOBS_MAX: Final = 4096
#: Maximum length of a node's explanation, which goes into the job's history.
WHY_MAX: Final = 1024


class ReportHead(TypedDict):
    """The fields of an event that identify the report that it is made from."""

    node: str
    spool_id: str
    sequence: int
    link_id: int


def _head(link: NodeLink, report: node_pb2.Report) -> ReportHead:
    """Returns the fields that identify a report, which every event made from it has."""
    return {"node": link.node, "spool_id": report.spool_id, "sequence": report.sequence, "link_id": link.link_id}


def _started(link: NodeLink, report: node_pb2.Report) -> StepStarted:
    started = report.started
    key = started.key
    return StepStarted(
        link.node, key.job_id, key.attempt, key.step_id, link.by_our_clock(started.at_us), report.spool_id, report.sequence,
        link.link_id,
    )  # fmt: skip


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
        start_at_us=link.by_our_clock(end.start_at_us),
        end_at_us=link.by_our_clock(end.end_at_us),
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
        task_ends=_task_ends(end) if end.task_ends else (),
        task_ends_left_out=end.task_ends_left_out,
    )


def _task_ends(end: node_pb2.StepExited) -> tuple[tuple[int, int, str], ...]:
    """Returns the groups of its tasks up to the first that is too much: the core does not take it, and knows of it."""
    found, room = [], RANKS_CHARS_MAX
    for one in end.task_ends[: GROUPS_MAX + 1]:
        found.append((one.exit.code, one.exit.signal, one.ranks[: RANKS_CHARS_MAX + 1]))
        room -= len(one.ranks)
        if room < 0:
            break
    return tuple(found)


def _profiled(link: NodeLink, report: node_pb2.Report) -> StepProfiled:
    key = report.profile.key
    return StepProfiled(
        **_head(link, report),
        job_id=key.job_id,
        attempt=key.attempt,
        step_id=key.step_id,
        profile=report.profile.profile if link.takes_profiles() else b"",
    )


def _noticed(link: NodeLink, report: node_pb2.Report) -> NodeNotice:
    notice = report.notice
    return NodeNotice(
        **_head(link, report),
        at_us=link.by_our_clock(notice.at_us),
        reason=notice.reason[:WHY_MAX],
        drain=notice.drain,
        fail=notice.fail,
        clear=notice.clear,
        job_id=notice.key.job_id,
        attempt=notice.key.attempt,
        step_id=notice.key.step_id,
        signal_no=notice.signal if notice.signal <= SIGNAL_MAX else 0,
    )


#: Fields of later versions beside these are reported and ignored.
ACTIONS: Final = {int(action): action for action in GpuAction}


def _gpu_report(link: NodeLink, report: node_pb2.Report) -> GpuReported:
    said = report.gpus
    found = said.inventory
    return GpuReported(
        **_head(link, report),
        at_us=said.at_us,
        opinions=(),  # added by the link
        action=ACTIONS.get(said.action, GpuAction.NOTE),
        jobs=tuple(dict.fromkeys((key.job_id, key.attempt) for key in said.jobs[:JOBS_MAX])),
        cause=one_line(said.cause),
        gpus=facts_of(said.inventory) if said.HasField("inventory") else None,
        versions=(one_line(found.gpu_driver), one_line(found.cuda_version), one_line(found.nvml_version)),
        why=one_line(found.gpu_why),
        by_our_clock_us=link.by_our_clock(said.at_us),
    )


def _gpu_work_done(link: NodeLink, report: node_pb2.Report) -> GpuWorkDone:
    done = report.gpu_work_done
    return GpuWorkDone(
        **_head(link, report),
        work_id=done.work_id,
        uuid=done.uuid,
        ok=done.ok,
        text=one_line(done.text),
        untried=done.untried,
        gpus=facts_of(done.inventory) if done.HasField("inventory") else None,
    )


def _gpu_idle(link: NodeLink, report: node_pb2.Report) -> GpuIdle:
    idle = report.gpu_idle
    return GpuIdle(
        **_head(link, report),
        job_id=idle.key.job_id,
        attempt=idle.key.attempt,
        uuids=tuple(map(one_line, idle.uuid[:GPUS_MAX])),
        since_us=link.by_our_clock(idle.since_us),
        over=idle.over,
        unused=idle.unused,
    )


#: Reports as events, by their kind.
REPORTS: Final[dict[str, Callable[[NodeLink, node_pb2.Report], Event]]] = {
    "started": _started,
    "exited": _exited,
    "notice": _noticed,
    "gpus": _gpu_report,
    "gpu_work_done": _gpu_work_done,
    "gpu_idle": _gpu_idle,
    "profile": _profiled,
}


def _points(item: Effect | node_pb2.ControllerMessage) -> tuple[str, str]:
    """Returns the names of the crash points before and after something is sent; "" = none."""
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
