"""GPU usage of steps: utilisation, memory and energy, counted from samples, each amount for one step only.

A step has GPUs, or shares of them; a job's script also has those of its steps. A sample is one GPU at one moment, and
represents the time since the sample before.

Rules
    - A sample's utilisation and energy go to the steps that have processes on the GPU. Several divide it by what their
      processes do (sm_percent), where the driver does not report that by their memory, else evenly.
    - When no step has a process there, they go to the step that is just ending, if it has the GPU: a process that ends
      between two samples leaves no other trace. Else to the job itself: its script, its interactive step, its first
      step.
    - Energy is the difference of a counter. A counter that has fallen was set back by a reload of the driver: its value
      is what was used since then, at least. On a GPU with several jobs each gets its share. Both are estimates, and so
      is a first difference that began before the step.
    - The rest of a step that is just ending, after its processes are gone, counts like its last sample: the card
      reports the last second, in which no process was there.
    - Utilisation is a mean over time. A gap longer than GAP_US_MAX (no samples) counts as that long.
    - Memory is the highest sum over the step's processes. A value that is not available is unknown, never 0.

Integers only: percent times microseconds, millijoules. No I/O: the owners of processes come with the sample.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from nodedaemon.core.gpumessages import Lifetime, Process, Sample
from nodedaemon.core.steps import JobKey, StepKey
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP, INTERACTIVE_STEP

#: Numbers of UsageMetric.Kind.
GPU_UTIL = 7
GPU_MEM_KB = 8
ENERGY_J = 9
GPU_MEM_HELD_KB = 10
ENERGY_ESTIMATED_J = 11
#: Longest time that one sample may represent.
GAP_US_MAX = 60_000_000
#: A step that begins this shortly before the sample at its beginning loses nothing worth counting.
START_US = 1_000_000
#: Processes of a step on a GPU that are remembered for NVML's own accounting, which itself keeps a few thousand.
PIDS_MAX = 64
#: A kind, the sum, the largest with its task's rank, the smallest with its task's rank.
GpuMetric = tuple[int, int, int, int, int, int]


class UsageShare(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A step's share of a GPU: `units` of `of` shares; the whole GPU is 1 of 1."""

    uuid: str
    units: int = 1
    of: int = 1
    memory_kb: int = 0  # of the share; 0 = unknown


class OnGpu(msgspec.Struct, array_like=True):
    """The usage of one step on one GPU. None = unknown."""

    util_us: int = 0  # time for which the utilisation is known
    util_percent_us: int = 0
    util_max: int | None = None  # percent
    memory_kb: int | None = None  # as of the last sample
    memory_max_kb: int | None = None
    energy_mj: int | None = None
    seen_us: int = 0  # the GPU's last sample, for a later daemon
    seen_mj: int | None = None  # the energy counter in that sample
    util_last: int | None = None  # percent, in the last sample
    pids: list[int] = []  # of the step's processes that were seen there, the latest


class StepUse(msgspec.Struct, array_like=True):
    """A step's figures so far, as kept in its spool folder."""

    key: StepKey
    began_us: int
    rank: int = 0  # its first task here
    shares: tuple[UsageShare, ...] = ()
    gpus: dict[str, OnGpu] = {}
    memory_max_kb: int | None = None  # of the sum over its GPUs
    estimated: bool = False  # of the energy
    idle_since_us: int = 0  # of its job, 0 = it is busy
    idle_reported: bool = False


class Activity(msgspec.Struct, frozen=True, gc=False):
    """The activity of a job on one of its GPUs at one moment."""

    uuid: str
    util_percent: int | None
    has_process: bool | None  # None = the driver does not list them


