"""Index of active jobs by user and name, for singleton dependencies.

Most names have one job, so one job is stored as its id alone, and several as a sorted array of ids, which takes 8 bytes
a job.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping

from ctld.core.records.job import Job


class JobsByName:
    """The index. A job is in it from its submission to its end, and again when it is requeued after that."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[int, str], int | array[int]] = {}

    def enter(self, job: Job) -> None:
        """Adds an active job under its name."""
        key = (job.user_id, job.request.name)
        members = self._by_name.setdefault(key, job.job_id)
        if isinstance(members, int):
            if members != job.job_id:
                self._by_name[key] = array("q", sorted((members, job.job_id)))
        elif members[-1] < job.job_id:
            members.append(job.job_id)
        else:
            at = bisect_left(members, job.job_id)
            if members[at] != job.job_id:
                members.insert(at, job.job_id)

    def leave(self, job: Job) -> None:
        """Removes a job that is no longer active, or will have another name."""
        key = (job.user_id, job.request.name)
        members = self._by_name.get(key)
        if members == job.job_id:
            del self._by_name[key]
        elif isinstance(members, array):
            at = bisect_left(members, job.job_id)
            if at < len(members) and members[at] == job.job_id:
                del members[at]
            if not members:
                del self._by_name[key]

    def has_older(self, job: Job, jobs: Mapping[int, Job]) -> bool:
        """Whether an earlier job of the same user and name is active. Tasks count as submitted with their array."""
        members = self._by_name.get((job.user_id, job.request.name), job.job_id)
        own = job.array_job_id or job.job_id
        ids = (members,) if isinstance(members, int) else members
        return any(job_id < own or 0 < jobs[job_id].array_job_id < own for job_id in ids)
