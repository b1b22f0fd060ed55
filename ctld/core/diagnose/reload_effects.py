"""Lists the effects of a new configuration on the present jobs, for the administrator who is about to reload. Reads
only.

Changes that a reload refuses (a removed node with jobs, a removed partition with pending jobs) are checked by
layout.config_conflicts. This module lists those that it accepts silently: pending jobs whose reason would change, and
running jobs that continue although their node leaves their partition or limits become narrower.
"""

from collections.abc import Iterator

from ctld.core.queue import admit
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.state.state import ClusterState
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import ALLOCATED_STATES, JobState, Reason

#: Jobs that are named in a line; their number is always given.
IDS_SHOWN_MAX = 10


def reload_effects(state: ClusterState, config: Config) -> list[str]:
    """Returns one line for each effect, with the jobs that it concerns."""
    found: dict[str, list[int]] = {}
    partitions = {entry.name: entry for entry in config.partitions}
    for job in state.jobs.records():
        for line in _of_job(state, job, partitions):
            found.setdefault(line, []).append(job.job_id)
    return [f"{_number(ids)} {line}" for line, ids in found.items()]


def _of_job(state: ClusterState, job: Job, partitions: dict[str, PartitionConfig]) -> Iterator[str]:
    if job.state is JobState.PENDING:
        before = _waits(state, job, {name: state.partitions[name].config for name in job.request.partitions})
        after = _waits(state, job, {name: partitions[name] for name in job.request.partitions if name in partitions})
        if after is not before:
            yield f"would wait for {after.value}" if after is not None else "would wait for its partition no longer"
    elif job.state in ALLOCATED_STATES:
        entry = partitions.get(job.partition)
        if entry is None:
            yield f"would continue, although partition {job.partition} is gone"
        elif lost := [part.node for part in job.alloc if part.node not in entry.nodes]:
            yield f"would run on, though {lost[0]} leaves partition {job.partition}"
        elif 0 <= entry.max_time_s < job.time_limit_s:
            yield f"would keep a time limit above MaxTime of partition {job.partition}"


def _waits(state: ClusterState, job: Job, entries: dict[str, PartitionConfig]) -> Reason | None:
    """Returns why none of these partitions admits it; None if one does, or if none remains, which is refused."""
    worst = None
    for name, entry in entries.items():
        partition = Partition()
        partition.name = name
        partition.config = entry
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
