"""What processes on a GPU mean once its job has ended: left behind, leaked by the driver, or of nobody here. Pure.

Rules
    - A process belongs to a job by its control group, its supervisor or its environment (gpu/owners.py); one that none of
      them explains, to an ended job of the same user that had the GPU, unless that user has it again.
    - What an ended job has left is killed, once a look. The GPU is drained when it is still there GRACE_US after the end:
      the driver needs a moment to take a dead process off its list.
    - root's processes (persistence daemons, monitors) are nobody's and are left alone.
    - A pid that is not in /proc is a leak of the driver; where NVML counts pids of another namespace, jobs that hold
      the GPU cover them.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nodedaemon.core.gpuhealth_words import Holds, KillProcess, Look, Output, Owner
from nodedaemon.core.gpuwords import Sample

Job = tuple[int, int]

GRACE_US = 2_000_000
#: Jobs that have ended and may have left something.
ENDED_MAX = 256
ROOT = 0


class Found(NamedTuple):
    """`rows`: what is to be thought, "" = that is over; a row that is not named stays as it is."""

    rows: dict[str, str]
    outputs: list[Output]


class Left:
    """Ended jobs, and what was left of them."""

    def __init__(self) -> None:
        self._ended: dict[Job, int] = {}  # and their uids
        self._last: dict[str, dict[Job, int]] = {}  # who had a GPU: jobs and when they gave it back

    def ended(self, now_us: int, job: Job, uid: int) -> None:
        """The last step of a job that had GPUs has ended."""
        self._ended.pop(job, None)
        self._ended[job] = uid
        while len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def released(self, now_us: int, held: Holds) -> None:
        """A step does not hold these any more."""
        for uuid in held.uuids:
            last = self._last.setdefault(uuid, {})
            last[held.key.job_id, held.key.attempt] = now_us
            while len(last) > ENDED_MAX:
                del last[next(iter(last))]

    def forget(self, uuid: str) -> None:
        """There is no such GPU or instance any more: each division makes instances with new names."""
        self._last.pop(uuid, None)

    def look(
        self,
        now_us: int,
        uuid: str,
        sample: Sample,
        owners: Mapping[int, Owner],
        holding: Mapping[Job, Holds],
        live: Iterable[Job],
    ) -> Found:
        """What the processes on a GPU mean. holding: jobs that have it; live: all jobs that have GPUs."""
        if sample.processes is None:
            return Found({}, [])
        alive, uids = frozenset(live), {held.uid for held in holding.values()}
        rows, outputs = {"left_behind": "", "leaked": "", "foreign": ""}, list[Output]()
        last = self._last.get(uuid, {})
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
            outputs.append(Look(GRACE_US))
            del rows["left_behind"], rows["leaked"]
        return Found(rows, outputs)

    def _left_by(self, owner: Owner, last: Mapping[Job, int], uids: set[int]) -> Job | None:
        if owner.job is not None:
            return owner.job
        if owner.uid == ROOT or owner.uid in uids:
            return None
        of_user = [job for job in last if self._ended.get(job, ROOT) == owner.uid]
        return of_user[-1] if of_user else None
