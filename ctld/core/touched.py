"""What a new configuration would do to the jobs that are there: lines for who is about to reload. Reads only.

What a reload refuses (a node with jobs that is gone, a partition with waiting jobs) is layout.misfits' business. Here is
what it does and says nothing of: jobs that wait would wait for another reason, or not any more; jobs that run go on
where their node leaves their partition, or where limits have become narrower.
"""

from collections.abc import Iterator

from ctld.core import admit
from ctld.core.model import Job, Partition
from ctld.core.state import ClusterState
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import HOLDING_STATES, JobState, Reason

#: Jobs that are named in a line; their number is said whatever it is.
IDS_SHOWN_MAX = 10


def touched(state: ClusterState, config: Config) -> list[str]:
    """One line for each thing that would happen, with the jobs that it happens to."""
    found: dict[str, list[int]] = {}
    partitions = {entry.name: entry for entry in config.partitions}
    for job in state.jobs.values():
        for line in _of_job(state, job, partitions):
            found.setdefault(line, []).append(job.job_id)
    return [f"{_number(ids)} {line}" for line, ids in found.items()]


def _of_job(state: ClusterState, job: Job, partitions: dict[str, PartitionConfig]) -> Iterator[str]:
    if job.state is JobState.PENDING:
        before = _waits(state, job, {name: state.partitions[name].config for name in job.request.partitions})
        after = _waits(state, job, {name: partitions[name] for name in job.request.partitions if name in partitions})
        if after is not before:
            yield f"would wait for {after.value}" if after is not None else "would wait for its partition no longer"
    elif job.state in HOLDING_STATES:
        entry = partitions.get(job.partition)
        if entry is None:
            yield f"would run on, though partition {job.partition} is gone"
        elif lost := [part.node for part in job.alloc if part.node not in entry.nodes]:
            yield f"would run on, though {lost[0]} leaves partition {job.partition}"
        elif 0 <= entry.max_time_s < job.time_limit_s:
            yield f"would keep a time limit above MaxTime of partition {job.partition}"


def _waits(state: ClusterState, job: Job, entries: dict[str, PartitionConfig]) -> Reason | None:
    """Why none of these partitions takes it; None if one does, or if none is left, which is refused."""
    worst = None
    for name, entry in entries.items():
        partition = Partition()
        partition.name, partition.config = name, entry
        known = state.partitions.get(name)
        partition.state = known.state if known is not None and known.config.state == entry.state else entry.state
        worst = _reason(state, partition, job)
        if worst is None:
            return None
    return worst


def _reason(state: ClusterState, partition: Partition, job: Job) -> Reason | None:
    down = {"DOWN": Reason.PARTITION_DOWN, "INACTIVE": Reason.PARTITION_INACTIVE}.get(partition.state)
    qos = state.qos.get(job.request.qos)
    limit = admit.limit(partition, job.request, job.time_limit_s, qos)
    return down or limit or admit.bar(state, partition, job.request)


def _number(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:IDS_SHOWN_MAX])) + (", ..." if len(ids) > IDS_SHOWN_MAX else "")
    return f"job {shown}" if len(ids) == 1 else f"{len(ids)} jobs ({shown})"
