"""The judge of this node's GPUs: signals in, opinions and what follows from them out. Pure.

    step(now_us, event)     takes one event (gpuhealth_words.py)
    seal()                  what came of the events since the last call

What a signal means stands in the table (gpupolicy.py), whether it is there in gpusignals.py, how conditions come and go in
gpurecord.py; what processes on a GPU mean, in gpuleft.py. Here they meet the jobs and the node:

- A job hears of one thing once. Only jobs that have the GPU in that moment are meant, and those that get it while a row
  holds that ends jobs.
- The node is drained for one reason at a time, and the reason that is over is taken back by its own words.
- An instance of a GPU (MIG) is never better than its GPU.
- How far the kernel's log was read is remembered with what followed from it, so that no XID counts twice or not at all.
- XIDs are counted for the whole GPU; that a count has risen is told with the next change, or within the hour.

Every signal that changes something is said with its raw words (Remark).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from nodedaemon.core import gpuleft, gpunode, gpurecord
from nodedaemon.core.gpuhealth_words import (
    Action,
    Cleared,
    Event,
    Holds,
    JobAction,
    Listed,
    LogRead,
    Look,
    Memory,
    NodeDrain,
    Opinion,
    Output,
    Owner,
    Record,
    Released,
    Remark,
    Rules,
    Seen,
    Worked,
    WorkKind,
)
from nodedaemon.core.gpupolicy import DAY_US, MINUTE_US, ROW, ROW_OF_CLASS, Ends, Row, Severity, XidClass
from nodedaemon.core.gpusignals import (
    GONE,
    LEVELS,
    NOTES,
    NVML_RESET_REQUIRED,
    NVML_TIMEOUT,
    Context,
    Level,
    has_idle_memory,
    has_slow_link,
    is_slowed,
    notes,
    rise,
)
from nodedaemon.core.gpuwords import Answering, Device, Hung, Sample, Xid, normal_bus_id
from nodedaemon.core.steps import StepKey

#: Records of GPUs that are not here any more are forgotten after so long, or when there are so many.
KEPT_US: Final = 90 * DAY_US
RECORDS_MAX: Final = 1024
#: Slow-downs within the window that count, and how far apart two polls must be to count both.
SLOWED_MAX: Final = 6
SLOWED_WINDOW_US: Final = 10 * MINUTE_US
SLOWED_APART_US: Final = 8_000_000
GOOD_POLLS: Final = 3
#: Signals that go only with a reset.
CURED: Final = ("recovery_reset", "reset_required", "remap_pending")
#: XIDs after which all is looked at again: a row was remapped, the driver wants something.
LOOK_AFTER: Final = (63, 154)

Job = tuple[int, int]


class Streak:
    """How often in a row something was seen of a GPU."""

    __slots__ = ("error", "errors", "good", "idle_memory", "slow_link", "slowed")

    def __init__(self) -> None:
        self.error = self.errors = self.good = self.idle_memory = self.slow_link = 0
        self.slowed: list[int] = []


class HealthMachine:
    """All that is thought of this node's GPUs."""

    def __init__(self, memory: Memory | None = None, xids: Mapping[int, XidClass] | None = None) -> None:
        """xids: the table of what XIDs say; the site's rules come before it."""
        self.memory = memory or Memory()
        self.holders: dict[StepKey, Holds] = {}
        self.left = gpuleft.Left()
        self._xids = dict(xids or {})
        self._rules = Rules()
        self._site_xids: dict[int, XidClass] = {}
        self._devices: dict[str, Device] = {}
        self._streaks: dict[str, Streak] = {}
        self._owners: dict[int, Owner] = {}
        self._acted: dict[Job, dict[tuple[str, str], Action]] = {}
        self._outputs: list[Output] = []
        self._handlers: dict[type[Any], Callable[[int, Any], None]] = {
            Listed: self._listed,
            Seen: self._seen,
            Xid: self._xid,
            Hung: self._hung,
            Answering: self._answering,
            Holds: self._holds,
            Released: self._released,
            Cleared: self._cleared,
            Rules: self._take_rules,
            Worked: self._worked,
            LogRead: self._log_read,
        }

    # -- the funnel

    def step(self, now_us: int, event: Event) -> None:
        """Take one event."""
        self._handlers[type(event)](now_us, event)
        self._tell_opinions(now_us)
        self._tell_node(now_us)

    def seal(self) -> list[Output]:
        """What came of the events since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def devices(self) -> tuple[Device, ...]:
        """Those that NVML names, then those that are lost since the machine was started."""
        lost = (r.device for r in self._here() if r.device is not None and r.uuid not in self._devices)
        return (*self._devices.values(), *lost)

    def opinion(self, uuid: str) -> Opinion:
        """What is thought of a GPU now."""
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
        """Raise AssertionError when the machine contradicts itself."""
        assert len(self.memory.records) <= RECORDS_MAX
        for uuid, record in self.memory.records.items():
            assert record.uuid == uuid
            assert len(record.cleared_at_us) <= gpurecord.CLEARS_MAX
            assert record.conditions.keys() <= ROW.keys()
            assert len(record.blamed) <= gpurecord.BLAMED_MAX and len(record.counted) <= gpurecord.XIDS_MAX

    # -- what there is

    def _listed(self, now_us: int, event: Listed) -> None:
        is_new_boot = self.memory.boot_id != event.boot_id
        if is_new_boot:
            if self.memory.log_read is not None:
                self.memory.log_read = -1  # nothing of this boot's log has been seen
            before, self.memory.boot_id = self.memory.boot_id, event.boot_id
            for record in self.memory.records.values():
                record.ecc_volatile = record.nvlink_errors = record.links_down = -1
                if event.why and record.boot_id == before:
                    record.boot_id = event.boot_id  # it was there, and nobody can say that it is not
        if event.why:
            for record in self._here():
                self._hit(now_us, record, "driver", f"NVML does not answer: {event.why}")
            return
        self._devices = {device.uuid: device for device in event.devices}
        for device in event.devices:
            record = self.memory.records.setdefault(device.uuid, Record(device.uuid))
            record.device, record.boot_id, record.seen_at_us = device, event.boot_id, now_us
            lost = record.conditions.get("lost")
            if lost is not None and lost.boot_id != event.boot_id:
                self._end(now_us, record, ["lost"])
        for record in list(self.memory.records.values()):
            self._end(now_us, record, ["driver"])
            if record.uuid not in self._devices:
                self._is_gone(now_us, record, event.nameless)

    def _is_gone(self, now_us: int, record: Record, nameless: tuple[int, ...]) -> None:
        """It was there before and is not named any more. `nameless`: errors of those that are counted and do not answer."""
        is_part = record.device is not None and bool(record.device.parent)
        if is_part or record.seen_at_us < now_us - KEPT_US or len(self.memory.records) > RECORDS_MAX:
            del self.memory.records[record.uuid]
            self._streaks.pop(record.uuid, None)
            self.left.forget(record.uuid)
        elif record.boot_id == self.memory.boot_id:
            row, words = _MISSING[min((_mildness(code) for code in nameless), default=_LOST)]
            self._hit(now_us, record, row, words)

    def _here(self) -> list[Record]:
        """Records of GPUs of this boot."""
        return [record for record in self.memory.records.values() if record.boot_id == self.memory.boot_id]

    # -- what is seen

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
                self._look_at_processes(now_us, record, sample)
            else:
                self._look_at(now_us, record, sample, best.get(device.type, 0))

    def _look_at(self, now_us: int, record: Record, sample: Sample, links_down: int) -> None:
        streak = self._streaks.setdefault(record.uuid, Streak())
        self._count(record, sample, streak)
        if sample.nvlinks_down is not None:
            known = record.links_down
            record.links_down = sample.nvlinks_down if known < 0 else min(known, sample.nvlinks_down)
            links_down = min(links_down, record.links_down)
        self._compare_counters(now_us, record, sample)
        self._look_at_clocks(now_us, record, sample, streak)
        self._look_at_modes(record, sample)
        context = Context(streak.errors, streak.slow_link, streak.idle_memory, links_down)
        levels = {row: level(sample, context) for row, level in LEVELS.items()}
        for row, level in levels.items():
            if level is not None and level[0] > 0:
                self._hit(now_us, record, row, level[1], level[0])
            elif level is not None:
                record.accepted.pop(row, None)
        self._look_at_processes(now_us, record, sample)
        self._end_what_is_over(now_us, record, sample, levels, streak)
        self._lose_patience(now_us, record)

    def _count(self, record: Record, sample: Sample, streak: Streak) -> None:
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

    def _compare_counters(self, now_us: int, record: Record, sample: Sample) -> None:
        """Errors since the last look. A counter that fell was set back by a reset or a new driver."""
        volatile = sample.ecc_volatile
        more = rise(record.ecc_volatile, volatile) or rise(record.ecc_aggregate, sample.ecc_aggregate)
        if volatile is not None and volatile < record.ecc_volatile:
            self._was_reset(now_us, record)
        record.ecc_volatile = record.ecc_volatile if volatile is None else volatile
        record.ecc_aggregate = record.ecc_aggregate if sample.ecc_aggregate is None else sample.ecc_aggregate
        if more:
            self._hit(now_us, record, "ecc_rose", f"{more} uncorrectable ECC errors", more, again=True)
            if "remap_failed" in record.conditions:
                self._act(record, ROW["ecc_rose"], f"{more} uncorrectable ECC errors", Action.END)
        errors = rise(record.nvlink_errors, sample.nvlink_errors)
        record.nvlink_errors = record.nvlink_errors if sample.nvlink_errors is None else sample.nvlink_errors
        if errors:
            self._hit(now_us, record, "nvlink", f"{errors} NVLink replays or recoveries")

    def _look_at_clocks(self, now_us: int, record: Record, sample: Sample, streak: Streak) -> None:
        streak.slowed = [at_us for at_us in streak.slowed if at_us > now_us - SLOWED_WINDOW_US]
        if not is_slowed(sample):
            return
        if not streak.slowed or now_us - streak.slowed[-1] >= SLOWED_APART_US:
            streak.slowed.append(now_us)
        if "throttle" in record.conditions or len(streak.slowed) >= SLOWED_MAX:
            words = (
                f"slowed down by the hardware {len(streak.slowed)} times in 10 minutes (reasons {sample.throttle:#x})"
            )
            self._hit(now_us, record, "throttle", words)

    def _look_at_modes(self, record: Record, sample: Sample) -> None:
        """Said once, and nothing follows."""
        found = notes(sample, record.notes)
        for word in found:
            if word not in record.notes:
                self._remark(f"GPU {record.uuid}: {Severity.INFO}: {NOTES[word]}", is_bad=False)
        record.notes = found

    def _look_at_processes(self, now_us: int, record: Record, sample: Sample) -> None:
        holding = self._jobs_on(record.uuid)
        live = {(key.job_id, key.attempt) for key in self.holders}
        found = self.left.look(now_us, record.uuid, sample, self._owners, holding, live)
        self._outputs += found.outputs
        for row in ("left_behind", "leaked", "foreign"):
            words = found.rows.get(row)
            if words:
                self._hit(now_us, record, row, words)
            elif words == "":
                self._end(now_us, record, [row])

    def _end_what_is_over(
        self, now_us: int, record: Record, sample: Sample, levels: dict[str, Level], streak: Streak
    ) -> None:
        over: list[str] = []
        is_good = not sample.error and not sample.slow
        for name, condition in record.conditions.items():
            level = levels.get(name)
            if name in CURED and level is not None and not level[0] and record.reset_at_us <= condition.last_us:
                self._was_reset(now_us, record)
        is_wanted = bool(sample.recovery_action)
        for name, condition in record.conditions.items():
            row, level = ROW[name], levels.get(name, GONE)
            if name == "driver":  # NVML answers, or there would be no sample
                over += [name] if is_good else []
                continue
            is_off = level is not None and level[0] == 0
            rebooted = condition.boot_id != self.memory.boot_id and is_good and not is_wanted
            if row.ends is Ends.LEVEL:
                is_over = name in LEVELS and is_off
            elif row.ends is Ends.QUIET:
                is_over = is_off and now_us - condition.last_us >= row.quiet_us
            elif row.ends is Ends.RESET:
                is_over = rebooted or (is_good and not is_wanted and record.reset_at_us > condition.last_us)
            elif row.ends is Ends.BOOT:
                is_over = rebooted and is_off
            else:
                is_over = row.ends is Ends.ANSWERS and streak.good >= GOOD_POLLS
            over += [name] if is_over else []
        self._end(now_us, record, over)

    def _lose_patience(self, now_us: int, record: Record) -> None:
        """Jobs that were to end by themselves, and have not."""
        for name, condition in record.conditions.items():
            after_us = ROW[name].end_after_us
            if after_us and now_us - condition.since_us >= after_us:
                self._act(record, ROW[name], condition.reason, Action.END)

    # -- what the driver says

    def _log_read(self, now_us: int, event: LogRead) -> None:
        self.memory.log_read = max(event.sequence, -1 if self.memory.log_read is None else self.memory.log_read)

    def _xid(self, now_us: int, event: Xid) -> None:
        if event.sequence >= 0:  # what is counted and what was read go to the disk together
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
            self._blame(now_us, record, event, device.uuid if device else record.uuid)
            return
        if class_ is XidClass.REPEAT and gpurecord.repeats(record, event.xid, now_us) > 1:
            row = "xid_twice"
            record.conditions.pop("xid_once", None)
        self._hit(now_us, record, row, words, xid=event.xid, again=True)
        needs_cure = ROW[row].ends in (Ends.RESET, Ends.BOOT)
        if needs_cure and gpurecord.came_again(record, event.xid, now_us, self.memory.boot_id):
            self._hit(now_us, record, "inspect", f"hardware inspection: {words} again after 2 reboots or resets")
        if event.xid in LOOK_AFTER:
            self._outputs.append(Look())

    def _blame(self, now_us: int, record: Record, event: Xid, uuid: str) -> None:
        """An error of a program: its job hears of it; when many users have it, it may be the GPU."""
        jobs = self._jobs_on(uuid)
        owner = self._owners.get(event.pid)
        if owner is not None and owner.job in jobs:
            jobs = {owner.job: jobs[owner.job]}
        self._act(record, ROW["xid_application"], f"XID {event.xid}", only=jobs)
        for job, held in jobs.items() if len(jobs) == 1 else ():
            if gpurecord.users(record, held.uid, job[0], now_us) >= gpurecord.USERS_MAX:
                words = f"application errors of 3 users within 24 h, last XID {event.xid}"
                self._hit(now_us, record, "xid_many_users", words, xid=event.xid)

    def _by_bus(self, bus_id: str) -> Device | None:
        wanted = normal_bus_id(bus_id) if bus_id else ""
        return next((d for d in self.devices() if not d.parent and normal_bus_id(d.bus_id) == wanted), None)

    def _hung(self, now_us: int, event: Hung) -> None:
        for record in self._here():
            device = record.device
            if device is not None and not device.parent and event.gpu in ("", record.uuid):
                where = f" on GPU {device.index}" if event.gpu else ""
                self._hit(now_us, record, "hung", f"NVML hung in {event.function}{where}")
                self._streaks.setdefault(record.uuid, Streak()).good = 0

    def _answering(self, now_us: int, event: Answering) -> None:
        for record in self._here():
            if event.gpu in ("", record.uuid):
                self._end(now_us, record, ["hung"])

    # -- jobs

    def _holds(self, now_us: int, event: Holds) -> None:
        self.holders[event.key] = event
        for uuid in event.uuids:
            record = self._record_of(uuid)
            for name, condition in record.conditions.items() if record is not None else ():
                if record is not None and ROW[name].action is Action.END and gpurecord.closes(condition):
                    job = (event.key.job_id, event.key.attempt)
                    self._act(record, ROW[name], condition.reason, only={job: event})

    def _released(self, now_us: int, event: Released) -> None:
        held = self.holders.pop(event.key, None)
        if held is None:
            return
        job = (event.key.job_id, event.key.attempt)
        if not any((key.job_id, key.attempt) == job for key in self.holders):
            self._acted.pop(job, None)
            self.left.ended(now_us, job, held.uid)
        self.left.released(now_us, held)

    def _jobs_on(self, uuid: str) -> dict[Job, Holds]:
        """Those that have the GPU, or an instance of it; one step of each."""
        found: dict[Job, Holds] = {}
        for key, held in sorted(self.holders.items()):
            if any(uuid in (one, self._parent(one)) for one in held.uuids):
                found.setdefault((key.job_id, key.attempt), held)
        return found

    def _gpus_of(self, job: Job) -> int:
        """How many GPUs the job has here."""
        return len({u for key, held in self.holders.items() if (key.job_id, key.attempt) == job for u in held.uuids})

    def _parent(self, uuid: str) -> str:
        device = self._devices.get(uuid)
        return device.parent if device else ""

    def _record_of(self, uuid: str) -> Record | None:
        """Of the whole GPU."""
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
        self._outputs.append(Look())

    def _take_rules(self, now_us: int, event: Rules) -> None:
        self._rules = event
        self._site_xids = {xid: XidClass(word) for xid, word in event.xids if word in XidClass._value2member_map_}

    def _worked(self, now_us: int, event: Worked) -> None:
        record = self.memory.records.get(event.uuid)
        if record is None:
            return
        if event.kind is WorkKind.RESET and event.ok:
            self._was_reset(now_us, record)

    def _was_reset(self, now_us: int, record: Record) -> None:
        record.resets += 1
        record.reset_at_us = now_us

    # -- what follows

    def _hit(
        self, now_us: int, record: Record, name: str, words: str, level: int = 1, xid: int = 0, again: bool = False
    ) -> None:
        """The signal of a row is there. `again`: it is an event, so jobs hear of it each time."""
        row = ROW[name]
        is_new = gpurecord.raise_(record, name, words, now_us, self.memory.boot_id, level, xid)
        if is_new and name in record.conditions:
            self._remark(f"GPU {record.uuid}: {row.severity}: {words}: {row.state.name}")
        if is_new or (again and name in record.conditions):
            self._act(record, row, words)

    def _end(self, now_us: int, record: Record, names: list[str]) -> None:
        for name in gpurecord.end(record, names, now_us):
            self._remark(f"GPU {record.uuid}: {name}: over", is_bad=False)

    def _act(
        self, record: Record, row: Row, words: str, action: Action | None = None, only: dict[Job, Holds] | None = None
    ) -> None:
        """Tell the jobs that have the GPU what it means for them; of the same thing only what is worse than before."""
        cause = f"{words} on {record.uuid}"
        told: dict[Action, list[StepKey]] = {}
        for job, held in (self._jobs_on(record.uuid) if only is None else only).items():
            is_single = row.single is not None and self._gpus_of(job) < 2
            means = action or (row.single if is_single and row.single is not None else row.action)
            before = self._acted.setdefault(job, {})
            what = (record.uuid, words if row.name.startswith("xid") else row.name)
            if means > before.get(what, Action.NONE):
                before[what] = means
                told.setdefault(means, []).append(held.key)
        self._outputs += [JobAction(means, tuple(keys), cause) for means, keys in told.items()]

    def _tell_opinions(self, now_us: int) -> None:
        # A report that ends jobs is about the GPUs that it names, so mere counts of others wait for the next.
        ends = any(isinstance(output, JobAction) and output.action is Action.END for output in self._outputs)
        for record in self._here():
            opinion = self.opinion(record.uuid)
            if gpurecord.is_to_tell(record, opinion, now_us, may_count=not ends):
                record.told, record.told_us = opinion, now_us
                self._outputs.append(opinion)

    def _tell_node(self, now_us: int) -> None:
        wanted = gpunode.reasons(self._here(), self._rules, now_us)
        told = self.memory.drained
        if told and told not in wanted:
            self._outputs.append(NodeDrain(told, clear=True))
            self.memory.drained = ""
        if wanted and not self.memory.drained:
            self.memory.drained = wanted[0]
            self._outputs.append(NodeDrain(wanted[0]))

    def _remark(self, text: str, is_bad: bool = True) -> None:
        self._outputs.append(Remark(text, is_bad))


#: What is thought of a GPU that was there before the daemon was restarted, by why it does not say its name: it may be any
#: of those that do not, so the mildest counts.
_HUNG, _RESET, _LOST = range(3)
_MISSING: Final = (
    ("hung", "NVML hung on GPU"),
    ("reset_required", "reset required (NVML error 16)"),
    ("lost", "GPU is not found any more"),
)


def _mildness(code: int) -> int:
    """0 = it was left out, since it hangs; one that answers too late is not gone either."""
    return {0: _HUNG, NVML_TIMEOUT: _HUNG, NVML_RESET_REQUIRED: _RESET}.get(code, _LOST)
