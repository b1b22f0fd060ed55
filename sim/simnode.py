"""A node of a fault world: the real node machine, a disk, processes, and a simulation of `nodedaemon` around them. The
loop of the daemon is the real one: step the queued events, write the records, sync them if they must be durable,
release the effects; later events are queued. The disk outlives the daemon: after a crash the journal is read again,
after a loss of power without the unsynced records. Each step has a supervisor (stepd) that outlives the daemon too: it
claims the start, stores the end on disk, and the next daemon finds it. A spool may be lost while its daemon is down.
Steps that still run then are found by their control groups and killed before the node registers. One class, because each
crash (of the daemon, of the machine, of the stream) reaches into all of these parts.
"""

from collections.abc import Callable
from random import Random

# Any: an effect or message of the type of its handler
from typing import Any

from ctld.core.records.effects import ForgetStep, LaunchStep, SignalStep, SuspendStep, TerminateStep
from ctld.core.records.events import HeldStep, NodeRegistered
from ctld.core.records.job import JobRow
from nodedaemon.base.lease import LAPSED, LOOKS
from nodedaemon.core import messages as core
from nodedaemon.core.machine import (
    SCOPE_ALL,
    SCOPE_BATCH,
    SIGCONT,
    SIGKILL,
    SIGSTOP,
    SIGTERM,
    SIGTSTP,
    NodeMachine,
)
from nodedaemon.core.steps import ANY_CPUS, NO_LEASE, CpuSets, StepKey
from penstock.values.config import NodeConfig
from penstock.values.jobid import BATCH_STEP
from sim.checkers import Broken, Checkers
from sim.network import CTLD, NODE, Network, Side, SimListener, SimStream
from sim.simgpus import SimGpus, gpus_of
from sim.simreports import event_of
from sim.simstep import EXTERN_PROGRAM, Disk, ScriptBehaviour, SimProcess
from sim.timeline import US, Timeline

CRASH_POINTS = ("journal:before", "journal:written", "journal:synced", "effect")
REGISTER_TIMEOUT_US = 20 * US
BEAT_US = 5 * US
PAUSE_FIRST_US, PAUSE_MAX_US = 100_000, 10 * US


def _name(key: StepKey) -> str:
    return f"job {key.job_id}.{key.attempt}" + ("" if key.step_id == BATCH_STEP else f" step {key.step_id}")


class NodeCrash(Exception):
    """The daemon dies here."""


