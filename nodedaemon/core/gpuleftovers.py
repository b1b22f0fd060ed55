"""Classifies processes on a GPU whose job has ended: leftovers, leaks of the driver, or unrelated. Pure.

Rules
    - A process belongs to a job by its control group, its supervisor or its environment (gpu/owners.py); failing these,
      to an ended job of the same user that had the GPU, unless that user has it again.
    - A leftover of an ended job is killed, once per poll. The GPU is drained when it is still there GRACE_US after the
      end: the driver needs a moment to remove a dead process from its list.
    - root's processes (persistence daemons, monitors) belong to no job and are left alone.
    - A pid that is not in /proc is a leak of the driver; where NVML reports pids of another namespace, jobs that have
      the GPU account for them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nodedaemon.core.gpuhealth_messages import GpuOwner, HealthOutput, KillProcess, PollRequest, StepGpus
from nodedaemon.core.gpumessages import Sample
from nodedaemon.core.steps import JobKey

GRACE_US = 2_000_000
#: Ended jobs that are remembered for their leftovers.
ENDED_MAX = 256
ROOT = 0


class LeftoverVerdict(NamedTuple):
    """The conclusion. `rows`: the condition of each row, "" = it is over; a row that is not listed stays as it is."""

    rows: dict[str, str]
    outputs: list[HealthOutput]


class Leftovers:
    """Ended jobs, and their leftovers. `last`: by GPU, the jobs that had it and when each released it."""

    def __init__(self) -> None:
        self._ended: OrderedDict[JobKey, int] = OrderedDict()  # with their uids
        self.last: dict[str, OrderedDict[JobKey, int]] = {}

    def ended(self, now_us: int, job: JobKey, uid: int) -> None:
        """Handles the end of the last step of a job that had GPUs."""
        self._ended.pop(job, None)
        self._ended[job] = uid
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def released(self, now_us: int, held: StepGpus) -> None:
        """Handles a step that releases these GPUs."""
        for uuid in held.uuids:
            last = self.last.setdefault(uuid, OrderedDict())
            last[held.key.job_id, held.key.attempt] = now_us
            while len(last) > ENDED_MAX:
                last.popitem(last=False)

    def forget(self, uuid: str) -> None:
        """Drops a GPU or instance that is gone: each division makes instances with new UUIDs."""
        self.last.pop(uuid, None)

    def classify(
        self,
        now_us: int,
        uuid: str,
        sample: Sample,
        owners: Mapping[int, GpuOwner],
        holding: Mapping[JobKey, StepGpus],
        live: Iterable[JobKey],
    ) -> LeftoverVerdict:
        """Classifies the processes on a GPU. holding: jobs that have it; live: all jobs that have GPUs."""
        if sample.processes is None:
            return LeftoverVerdict({}, [])
        alive, uids = frozenset(live), {held.uid for held in holding.values()}
        rows, outputs = {"left_behind": "", "leaked": "", "foreign": ""}, list[HealthOutput]()
        last: Mapping[JobKey, int] = self.last.get(uuid, {})
        is_settled = not last or now_us - max(last.values()) >= GRACE_US
        for process in sample.processes:
            owner = owners.get(process.pid)
            if owner is None or (holding and not owner.exists):
                continue
            if not owner.exists:
                rows["leaked"] = f"the driver names pid {owner.pid}, which does not exist"
                continue
            job = self._left_by(owner, last, uids)
            if job in self._ended and job not in alive:
                assert job is not None
                outputs.append(KillProcess(owner.pid, owner.start, owner.uid, job, uuid))
                rows["left_behind"] = f"pid {owner.pid} left by job {job[0]}"
            elif owner.job is None and owner.uid > ROOT and owner.uid not in uids and not holding:
                rows["foreign"] = f"used by pid {owner.pid} of uid {owner.uid}, which is of no job"
        if (rows["left_behind"] or rows["leaked"]) and not is_settled:
            outputs.append(PollRequest(GRACE_US))
            del rows["left_behind"], rows["leaked"]
        return LeftoverVerdict(rows, outputs)

    def _left_by(self, owner: GpuOwner, last: Mapping[JobKey, int], uids: set[int]) -> JobKey | None:
        if owner.job is not None:
            return owner.job
        if owner.uid == ROOT or owner.uid in uids:
            return None
        of_user = [job for job in last if self._ended.get(job, ROOT) == owner.uid]
        return of_user[-1] if of_user else None
