"""Judges the health of this node's GPUs: signals in; health states and actions out. Pure.

    step(now_us, event)     takes one event (gpuhealth_messages.py)
    seal() returns the outputs of the events since the last call

The table gpupolicy.py says what a signal means, gpusignals.py whether it is present, gpurecord.py how conditions begin
and end, gpuends.py which have ended, gpuholdings.py which jobs have a GPU, and gpuleftovers.py what processes on a GPU
mean. This module applies them to the jobs and the node, in one class, since each signal ends in the same few acts:

- A job is notified of one failure once. This concerns only jobs that have the GPU at that moment, and those that get
  it while a row is active that ends jobs.
- The node is drained for one reason at a time; a reason that is over is cleared by its own text.
- An instance of a GPU (MIG) is never healthier than its GPU.
- The position in the kernel's log is stored together with what followed from it, so that each XID counts exactly once.
- XIDs are counted for the whole GPU; a raised count is reported with the next change, or within the hour.

Every signal that changes something is logged with its raw text (Remark).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# Any: handlers of all kinds of events in one table: each is called with its own kind, by which it is found
from typing import Any, Final

from nodedaemon.core import gpuends, gpuleftovers, gpunode, gpurecord
from nodedaemon.core.gpuhealth_messages import (
    Action,
    Cleared,
    GpuHealthRecord,
    GpuOwner,
    GpuWorkKind,
    HealthEvent,
    HealthOutput,
    JobAction,
    Listed,
    LogRead,
    Memory,
    NodeDrain,
    Opinion,
    PollRequest,
    Released,
    Remark,
    Rules,
    Seen,
    StepGpus,
    Worked,
)
from nodedaemon.core.gpuholdings import GpuHoldings, job_of
from nodedaemon.core.gpumessages import Answering, Device, Hung, Sample, Xid, normal_bus_id
from nodedaemon.core.gpupolicy import DAY_US, MINUTE_US, ROW, ROW_OF_CLASS, Ends, PolicyRow, Severity, XidClass
from nodedaemon.core.gpusignals import (
    LEVELS,
    NOTES,
    Level,
    SignalContext,
    has_idle_memory,
    has_slow_link,
    is_slowed,
    missing,
    notes,
    rise,
)
from nodedaemon.core.steps import JobKey, StepKey

#: Records of GPUs that no longer exist are removed after this long, or when there are this many.
KEPT_US: Final = 90 * DAY_US
RECORDS_MAX: Final = 1024
#: Slow-downs within the window that count, and the minimum interval of two polls that both count.
SLOWED_MAX: Final = 6
SLOWED_WINDOW_US: Final = 10 * MINUTE_US
SLOWED_APART_US: Final = 8_000_000
GOOD_POLLS: Final = 3
#: Signals that only a reset clears.
CURED: Final = ("recovery_reset", "reset_required", "remap_pending")
#: XIDs that cause a poll of everything: a row was remapped, or the driver wants a recovery action.
LOOK_AFTER: Final = (63, 154)


@dataclass(slots=True)
class Streak:
    """How often in a row a signal of a GPU was seen."""

    error: int = 0
    errors: int = 0
    good: int = 0
    idle_memory: int = 0
    slow_link: int = 0
    slowed: list[int] = field(default_factory=list)


class HealthMachine:
    """The health of all GPUs of this node."""

    def __init__(self, memory: Memory | None = None, xids: Mapping[int, XidClass] | None = None) -> None:
        """xids: the classes of XIDs; the site's rules take precedence."""
        self.memory = memory or Memory()
        self.holdings = GpuHoldings()
        self.leftovers = gpuleftovers.Leftovers()
        self._xids = dict(xids or {})
        self._rules = Rules()
        self._site_xids: dict[int, XidClass] = {}
        self._devices: dict[str, Device] = {}
        self._streaks: dict[str, Streak] = {}
        self._owners: dict[int, GpuOwner] = {}
        self._acted: dict[JobKey, dict[tuple[str, str], Action]] = {}
        self._outputs: list[HealthOutput] = []
        self._handlers: dict[type[object], Callable[[int, Any], None]] = {
            Listed: self._listed,
            Seen: self._seen,
            Xid: self._xid,
            Hung: self._hung,
            Answering: self._answering,
            StepGpus: self._add_step,
            Released: self._released,
            Cleared: self._cleared,
            Rules: self._take_rules,
            Worked: self._worked,
            LogRead: self._log_read,
        }

    # -- entry points

    def step(self, now_us: int, event: HealthEvent) -> None:
        """Handles one event."""
        self._handlers[type(event)](now_us, event)
        self._report_opinions(now_us)
        self._update_drain(now_us)

    def seal(self) -> list[HealthOutput]:
        """Returns the outputs of the events since the last call."""
        outputs = self._outputs
        self._outputs = []
        return outputs

    def devices(self) -> tuple[Device, ...]:
        """The devices that NVML lists, then those that were lost since the machine was started."""
        lost = (r.device for r in self._here() if r.device is not None and r.uuid not in self._devices)
        return (*self._devices.values(), *lost)

    def opinion(self, uuid: str) -> Opinion:
        """The present health of a GPU."""
        record = self.memory.records.get(uuid)
        if record is None:
            return Opinion(uuid)
        own = gpurecord.opinion_of(record)
        parent = self.memory.records.get(record.device.parent) if record.device else None
        if parent is None:
            return own
        above = gpurecord.opinion_of(parent)
        if above.many_only or above.state <= own.state:
            return own
        return Opinion(uuid, above.state, above.reason, above.since_us)

    def check(self) -> None:
        """Raises AssertionError when the machine contradicts itself."""
        assert len(self.memory.records) <= RECORDS_MAX
        for uuid, record in self.memory.records.items():
            assert record.uuid == uuid
            assert len(record.cleared_at_us) <= gpurecord.CLEARS_MAX
            assert record.conditions.keys() <= ROW.keys()
            assert len(record.blamed) <= gpurecord.BLAMED_MAX and len(record.counted) <= gpurecord.XIDS_MAX

    # -- inventory

    def _listed(self, now_us: int, event: Listed) -> None:
        is_new_boot = self.memory.boot_id != event.boot_id
        if is_new_boot:
            if self.memory.log_read is not None:
                self.memory.log_read = -1  # no record of this boot's log has been seen
            before = self.memory.boot_id
            self.memory.boot_id = event.boot_id
            for record in self.memory.records.values():
                record.ecc_volatile = -1
                record.nvlink_errors = -1
                record.links_down = -1
                if event.why and record.boot_id == before:
                    record.boot_id = event.boot_id  # it was present, and no report contradicts that
        if event.why:
            for record in self._here():
                self._raise_condition(now_us, record, "driver", f"NVML does not answer: {event.why}")
            return
        self._devices = {device.uuid: device for device in event.devices}
        for device in event.devices:
            record = self.memory.records.setdefault(device.uuid, GpuHealthRecord(device.uuid))
            record.device = device
            record.boot_id = event.boot_id
            record.seen_at_us = now_us
            lost = record.conditions.get("lost")
            if lost is not None and lost.boot_id != event.boot_id:
                self._end(now_us, record, ["lost"])
        for record in list(self.memory.records.values()):
            self._end(now_us, record, ["driver"])
            if record.uuid not in self._devices:
                self._is_gone(now_us, record, event.nameless)

    def _is_gone(self, now_us: int, record: GpuHealthRecord, nameless: tuple[int, ...]) -> None:
        """Whether it was there before and is no longer listed. `nameless`: errors of those that NVML counts and that do
        not answer.
        """
        is_part = record.device is not None and bool(record.device.parent)
        if is_part or record.seen_at_us < now_us - KEPT_US or len(self.memory.records) > RECORDS_MAX:
            del self.memory.records[record.uuid]
            self._streaks.pop(record.uuid, None)
            self.leftovers.forget(record.uuid)
        elif record.boot_id == self.memory.boot_id:
            row, words = missing(nameless)
            self._raise_condition(now_us, record, row, words)

    def _here(self) -> list[GpuHealthRecord]:
        """Returns the records of the GPUs of this boot."""
        return [record for record in self.memory.records.values() if record.boot_id == self.memory.boot_id]

    # -- samples

    def _seen(self, now_us: int, event: Seen) -> None:
        self._owners = {owner.pid: owner for owner in event.owners}
        samples = event.polled.samples
        best: dict[str, int] = {}
        for sample in samples:
            device = self._devices.get(sample.uuid)
            if device is not None and sample.nvlinks_down is not None:
                best[device.type] = min(best.get(device.type, sample.nvlinks_down), sample.nvlinks_down)
        for sample in samples:
            device, record = self._devices.get(sample.uuid), self.memory.records.get(sample.uuid)
            if device is None or record is None:
                continue
            if device.parent:
                self._check_processes(now_us, record, sample)
            else:
                self._check_sample(now_us, record, sample, best.get(device.type, 0))

    def _check_sample(self, now_us: int, record: GpuHealthRecord, sample: Sample, links_down: int) -> None:
        streak = self._streaks.setdefault(record.uuid, Streak())
        self._count(record, sample, streak)
        if sample.nvlinks_down is not None:
            known = record.links_down
            record.links_down = sample.nvlinks_down if known < 0 else min(known, sample.nvlinks_down)
            links_down = min(links_down, record.links_down)
        self._compare_counters(now_us, record, sample)
        self._check_clocks(now_us, record, sample, streak)
        self._check_modes(record, sample)
        context = SignalContext(streak.errors, streak.slow_link, streak.idle_memory, links_down)
        levels = {row: level(sample, context) for row, level in LEVELS.items()}
        for row, level in levels.items():
            if level is not None and level[0] > 0:
                self._raise_condition(now_us, record, row, level[1], level[0])
            elif level is not None:
                record.accepted.pop(row, None)
        self._check_processes(now_us, record, sample)
        self._end_what_is_over(now_us, record, sample, levels, streak)
        self._end_overdue(now_us, record)

    def _count(self, record: GpuHealthRecord, sample: Sample, streak: Streak) -> None:
        is_good = not sample.error and not sample.slow
        streak.good = streak.good + 1 if is_good else 0
        streak.errors = streak.errors + 1 if sample.error and sample.error == streak.error else int(bool(sample.error))
        streak.error = sample.error
        slow_link = has_slow_link(sample)
        if slow_link is not None:
            streak.slow_link = streak.slow_link + 1 if slow_link else 0
        is_idle = not self._jobs_on(record.uuid) and bool(has_idle_memory(sample))
        is_part = record.device is not None and record.device.mig_enabled
        streak.idle_memory = streak.idle_memory + 1 if is_idle and not is_part else 0

    def _compare_counters(self, now_us: int, record: GpuHealthRecord, sample: Sample) -> None:
        """Counts the errors since the last poll. A counter that fell was set back by a reset or a new driver."""
        volatile = sample.ecc_volatile
        more = rise(record.ecc_volatile, volatile) or rise(record.ecc_aggregate, sample.ecc_aggregate)
        if volatile is not None and volatile < record.ecc_volatile:
            self._was_reset(now_us, record)
        record.ecc_volatile = record.ecc_volatile if volatile is None else volatile
        record.ecc_aggregate = record.ecc_aggregate if sample.ecc_aggregate is None else sample.ecc_aggregate
        if more:
            self._raise_condition(now_us, record, "ecc_rose", f"{more} uncorrectable ECC errors", more, again=True)
            if "remap_failed" in record.conditions:
                self._act(record, ROW["ecc_rose"], f"{more} uncorrectable ECC errors", Action.END)
        errors = rise(record.nvlink_errors, sample.nvlink_errors)
        record.nvlink_errors = record.nvlink_errors if sample.nvlink_errors is None else sample.nvlink_errors
        if errors:
            self._raise_condition(now_us, record, "nvlink", f"{errors} NVLink replays or recoveries")

    def _check_clocks(self, now_us: int, record: GpuHealthRecord, sample: Sample, streak: Streak) -> None:
        streak.slowed = [at_us for at_us in streak.slowed if at_us > now_us - SLOWED_WINDOW_US]
        if not is_slowed(sample):
            return
        if not streak.slowed or now_us - streak.slowed[-1] >= SLOWED_APART_US:
            streak.slowed.append(now_us)
        if "throttle" in record.conditions or len(streak.slowed) >= SLOWED_MAX:
            words = (
                f"slowed down by the hardware {len(streak.slowed)} times in 10 minutes (reasons {sample.throttle:#x})"
            )
            self._raise_condition(now_us, record, "throttle", words)

    def _check_modes(self, record: GpuHealthRecord, sample: Sample) -> None:
        """Logs each mode once; nothing else follows."""
        found = notes(sample, record.notes)
        for word in found:
            if word not in record.notes:
                self._remark(f"GPU {record.uuid}: {Severity.INFO}: {NOTES[word]}", is_bad=False)
        record.notes = found

    def _check_processes(self, now_us: int, record: GpuHealthRecord, sample: Sample) -> None:
        holding = self._jobs_on(record.uuid)
        found = self.leftovers.classify(now_us, record.uuid, sample, self._owners, holding, self.holdings.jobs())
        self._outputs += found.outputs
        for row in ("left_behind", "leaked", "foreign"):
            words = found.rows.get(row)
            if words:
                self._raise_condition(now_us, record, row, words)
            elif words == "":
                self._end(now_us, record, [row])

    def _end_what_is_over(
        self, now_us: int, record: GpuHealthRecord, sample: Sample, levels: dict[str, Level], streak: Streak
    ) -> None:
        is_good = not sample.error and not sample.slow
        for name, condition in record.conditions.items():
            level = levels.get(name)
            if name in CURED and level is not None and not level[0] and record.reset_at_us <= condition.last_us:
                self._was_reset(now_us, record)
        is_well = is_good and not sample.recovery_action
        sampled = gpuends.Sampled(levels, is_good, is_well, streak.good >= GOOD_POLLS, self.memory.boot_id)
        self._end(now_us, record, gpuends.over(record, sampled, now_us))

    def _end_overdue(self, now_us: int, record: GpuHealthRecord) -> None:
        """Ends jobs that should have ended by themselves, and have not."""
        for name, condition in record.conditions.items():
            after_us = ROW[name].end_after_us
            if after_us and now_us - condition.since_us >= after_us:
                self._act(record, ROW[name], condition.reason, Action.END)

    # -- reports of the driver

    def _log_read(self, now_us: int, event: LogRead) -> None:
        self.memory.log_read = max(event.sequence, -1 if self.memory.log_read is None else self.memory.log_read)

    def _xid(self, now_us: int, event: Xid) -> None:
        if event.sequence >= 0:  # the counts and the log position are written to disk together
            self._log_read(now_us, LogRead(event.sequence))
        device = self._devices.get(event.uuid) or self._by_bus(event.bus_id)
        record = self.memory.records.get((device.parent or device.uuid) if device else event.uuid)
        if record is None:
            self._remark(f"XID {event.xid} of a GPU that is not known ({event.uuid or event.bus_id}): {event.text}")
            return
        class_ = self._site_xids.get(event.xid) or self._xids.get(event.xid) or XidClass.NOTE
        if class_ is XidClass.IGNORE:
            return
        gpurecord.count(record, event.xid, min(event.at_us, now_us))
        words = f"XID {event.xid}"
        self._remark(f"GPU {record.uuid}: {words} ({class_}) {event.text}".rstrip())
        row = ROW_OF_CLASS[class_]
        if class_ is XidClass.APPLICATION:
            self._attribute(now_us, record, event, device.uuid if device else record.uuid)
            return
        if class_ is XidClass.REPEAT and gpurecord.repeats(record, event.xid, now_us) > 1:
            row = "xid_twice"
            record.conditions.pop("xid_once", None)
        self._raise_condition(now_us, record, row, words, xid=event.xid, again=True)
        needs_cure = ROW[row].ends in (Ends.RESET, Ends.BOOT)
        if needs_cure and gpurecord.recurs_after_repair(record, event.xid, now_us, self.memory.boot_id):
            self._raise_condition(
                now_us, record, "inspect", f"hardware inspection: {words} again after 2 reboots or resets"
            )
        if event.xid in LOOK_AFTER:
            self._outputs.append(PollRequest())

    def _attribute(self, now_us: int, record: GpuHealthRecord, event: Xid, uuid: str) -> None:
        """Handles an error of a program: its job is notified; when many users have it, the GPU may be the cause."""
        jobs = self._jobs_on(uuid)
        owner = self._owners.get(event.pid)
        if owner is not None and owner.job in jobs:
            jobs = {owner.job: jobs[owner.job]}
        self._act(record, ROW["xid_application"], f"XID {event.xid}", only=jobs)
        for job, held in jobs.items() if len(jobs) == 1 else ():
            if gpurecord.users(record, held.uid, job[0], now_us) >= gpurecord.USERS_MAX:
                words = f"application errors of 3 users within 24 h, last XID {event.xid}"
                self._raise_condition(now_us, record, "xid_many_users", words, xid=event.xid)

    def _by_bus(self, bus_id: str) -> Device | None:
        wanted = normal_bus_id(bus_id) if bus_id else ""
        return next((d for d in self.devices() if not d.parent and normal_bus_id(d.bus_id) == wanted), None)

    def _hung(self, now_us: int, event: Hung) -> None:
        for record in self._here():
            device = record.device
            if device is not None and not device.parent and event.gpu in ("", record.uuid):
                where = f" on GPU {device.index}" if event.gpu else ""
                self._raise_condition(now_us, record, "hung", f"NVML hung in {event.function}{where}")
                self._streaks.setdefault(record.uuid, Streak()).good = 0

    def _answering(self, now_us: int, event: Answering) -> None:
        for record in self._here():
            if event.gpu in ("", record.uuid):
                self._end(now_us, record, ["hung"])

    # -- jobs

    def _add_step(self, now_us: int, event: StepGpus) -> None:
        self.holdings.add(event)
        for uuid in event.uuids:
            record = self._record_of(uuid)
            for name, condition in record.conditions.items() if record is not None else ():
                if record is not None and ROW[name].action is Action.END and gpurecord.closes(condition):
                    self._act(record, ROW[name], condition.reason, only={job_of(event.key): event})

    def _released(self, now_us: int, event: Released) -> None:
        held = self.holdings.remove(event.key)
        if held is None:
            return
        job = job_of(event.key)
        if job not in self.holdings.jobs():
            self._acted.pop(job, None)
            self.leftovers.ended(now_us, job, held.uid)
        self.leftovers.released(now_us, held)

    def _jobs_on(self, uuid: str) -> dict[JobKey, StepGpus]:
        return self.holdings.jobs_on(uuid, self._parent)

    def _parent(self, uuid: str) -> str:
        device = self._devices.get(uuid)
        return device.parent if device else ""

    def _record_of(self, uuid: str) -> GpuHealthRecord | None:
        """Returns the record of the whole GPU."""
        return self.memory.records.get(self._parent(uuid) or uuid)

    # -- administrators, settings, works

    def _cleared(self, now_us: int, event: Cleared) -> None:
        record = self.memory.records.get(event.uuid)
        if record is None:
            return
        if event.uuid not in self._devices:
            del self.memory.records[event.uuid]
            return
        gpurecord.accept(record)
        self._streaks.pop(event.uuid, None)
        self._remark(f"GPU {event.uuid}: an administrator has seen to it", is_bad=False)
        self._outputs.append(PollRequest())

    def _take_rules(self, now_us: int, event: Rules) -> None:
        self._rules = event
        self._site_xids = {xid: XidClass(word) for xid, word in event.xids if word in XidClass._value2member_map_}

    def _worked(self, now_us: int, event: Worked) -> None:
        record = self.memory.records.get(event.uuid)
        if record is None:
            return
        if event.kind is GpuWorkKind.RESET and event.ok:
            self._was_reset(now_us, record)

    def _was_reset(self, now_us: int, record: GpuHealthRecord) -> None:
        record.resets += 1
        record.reset_at_us = now_us

    # -- consequences

    def _raise_condition(
        self,
        now_us: int,
        record: GpuHealthRecord,
        name: str,
        words: str,
        level: int = 1,
        xid: int = 0,
        again: bool = False,
    ) -> None:
        """Handles the signal of a row. `again`: it is an event, so jobs are notified each time."""
        row = ROW[name]
        is_new = gpurecord.raise_(record, name, words, now_us, self.memory.boot_id, level, xid)
        if is_new and name in record.conditions:
            self._remark(f"GPU {record.uuid}: {row.severity}: {words}: {row.state.name}")
        if is_new or (again and name in record.conditions):
            self._act(record, row, words)

    def _end(self, now_us: int, record: GpuHealthRecord, names: list[str]) -> None:
        for name in gpurecord.end(record, names, now_us):
            self._remark(f"GPU {record.uuid}: {name}: over", is_bad=False)

    def _act(
        self,
        record: GpuHealthRecord,
        row: PolicyRow,
        words: str,
        action: Action | None = None,
        only: dict[JobKey, StepGpus] | None = None,
    ) -> None:
        """Sends the consequence to the jobs that have the GPU; for the same failure only one that is worse than before."""
        cause = f"{words} on {record.uuid}"
        steps_of: dict[Action, list[StepKey]] = {}
        for job, held in (self._jobs_on(record.uuid) if only is None else only).items():
            is_single = row.single is not None and self.holdings.gpus_of(job) < 2
            means = action or (row.single if is_single and row.single is not None else row.action)
            before = self._acted.setdefault(job, {})
            what = (record.uuid, words if row.name.startswith("xid") else row.name)
            if means > before.get(what, Action.NONE):
                before[what] = means
                steps_of.setdefault(means, []).append(held.key)
        self._outputs += [JobAction(means, tuple(keys), cause) for means, keys in steps_of.items()]

    def _report_opinions(self, now_us: int) -> None:
        # A report that ends jobs names only the GPUs concerned, so mere counts of others wait for the next one.
        ends = any(isinstance(output, JobAction) and output.action is Action.END for output in self._outputs)
        for record in self._here():
            opinion = self.opinion(record.uuid)
            if gpurecord.should_report(record, opinion, now_us, may_count=not ends):
                record.reported = opinion
                record.reported_us = now_us
                self._outputs.append(opinion)

    def _update_drain(self, now_us: int) -> None:
        wanted = gpunode.reasons(self._here(), self._rules, now_us)
        former = self.memory.drained
        if former and former not in wanted:
            self._outputs.append(NodeDrain(former, clear=True))
            self.memory.drained = ""
        if wanted and not self.memory.drained:
            self.memory.drained = wanted[0]
            self._outputs.append(NodeDrain(wanted[0]))

    def _remark(self, text: str, is_bad: bool = True) -> None:
        self._outputs.append(Remark(text, is_bad))
