"""The GPU agent, the daemon's one entry to GPUs: it polls and judges them, prepares launches and does maintenance.

    watch.py --observations--> agent --> core/gpuhealth.py --consequences--> reports, notices, signals
    launch/wire.py  --resolve(uuids)--> agent    daemon/daemon.py --began, ended, order--> agent

Rules
    - Observations are handled one by one, in order; the owners of processes are looked up first, in a worker thread.
    - The health machine's memory is on disk before its conclusions are reported.
    - The GPUs of a step are on disk before the step starts, so that a restarted daemon can attribute failures.
    - NVML is never called here, and nothing is set on a card.

Accounting, MPS and MIG attach to it as described in hooks.py. Deliberately absent: the interpretation of signals
(core/gpuhealth.py), draining (the controller).
"""

import asyncio
import logging
import signal
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import msgspec

from nodedaemon.base import proctree
from nodedaemon.base.topology_info import NodeTopology
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.core import gpuhealth_messages as words
from nodedaemon.core import messages as core
from nodedaemon.core.gpuhealth import HealthMachine
from nodedaemon.core.gpumessages import Device, Found, Polled, WatchMessage
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu import kept, messages, owners, xids
from nodedaemon.gpu.hooks import Listener
from nodedaemon.gpu.mig import Divider
from nodedaemon.gpu.watch import GpuWatch
from nodedaemon.gpu.works import WorkDone, Works
from nodedaemon.spool.spool import Spool
from nodedaemon.spool.steprecord import NEVER
from penstock.v1 import node_pb2
from penstock.values.errors import BadValue
from penstock.values.gpustates import GpuState

log = logging.getLogger("penstock.noded")

HEALTH, STEPS = "gpu-health.json", "gpu-steps.json"
POLL_S = 10.0
#: Time for the children to see the result of a division.
SEEN_S = 15.0
#: Ended jobs that processes left on a GPU may belong to.
ENDED_MAX = 256
#: Health in which a GPU is given to no launch, and the reason.
_BROKEN = (GpuState.FAILED, GpuState.UNRESPONSIVE)


@dataclass(frozen=True)
class AgentContext:
    """The daemon's interface for the agent."""

    spool: Spool
    cgroups: Cgroups
    executor: Executor
    post: Callable[[core.NodeCoreEvent], None]
    now_us: Callable[[], int]
    inventory: node_pb2.Inventory  # as it is registered
    unkillable_us: Callable[[], int]
    topology: NodeTopology | None = None
    node_us: Callable[[], int] | None = None  # the node's time, for reports; None = as now_us

    def report_us(self) -> int:
        """Returns the time of a report."""
        return (self.node_us or self.now_us)()


#: NVML's errors that mean there is nothing to watch: no GPU, no library.
_NOTHING = (6, 12)


def may_have(found: Found, spool: Spool) -> bool:
    """Whether this node may have GPUs that NVML knows: it lists some, or it fails, or there were some before."""
    fails = bool(found.why) and found.code not in _NOTHING
    return bool(found.devices or found.nameless) or fails or kept.exists(spool.dir_fd, HEALTH)


