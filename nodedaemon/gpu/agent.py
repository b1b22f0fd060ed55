"""All that this node does about its GPUs, for the rest of the daemon: watched, judged, found at launches, worked on.

    watch.py --what was seen--> agent --> core/gpuhealth.py --what follows--> reports, notices, signals
    wire.py  --resolve(uuids)--> agent    daemon.py --began, ended, order--> agent

Rules
    - What is seen is taken one by one, in order: whose the processes are is looked up first, in a worker thread.
    - What the judge remembers is on disk before anybody is told what it thinks.
    - Which step holds which GPUs is on disk before the step starts, so that a restarted daemon knows whom to blame.
    - NVML is never called here, and nothing is set on a card.

Who else lives from it (accounting, MPS, MIG) plugs in as hooks.py says. Deliberately absent: what anything means
(core/gpuhealth.py), who is drained for it (the controller).
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import msgspec

from nodedaemon import proctree
from nodedaemon.cgroup import Cgroups
from nodedaemon.core import gpuhealth_words as words
from nodedaemon.core import messages as core
from nodedaemon.core.gpuhealth import HealthMachine
from nodedaemon.core.gpuwords import Device, Found, Polled, Told
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu import kept, messages, owners, xids
from nodedaemon.gpu.hooks import Listener
from nodedaemon.gpu.mig import Divider
from nodedaemon.gpu.watch import Watch
from nodedaemon.gpu.works import Done, Works
from nodedaemon.spool import Spool
from nodedaemon.steprecord import NEVER
from nodedaemon.topology_info import Topology
from penstock.v1 import node_pb2
from penstock.values.errors import BadValue
from penstock.values.gpustates import GpuState

log = logging.getLogger("penstock.noded")

HEALTH, STEPS = "gpu-health.json", "gpu-steps.json"
POLL_S = 10.0
#: For the children to see what a division has made.
SEEN_S = 15.0
#: Ended jobs that what is left on a GPU may be of.
ENDED_MAX = 256
#: What no launch may be given, and why.
_BROKEN = (GpuState.FAILED, GpuState.UNRESPONSIVE)


@dataclass(frozen=True)
class Place:
    """What the agent needs of the daemon."""

    spool: Spool
    cgroups: Cgroups
    executor: Executor
    post: Callable[[core.Event], None]
    now_us: Callable[[], int]
    inventory: node_pb2.Inventory  # as it is registered
    unkillable_us: Callable[[], int]
    topology: Topology | None = None


#: NVML's errors that say that there is nothing to watch: no GPU, no library.
_NOTHING = (6, 12)


def may_have(found: Found, spool: Spool) -> bool:
    """Whether this node may have GPUs that NVML knows: it names some, or it fails, or there were some before."""
    fails = bool(found.why) and found.code not in _NOTHING
    return bool(found.devices or found.nameless) or fails or kept.exists(spool.dir_fd, HEALTH)


class GpuAgent:
    """The GPUs of this node. Made before the loop runs on; `start` begins."""

    def __init__(self, place: Place, found: Found) -> None:
        """found: what NVML said at the daemon's start."""
        self._place = place
        self.executor = place.executor
        self.found = found
        self.watch = Watch(self.take)
        self.usage: Listener = Listener()
        self.mps: Listener = Listener()
        self.settings = node_pb2.GpuSettings()
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[Told | words.Event | asyncio.Future[None]] = asyncio.Queue()
        self._judging: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[Polled | None] | None = None
        self._look_again = False
        self._look_timer: asyncio.TimerHandle | None = None
        self._knows_pids = owners.knows_pids()
        if not self._knows_pids:
            log.info("this daemon has pids of its own: what jobs leave on GPUs is not looked for")
        self._saved = b""
        self._log_read: int | None = None
        self._held: dict[StepKey, words.Holds] = {}
        self._ended: dict[tuple[int, int], int] = {}  # jobs that had GPUs, and their uids
        self._machine = HealthMachine(kept.load(place.spool.dir_fd, HEALTH, words.Memory), xids.table())
        self._works = Works(
            place.spool.dir_fd, place.executor, self.device, lambda uuid: bool(self.holders(uuid)), self._work_done
        )
        self.mig = Divider(place.spool.dir_fd, place.executor, self.devices)
        self._works.divide = self._divide
        self._judge(self._listed())

    # -- for the daemon

    def start(self, live: list[StepKey], when_over: Callable[[], None]) -> None:
        """Begin. `live`: the steps that go on from before; `when_over` is called if the agent ends by itself."""
        missed = self.watch.catch_up(self._machine.memory.log_read)
        over: list[StepKey] = []
        for held in kept.load(self._place.spool.dir_fd, STEPS, list[words.Holds]) or []:
            if held.key in live:
                self.began(held.key, held.uid, held.uuids)
            else:
                self._ended[held.key.job_id, held.key.attempt] = held.uid
                self.tell(held)
                over.append(held.key)
        for xid in missed:  # those who had the GPUs then hear of it, and nobody who gets them from now on
            self.tell(xid)
        self._tell_log_read()
        for key in over:
            self.tell(words.Released(key))
        self._save_steps()
        self._judging = self._loop.create_task(self._run())
        self._judging.add_done_callback(lambda task: when_over())
        self.watch.start(self.settings.poll_s or POLL_S, self.found)
        self._works.resume()
        for listener in (self.usage, self.mps):
            listener.start()

    async def stop(self) -> None:
        """End the children; steps go on."""
        for listener in (self.usage, self.mps):
            listener.stop()
        self._look_again = False
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self.watch.stop()
        await self._works.stop()
        if self._judging is not None:
            self._judging.cancel()
            await asyncio.gather(self._judging, return_exceptions=True)

    def check(self) -> None:
        """Raise what ended the agent by itself: a fault of the program."""
        if self._judging is not None and self._judging.done():
            self._judging.result()

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """The controller's configuration."""
        self.settings.CopyFrom(settings)
        self.mig.take_settings(settings)
        self._works.programs = {
            words.WorkKind.CHECK: settings.check_program, words.WorkKind.RESET: settings.reset_program,
        }  # fmt: skip
        rules = tuple((rule.xid, rule.class_name) for rule in settings.xids)
        self.tell(words.Rules(settings.lost_drains_node, rules, self._place.unkillable_us()))
        for listener in (self.usage, self.mps):
            listener.take_settings(settings)
        self.settle()

    def settle(self) -> None:
        """Ask NVML as the configuration and those who count say."""
        self.watch.settle(
            poll_s=self.usage.poll_s(self.settings.poll_s or POLL_S),
            accounting=self.may_set(self.settings.accounting_mode),
            per_process=self.usage.per_process(),
        )

    def may_set(self, wanted: bool) -> bool:
        """Whether something that changes a card may be done: with PenstockGpuSettings=read-only never."""
        return wanted and not self.settings.read_only

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """A step is about to have these GPUs."""
        held = self._held[key] = words.Holds(key, uid, uuids)
        self._save_steps()
        self.tell(held)
        for listener in (self.usage, self.mps):
            listener.began(key, uid, uuids)

    def ended(self, key: StepKey) -> None:
        """A step has ended; of one without GPUs nothing follows."""
        held = self._held.pop(key, None)
        if held is None:
            return
        self._ended[key.job_id, key.attempt] = held.uid
        while len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        self._save_steps()
        for listener in (self.usage, self.mps):
            listener.ended(key)
        self.tell(words.Released(key))
        self.look()

    def resolve(self, uuids: tuple[str, ...]) -> tuple[Device, ...]:
        """The devices of these names, as they are now. Raises BadValue when one is not there or broken."""
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
        """A command of the controller's about GPUs."""
        kind = command.WhichOneof("kind")
        if kind == "gpu_work":
            self._works.take(command.gpu_work)
        elif kind == "clear_gpu":
            self.tell(words.Cleared(command.clear_gpu.uuid))
        elif kind == "return_gpus":
            back = command.return_gpus
            key = StepKey(back.key.job_id, back.key.attempt, back.key.step_id)
            self._give_back(key, tuple(back.uuid))

    def fill(self, inventory: node_pb2.Inventory) -> None:
        """Write into a registration what GPUs there are and what is thought of them."""
        devices = [(device, self._machine.opinion(device.uuid)) for device in self.devices()]
        messages.fill(inventory, self.found, devices, self._place.topology)
        inventory.gpus_at_us = self._place.now_us()

    # -- for those that plug in

    def devices(self) -> tuple[Device, ...]:
        """Those that NVML names, then those that are lost since the machine was started."""
        return self._machine.devices()

    def device(self, uuid: str) -> Device | None:
        """One of them, by name."""
        return next((device for device in self.devices() if device.uuid == uuid), None)

    def opinions(self) -> tuple[words.Opinion, ...]:
        """What is thought of each."""
        return tuple(self._machine.opinion(device.uuid) for device in self.devices())

    def held_by(self, job_id: int, attempt: int) -> tuple[str, ...]:
        """What the steps of a job have, by name."""
        mine = [held for key, held in sorted(self._held.items()) if (key.job_id, key.attempt) == (job_id, attempt)]
        return tuple(dict.fromkeys(uuid for held in mine for uuid in held.uuids))

    def holders(self, uuid: str) -> tuple[words.Holds, ...]:
        """The steps that have a GPU (or an instance of it, or shares)."""
        parts = {uuid, *(d.uuid for d in self.devices() if d.parent == uuid)}
        return tuple(held for _, held in sorted(self._held.items()) if not parts.isdisjoint(held.uuids))

    def say(self, report: node_pb2.Report) -> None:
        """A report to the controller; it is kept until it is acknowledged."""
        self._place.post(core.Say(report.SerializeToString()))

    def look(self) -> None:
        """Look at all GPUs now, not at the next poll."""
        if self._looking is not None and not self._looking.done():
            self._look_again = True  # what is looked at now may be of a moment ago
            return
        self._look_again = False
        self._looking = self._loop.create_task(self.watch.poll())
        self._looking.add_done_callback(self._looked)

    async def hear_out(self, has_failed: bool) -> None:
        """Before the end of a step with GPUs is told: until what has happened to them is said.

        The driver says a moment later what a program has failed for, so the end of one that has failed waits for that: else
        its job would be at its end, by its own fault, before anybody knows better.
        """
        if has_failed:
            await asyncio.sleep(self.watch.late_s)
        await self._judged()

    async def _judged(self) -> None:
        """Until all that was told has been judged, and what follows from it is said."""
        judged = self._loop.create_future()
        self._told.put_nowait(judged)
        await judged

    def _look_later(self, delay_s: float) -> None:
        """Once, however often it is asked for until then."""
        if not delay_s:
            self.look()
        elif self._look_timer is None or self._look_timer.when() <= self._loop.time():
            self._look_timer = self._loop.call_later(delay_s, self.look)

    def _looked(self, task: "asyncio.Task[Polled | None]") -> None:
        if self._look_again and not task.cancelled():
            self.look()

    def take(self, told: Told) -> None:
        """What the watcher has to say."""
        self._told.put_nowait(told)
        if isinstance(told, Polled):
            self._tell_log_read()

    def _tell_log_read(self) -> None:
        """How far the kernel's log was read: all XIDs until there stand before this word."""
        read = self.watch.log_read
        if read is not None and (self._log_read is None or read > self._log_read):
            self._log_read = read
            self.tell(words.LogRead(read))

    def tell(self, event: words.Event) -> None:
        """Something for the judge, in its turn."""
        self._told.put_nowait(event)

    # -- judging

    async def _run(self) -> None:
        """For ever: one word after the other."""
        while True:
            told = await self._told.get()
            if isinstance(told, asyncio.Future):
                told.set_result(None)  # all that was told before has been looked at
                continue
            if isinstance(told, Polled):
                await self._seen(told)
            else:
                self._machine.step(self._place.now_us(), told)
            await self._settle()

    async def _seen(self, polled: Polled) -> None:
        if polled.found is not None:
            self.found = polled.found
            self._judge(self._listed())
            self._tell_inventory()
            for listener in (self.usage, self.mps):
                listener.found(polled.found)
        pids = sorted({process.pid for sample in polled.samples for process in sample.processes or ()})
        found: tuple[words.Owner, ...] = ()
        if pids:
            found = await self._loop.run_in_executor(self.executor, owners.owners, pids, self._jobs())
        self._judge(words.Seen(polled, found if self._knows_pids else ()))
        by_pid = {owner.pid: owner for owner in found}
        for listener in (self.usage, self.mps):
            listener.polled(polled, by_pid)

    def _tell_inventory(self) -> None:
        """What there is has changed: new places, instances, or versions of the driver."""
        self.fill(self._place.inventory)
        report = messages.report(self._place.now_us(), self.opinions(), inventory=self._place.inventory)
        self._place.post(core.Say(report))

    def _judge(self, event: words.Event) -> None:
        self._machine.step(self._place.now_us(), event)

    def _listed(self) -> words.Listed:
        found = self.found
        return words.Listed(found.devices, self._place.spool.boot_id, found.why, found.code, found.nameless)

    def _jobs(self) -> owners.Jobs:
        jobs = {(key.job_id, key.attempt): held.uid for key, held in self._held.items()}
        supervisors: dict[int, StepKey] = {}
        for key in self._held:
            claim, end = self._place.spool.read(key)
            if claim is not None and claim.by != NEVER and end is None:
                supervisors[claim.pid] = key
        trees = [tree.path for tree in self._place.cgroups.trees]
        return owners.Jobs(trees, supervisors, list((self._ended | jobs).items()))

    async def _settle(self) -> None:
        """Write down what is remembered, then do what follows."""
        outputs = self._machine.seal()
        data = msgspec.json.encode(self._machine.memory)
        if data != self._saved:
            try:
                await self._loop.run_in_executor(
                    self.executor, kept.save, self._place.spool.dir_fd, HEALTH, data, bool(outputs)
                )
                self._saved = data
            except OSError as error:
                log.error("%s: %s; after a restart the GPUs are judged anew", HEALTH, error.strerror)
        self._follow(outputs)

    def _follow(self, outputs: list[words.Output]) -> None:
        opinions = [output for output in outputs if isinstance(output, words.Opinion)]
        actions: list[words.JobAction | None] = [output for output in outputs if isinstance(output, words.JobAction)]
        for output in outputs:
            if isinstance(output, words.Remark):
                log.log(logging.WARNING if output.is_bad else logging.INFO, "%s", output.text)
            elif isinstance(output, words.NodeDrain):
                self._place.post(core.Notice(output.reason, drain=True, clear=output.clear))
            elif isinstance(output, words.KillProcess):
                self._kill(output)
            elif isinstance(output, words.Look):
                self._look_later(output.delay_us / 1_000_000)
        now_us = self._place.now_us()
        if opinions and not actions:
            actions.append(None)
        for action in actions:
            self._place.post(core.Say(messages.report(now_us, opinions, action)))
            opinions = []

    def _kill(self, wanted: words.KillProcess) -> None:
        """By pid, and only if it is still the process that was looked at."""
        job_id = wanted.job[0]
        log.warning("GPU %s: killing pid %d of uid %d, left by job %d", wanted.uuid, wanted.pid, wanted.uid, job_id)
        proctree.send_signal(wanted.pid, signal.SIGKILL, lambda pid: proctree.start_time(pid) == wanted.start)

    # -- the rest

    async def _divide(self, work: node_pb2.GpuWork) -> tuple[bool, str]:
        """Divide, and have seen what there is then before it is answered."""
        ok, text = await self.mig.divide(work)
        if await self.watch.poll(SEEN_S) is None and ok:
            return False, "NVML does not answer after the division"
        await self._judged()
        return ok, text

    def _work_done(self, work_id: str, kind: words.WorkKind, uuid: str, done: Done) -> None:
        ok, text = done.ok, done.text or ""
        log.log(logging.INFO if ok else logging.WARNING, "GPU %s: %s: %s", uuid, kind.name, text or "ok")
        if not done.untried:
            self.tell(words.Worked(kind, uuid, ok, text))
        inventory = None
        if kind is words.WorkKind.DIVIDE:
            inventory = self._place.inventory
            self.fill(inventory)
        self._place.post(core.Say(messages.work_done(work_id, uuid, ok, text, done.untried, inventory)))
        self.look()

    def _give_back(self, key: StepKey, uuids: tuple[str, ...]) -> None:
        for other in [other for other in self._held if (other.job_id, other.attempt) == (key.job_id, key.attempt)]:
            held = self._held[other]
            left = tuple(uuid for uuid in held.uuids if uuid not in uuids)
            self._held[other] = words.Holds(other, held.uid, left)
            self.tell(self._held[other])
        self._save_steps()
        for listener in (self.usage, self.mps):
            listener.returned(key, uuids)

    def _save_steps(self) -> None:
        """A few hundred bytes, in place at once: a step must not start before it is known to have its GPUs."""
        data = msgspec.json.encode(list(self._held.values()))
        lost = "after a restart nobody is blamed for what happens to GPUs"
        kept.keep(self._place.spool.dir_fd, STEPS, data, lost, sync=False)
