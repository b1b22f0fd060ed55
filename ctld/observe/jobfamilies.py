"""Slurm's families about jobs: of the cluster, by user, by account and by partition."""

from collections.abc import Iterator, Mapping
from typing import Final

from ctld.observe.jobstats import JobStats, JobTotals
from penstock.exporter.exposition import MetricFamily, MetricType, labels

#: Numbers of jobs by the ends of their names.
_COUNTS: Final = {
    "bootfail": "ended since their nodes did not boot", "cancelled": "cancelled", "completed": "ended with exit code 0",
    "completing": "ending on their nodes", "configuring": "with an allocation whose nodes are being prepared",
    "deadline": "ended by their deadline", "expediting": "requeued with precedence", "failed": "ended with an error",
    "fed_requeued": "requeued in a federation", "finished": "ended", "hold": "held",
    "node_failed": "ended since a node failed", "outofmemory": "ended since they used too much memory",
    "pending": "pending, held ones included", "powerup_node": "that wait for a node to be powered up",
    "preempted": "ended in favour of another job", "requeued": "being requeued", "resizing": "being resized",
    "revoked": "revoked in a federation", "running": "running, configuring ones included",
    "signaling": "being signalled", "stageout": "staging out files", "started": "started, ended ones included",
    "suspended": "suspended", "timeout": "ended by their time limit",
}  # fmt: skip
_CLUSTER: Final = (
    *((name, f"Jobs {text}") for name, text in _COUNTS.items()),
    ("cpus_alloc", "CPUs allocated to jobs"),
    ("gpus_alloc", "GPUs allocated whole to jobs"),
    ("memory_alloc", "Bytes of memory allocated to jobs"),
    ("nodes_alloc", "Nodes allocated to jobs, one for each job on it"),
)
_PARTITION: Final = (
    *(one for one in _CLUSTER if one[0] != "nodes_alloc"),
    ("max_job_nodes", "Largest maximum number of nodes of a pending job"),
    ("max_job_nodes_nohold", "Largest maximum number of nodes of a pending job that is not held"),
    ("min_job_nodes", "Largest minimum number of nodes of a pending job"),
    ("min_job_nodes_nohold", "Largest minimum number of nodes of a pending job that is not held"),
    ("wait_part_node_limit", "Pending jobs with the reason PartitionNodeLimit"),
)
#: The numbers that are attributes of JobStats.
_ATTRIBUTES: Final = {
    "cpus_alloc": "cpus", "gpus_alloc": "gpus", "memory_alloc": "mem_bytes", "nodes_alloc": "nodes",
    "max_job_nodes": "max_nodes", "max_job_nodes_nohold": "max_nodes_nohold", "min_job_nodes": "min_nodes",
    "min_job_nodes_nohold": "min_nodes_nohold",
}  # fmt: skip


def of_cluster(totals: JobTotals) -> Iterator[MetricFamily]:
    """Yields the families of `/metrics/jobs`."""
    return _families("slurm_jobs", _CLUSTER, {"": totals.cluster})


def of_users_and_accounts(users: Mapping[str, JobStats], accounts: Mapping[str, JobStats]) -> Iterator[MetricFamily]:
    """Yields the families of `/metrics/jobs-users-accts`."""
    yield from _families("slurm_account_jobs", _CLUSTER, _labelled("account", accounts))
    yield from _families("slurm_user_jobs", _CLUSTER, _labelled("username", users))


def of_partitions(by_partition: Mapping[str, JobStats]) -> Iterator[MetricFamily]:
    """Yields the families of `/metrics/partitions` that are about jobs."""
    return _families("slurm_partition_jobs", _PARTITION, _labelled("partition", by_partition))


def _labelled(name: str, by: Mapping[str, JobStats]) -> dict[str, JobStats]:
    return {labels({name: value}): stats for value, stats in by.items()}


def _families(prefix: str, table: tuple[tuple[str, str], ...], by: Mapping[str, JobStats]) -> Iterator[MetricFamily]:
    yield MetricFamily(prefix, MetricType.GAUGE, "Jobs, ended ones within MinJobAge included", _values(by, ""))
    for name, text in table:
        yield MetricFamily(f"{prefix}_{name}", MetricType.GAUGE, text, _values(by, name))


def _values(by: Mapping[str, JobStats], name: str) -> Iterator[tuple[str, int]]:
    attribute = _ATTRIBUTES.get(name, "" if name else "jobs")
    for labelled, stats in by.items():
        yield labelled, getattr(stats, attribute) if attribute else stats.counts.get(name, 0)