class GpuAgent:
    """The GPUs of this node. Made before the loop runs; `start` begins the work."""

    def __init__(self, context: AgentContext, found: Found) -> None:
        """found: NVML's inventory at the daemon's start."""
        self._context = context
        self.executor = context.executor
        self.found = found
        self.watch = GpuWatch(self.take)
        self.usage: Listener = Listener()
        self.mps: Listener = Listener()
        self.metrics: Listener = Listener()
        self.settings = node_pb2.GpuSettings()
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[WatchMessage | words.HealthEvent | asyncio.Future[None]] = asyncio.Queue()
        self._judging: asyncio.Task[None] | None = None
        self._poll_running: asyncio.Task[Polled | None] | None = None
        self._poll_again = False
        self._poll_timer: asyncio.TimerHandle | None = None
        self._knows_pids = owners.knows_pids()
        if not self._knows_pids:
            log.info("this daemon has pids of its own: what jobs leave on GPUs is not looked for")
        self._saved = b""
        self._log_read: int | None = None
        self._held: dict[StepKey, words.StepGpus] = {}
        self._ended: OrderedDict[tuple[int, int], int] = OrderedDict()  # jobs that had GPUs, with their uids
        self._machine = HealthMachine(kept.load(context.spool.dir_fd, HEALTH, words.Memory), xids.table())
        self._works = Works(
            context.spool.dir_fd,
            context.executor,
            self.device,
            lambda uuid: bool(self.steps_using(uuid)),
            self._work_done,
        )
        self.mig = Divider(context.spool.dir_fd, context.executor, self.devices)
        self._works.divide = self._divide
        self._judge(self._listed())

    # -- for the daemon

    def start(self, live: list[StepKey], when_over: Callable[[], None]) -> None:
        """Begins. `live`: the steps that continue from before; `when_over` is called if the agent ends by itself."""
        missed = self.watch.catch_up(self._machine.memory.log_read)
        over: list[StepKey] = []
        for held in kept.load(self._context.spool.dir_fd, STEPS, list[words.StepGpus]) or []:
            if held.key in live:
                self.began(held.key, held.uid, held.uuids)
            else:
                self._ended[held.key.job_id, held.key.attempt] = held.uid
                self.queue_event(held)
                over.append(held.key)
        for xid in missed:  # attributed to the jobs that had the GPUs then, not to later ones
            self.queue_event(xid)
        self._queue_log_read()
        for key in over:
            self.queue_event(words.Released(key))
        self._save_steps()
        self._judging = self._loop.create_task(self._run())
        self._judging.add_done_callback(lambda task: when_over())
        self.watch.start(self.settings.poll_s or POLL_S, self.found)
        self._works.resume()
        for listener in (self.usage, self.mps):
            listener.start()

    async def stop(self) -> None:
        """Ends the children; steps continue."""
        for listener in (self.usage, self.mps):
            listener.stop()
        self._poll_again = False
        if self._poll_running is not None:
            self._poll_running.cancel()
            await asyncio.gather(self._poll_running, return_exceptions=True)
        await self.watch.stop()
        await self._works.stop()
        if self._judging is not None:
            self._judging.cancel()
            await asyncio.gather(self._judging, return_exceptions=True)

    def check(self) -> None:
        """Raises the error that ended the agent: a bug."""
        if self._judging is not None and self._judging.done():
            self._judging.result()

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """The controller's configuration."""
        self.settings.CopyFrom(settings)
        self.mig.take_settings(settings)
        self._works.programs = {
            words.GpuWorkKind.CHECK: settings.check_program, words.GpuWorkKind.RESET: settings.reset_program,
        }  # fmt: skip
        rules = tuple((rule.xid, rule.class_name) for rule in settings.xids)
        self.queue_event(words.Rules(settings.lost_drains_node, rules, self._context.unkillable_us()))
        for listener in (self.usage, self.mps):
            listener.take_settings(settings)
        self.settle()

    def settle(self) -> None:
        """Updates the requests to NVML from the configuration and from the counters."""
        self.watch.settle(
            poll_s=self.usage.poll_s(self.settings.poll_s or POLL_S),
            accounting=self.may_set(self.settings.accounting_mode),
            per_process=self.usage.per_process(),
        )

    def may_set(self, wanted: bool) -> bool:
        """Whether the program may change this setting of a card: with PenstockGpuSettings=read-only never."""
        return wanted and not self.settings.read_only

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """Handles a step that is about to have these GPUs."""
        held = self._held[key] = words.StepGpus(key, uid, uuids)
        self._save_steps()
        self.queue_event(held)
        for listener in (self.usage, self.mps):
            listener.began(key, uid, uuids)

    def ended(self, key: StepKey) -> None:
        """Handles the end of a step."""
        held = self._held.pop(key, None)
        if held is None:
            return
        self._ended[key.job_id, key.attempt] = held.uid
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
        self._save_steps()
        for listener in (self.usage, self.mps):
            listener.ended(key)
        self.queue_event(words.Released(key))
        self.poll_soon()

    def resolve(self, uuids: tuple[str, ...]) -> tuple[Device, ...]:
        """The devices with these UUIDs, as they are now. Raises BadValue when one is missing or broken."""
        found = []
        for uuid in uuids:
            device, opinion = self.device(uuid), self._machine.opinion(uuid)
            if device is None:
                raise BadValue(f"GPU_ERROR: {uuid} is not on this node")
            if opinion.state in _BROKEN and not opinion.many_only:
                raise BadValue(f"GPU_ERROR: {opinion.reason or opinion.state.name} ({uuid})")
            if self._works.is_busy(uuid) or self._works.is_busy(device.parent):
                raise BadValue(f"GPU_ERROR: {uuid} is being worked on")
            if device.mig_enabled:
                raise BadValue(f"GPU_ERROR: {uuid} is divided by MIG: it is not given whole")
            found.append(device)
        return tuple(found)

    def order(self, command: node_pb2.Command) -> None:
        """Handles a command of the controller about GPUs."""
        kind = command.WhichOneof("kind")
        if kind == "gpu_work":
            self._works.take(command.gpu_work)
        elif kind == "clear_gpu":
            self.queue_event(words.Cleared(command.clear_gpu.uuid))
        elif kind == "return_gpus":
            back = command.return_gpus
            key = StepKey(back.key.job_id, back.key.attempt, back.key.step_id)
            self._give_back(key, tuple(back.uuid))

    def fill(self, inventory: node_pb2.Inventory) -> None:
        """Writes the GPUs and their health into a registration."""
        devices = [(device, self._machine.opinion(device.uuid)) for device in self.devices()]
        messages.fill(inventory, self.found, devices, self._context.topology)
        inventory.gpus_at_us = self._context.report_us()

    # -- for attached services

    def devices(self) -> tuple[Device, ...]:
        """The devices that NVML lists, then those that were lost since the machine was started."""
        return self._machine.devices()

    def device(self, uuid: str) -> Device | None:
        """One of them, by UUID."""
        return next((device for device in self.devices() if device.uuid == uuid), None)

    def opinions(self) -> tuple[words.Opinion, ...]:
        """The health of each GPU."""
        return tuple(self._machine.opinion(device.uuid) for device in self.devices())

    def devices_of_job(self, job_id: int, attempt: int) -> tuple[str, ...]:
        """The devices of a job's steps, by UUID."""
        mine = [held for key, held in sorted(self._held.items()) if (key.job_id, key.attempt) == (job_id, attempt)]
        return tuple(dict.fromkeys(uuid for held in mine for uuid in held.uuids))

    def steps_using(self, uuid: str) -> tuple[words.StepGpus, ...]:
        """The steps that have a GPU (or an instance of it, or shares)."""
        parts = {uuid, *(d.uuid for d in self.devices() if d.parent == uuid)}
        return tuple(held for _, held in sorted(self._held.items()) if not parts.isdisjoint(held.uuids))

    def send_report(self, report: node_pb2.Report) -> None:
        """Queues a report to the controller, which is stored until it is acknowledged."""
        self._context.post(core.ForwardReport(report.SerializeToString()))

    def poll_soon(self) -> None:
        """Polls all GPUs now, without waiting for the next regular poll."""
        if self._poll_running is not None and not self._poll_running.done():
            self._poll_again = True  # a poll in progress may have missed the latest change
            return
        self._poll_again = False
        self._poll_running = self._loop.create_task(self.watch.poll())
        self._poll_running.add_done_callback(self._poll_done)

    async def flush_reports(self, has_failed: bool) -> None:
        """Waits, before the end of a step with GPUs is reported, until what has happened to them has been reported.

        The driver reports a moment later why a program has failed, so the end of a failed one waits for that: else its
        job would end by its own fault before the GPU's failure is known.
        """
        if has_failed:
            await asyncio.sleep(self.watch.late_s)
        await self._judged()

    async def _judged(self) -> None:
        """Waits until all queued messages have been judged, and their consequences reported."""
        judged = self._loop.create_future()
        self._inbox.put_nowait(judged)
        await judged

    def _poll_later(self, delay_s: float) -> None:
        """Schedules a poll; further calls until then have no effect."""
        if not delay_s:
            self.poll_soon()
        elif self._poll_timer is None or self._poll_timer.when() <= self._loop.time():
            self._poll_timer = self._loop.call_later(delay_s, self.poll_soon)

    def _poll_done(self, task: "asyncio.Task[Polled | None]") -> None:
        if self._poll_again and not task.cancelled():
            self.poll_soon()

    def take(self, message: WatchMessage) -> None:
        """Handles a message of the watcher."""
        self._inbox.put_nowait(message)
        if isinstance(message, Polled):
            self._queue_log_read()

    def _queue_log_read(self) -> None:
        """Queues the log position: all XIDs up to it are queued before it."""
        read = self.watch.log_read
        if read is not None and (self._log_read is None or read > self._log_read):
            self._log_read = read
            self.queue_event(words.LogRead(read))

    def queue_event(self, event: words.HealthEvent) -> None:
        """Queues an event for the judge."""
        self._inbox.put_nowait(event)

    # -- judging

    async def _run(self) -> None:
        """Handles one message after the other, until cancelled."""
        while True:
            message = await self._inbox.get()
            if isinstance(message, asyncio.Future):
                message.set_result(None)  # all earlier messages have been handled
                continue
            if isinstance(message, Polled):
                await self._seen(message)
            else:
                self._machine.step(self._context.now_us(), message)
            await self._settle()

    async def _seen(self, polled: Polled) -> None:
        if polled.found is not None:
            self.found = polled.found
            self._judge(self._listed())
            self._report_inventory()
            for listener in (self.usage, self.mps):
                listener.found(polled.found)
        pids = sorted({process.pid for sample in polled.samples for process in sample.processes or ()})
        found: tuple[words.GpuOwner, ...] = ()
        if pids:
            found = await self._loop.run_in_executor(self.executor, owners.owners, pids, self._jobs())
        self._judge(words.Seen(polled, found if self._knows_pids else ()))
        by_pid = {owner.pid: owner for owner in found}
        for listener in (self.usage, self.mps, self.metrics):
            listener.polled(polled, by_pid)

    def _report_inventory(self) -> None:
        """Reports a changed inventory: new places, instances, or driver versions."""
        self.fill(self._context.inventory)
        report = messages.report(self._context.report_us(), self.opinions(), inventory=self._context.inventory)
        self._context.post(core.ForwardReport(report))

    def _judge(self, event: words.HealthEvent) -> None:
        self._machine.step(self._context.now_us(), event)

    def _listed(self) -> words.Listed:
        found = self.found
        return words.Listed(found.devices, self._context.spool.boot_id, found.why, found.code, found.nameless)

    def _jobs(self) -> owners.JobsOfGpus:
        jobs = {(key.job_id, key.attempt): held.uid for key, held in self._held.items()}
        supervisors: dict[int, StepKey] = {}
        for key in self._held:
            claim, end = self._context.spool.read(key)
            if claim is not None and claim.by != NEVER and end is None:
                supervisors[claim.pid] = key
        trees = [tree.path for tree in self._context.cgroups.trees]
        return owners.JobsOfGpus(trees, supervisors, list((self._ended | jobs).items()))

    async def _settle(self) -> None:
        """Stores the memory, then executes the outputs."""
        outputs = self._machine.seal()
        data = msgspec.json.encode(self._machine.memory)
        if data != self._saved:
            try:
                await self._loop.run_in_executor(
                    self.executor, kept.save, self._context.spool.dir_fd, HEALTH, data, bool(outputs)
                )
                self._saved = data
            except OSError as error:
                log.error("%s: %s; after a restart the health of the GPUs is assessed again", HEALTH, error.strerror)
        self._follow(outputs)

    def _follow(self, outputs: list[words.HealthOutput]) -> None:
        opinions = [output for output in outputs if isinstance(output, words.Opinion)]
        actions: list[words.JobAction | None] = [output for output in outputs if isinstance(output, words.JobAction)]
        for output in outputs:
            if isinstance(output, words.Remark):
                log.log(
                    logging.WARNING if output.is_bad else logging.INFO, "%s", output.text, extra={"event": "gpu_health"}
                )
            elif isinstance(output, words.NodeDrain):
                self._context.post(core.Notice(output.reason, drain=True, clear=output.clear))
            elif isinstance(output, words.KillProcess):
                self._kill(output)
            elif isinstance(output, words.PollRequest):
                self._poll_later(output.delay_us / 1_000_000)
        now_us = self._context.report_us()
        if opinions and not actions:
            actions.append(None)
        for action in actions:
            self._context.post(core.ForwardReport(messages.report(now_us, opinions, action)))
            opinions = []

    def _kill(self, wanted: words.KillProcess) -> None:
        """Kills by pid, and only if it is still the process that was judged."""
        job_id = wanted.job[0]
        log.warning("GPU %s: killing pid %d of uid %d, left by job %d", wanted.uuid, wanted.pid, wanted.uid, job_id)
        proctree.send_signal(wanted.pid, signal.SIGKILL, lambda pid: proctree.start_time(pid) == wanted.start)

    # -- the rest

    async def _divide(self, work: node_pb2.GpuWork) -> tuple[bool, str]:
        """Divides the GPU, and polls the result before it answers."""
        ok, text = await self.mig.divide(work)
        if await self.watch.poll(SEEN_S) is None and ok:
            return False, "NVML does not answer after the division"
        await self._judged()
        return ok, text

    def _work_done(self, work_id: str, kind: words.GpuWorkKind, uuid: str, done: WorkDone) -> None:
        ok, text = done.ok, done.text or ""
        log.log(logging.INFO if ok else logging.WARNING, "GPU %s: %s: %s", uuid, kind.name, text or "ok")
        if not done.untried:
            self.queue_event(words.Worked(kind, uuid, ok, text))
        inventory = None
        if kind is words.GpuWorkKind.DIVIDE:
            inventory = self._context.inventory
            self.fill(inventory)
        self._context.post(core.ForwardReport(messages.work_done(work_id, uuid, ok, text, done.untried, inventory)))
        self.poll_soon()

    def _give_back(self, key: StepKey, uuids: tuple[str, ...]) -> None:
        for other in [other for other in self._held if (other.job_id, other.attempt) == (key.job_id, key.attempt)]:
            held = self._held[other]
            left = tuple(uuid for uuid in held.uuids if uuid not in uuids)
            self._held[other] = words.StepGpus(other, held.uid, left)
            self.queue_event(self._held[other])
        self._save_steps()
        for listener in (self.usage, self.mps):
            listener.returned(key, uuids)

    def _save_steps(self) -> None:
        """Stores a few hundred bytes, synchronously: a step must not start before its GPUs are recorded."""
        data = msgspec.json.encode(list(self._held.values()))
        lost = "after a restart, failures of GPUs are attributed to no job"
        kept.keep(self._context.spool.dir_fd, STEPS, data, lost, sync=False)
