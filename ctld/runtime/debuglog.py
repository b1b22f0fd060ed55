"""DebugFlags: lines of the log by subsystem, switched at run time (`scontrol setdebugflags`, slurm.conf).

What the flags show is what passes the loop anyway: events before the core handles them, committed batches, answered calls.
So the core stays free of logging, and without flags the loop compares one name with None.

Rules
    - A flag's lines are of the level info, as Slurm's: they need no SlurmctldDebug=debug.
    - Of an event or effect only the fields of `_SHOWN` are logged: no script, environment, command line or message of a user.
    - One batch makes at most LINES_MAX lines a flag, then says how many more there are.
    - penstock/values/debugflags.py names the flags; here is what each follows, as tables.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ctld.core.records import effects, events
from ctld.core.records.effects import Batch, Effect, StartPlan
from ctld.core.records.event_base import Actor, Event
from ctld.core.records.job import JobRow
from penstock.values.debugflags import EFFECTS
from penstock.values.states import JobState

log = logging.getLogger("penstock.ctld")

#: Of one batch and flag.
LINES_MAX: Final = 1_000
_VALUE_CHARS_MAX: Final = 200
CallSeen = Callable[[str, int | None, str, int], None]
DebugLine = tuple[int, str]  # the job, 0 = of none; the text

#: Flag -> the events that it shows.
_EVENTS: Final[dict[str, tuple[type[Event], ...]]] = {
    "Gres": (events.GpuReported, events.GpuWorkDone, events.GpuIdle),
    "Network": (events.NodeRegistered, events.NodeDisconnected, events.NodeClockSeen),
    "Power": (events.NodeFenced,),
    "Profile": (events.StepProfiled,),
    "Protocol": (
        events.StepStarted, events.StepExited, events.StepProfiled, events.LaunchRefused, events.NodeNotice,
        events.GpuReported, events.GpuWorkDone, events.GpuIdle,
    ),
    "Reservation": (events.CreateReservation, events.UpdateReservation, events.DeleteReservation),
    "Script": (events.ScriptEnded,),
    "Steps": (events.CreateStep,),
    "Triggers": (events.SetTrigger, events.ClearTriggers, events.TriggerEnded),
}  # fmt: skip
#: Flag -> the effects that it shows.
_EFFECTS: Final[dict[str, tuple[type[Effect], ...]]] = {
    "Agent": (
        effects.LaunchStep, effects.SignalStep, effects.TerminateStep, effects.SuspendStep, effects.NotifyStep,
        effects.ForgetStep, effects.AckReports, effects.AdmitNode, effects.RebootNode, effects.GpuWork, effects.ClearGpu,
        effects.ReturnGpus,
    ),
    "Gres": (effects.GpuWork, effects.ClearGpu, effects.ReturnGpus),
    "Power": (effects.RebootNode, effects.FenceNode),
    "Script": (effects.RunScript,),
    "Triggers": (effects.RunTrigger,),
}  # fmt: skip
#: The fields that a line may have.
_SHOWN: Final = (
    "node", "name", "names", "nodes", "attempt", "step_id", "link_id", "lost_link_id", "sequence", "work_id", "uuid", "uuids",
    "trigger_id", "kinds", "kind", "context", "signal_no", "batch_only", "full", "suspended", "grace_ms", "off", "off_us",
    "ok", "over", "unused", "exit_code", "exit_signal", "failure", "why", "reason", "cause", "drain", "fail", "clear",
    "refusal", "epoch", "cpus", "real_memory_mb",
)  # fmt: skip


class DebugLog:
    """The flags in force. Belongs to the loop's thread.

    `event` and `call` are None, or what to call with each event and each answered call (method, uid or None of one that was
    not admitted, status, microseconds).
    """

    def __init__(self, observers: list[Callable[[Batch], None]]) -> None:
        """`observers`: those that are called with each committed batch."""
        self._observers = observers
        self._configured: tuple[str, ...] = ()
        self.flags: tuple[str, ...] = ()
        self.event: Callable[[Event], None] | None = None
        self.call: CallSeen | None = None
        self._flags_of: dict[type[object], list[str]] = {}
        self._followed: list[tuple[str, Callable[[Batch], Iterator[DebugLine]]]] = []

    def configure(self, flags: Sequence[str]) -> None:
        """Sets the flags of a configuration that was read; changes at run time end."""
        self._configured = tuple(flags)
        self._use(self._configured)

    def change(self, on: Iterable[str], off: Iterable[str]) -> None:
        """Adds and removes flags, until the configuration is read again."""
        without = frozenset(off)
        self._use(tuple(flag for flag in dict.fromkeys((*self.flags, *on)) if flag not in without))

    @property
    def is_changed(self) -> bool:
        """Whether the flags are other than the configuration's."""
        return self.flags != self._configured

    def _use(self, flags: tuple[str, ...]) -> None:
        self.flags = flags
        chosen = [flag for flag in EFFECTS if flag in flags]
        self._flags_of = {}
        for flag in chosen:
            for kind in (*_EVENTS.get(flag, ()), *_EFFECTS.get(flag, ())):
                self._flags_of.setdefault(kind, []).append(flag)
        self._followed = [(flag, _BATCHES[flag]) for flag in chosen if flag in _BATCHES]
        is_plan_seen = "Backfill" in chosen
        self.event = self._event if is_plan_seen or any(flag in _EVENTS for flag in chosen) else None
        self.call = _call if "AuditRPCs" in chosen else None
        if self._committed in self._observers:
            self._observers.remove(self._committed)
        if self._followed or any(flag in _EFFECTS for flag in chosen):
            self._observers.append(self._committed)

    def _event(self, event: Event) -> None:
        for flag in self._flags_of.get(type(event), ()):
            _say(flag, getattr(event, "job_id", 0), _described(event))
        if type(event) is events.PlanReady and "Backfill" in self.flags:
            predicted = len(event.forecast) if event.forecast is not None else 0
            counts = f"{len(event.starts)} starts, {len(event.victims)} jobs to preempt, {len(event.reasons)} wait"
            _say("Backfill", 0, f"pass {event.revision} is done: {counts}, {predicted} starts predicted")

    def _committed(self, batch: Batch) -> None:
        lines: dict[str, list[DebugLine]] = {}
        for flag, lines_of in self._followed:
            lines.setdefault(flag, []).extend(lines_of(batch))
        for effect in batch.effects:
            for flag in self._flags_of.get(type(effect), ()):
                lines.setdefault(flag, []).append((_job_of(effect), _described(effect)))
        for flag, found in lines.items():
            for job_id, text in found[:LINES_MAX]:
                _say(flag, job_id, text)
            if len(found) > LINES_MAX:
                _say(flag, 0, f"and {len(found) - LINES_MAX} more of this batch")


