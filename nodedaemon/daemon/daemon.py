"""noded's loop: events in, `step`, `seal`, journal, effects out. The order rule lives here.

One coroutine drives the machine. It takes all waiting events, seals their batch, writes the records, syncs them in a
worker thread, and only then releases the effects. Events that arrive during the sync wait for the next
turn: so launches that arrive together share one sync, without a timer, and batches grow with the load.

When the journal cannot be written, or the launcher is gone, the daemon ends: running steps continue, and the next noded
adopts them.
"""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nodedaemon.base.nodeclock import NodeClock, wall_us
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.cgroups.find import remove_subtree
from nodedaemon.core import messages as core
from nodedaemon.core.gpumessages import Found
from nodedaemon.core.machine import NodeMachine
from nodedaemon.core.steps import StepKey, StepState
from nodedaemon.daemon import gpu_returned, inventory, link, profiles
from nodedaemon.daemon.adoption import Adoption
from nodedaemon.daemon.debuglog import NodeDebugLog
from nodedaemon.daemon.gpu_usage import GpuUsage
from nodedaemon.daemon.launching import LauncherHandle
from nodedaemon.daemon.outputreaders import OutputReaders
from nodedaemon.daemon.siteprograms import SitePrograms
from nodedaemon.daemon.stepspans import StepSpans
from nodedaemon.daemon.stream_port import StreamPort
from nodedaemon.daemon.supervisors import Supervisors
from nodedaemon.gpu import agent as gpu_agent
from nodedaemon.gpu import detect, mig, once
from nodedaemon.gpu.mps import FOLDER as MPS_FOLDER
from nodedaemon.gpu.mps import Mps
from nodedaemon.launch import wire
from nodedaemon.observe.exporter import NodeExporter, NodeSources
from nodedaemon.observe.stepusage import StepReader
from nodedaemon.spool.journal import COMPACT_BYTES
from nodedaemon.spool.space import CHECK_S, NO_ROOM, SPOOL_FULL
from nodedaemon.spool.spool import Spool
from penstock import __version__
from penstock.crash import crash_point
from penstock.errors import BadSetup
from penstock.threads import started_pool
from penstock.v1 import node_pb2
from penstock.values.jobid import EXTERN_STEP, OUTPUT_STEP, format_step

if TYPE_CHECKING:
    from nodedaemon.daemon.localauth import LocalAuth
    from penstock.security.ca import Credentials

log = logging.getLogger("penstock.noded")

PROTOCOL = 1
#: Events stepped before the journal is written: bounds the latency under a burst of events.
EVENTS_PER_TURN_MAX = 2000
#: Threads for blocking work: the sync, sweeping, killing what a dead supervisor left.
THREADS = 4


class Fatal(Exception):
    """The daemon has to end; the text says why."""


class Clock:
    """Wall time that never goes back, for GPUs, whose children have the machine's clock: read once, then advanced by
    the monotonic clock."""

    def __init__(self) -> None:
        self._base_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return self._base_us + time.monotonic_ns() // 1000


@dataclass(frozen=True)
class Settings:
    """The daemon's command-line settings."""

    node: wire.NodeFacts
    target: link.LinkTarget
    pretended: inventory.Pretended
    listener: socket.socket  # of the stream port
    stream_tls: bool
    metrics_port: int | None = None  # in place of the controller's setting; 0 = any free one