class UsageLedger:
    """All steps that hold GPUs of this node."""

    def __init__(self) -> None:
        self.uses: dict[StepKey, StepUse] = {}
        self._holders: dict[str, list[StepKey]] = {}  # by GPU, in the order in which they began
        self._last: dict[str, tuple[int, int | None]] = {}  # by GPU: time and counter of its last sample

    def begin(self, key: StepKey, began_us: int, shares: Iterable[UsageShare], rank: int = 0) -> StepUse | None:
        """Adds a step that has received GPUs. None when it has none, or is known."""
        held = tuple(shares)
        if not held or key in self.uses:
            return None
        use = StepUse(key, began_us, rank, held, {share.uuid: OnGpu() for share in held})
        self._add(use)
        return use

    def restore(self, uses: Iterable[StepUse], now_us: int) -> None:
        """Continues from the figures of an earlier daemon, whose clock may have been ahead."""
        for use in uses:
            use.began_us = min(use.began_us, now_us)
            self._add(use)
            for uuid, on in use.gpus.items():
                if on.seen_us > self._last.get(uuid, (0, None))[0]:
                    self._last[uuid] = (min(on.seen_us, now_us), on.seen_mj)

    def _add(self, use: StepUse) -> None:
        self.uses[use.key] = use
        for share in use.shares:
            self._holders.setdefault(share.uuid, []).append(use.key)

    def end(self, key: StepKey) -> StepUse | None:
        """Removes a step that is over. None when it had no GPUs."""
        use = self.uses.pop(key, None)
        for share in use.shares if use is not None else ():
            self._holders[share.uuid].remove(key)
        return use

    def add_lifetimes(self, key: StepKey, records: Iterable[Lifetime]) -> None:
        """Adds NVML's own accounting of a step's processes: peaks between samples, and work that no sample caught."""
        use = self.uses.get(key)
        peaks: dict[str, int] = {}
        for record in records:
            on = use.gpus.get(record.uuid) if use is not None else None
            if on is None or record.pid not in on.pids:
                continue
            peaks[record.uuid] = max(peaks.get(record.uuid, 0), record.memory_max_kb or 0)
            on.memory_max_kb = max(on.memory_max_kb or 0, record.memory_max_kb or 0)
            if not on.util_percent_us and record.util_percent:
                lasted_us = max(record.time_ms * 1000, 1)
                on.util_us = max(on.util_us, lasted_us)
                on.util_percent_us = record.util_percent * lasted_us
                on.util_max = record.util_percent
        if use is not None and any(peaks.values()):
            use.memory_max_kb = max(use.memory_max_kb or 0, sum(peaks.values()))

    def give_back(self, job: JobKey, uuids: Collection[str]) -> None:
        """Removes GPUs from a job that releases them and continues; its usage of them stays in its figures."""
        for use in self.steps_of(job):
            for uuid in uuids:
                if use.key in self._holders.get(uuid, ()):
                    self._holders[uuid].remove(use.key)
            use.shares = tuple(share for share in use.shares if share.uuid not in uuids)

    def shared(self) -> tuple[str, ...]:
        """GPUs that several steps have, not counting the job's extern step."""
        found = []
        for uuid, keys in self._holders.items():
            users = [key for key in keys if key.step_id != EXTERN_STEP]
            if len(users) > 1:
                found.append(uuid)
        return tuple(sorted(found))

    def sharers(self, uuid: str) -> list[StepKey]:
        """The steps that have shares of that GPU."""
        keys = self._holders.get(uuid, ())
        return [key for key in keys if any(share.uuid == uuid and share.of > 1 for share in self.uses[key].shares)]

    def jobs_on(self, uuid: str) -> list[int]:
        """Ids of the jobs that have the GPU."""
        return sorted({key.job_id for key in self._holders.get(uuid, ())})

    def steps_of(self, job: JobKey) -> list[StepUse]:
        """The steps of a job that have GPUs."""
        return [use for key, use in self.uses.items() if (key.job_id, key.attempt) == job]

    # -- a sample

    def take(
        self, at_us: int, samples: Iterable[Sample], owners: Mapping[int, StepKey], ending: Collection[StepKey] = ()
    ) -> dict[JobKey, list[Activity]]:
        """Counts these samples. `at_us`: by the clock of the steps' start times, which NVML's child does not have;
        `owners`: of the processes; `ending`: steps for whose end the samples were taken.
        """
        found: dict[JobKey, list[Activity]] = {}
        for sample in samples:
            if sample.error or sample.slow:
                continue
            before_us, counter = self._last.get(sample.uuid, (0, None))
            self._last[sample.uuid] = (at_us, counter if sample.energy_mj is None else sample.energy_mj)
            known = (self.uses[key] for key in self._holders.get(sample.uuid, ()))
            holders = [use for use in known if use.began_us <= at_us]
            if holders:
                moment = _Moment(sample, (before_us, at_us), counter, holders, owners, ending)
                for job, activity in moment.count():
                    found.setdefault(job, []).append(activity)
        for use in self.uses.values():
            _sum_memory(use)
        return found