def _say(flag: str, job_id: int, text: str) -> None:
    if job_id:
        log.info("DebugFlags=%s: job %d: %s", flag, job_id, text)
    else:
        log.info("DebugFlags=%s: %s", flag, text)


def _call(method: str, uid: int | None, status: str, took_us: int) -> None:
    caller = "an unknown caller" if uid is None else "a node" if uid < 0 else f"uid {uid}"
    _say("AuditRPCs", 0, f"{method} of {caller}: {status} after {took_us} us")


def _job_of(effect: Effect) -> int:
    job = getattr(effect, "job", None)
    return job.job_id if job is not None else getattr(effect, "job_id", 0)


def _described(record: Event | Effect) -> str:
    """The kind of an event or effect, and its fields that may be shown and say something."""
    words = [type(record).__name__]
    actor = getattr(record, "actor", None)
    if isinstance(actor, Actor):
        words.append(f"uid={actor.uid}")
    for name in _SHOWN:
        value = getattr(record, name, None)
        if value is None or value == "" or value == () or value is False:
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words.append(f"{name}={text[:_VALUE_CHARS_MAX]}")
    if isinstance(record, events.StepProfiled):
        words.append(f"bytes={len(record.profile)}")
    return " ".join(words)


# ---- what each flag shows of a committed batch ---------------------------------------------------------------------


def _started(batch: Batch) -> Iterator[JobRow]:
    keys = {(line.job_id, line.attempt) for line in batch.history if line.event == "start"}
    return (row for row in batch.jobs if (row.job_id, row.attempt) in keys)


def _devices(batch: Batch) -> Iterator[DebugLine]:
    for row in _started(batch):
        for part in row.alloc:
            for name, kind, mask in part.gres:
                places = ",".join(str(place) for place in range(mask.bit_length()) if mask >> place & 1)
                yield row.job_id, f"{part.node} {name}{':' + kind if kind else ''} {places}"
            if part.shares:
                yield row.job_id, f"{part.node} parts of {len(part.shares)} GPUs"


def _places(batch: Batch) -> Iterator[DebugLine]:
    for row in _started(batch):
        for part in row.alloc:
            yield (
                row.job_id,
                f"{part.node} cpus={part.cpus} mask={part.cpu_ids:#x} mem_mb={part.mem_mb} tasks={part.tasks}",
            )


def _licenses(batch: Batch) -> Iterator[DebugLine]:
    return ((row.job_id, f"takes {row.request.licenses}") for row in _started(batch) if row.request.licenses)


def _dependencies(batch: Batch) -> Iterator[DebugLine]:
    return (
        (row.job_id, f"waits for {row.dependency}")
        for row in batch.jobs
        if row.dependency and row.state is JobState.PENDING
    )


def _priorities(batch: Batch) -> Iterator[DebugLine]:
    for row in batch.jobs:
        if row.state is JobState.PENDING:
            yield row.job_id, f"priority {row.priority}, nice {row.request.nice}, QOS {row.request.qos or 'none'}"


def _jobs(batch: Batch) -> Iterator[DebugLine]:
    for row in batch.jobs:
        yield row.job_id, f"attempt {row.attempt} {row.state.name} reason={row.reason.name} priority={row.priority}"


def _steps(batch: Batch) -> Iterator[DebugLine]:
    for row in batch.steps:
        where = row.node_list or row.node
        yield row.job_id, f"attempt {row.attempt} step {row.step_id} {row.state.name} on {where} exit={row.exit_code}"


def _reservations(batch: Batch) -> Iterator[DebugLine]:
    for row in batch.reservations:
        yield 0, f"{row.name} from {row.start_at_us // 1_000_000} to {row.end_at_us // 1_000_000}"
    for name in batch.reservations_gone:
        yield 0, f"{name} is removed"


def _passes(batch: Batch) -> Iterator[DebugLine]:
    for effect in batch.effects:
        if isinstance(effect, StartPlan):
            yield 0, f"pass {effect.revision} begins with {len(effect.question.given.rows)} rows of the queue"


def _kept_events(batch: Batch) -> Iterator[DebugLine]:
    return ((0, f"event {row.sequence} {row.kind}, {len(row.body)} bytes") for row in batch.outbox)


_BATCHES: Final[dict[str, Callable[[Batch], Iterator[DebugLine]]]] = {
    "Backfill": _passes,
    "Dependency": _dependencies,
    "Gres": _devices,
    "JobComp": _kept_events,
    "License": _licenses,
    "Priority": _priorities,
    "Reservation": _reservations,
    "SelectType": _places,
    "Steps": _steps,
    "TraceJobs": _jobs,
}
