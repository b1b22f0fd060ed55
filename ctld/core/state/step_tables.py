"""Live steps by job, the callers that wait for one, and resources that steps hold beside their job's. The record of a
step is in its job.
"""

from collections import OrderedDict

from ctld.core.state.job_step_table import JobStepTable


class StepTables:
    """The tables of steps. Maintained by steps/, and for it by jobs/ and nodes/."""

    __slots__ = ("by_job", "creation_calls", "due", "master_ports", "port_waiters", "ports", "prologs")

    def __init__(self) -> None:
        self.by_job: dict[int, JobStepTable] = {}  # of jobs that have started steps, by job id
        self.due: OrderedDict[int, None] = OrderedDict()  # jobs whose waiting calls may be answered now
        self.creation_calls: dict[
            int, tuple[int, str]
        ] = {}  # reply_to of a CreateStep that waits -> (job id, step key)
        self.ports: dict[str, dict[int, None]] = {}  # in use, by node
        self.master_ports: dict[int, int] = {}  # in use, by job id
        self.port_waiters: dict[int, None] = {}  # jobs whose steps wait for ports, which any job may free
        self.prologs: dict[int, tuple[int, bool]] = {}  # job id -> (attempt, PrologSlurmctld is done)

    def serve_later(self, job_id: int) -> None:
        """Notes a job whose waiting calls may be answered now; steps/creation.py answers them in this step."""
        self.due[job_id] = None

    def serve_port_waiters(self) -> None:
        """Notes those whose steps wait for ports: some are free again."""
        self.due.update(self.port_waiters)
        self.port_waiters.clear()