def _sum_memory(use: StepUse) -> None:
    known = [on.memory_kb for on in use.gpus.values() if on.memory_kb is not None]
    if known:
        use.memory_max_kb = max(use.memory_max_kb or 0, sum(known))


class _Moment:
    """One sample while it is added to the figures of the steps that have the GPU."""

    def __init__(
        self,
        sample: Sample,
        span_us: tuple[int, int],
        counter: int | None,
        holders: list[StepUse],
        owners: Mapping[int, StepKey],
        ending: Collection[StepKey],
    ) -> None:
        self._sample = sample
        self._before_us, self._at_us = span_us
        self._counter = counter
        self._holders = holders
        self._by_job: dict[JobKey, list[StepUse]] = {}
        for use in holders:
            self._by_job.setdefault((use.key.job_id, use.key.attempt), []).append(use)
        self._processes: dict[StepKey, list[Process]] = {}
        for process in sample.processes or ():
            key = owners.get(process.pid)
            whose = self._holder(key) if key is not None else None
            if whose is not None:
                self._processes.setdefault(whose.key, []).append(process)
        self._ending = ending

    def _holder(self, key: StepKey) -> StepUse | None:
        """The step to which a process of that step is charged: the step itself, or its job's (for a step without
        GPUs)."""
        of_job = self._by_job.get((key.job_id, key.attempt), [])
        return next((use for use in of_job if use.key == key), itself(of_job) if of_job else None)

    def count(self) -> list[tuple[JobKey, Activity]]:
        """Adds the sample to the figures; returns each job's activity there."""
        users = {job: self._users(uses) for job, uses in self._by_job.items()}
        weights = self._weights([use for uses in users.values() for use in uses])
        percents = self._count_utilisation(weights)
        for job, uses in users.items():
            self._count_energy(uses, weights, is_alone=len(self._by_job) == 1)
            for use in self._by_job[job]:
                self._count_memory(use)
        sample = self._sample
        for use in self._holders:
            on = use.gpus[sample.uuid]
            on.seen_us = self._at_us
            on.seen_mj = self._counter if sample.energy_mj is None else sample.energy_mj
        return [(job, self._activity(uses, percents)) for job, uses in users.items()]

    def _activity(self, uses: list[StepUse], percents: Mapping[StepKey, int]) -> Activity:
        sample = self._sample
        percent = None if sample.util_percent is None else sum(percents.get(use.key, 0) for use in uses)
        has = None if sample.processes is None else any(use.key in self._processes for use in uses)
        return Activity(sample.uuid, percent, has)

    def _users(self, of_job: list[StepUse]) -> list[StepUse]:
        """Returns the steps of a job that the sample is charged to."""
        found = [use for use in of_job if use.key in self._processes]
        return found or [use for use in of_job if use.key in self._ending] or [itself(of_job)]

    def _weights(self, users: list[StepUse]) -> dict[StepKey, int]:
        """Returns the proportions in which they used the GPU."""
        here = {use.key: self._processes.get(use.key, []) for use in users}
        by_work = {key: sum(process.sm_percent or 0 for process in processes) for key, processes in here.items()}
        by_memory = {key: sum(process.memory_kb or 0 for process in processes) for key, processes in here.items()}
        for weights in (by_work, by_memory):
            if any(weights.values()):
                return weights
        with_processes = [use for use in users if use.key in self._processes]
        return {use.key: 1 if not with_processes or use in with_processes else 0 for use in users}

    def _since_us(self, use: StepUse) -> int:
        return self._at_us - max(self._before_us, use.began_us, self._at_us - GAP_US_MAX)

    def _count_utilisation(self, weights: Mapping[StepKey, int]) -> dict[StepKey, int]:
        percent, whole = self._sample.util_percent, sum(weights.values())
        if percent is None:
            return {}
        percents = {key: _part(percent, weight, whole) for key, weight in weights.items()}
        for use in self._holders:
            lasted_us, mine = self._since_us(use), percents.get(use.key, 0)
            on = use.gpus[self._sample.uuid]
            if use.key in self._ending and use.key not in self._processes:
                mine = max(mine, on.util_last or 0)
            if lasted_us > 0:
                on.util_last = mine
                on.util_us += lasted_us
                on.util_percent_us += mine * lasted_us
                on.util_max = max(on.util_max or 0, mine)
        return percents

    def _count_energy(self, users: list[StepUse], weights: Mapping[StepKey, int], *, is_alone: bool) -> None:
        """Divides a job's part among its steps."""
        sample, counter = self._sample, self._counter
        if sample.energy_mj is None:
            return
        used = sample.energy_mj - counter if counter is not None else 0
        is_estimate = used < 0
        if used < 0:
            used = sample.energy_mj
        share = next(share for share in users[0].shares if share.uuid == sample.uuid)
        if share.units < share.of or not is_alone:
            used, is_estimate = _part(used, share.units, share.of), True
        whole = sum(weights[use.key] for use in users)
        for use in users:
            mine = _part(used, weights[use.key], whole) if whole else used // len(users)
            on = use.gpus[sample.uuid]
            if self._before_us < use.began_us and mine:  # it began between two samples
                mine = _part(mine, self._at_us - use.began_us, self._at_us - self._before_us)
                is_estimate = is_estimate or self._at_us - use.began_us > START_US
            on.energy_mj = (on.energy_mj or 0) + max(mine, 0)
            use.estimated = use.estimated or (is_estimate and mine > 0)

    def _count_memory(self, use: StepUse) -> None:
        on = use.gpus[self._sample.uuid]
        new = [process.pid for process in self._processes.get(use.key, ()) if process.pid not in on.pids]
        if new:
            on.pids = [*on.pids, *new][-PIDS_MAX:]
        on.memory_kb = self._memory_kb(use)
        if on.memory_kb is not None:
            on.memory_max_kb = max(on.memory_max_kb or 0, on.memory_kb)

    def _memory_kb(self, use: StepUse) -> int | None:
        sample = self._sample
        if sample.processes is not None:
            amounts = [process.memory_kb for process in self._processes.get(use.key, ())]
            return None if None in amounts else sum(amount or 0 for amount in amounts)
        is_alone = len(self._by_job) == 1 and use is itself(self._holders)
        return sample.memory_used_kb if is_alone else None


