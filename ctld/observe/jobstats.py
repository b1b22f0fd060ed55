"""Numbers of jobs for metrics: the cells of the tally, added up by cluster, partition, account and user.

The numbers are those of Slurm: `pending` includes held jobs, `running` those that are still configuring; a completing job
counts as completing, and as what it will have ended as. Tasks of arrays count one by one, as in sdiag. States that no
job enters here have zeros.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ctld.runtime.tally import JobCell, JobCellKey, JobTally
from penstock.exporter.exposition import OTHER
from penstock.exporter.pace import WorkPace
from penstock.values.states import END_STATES, JobState, Reason

K = TypeVar("K")
MB: Final = 1024 * 1024
#: The number of each state.
_OF_STATE: Final = {
    JobState.PENDING: "pending", JobState.CONFIGURING: "running", JobState.RUNNING: "running",
    JobState.SUSPENDED: "suspended", JobState.COMPLETED: "completed", JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled", JobState.TIMEOUT: "timeout", JobState.NODE_FAIL: "node_failed",
    JobState.OUT_OF_MEMORY: "outofmemory", JobState.PREEMPTED: "preempted", JobState.REQUEUED: "requeued",
    JobState.DEADLINE: "deadline", JobState.RESIZING: "resizing",
}  # fmt: skip


class JobStats:
    """The numbers of some jobs. `counts` has those of jobs by their names in Slurm's metrics."""

    __slots__ = (
        "counts", "cpus", "gpus", "jobs", "max_nodes", "max_nodes_nohold", "mem_bytes", "min_nodes", "min_nodes_nohold",
        "nodes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs = 0
        self.cpus = 0
        self.gpus = 0
        self.nodes = 0
        self.mem_bytes = 0
        self.counts: dict[str, int] = {}
        self.max_nodes = 0  # the largest request of a pending job
        self.max_nodes_nohold = 0
        self.min_nodes = 0
        self.min_nodes_nohold = 0

    def add(self, names: tuple[str, ...], key: JobCellKey, cell: JobCell) -> None:
        """Adds the jobs of a cell; `names`: the numbers in which they count."""
        self.jobs += cell.jobs
        self.cpus += cell.cpus
        self.gpus += cell.gpus
        self.nodes += cell.nodes
        self.mem_bytes += cell.mem_mb * MB
        for name in names:
            self.counts[name] = self.counts.get(name, 0) + cell.jobs
        self.max_nodes = max(self.max_nodes, key.nodes_max)
        self.min_nodes = max(self.min_nodes, key.nodes_min)
        if not key.is_held:
            self.max_nodes_nohold = max(self.max_nodes_nohold, key.nodes_max)
            self.min_nodes_nohold = max(self.min_nodes_nohold, key.nodes_min)

    def merge(self, more: "JobStats") -> None:
        """Adds the jobs of another."""
        for name in ("jobs", "cpus", "gpus", "nodes", "mem_bytes"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        for name, count in more.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


@dataclass
class JobTotals:
    """All jobs, and by group."""

    cluster: JobStats = field(default_factory=JobStats)
    by_partition: dict[str, JobStats] = field(default_factory=dict)  # a pending job counts in each that it may run in
    by_account: dict[str, JobStats] = field(default_factory=dict)
    by_user: dict[str, JobStats] = field(default_factory=dict)
    by_state: dict[tuple[str, str], int] = field(default_factory=dict)  # state, partition
    by_reason: dict[str, int] = field(default_factory=dict)  # pending jobs


async def add_up(tally: JobTally, default_account: str, pace: WorkPace) -> JobTotals:
    """Adds up all cells. Others have their turns meanwhile, so the numbers may be some milliseconds apart."""
    totals = JobTotals()
    async for key, cell in pace.over(list(tally.cells.items())):
        names = _names(key)
        totals.cluster.add(names, key, cell)
        _stats(totals.by_account, key.account or default_account).add(names, key, cell)
        _stats(totals.by_user, key.user).add(names, key, cell)
        for partition in dict.fromkeys(key.partitions):
            _stats(totals.by_partition, partition).add(names, key, cell)
            if key.reason is Reason.PARTITION_NODE_LIMIT:
                stats = totals.by_partition[partition]
                stats.counts["wait_part_node_limit"] = stats.counts.get("wait_part_node_limit", 0) + cell.jobs
            _count(totals.by_state, (key.state.name, partition), cell.jobs)
        if key.state is JobState.PENDING:
            _count(totals.by_reason, key.reason.value, cell.jobs)
    return totals


def _count(counts: dict[K, int], key: K, number: int) -> None:
    counts[key] = counts.get(key, 0) + number


def _stats(by: dict[str, JobStats], name: str) -> JobStats:
    found = by.get(name)
    if found is None:
        found = by[name] = JobStats()
    return found


def _names(key: JobCellKey) -> tuple[str, ...]:
    """Returns the numbers in which the jobs of a cell count."""
    base = key.end_state if key.state is JobState.COMPLETING and key.end_state is not None else key.state
    names = [_OF_STATE[base]] if base in _OF_STATE else []
    if key.state is not JobState.PENDING:
        names.append("started")
    if base in END_STATES:
        names.append("finished")
    if key.is_held:
        names.append("hold")
    if key.state in (JobState.COMPLETING, JobState.CONFIGURING):
        names.append(key.state.name.lower())
    return tuple(names)


async def capped(by: Mapping[str, JobStats], values_max: int, pace: WorkPace) -> dict[str, JobStats]:
    """Returns the groups with most jobs by name, and the rest as one: there are at most so many values of a label."""
    if len(by) <= values_max:
        return {name: by[name] for name in sorted(by)}
    most = values_max - 1
    least = sorted((one.jobs for one in by.values()), reverse=True)[most]
    named = {name: one for name, one in by.items() if one.jobs > least}
    rest = JobStats()
    async for name, one in pace.over(by.items()):
        if one.jobs == least and len(named) < most:
            named[name] = one
        elif name not in named:
            rest.merge(one)
    return {**{name: named[name] for name in sorted(named)}, OTHER: rest}
