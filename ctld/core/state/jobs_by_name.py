"""Index of active jobs by user and name, for singleton dependencies.

Most names have one job, so one job is stored as its id alone and several as an ordered set.
"""

from collections.abc import Mapping

from ctld.core.records.job import Job


class JobsByName:
    """The index. A job is in it from its submission to its end, and again when it is requeued after that."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[int, str], int | dict[int, None]] = {}

    def enter(self, job: Job) -> None:
        """Adds an active job under its name."""
        key = (job.user_id, job.request.name)
        members = self._by_name.setdefault(key, job.job_id)
        if isinstance(members, dict):
            members[job.job_id] = None
        elif members != job.job_id:
            self._by_name[key] = {members: None, job.job_id: None}

    def leave(self, job: Job) -> None:
        """Removes a job that is no longer active, or will have another name."""
        key = (job.user_id, job.request.name)
        members = self._by_name.get(key)
        if isinstance(members, dict):
            members.pop(job.job_id, None)
        if not members or members == job.job_id:
            self._by_name.pop(key, None)

    def has_older(self, job: Job, jobs: Mapping[int, Job]) -> bool:
        """Whether an earlier job of the same user and name is active. Tasks count as submitted with their array."""
        members = self._by_name.get((job.user_id, job.request.name), job.job_id)
        if isinstance(members, int):
            members = {members: None}
        own = job.array_job_id or job.job_id
        return any(job_id < own or 0 < jobs[job_id].array_job_id < own for job_id in members)
