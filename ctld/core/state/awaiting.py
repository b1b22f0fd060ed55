"""Callers that wait for the end of a job (sbatch --wait), by job and by caller: a disconnect costs the same however many
wait."""


class Awaiting:
    """A caller waits for one job, or for the last task of one array."""

    __slots__ = ("callers", "job_ids")

    def __init__(self) -> None:
        self.callers: dict[int, dict[int, None]] = {}  # job id -> reply_to
        self.job_ids: dict[int, int] = {}  # reply_to -> job id

    def __len__(self) -> int:
        return len(self.job_ids)

    def add(self, job_id: int, reply_to: int) -> None:
        """Adds a caller."""
        self.callers.setdefault(job_id, {})[reply_to] = None
        self.job_ids[reply_to] = job_id

    def take(self, job_id: int) -> list[int]:
        """Removes and returns those that wait for the job, in the order in which they came."""
        found = list(self.callers.pop(job_id, ()))
        for reply_to in found:
            del self.job_ids[reply_to]
        return found

    def stop(self, reply_to: int) -> None:
        """Removes a caller, if it waits."""
        job_id = self.job_ids.pop(reply_to, None)
        if job_id is not None:
            callers = self.callers[job_id]
            del callers[reply_to]
            if not callers:
                del self.callers[job_id]