class SimNode:
    """One machine. `behaviour_of` returns the behaviour of a job's script."""

    def __init__(
        self, config: NodeConfig, timeline: Timeline, network: Network, checkers: Checkers, random: Random, ctld: SimListener,
        behaviour_of: Callable[[bytes, JobRow, str], ScriptBehaviour], skew_us: int,
    ) -> None:  # fmt: skip
        self.config = config
        self.name = config.name
        self.powered = True
        self.boots = 1
        self.spools = 1
        self.daemons = 1
        self.disk = Disk(f"{self.name}-spool1")
        self.processes: dict[StepKey, SimProcess] = {}
        self.machine: NodeMachine | None = None
        self.armed: tuple[str, int] = ("", 0)
        self.sync_max_us = 2_000
        self.full_starts = 0  # so many starts of a daemon find no room in the spool
        self._timeline = timeline
        self._network = network
        self._checkers = checkers
        self._random = random
        self._ctld = ctld
        self._behaviour_of = behaviour_of
        self._skew_us = skew_us
        self._stream: SimStream | None = None
        self._admitted = False
        self._streams = 0
        self._pause_us = PAUSE_FIRST_US
        self._spool_lost = False
        self._inbox: list[core.NodeCoreEvent] = []
        self._busy = False
        self._takers: dict[str, Callable[..., None]] = {
            "registered": self._registered,
            "command": self._command,
            "acked": self._acked,
            "beat_answered": lambda stream, sent_us: self._contact(sent_us),
        }
        self._contact_us = 0  # when the controller was last in contact both ways, or known to be down
        self._asked_us = 0  # when the last registration was sent
        self._beats = False
        self.gpus = SimGpus(config, random, ())

    def now_us(self) -> int:
        """This machine's clock."""
        return self._timeline.now_us + self._skew_us

    @property
    def boot_id(self) -> str:
        """The id of the machine's boot."""
        return f"{self.name}-boot{self.boots}"

    # ---- machine and daemon --------------------------------------------------------------------------------------

    def power_off(self) -> None:
        """Kills all processes without reports, and drops unsynced data."""
        if not self.powered:
            return
        self._timeline.say(0, f"{self.name} loses power")
        self.powered = False
        self.stop_daemon(0)
        for process in list(self.processes.values()):
            process.is_lost = True
            self._end(process, SIGKILL)
        disk = self.disk
        del disk.records[self._random.randint(disk.synced, len(disk.records)) :]

    def power_on(self) -> None:
        """A new boot."""
        if self.powered:
            return
        self.powered = True
        self._spool_lost = False  # not the boot that had the spool
        self.boots += 1
        self.gpus.shuffle()
        self._timeline.say(0, f"{self.name} boots")
        self.start_daemon()

    def stop_daemon(self, restart_after_us: int) -> None:
        """The daemon dies (kill -9); steps continue. 0 = no automatic restart."""
        if self.machine is None:
            return
        self._timeline.say(0, f"{self.name}: the node daemon dies")
        self._checkers.disturbed(self.name)
        self.machine = None
        self._busy = False
        self._inbox = []
        self.armed = ("", 0)
        self.daemons += 1
        self._spool_lost = False
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close(NODE)
        if restart_after_us:
            self._timeline.after(restart_after_us, self.start_daemon)

    def lose_spool(self) -> None:
        """The spool's folder is gone, while no daemon runs."""
        if self.machine is None:
            self.spools += 1
            self._spool_lost = self.powered
            self.disk = Disk(f"{self.name}-spool{self.spools}")
            self._timeline.say(0, f"{self.name}: its spool is lost")

    def change_gpus(self, what: str, act: Callable[[], bytes]) -> None:
        """Changes the GPUs; the daemon reports it now or, if it is down, at its start."""
        if self.gpus:
            body = act()
            self._timeline.say(0, f"{self.name}: {what}")
            self.post(core.ForwardReport(body))

    def lose_supervisor(self, key: StepKey) -> None:
        """A stepd dies (kill -9); this daemon or the next one kills the processes of its step."""
        process = self.processes[key]
        process.is_lost = True
        self._timeline.say(key.job_id, f"{self.name}: the stepd of {_name(key)} dies")
        self._end(process, SIGKILL)
        self._later(self._random.randint(500, 5_000), self._lost, key)

    def start_daemon(self) -> None:
        """Reads the spool, finds the steps, connects."""
        if self.machine is not None or not self.powered:
            return
        if self.full_starts:
            self.full_starts -= 1
            self._timeline.say(0, f"{self.name}: a node daemon cannot start, its spool has no room")
            self._timeline.after(self._random.randint(US, 20 * US), self.start_daemon)
            return
        disk = self.disk
        boots = [record.boot_id for record in disk.records if isinstance(record, core.BootSeen)]
        if not boots:
            disk.records = [core.SpoolCreated(disk.spool_id)]
        if not boots or boots[-1] != self.boot_id:
            disk.records.append(core.BootSeen(self.boot_id))
        disk.synced = len(disk.records)
        self.machine = NodeMachine()
        self.machine.replay(disk.records)
        self._timeline.say(0, f"{self.name}: a node daemon starts, {len(self.machine.steps)} steps known")
        for table in (disk.claims, disk.ends):  # folders of purged steps
            for key in [key for key in table if key not in self.machine.steps]:
                del table[key]
        for process in list(self.processes.values()):  # by its control group: it is not in the spool
            if process.key not in self.machine.steps:
                process.is_lost = True
                self._end(process, SIGKILL)
        for step in self.machine.live_steps():
            self._find(step.key, rebooted=bool(boots) and boots[-1] != self.boot_id)
        self._guarded(self._turn)
        if self.gpus:
            self.post(core.ForwardReport(self.gpus.report()))  # after the unacknowledged reports of an earlier daemon
        self._pause_us = PAUSE_FIRST_US
        self._later(self._random.randint(1_000, 500_000), self._connect)

    def _find(self, key: StepKey, rebooted: bool) -> None:
        """The state of a step that an earlier daemon left."""
        end = self.disk.ends.get(key)
        if end is not None:
            self.post(end)
        elif rebooted:
            self.post(core.StepEnded(key, 0, self.now_us(), failure="the node was rebooted", rebooted=True))
        elif not self.disk.claims.setdefault(key, False):
            self._ended_unstarted(key, "the node daemon was restarted before the step was started")
        elif key not in self.processes:  # its supervisor died without a report
            self._lost(key)
        else:  # its supervisor says to every daemon that its tasks have begun
            age_us = self._timeline.now_us - self.processes[key].start_us
            self.post(core.StepBegan(key, self.now_us() - age_us, 1))

    def _ended_unstarted(self, key: StepKey, why: str) -> None:
        self.post(core.StepEnded(key, 0, self.now_us(), failure=why, untried=True))

    def _lost(self, key: StepKey) -> None:
        self.post(core.StepEnded(key, self.now_us(), self.now_us(), exit_signal=SIGKILL, failure="supervisor lost"))

    def passes(self, point: str) -> None:
        """Crashes here if that is due."""
        name, left = self.armed
        if name == point:
            self.armed = (name, left - 1)
            if left <= 1:
                raise NodeCrash(point)

    # ---- leases --------------------------------------------------------------------------------------------------

    def _contact(self, at_us: int) -> None:
        self._contact_us = max(self._contact_us, at_us)

    def _beat(self) -> None:
        """A heartbeat, as long as a lease depends on it."""
        self._beats = any(process.lease != NO_LEASE for process in self.processes.values())
        if not self._beats:
            return
        if self.machine is not None and self._stream is not None and self._admitted:
            self._stream.send(NODE, ("beat", self._timeline.now_us))
        elif self.machine is not None and self._network.reaches(self.name) and not self._ctld.up:
            self._contact(self._timeline.now_us)
        self._timeline.after(BEAT_US, self._beat)

    def _observe(self, process: SimProcess) -> None:
        """The part of stepd: stops the step when its lease was not renewed."""
        if process.end_us or process.lapsed:
            return
        lease_us, grace_us = (seconds * US for seconds in process.lease)
        ends_us = max(self._contact_us, process.start_us) + lease_us
        if self._timeline.now_us < ends_us:
            self._timeline.at(min(ends_us, self._timeline.now_us + lease_us // LOOKS), self._observe, process)
            return
        process.lapsed = True
        self._timeline.say(process.key.job_id, f"job {process.key.job_id} stops itself on {self.name}: no contact")
        self._continue(process)
        self._hit(process, SIGTERM, process.behaviour.on_term_us)
        self._timeline.after(grace_us, self._hit, process, SIGKILL, process.behaviour.on_kill_us)

    def _guarded(self, act: Callable[..., None], *args: object) -> None:
        try:
            act(*args)
        except NodeCrash:
            self.stop_daemon(self._random.randint(10_000, 30 * US))

    def _later(self, delay_us: int, act: Callable[..., None], *args: object) -> None:
        self._timeline.after(delay_us, self._if_same_daemon, self.daemons, act, args)

    def _if_same_daemon(self, daemon: int, act: Callable[..., None], args: tuple[object, ...]) -> None:
        if daemon == self.daemons and self.machine is not None:
            self._guarded(act, *args)

    # ---- the daemon's turn ---------------------------------------------------------------------------------------

    def post(self, event: core.NodeCoreEvent) -> None:
        """Passes an event to the machine."""
        if self.machine is None:
            return
        self._inbox.append(event)
        if not self._busy:
            self._busy = True
            self._later(self._random.randint(0, 300), self._turn)

    def _turn(self) -> None:
        machine = self.machine
        assert machine is not None
        self._busy = True
        inbox, self._inbox = self._inbox, []
        try:
            for event in inbox:
                machine.step(self.now_us(), event)
            batch = machine.seal()
            machine.check()
        except Exception as error:
            raise Broken("node core", f"{self.name}: {type(error).__name__}: {error}") from error
        if batch is None:
            self._rest()
            return
        self.passes("journal:before")
        self.disk.records.extend(batch.records)
        self.passes("journal:written")
        self._later(self._random.randint(50, self.sync_max_us) if batch.durable else 0, self._synced, batch)

    def _synced(self, batch: core.NodeBatch) -> None:
        assert self.machine is not None
        disk = self.disk
        if batch.durable:
            disk.synced = len(disk.records)
        self.passes("journal:synced")
        if len(disk.records) > 60 and self._random.random() < 0.1:
            disk.records = list(self.machine.snapshot())
            disk.synced = len(disk.records)
        for effect in batch.effects:
            self.passes("effect")
            self._do(effect)
        self._rest()

    def _rest(self) -> None:
        self._busy = False
        if self._inbox:
            self._busy = True
            self._later(0, self._turn)
        assert self.machine is not None
        deadline_us = self.machine.next_deadline()
        if deadline_us is not None:
            self._later(max(deadline_us - self.now_us(), 1), self._due, deadline_us)

    def _due(self, deadline_us: int) -> None:
        if self.machine is not None and self.machine.next_deadline() == deadline_us:
            self.post(core.TimerDue())

    def _do(self, effect: core.NodeEffect) -> None:
        if isinstance(effect, core.AckCommand):
            self._say(effect.link, ("answer", effect.sequence, effect.refused))
        elif isinstance(effect, core.SendReport):
            self._say(effect.link, ("report", event_of(effect, self.name, self.disk.spool_id, self._even_us)))
        elif isinstance(effect, core.StartStep):
            self._order(effect.key, *effect.order)
        elif isinstance(effect, core.DeliverSignal):
            self._signal(effect)
        elif isinstance(effect, core.SweepStep):
            self.disk.claims.pop(effect.key, None)
            self.disk.ends.pop(effect.key, None)
        elif isinstance(effect, core.DropLink) and self._stream is not None and effect.link == self._stream.number:
            self._timeline.say(0, f"{self.name} drops its stream: {effect.why}")
            self._stream.close(NODE)

    def _say(self, link: int, message: object) -> None:
        if self._stream is not None and link == self._stream.number and self._admitted:
            self._stream.send(NODE, message)

    def _even_us(self, at_us: int) -> int:
        """A time of this machine by the time that passes for all, as the controller's link finds out (ctld/agents/nodetime.py);
        0 stays 0."""
        return at_us and at_us - self._skew_us

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _order(self, key: StepKey, launch: LaunchStep, script: bytes, lease: tuple[int, int]) -> None:
        """Passes the launch to the launcher, which may outlive the daemon."""
        delay_us = self._random.randint(200, 5_000)
        self._timeline.after(delay_us, self._begin, key, launch, script, lease, self.boots, self.daemons)

    def _begin(
        self, key: StepKey, launch: LaunchStep, script: bytes, lease: tuple[int, int], boot: int, daemon: int
    ) -> None:
        if boot != self.boots or not self.powered or key in self.disk.claims:
            return
        if daemon != self.daemons and self._random.random() < 0.5:
            return  # the launch was still in the dead daemon's buffer
        job = launch.job
        behaviour = self._behaviour_of(script, job, self.name)
        if behaviour.failure:
            self._end_on_disk(core.StepEnded(key, 0, self.now_us(), failure=behaviour.failure))
            return
        missing = [uuid for uuid in gpus_of(launch, self.name) if uuid and not self.gpus.has(uuid)]
        if missing:
            text = f"GPU {missing[0]} is not there"
            self._timeline.say(key.job_id, f"{_name(key)} does not start on {self.name}: {text}")
            self._end_on_disk(core.StepEnded(key, 0, self.now_us(), failure=text, untried=True))
            return
        small = [u for u in gpus_of(launch, self.name) if self.gpus.memory_mb(u) < job.request.gpu_mem_mb]
        if small and not job.request.exclusive:  # an exclusive job has all GPUs of the node
            raise Broken("placement", f"job {key.job_id} asked for more memory than {small[0]} has", key.job_id)
        self.disk.claims[key] = True
        process = self.processes[key] = SimProcess(
            key, self.name, job, behaviour, script, self._timeline.now_us, launch.step
        )
        process.lease = lease
        process.gave_cpus_up = self._is_suspended(key)
        process.gpus = gpus_of(launch, self.name)
        if lease != NO_LEASE:
            self._observe(process)
            if not self._beats:
                self._beat()
        self._timeline.say(key.job_id, f"{_name(key)} starts on {self.name}")
        self._checkers.started(process)
        self._plan_end(process)
        if daemon == self.daemons:
            self._later(self._random.randint(100, 2_000), self.post, core.StepBegan(key, self.now_us(), 1))

    def _signal(self, effect: core.DeliverSignal) -> None:
        process = self.processes.get(effect.key)
        if process is None:
            return
        behaviour, signals = process.behaviour, set(effect.signals)
        process.is_ending |= {SIGCONT, SIGTERM} <= signals
        if signals & {SIGSTOP, SIGTSTP}:
            process.gave_cpus_up = True
        if SIGSTOP in signals:
            self._timeline.say(process.key.job_id, f"{_name(process.key)} is stopped on {self.name}")
            process.stop(self._timeline.now_us)
        if SIGCONT in signals:
            self._continue(process)
        if signals == {SIGCONT}:
            if effect.cpus != ANY_CPUS:
                process.cpu_ids = int(effect.cpus.step, 16)
            process.gave_cpus_up = False
            self._timeline.say(process.key.job_id, f"{_name(process.key)} continues on {self.name}")
            self._checkers.continued(process)
        if signals & {SIGKILL, SIGTERM}:
            delay_us = behaviour.on_kill_us if SIGKILL in signals else behaviour.on_term_us
            self._hit(process, effect.signals[-1], delay_us)

    def _is_suspended(self, key: StepKey) -> bool:
        """Whether the step is suspended, by this node's daemon or, while there is none, by its journal."""
        if self.machine is not None:
            return key in self.machine.steps and self.machine.steps[key].suspended
        found = [record for record in self.disk.records if isinstance(record, core.Suspended) and record.key == key]
        return bool(found) and found[-1].suspended

    def _continue(self, process: SimProcess) -> None:
        if process.resume(self._timeline.now_us):
            self._plan_end(process)

    def _plan_end(self, process: SimProcess) -> None:
        end_us = process.end_planned_us
        self._timeline.at(end_us, self._exit, process, end_us)

    def _hit(self, process: SimProcess, signal: int, delay_us: int) -> None:
        """A signal ends the process after this time; negative = it ignores the signal. One that is stopped gets all but
        SIGKILL when it continues."""
        if delay_us < 0 or process.end_us:
            return
        if signal == SIGKILL:
            self._continue(process)
        if process.stopped_at_us:
            if delay_us < process.left_us:
                process.left_us = delay_us
                process.signal_planned = signal
            return
        end_us = self._timeline.now_us + delay_us
        if end_us < process.end_planned_us:
            process.end_planned_us = end_us
            process.signal_planned = signal
            self._plan_end(process)

    def _exit(self, process: SimProcess, end_us: int) -> None:
        if process.end_us or process.end_planned_us != end_us:
            return
        signal = process.signal_planned
        self._end(process, signal)
        behaviour = process.behaviour
        if signal == SIGTERM and process.script == EXTERN_PROGRAM:  # that is the request to end
            signal = 0
        code, signal = (0, signal) if signal else (behaviour.exit_code, behaviour.exit_signal)
        start_us = process.start_us + self._skew_us
        process.reported = core.StepEnded(
            process.key, start_us, max(self.now_us(), start_us), code, signal, out_of_memory=behaviour.out_of_memory,
            user_cpu_us=process.cpu_us, failure=LAPSED if process.lapsed else "",
        )  # fmt: skip
        self._end_on_disk(process.reported)

    def _end_on_disk(self, end: core.StepEnded) -> None:
        self.disk.ends[end.key] = end
        self._timeline.after(self._random.randint(100, 2_000), self._gone, end)

    def _gone(self, end: core.StepEnded) -> None:
        if self.machine is not None and end.key in self.disk.ends:
            self.post(end)

    def _end(self, process: SimProcess, signal: int) -> None:
        process.end_us = self._timeline.now_us
        process.signal = signal
        process.resume(process.end_us)
        ran_us = process.end_us - process.start_us - process.stopped_us
        process.cpu_us = int(ran_us * process.behaviour.cpu_share)
        del self.processes[process.key]
        how = f"signal {signal}" if signal else f"exit {process.behaviour.exit_code}"
        self._timeline.say(process.key.job_id, f"{_name(process.key)} is over on {self.name}: {how}")
        self._checkers.ended(process)

    # ---- the stream ----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._stream is not None:
            return
        self._streams += 1
        if not self._network.reaches(self.name):
            self._again()
            return
        assert self.machine is not None
        self._admitted = False
        sides: dict[str, Side] = {NODE: self, CTLD: self._ctld}
        stream = self._stream = self._network.connect(self.name, self._streams, sides)
        self._asked_us = self._timeline.now_us
        stream.send(NODE, ("register", self._registration()))
        self._later(REGISTER_TIMEOUT_US, self._not_admitted, stream)

    def _not_admitted(self, stream: SimStream) -> None:
        if self._stream is stream and not self._admitted:
            stream.close(NODE)

    def _registration(self) -> Callable[[int], NodeRegistered]:
        assert self.machine is not None
        config = self.config
        held = tuple(
            HeldStep(s.key.job_id, s.key.attempt, s.key.step_id, s.state.name, s.epoch, s.suspended, *s.lease)
            for s in self.machine.steps.values()
        )
        gres = tuple((g.name, g.type, g.count) for g in config.gres)
        name = self.name
        boot_id = self.boot_id
        spool_id = self.machine.spool_id
        lost = self._spool_lost
        gpus, opinions = self.gpus.facts(), self.gpus.opinions()
        return lambda link: NodeRegistered(
            name, link, boot_id, spool_id, "1", config.cpus, 1, config.cpus, 1, config.real_memory_mb, 0, gres, held,
            spool_lost=lost, gpus=gpus, gpu_opinions=opinions,
        )  # fmt: skip

    def _again(self) -> None:
        self._later(int(self._pause_us * self._random.uniform(0.5, 1.5)), self._connect)
        self._pause_us = min(self._pause_us * 2, PAUSE_MAX_US)

    def take(self, stream: SimStream, message: Any) -> None:
        """Handles a message of the controller."""
        if stream is self._stream and self.machine is not None:
            kind, *content = message
            self._takers[kind](stream, *content)

    def _registered(self, stream: SimStream, refusal: str, epoch: int, timeout_us: int) -> None:
        if refusal:
            stream.close(NODE)
        elif not self._admitted:
            self._admitted = True
            self._contact(self._asked_us)
            self._pause_us = PAUSE_FIRST_US
            self.post(core.LinkUp(stream.number, epoch, timeout_us))

    def _acked(self, stream: SimStream, spool_id: str, through: int) -> None:
        self.post(core.ReportsAcked(spool_id, through))

    def _command(
        self,
        stream: SimStream,
        epoch: int,
        sequence: int,
        effect: LaunchStep | SignalStep | SuspendStep | TerminateStep | ForgetStep,
        script: bytes | None,
    ) -> None:
        key = StepKey(effect.job_id, effect.attempt, effect.step_id)
        head = (stream.number, sequence, epoch, key)
        if isinstance(effect, LaunchStep):
            lease = (effect.lease_s, effect.lease_grace_s) if effect.lease_s else NO_LEASE
            self.post(core.Launch(*head, (effect, script, lease), lease=lease))
        elif isinstance(effect, SignalStep):
            scope = SCOPE_BATCH if effect.batch_only and not effect.full else SCOPE_ALL
            self.post(core.Signal(*head, effect.signal_no, scope))
        elif isinstance(effect, SuspendStep):
            cpus = CpuSets(f"{effect.cpu_ids:x}", f"{effect.job_cpu_ids:x}") if effect.cpu_ids else ANY_CPUS
            self.post(core.SuspendSteps(*head, effect.suspended, effect.grace_ms * 1000, cpus))
        elif isinstance(effect, TerminateStep):
            self.post(core.Terminate(*head, effect.grace_ms * 1000, effect.note))
        else:
            assert isinstance(effect, ForgetStep)
            self.post(core.Forget(*head))

    def broken(self, stream: SimStream) -> None:
        """Handles the end of the stream."""
        if stream is not self._stream:
            return
        self._stream = None
        if self._admitted:
            self.post(core.LinkDown(stream.number))
            self._pause_us = PAUSE_FIRST_US
        if self.machine is not None:
            self._again()
