"""The steps of this node that have GPUs, by step: which jobs have a GPU or an instance of it, and how many GPUs a job has."""

from collections.abc import Callable, Iterator

from nodedaemon.core.gpuhealth_messages import StepGpus
from nodedaemon.core.steps import JobKey, StepKey


class GpuHoldings:
    """The GPUs of each step that has some."""

    def __init__(self) -> None:
        self._by_step: dict[StepKey, StepGpus] = {}

    def __iter__(self) -> Iterator[StepKey]:
        return iter(self._by_step)

    def add(self, held: StepGpus) -> None:
        """Adds a step that begins."""
        self._by_step[held.key] = held

    def remove(self, key: StepKey) -> StepGpus | None:
        """Removes a step that has ended, and returns what it had."""
        return self._by_step.pop(key, None)

    def jobs(self) -> set[JobKey]:
        """Returns the jobs of which a step has GPUs."""
        return {job_of(key) for key in self._by_step}

    def jobs_on(self, uuid: str, parent_of: Callable[[str], str]) -> dict[JobKey, StepGpus]:
        """Returns the jobs that have the GPU, or an instance of it; one step of each."""
        found: dict[JobKey, StepGpus] = {}
        for key, held in sorted(self._by_step.items()):
            if any(uuid in (one, parent_of(one)) for one in held.uuids):
                found.setdefault(job_of(key), held)
        return found

    def gpus_of(self, job: JobKey) -> int:
        """Returns how many GPUs the job has here."""
        return len({uuid for key, held in self._by_step.items() if job_of(key) == job for uuid in held.uuids})


def job_of(key: StepKey) -> JobKey:
    """Returns the job of a step."""
    return key.job_id, key.attempt
