"""Determines the owner of a process on a GPU: by its control group, its ancestor that is a supervisor, or its
environment.

The first two come from the kernel. The environment is under the process's control: it only distinguishes jobs of the
same user, and finds leftovers of a job of which nothing else remains. NVML reports pids of the host's namespace.

Reading another process's environment may block: it is done in a worker thread, and never for one in D state.
"""

import os
import re
from collections.abc import Iterable, Mapping

from nodedaemon.base import proctree
from nodedaemon.base.kernelfiles import read_bytes, read_text
from nodedaemon.core.gpuhealth_messages import GpuOwner
from nodedaemon.core.steps import JobKey, StepKey

#: Inode number of the pid namespace that the machine booted in (PROC_PID_INIT_INO).
_FIRST_PIDS = "pid:[4026531836]"
#: For tests in a container: NVML reports pids of this namespace.
PIDS_VARIABLE = "PENSTOCK_GPU_PIDS"
#: Steps of a process's ancestry that are followed.
DEPTH_MAX = 64
_JOB_ID = b"SLURM_JOB_ID="


class JobsOfGpus:
    """The possible owners of a process: as of now, for a worker thread."""

    __slots__ = ("_by_id", "_by_supervisor", "_group")

    def __init__(
        self, subtrees: Iterable[str], supervisors: Mapping[int, StepKey], jobs: Iterable[tuple[JobKey, int]]
    ) -> None:
        """subtrees: folders of this node's groups; supervisors: pids of stepds; jobs: with their uids, also ended ones."""
        names = sorted({re.escape(os.path.basename(path)) for path in subtrees})
        self._group = re.compile(rf"/(?:{'|'.join(names)})/(\d+)\.(\d+)[./](-?\d+)") if names else None
        self._by_supervisor = supervisors
        self._by_id = {job[0]: (job, uid) for job, uid in jobs}

    def owner(self, pid: int) -> GpuOwner:
        """The owner, as far as it is known."""
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            return GpuOwner(pid, _exists(pid))
        start = proctree.start_time(pid)
        step = self._by_group(pid) or self._by_ancestor(pid)
        job = (step.job_id, step.attempt) if step is not None else self._by_environment(pid, uid)
        return GpuOwner(pid, start != 0, uid, job, start, step)

    def _by_group(self, pid: int) -> StepKey | None:
        found = self._group.search(read_text(f"/proc/{pid}/cgroup")) if self._group else None
        return StepKey(*map(int, found.groups())) if found else None

    def _by_ancestor(self, pid: int) -> StepKey | None:
        for _ in range(DEPTH_MAX):
            if pid in self._by_supervisor:
                return self._by_supervisor[pid]
            fields = proctree.stat_fields(pid)
            if fields is None or int(fields[1]) <= 1:
                return None
            pid = int(fields[1])
        return None

    def _by_environment(self, pid: int, uid: int) -> JobKey | None:
        fields = proctree.stat_fields(pid)
        if fields is None or fields[0] in (b"D", b"Z", b"X"):
            return None
        for entry in read_bytes(f"/proc/{pid}/environ").split(b"\0"):
            if entry.startswith(_JOB_ID) and entry[len(_JOB_ID) :].isdigit():
                job, owner = self._by_id.get(int(entry[len(_JOB_ID) :]), (None, -1))
                return job if owner == uid else None
        return None


def _exists(pid: int) -> bool:
    """Works also for a process that /proc hides from this user (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def knows_pids() -> bool:
    """Whether NVML's pids are those of this namespace. In a container they are not, and no process is judged by
    them."""
    try:
        return os.environ.get(PIDS_VARIABLE) == "here" or os.readlink("/proc/self/ns/pid") == _FIRST_PIDS
    except OSError:
        return False


def owners(pids: Iterable[int], jobs: JobsOfGpus) -> tuple[GpuOwner, ...]:
    """The owners of processes. Blocks shortly: in a worker thread."""
    return tuple(jobs.owner(pid) for pid in pids)