class Daemon:
    """One node daemon, once its launcher runs."""

    def __init__(
        self,
        settings: Settings,
        spool: Spool,
        launcher: LauncherHandle,
        cgroups: Cgroups,
        spool_lost: bool,
        local: "LocalAuth | None" = None,
    ) -> None:
        self._settings = settings
        self._spool_lost = spool_lost
        self.spans = StepSpans()
        self._local = local
        self._spool = spool
        self._cgroups = cgroups
        self._clock = spool.clock
        self._gpu_clock = Clock()
        self._started_at_us = self._clock.now_us()
        self._executor = started_pool(THREADS, "noded")
        node = settings.node
        self._inventory, found = inventory.take_inventory(
            node.node_name, settings.pretended, node.site.topology, detect.asks_nvml(spool.dir_fd)
        )
        if found.why:
            log.info("no GPUs: %s", found.why)
        settings.node.site.found(self._inventory)
        self._machine = NodeMachine()
        self._machine.replay(spool.records)
        self._debug = NodeDebugLog()
        self._inbox: list[core.NodeCoreEvent] = []
        self._wake = asyncio.Event()
        self._stopping = False
        self._supervisors = Supervisors(spool, launcher, cgroups, self._executor, self.post, self._clock.now_us)
        self._adoption = Adoption(spool.path, spool, cgroups, self._machine.live_steps)
        self._readers = OutputReaders(node, settings.target.cert_dir or "")
        self._stream_port = StreamPort(settings.listener, self._stepd_address, {OUTPUT_STEP: self._readers})
        self._readers.on_free = partial(self._stream_port.serve_waiting, OUTPUT_STEP)
        self._supervisors.on_ready = self._stream_port.is_here
        self._programs = SitePrograms(settings.node, self._executor, self._jobs)
        self._usage: GpuUsage | None = None
        self._mps: Mps | None = None
        self._gpus = self._make_gpus(found)
        self._exporter = self._make_exporter()
        self._supervisors.on_suspected = self._exporter.suspected
        node.site.listeners.append(lambda: self._exporter.use(node.site.settings.metrics))
        node.site.listeners.append(lambda: self._debug.use(node.site.settings.debug_flags))
        node.site.listeners.append(lambda: detect.remember(spool.dir_fd, node.site.settings.gpu.detect))
        if self._gpus is not None or self._inventory.gpus:
            self._inventory.gpu_constraint = settings.node.site.gpu_constraint()
        self._link = link.Link(
            settings.target, settings.node, self._registration, _heartbeat(self._clock, self._exporter.readings),
            self.post, self._registered, spool.contact,
            lambda ticket: self._stream_port.is_here(self._readers.announce(ticket)),
        )  # fmt: skip

    def post(self, event: core.NodeCoreEvent) -> None:
        """Passes an event to the machine; only from the loop's thread. A step's end gets the usage of its GPUs
        first."""
        if self._usage is not None and isinstance(event, core.StepEnded):
            self._usage.over(event, self._take)
        else:
            self._take(event)

    def _take(self, event: core.NodeCoreEvent) -> None:
        if isinstance(event, core.StepEnded) and (profile := self._profile(event)) is not None:
            self._inbox.append(profile)
        self._inbox.append(event)
        self._wake.set()

    def _profile(self, end: core.StepEnded) -> core.ForwardReport | None:
        """Returns the report of the step's profile, unless its end was reported before."""
        gpus = self._usage.profiles.end(end.key) if self._usage is not None else {}
        step = self._machine.steps.get(end.key)
        if step is None or not step.is_live or len(self._machine.unacked) > profiles.UNACKNOWLEDGED_MAX:
            return None
        every_s = self._settings.node.site.settings.profile_every_s
        return profiles.profile_report(end, self._spool.steps_fd, gpus, every_s)

    def _make_gpus(self, found: Found) -> gpu_agent.GpuAgent | None:
        """Makes the GPU agent; None where there are no GPUs, or where they are pretended."""
        is_asked = self._settings.pretended.gpus is None and found.why != inventory.NOT_ASKED
        if not is_asked or not gpu_agent.may_have(found, self._spool):
            return None
        context = gpu_agent.AgentContext(
            self._spool, self._cgroups, self._executor, self.post, self._gpu_clock.now_us, self._inventory,
            lambda: self._machine.unkillable_timeout_us, self._settings.node.site.topology,
            self._clock.now_us,
        )  # fmt: skip
        site = self._settings.node.site
        if mig.restore(self._spool.dir_fd, found.devices):
            found = once.find()
        site.gpus = agent = gpu_agent.GpuAgent(context, found)
        site.mps_base = os.path.join(os.path.abspath(self._spool.path), MPS_FOLDER)
        agent.mps = self._mps = Mps(site.mps_base, self._executor, self._launch, self._supervisors.refuse)
        agent.usage = self._usage = GpuUsage(agent, self._spool.steps_fd, site, self._clock.now_us, self._is_suspended)
        site.listeners.append(lambda: agent.take_settings(site.settings.gpu))
        return agent

    def _make_exporter(self) -> NodeExporter:
        """Makes the endpoint of metrics; it listens once the controller's settings say so."""
        spool, settings = self._spool, self._settings
        sources = NodeSources(
            settings.node.node_name, spool.path, StepReader(self._cgroups, spool.steps_fd), self._executor,
            lambda: [step.key for step in self._machine.live_steps()], self._gpu_clock.now_us, self._clock.now_us,
            settings.target.cert_dir, settings.metrics_port,
        )  # fmt: skip
        exporter = NodeExporter(sources, self._gpus)
        if self._gpus is not None:
            self._gpus.metrics = exporter
        return exporter

    def _is_suspended(self, job: tuple[int, int]) -> bool:
        live = [step for step in self._machine.live_steps() if (step.key.job_id, step.key.attempt) == job]
        return any(step.suspended for step in live)

    def _jobs(self) -> set[str]:
        """Returns JOB.ATTEMPT of all steps on this node."""
        return {f"{step.key.job_id}.{step.key.attempt}" for step in self._machine.live_steps()}

    def stop(self) -> None:
        """Ends after the event in progress; steps continue."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Runs until stopped. Raises Fatal."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self.stop)
        self._open_local()
        for step in self._machine.live_steps():
            self.spans.launched(step.key, step.span)
        await self._supervisors.open()
        await self._supervisors.adopt(self._machine)
        await self._turn()  # the registration reports what became of the old steps
        if self._gpus is not None:
            self._gpus.start([step.key for step in self._machine.live_steps()], self.stop)
        linking = loop.create_task(self._link.run())
        linking.add_done_callback(lambda task: self.stop())
        await self._adoption.start()
        checking = loop.create_task(self._programs.check_health())
        renewing = loop.create_task(self._renew())
        lost = loop.create_task(self._supervisors.launcher_lost.wait())
        lost.add_done_callback(lambda task: self.stop())
        try:
            while not self._stopping:
                await self._wait()
                await self._turn()
            if linking.done():
                linking.result()  # raises the error that ended it
            if self._gpus is not None:
                self._gpus.check()
            if lost.done():
                raise Fatal("the launcher has ended; steps continue, start the daemon again to adopt them")
        finally:
            checking.cancel()
            renewing.cancel()
            self._adoption.close()
            self._exporter.stop()
            lost.cancel()
            linking.cancel()
            await asyncio.gather(linking, lost, checking, renewing, return_exceptions=True)
            if self._gpus is not None:
                await self._gpus.stop()
            self._stream_port.close()
            self._readers.close()
            self._supervisors.close()
            if self._local is not None:
                self._local.close()
            self._executor.shutdown()
            if not self._machine.live_steps():
                remove_subtree(self._cgroups)
            self._spool.close()

    async def _renew(self) -> None:
        """Renews the node's certificate when that is due, where it has one."""
        target = self._settings.target
        if target.cert_dir is None:
            return
        from nodedaemon.daemon.renewal import Renewal

        def renewed(credentials: "Credentials") -> None:
            if self._local is not None:
                self._local.renewed(credentials)

        await Renewal(Path(target.cert_dir), "node", target.address, renewed).run()

    async def _wait(self) -> None:
        """Waits until there is an event or something is due."""
        deadline = self._machine.next_deadline()
        if not self._inbox and not self._stopping:
            timeout_s = None if deadline is None else max(deadline - self._clock.now_us(), 0) / 1_000_000
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                self._inbox.append(core.TimerDue())
        self._wake.clear()

    async def _turn(self) -> None:
        """Steps the waiting events, commits, and releases the effects."""
        now_us = self._clock.now_us()
        events = self._inbox[:EVENTS_PER_TURN_MAX]
        del self._inbox[:EVENTS_PER_TURN_MAX]
        if any(isinstance(event, core.Launch) for event in events) and self._spool.space.is_low():
            self._spool_full()
        self._debug.see(events)
        for event in events:
            self._machine.step(now_us, event)
            if isinstance(event, core.StepEnded):
                self._exporter.ended(event.key)
                if self._gpus is not None:
                    self._gpus.ended(event.key)
        if self._inbox:
            self._wake.set()
        batch = self._machine.seal()
        if batch is not None:
            await self._commit(batch)
            self._release(batch)

    async def _commit(self, batch: core.NodeBatch) -> None:
        """Writes the batch in a worker thread: a write blocks while the disk stands still, and heartbeats must not."""
        if batch.records or batch.durable:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._write, batch)
        if self._spool.space.is_given and not self._machine.full:
            self._spool_full()

    def _write(self, batch: core.NodeBatch) -> None:
        journal = self._spool.journal
        try:
            if batch.records:
                self._append(batch.records)
            if batch.durable:
                journal.sync()
                crash_point("journal.synced")
            if journal.size > COMPACT_BYTES:
                journal.compact(self._machine.snapshot())
        except OSError as error:
            raise Fatal(
                f"cannot write the journal: {error.strerror}; running steps continue; free some space and restart the daemon"
            ) from error

    def _append(self, records: tuple[core.AnyRecord, ...]) -> None:
        """Writes to the journal, using the reserve if need be."""
        try:
            self._spool.journal.append(records)
        except OSError as error:
            if error.errno not in NO_ROOM or not self._spool.space.give():
                raise
            self._spool.journal.append(records)

    def _spool_full(self) -> None:
        """Takes no new steps until there is space again."""
        if not self._machine.full:
            log.error("%s: %s; no new steps before there is room", self._spool.path, SPOOL_FULL)
            self._machine.full = True
            self.post(core.Notice(SPOOL_FULL, drain=True))
            asyncio.get_running_loop().call_later(CHECK_S, self._check_space)

    def _check_space(self) -> None:
        if self._spool.space.is_low() or not self._spool.space.take():
            asyncio.get_running_loop().call_later(CHECK_S, self._check_space)
            return
        log.info("%s: there is room again", self._spool.path)
        self._machine.full = False
        self.post(core.Notice(SPOOL_FULL, drain=True, clear=True))

    def _release(self, batch: core.NodeBatch) -> None:
        """Executes the batch's effects, now that its records are on disk."""
        swept = []
        self._debug.see(batch.effects)
        for effect in batch.effects:
            if isinstance(effect, core.AckCommand):
                self._link.send(effect.link, wire.ack_message(effect))
            elif isinstance(effect, core.SendReport):
                message = wire.report_message(effect, self._spool.boot_id, self._machine.spool_id)
                self._link.send(effect.link, message)
            elif isinstance(effect, core.StartStep):
                self.spans.launched(effect.key, effect.span)
                self._exporter.launched(effect.key, effect.order)
                if self._gpus is not None and effect.order.gpus:
                    self._gpus.began(effect.key, effect.order.user_id, tuple(effect.order.gpus))
                if self._mps is not None and effect.order.mps_gpu:
                    self._mps.bring(effect.key, effect.order)
                else:
                    self._launch(effect.key, effect.order)
            elif isinstance(effect, core.DeliverSignal):
                self._supervisors.send(effect)
            elif isinstance(effect, core.SweepStep):
                swept.append(effect.key)
            elif isinstance(effect, core.DoOrder):
                self._order(effect.body)
            elif isinstance(effect, core.RebootMachine):
                self._programs.reboot(effect.reason)
            elif isinstance(effect, core.DropLink):
                self._link.drop(effect.link, effect.why, refused=True)
            elif isinstance(effect, core.ReportUnkillable):
                log.error("step %s has not ended since SIGKILL was sent; look for processes in D state", effect.key)
                self._programs.unkillable(effect.key.job_id, format_step(effect.key.step_id))
        if swept:
            self._executor.submit(self._sweep, swept)

    def _order(self, body: bytes) -> None:
        if self._gpus is not None:
            command = node_pb2.Command.FromString(body)
            self._gpus.order(command)
            if command.WhichOneof("kind") == "return_gpus":
                back = command.return_gpus
                kept = self._gpus.devices_of_job(back.key.job_id, back.key.attempt)
                job, site = f"{back.key.job_id}.{back.key.attempt}", self._settings.node.site
                self._executor.submit(gpu_returned.close, site, job, tuple(back.uuid), kept)
        else:
            log.warning("an order about a GPU came, but NVML has none")

    def _launch(self, key: StepKey, order: LaunchOrder) -> None:
        """Prepares the step's files and folders, and hands the launch to the launcher."""
        self._supervisors.launch(key, order)
        if self._usage is not None and order.gpus:
            self._usage.ordered(key, order)

    def _sweep(self, keys: list[StepKey]) -> None:
        """Runs in a worker thread. A folder that cannot be removed is tried again when the daemon starts."""
        try:
            self._spool.sweep(keys)
        except OSError:
            log.exception("cannot remove step folders")

    def _open_local(self) -> None:
        if self._local is not None:
            try:
                self._local.start()
            except BadSetup as error:
                log.error("commands in jobs get no tokens here: %s", error)

    def _registered(self, registered: node_pb2.Registered) -> None:
        """Applies the controller's settings, before any of its commands."""
        if self._local is not None:
            try:
                self._local.write_cluster_file(registered.command_port)
            except BadSetup as error:
                log.error("commands in jobs do not find the controller: %s", error)

    def _stepd_address(self, key: StepKey) -> bytes | None:
        """Where a client's connection is sent; b"" = its step is not here yet, None = it never will be."""
        if key.step_id == EXTERN_STEP:
            return None
        step = self._machine.steps.get(key)
        is_over = key in self._machine.forgotten or (step is not None and step.state is StepState.TOMBSTONE)
        # A stepd stays after its step's end until its output was read.
        return self._supervisors.address_of(key) or (None if is_over else b"")

    def _held(self) -> list[node_pb2.HeldStep]:
        waiting = self._machine.unacknowledged_ends()
        steps = self._machine.steps.values()
        return [wire.held_step(step, not step.is_live and step.key not in waiting) for step in steps]

    def _registration(self) -> node_pb2.Register:
        if self._gpus is not None:
            self._gpus.fill(self._inventory)
        node = self._settings.node
        return node_pb2.Register(
            node_name=node.node_name,
            instance_id=node.instance_id,
            instance_type=node.instance_type,
            extra=node.extra,
            boot_id=self._spool.boot_id,
            version=__version__,
            protocol=PROTOCOL,
            inventory=self._inventory,
            held=self._held(),
            spool_lost=self._spool_lost,
            started_at_us=self._started_at_us,
            epoch_seen=self._machine.epoch,
            job_id_seen=self._machine.job_id_seen(),
            spool_id=self._machine.spool_id,
            stream_port=self._stream_port.number,
            stream_tls=self._settings.stream_tls,
            at_us=self._clock.now_us(),
        )


def _heartbeat(
    clock: NodeClock, gpu_readings: Callable[[], node_pb2.GpuReadings | None]
) -> Callable[[], node_pb2.Heartbeat]:
    def make() -> node_pb2.Heartbeat:
        load, free_mb = inventory.load_and_free_memory()
        return node_pb2.Heartbeat(
            cpu_load_centi=load, free_memory_mb=free_mb, at_us=clock.now_us(), wall_at_us=wall_us(), gpus=gpu_readings()
        )

    return make