def _part(value: int, part: int, whole: int) -> int:
    """Rounded to the nearest."""
    return (2 * value * part + whole) // (2 * whole) if whole > 0 else 0


#: The step that represents the job when no other is meant; the rest by their numbers.
_PLACE = {BATCH_STEP: -3, INTERACTIVE_STEP: -2, EXTERN_STEP: 2**32}


def itself(of_job: list[StepUse]) -> StepUse:
    """The step that represents the job."""
    return min(of_job, key=lambda use: _PLACE.get(use.key.step_id, use.key.step_id))


# -- reported figures


def metrics_of(use: StepUse) -> tuple[GpuMetric, ...]:
    """A step's figures on this node. A kind without data is left out.

    GPU_UTIL: the sum over its GPUs of the mean of each, in percent; the highest sample; the lowest mean. GPU_MEM_KB: the
    highest sum over its GPUs; the highest and the lowest peak of one. ENERGY_J: the sum; of one GPU. GPU_MEM_HELD_KB: the
    memory of what it held, likewise. ENERGY_ESTIMATED_J: the same as ENERGY_J, if that is an estimate.
    """
    gpus = list(use.gpus.values())
    means = [_part(on.util_percent_us, 1, on.util_us) for on in gpus if on.util_us]
    highest = [on.util_max for on in gpus if on.util_max is not None]
    peaks = [on.memory_max_kb for on in gpus if on.memory_max_kb is not None]
    joules = [_part(on.energy_mj, 1, 1000) for on in gpus if on.energy_mj is not None]
    held = [_part(share.memory_kb, share.units, share.of) for share in use.shares if share.memory_kb]
    energy = _part(sum(on.energy_mj or 0 for on in gpus), 1, 1000)
    rows = (
        (GPU_UTIL, sum(means), highest, means),
        (GPU_MEM_KB, use.memory_max_kb or 0, peaks, peaks),
        (ENERGY_J, energy, joules, joules),
        (GPU_MEM_HELD_KB, sum(held), held, held),
        (ENERGY_ESTIMATED_J, energy, joules if use.estimated else [], joules),
    )
    return tuple(
        (kind, total, max(high), use.rank, min(low), use.rank) for kind, total, high, low in rows if high and low
    )
