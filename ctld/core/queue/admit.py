"""Admission to a partition: its lists of accounts, QOS and hosts, its limits of time and nodes, and their refusals.

Limits of time and nodes: with EnforcePartLimits=NO a job that exceeds them is accepted and waits until they are
changed; with ANY one of its partitions must admit it; with ALL each of them (slurm.conf(5)), with all nodes that it
names and all numbers of nodes that it requests. The lists never make a job wait: a job that no partition admits because
of them is refused whatever EnforcePartLimits is; of several partitions those that do not admit it are ignored, and it
waits in the others. A QOS with PartitionMaxNodes, PartitionMinNodes or PartitionTimeLimit is not bound by that limit of
the partition (sacctmgr(1)).
"""

from ctld.core.records.effects import Refused
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest
from ctld.core.state.state import ClusterState
from penstock.values.duration import format_elapsed
from penstock.values.refusals import Code
from penstock.values.states import Reason

#: The text of a refusal, by the reason for which such a job would wait.
_CODES = {
    Reason.ACCOUNT_NOT_ALLOWED: Code.INVALID_ACCOUNT,
    Reason.QOS_NOT_ALLOWED: Code.INVALID_QOS,
    Reason.PARTITION_CONFIG: Code.ACCESS_DENIED,
    Reason.PARTITION_TIME_LIMIT: Code.INVALID_TIME_LIMIT,
    Reason.PARTITION_NODE_LIMIT: Code.INVALID_NODE_COUNT,
}


def bar(state: ClusterState, partition: Partition, request: JobRequest) -> Reason | None:
    """Returns the reason why the partition's lists refuse such a job, None if they do not."""
    config = partition.config
    if config.allow_accounts or config.deny_accounts:
        account = (request.account or state.config.penstock_default_account).lower()
        allowed = [name.lower() for name in config.allow_accounts]
        if account not in allowed if allowed else account in [name.lower() for name in config.deny_accounts]:
            return Reason.ACCOUNT_NOT_ALLOWED
    if request.qos not in config.allow_qos if config.allow_qos else request.qos in config.deny_qos:
        return Reason.QOS_NOT_ALLOWED
    if config.req_resv and not request.reservation:
        return Reason.PARTITION_CONFIG
    if config.alloc_nodes:
        host = request.submit_host
        if host not in config.alloc_nodes and host.partition(".")[0] not in config.alloc_nodes:
            return Reason.PARTITION_CONFIG
    return None


def limit(partition: Partition, request: JobRequest, limit_s: int, qos: Qos | None) -> Reason | None:
    """Returns the limit of the partition that the job exceeds. `limit_s`: its time limit, -1 = none."""
    config, free_of = partition.config, qos.flags if qos is not None else ()
    too_long = config.max_time_s >= 0 and (limit_s < 0 or limit_s > config.max_time_s)
    if too_long and "PartitionTimeLimit" not in free_of:
        return Reason.PARTITION_TIME_LIMIT
    too_many = config.max_nodes >= 0 and request.nodes_min > config.max_nodes and "PartitionMaxNodes" not in free_of
    if too_many or (request.nodes_max < config.min_nodes and "PartitionMinNodes" not in free_of):
        return Reason.PARTITION_NODE_LIMIT
    return None


def wait_reason(state: ClusterState, partition: Partition, job: Job) -> Reason | None:
    """Returns why the partition admits no such job now, None if it does."""
    if partition.state == "DOWN":
        return Reason.PARTITION_DOWN
    if partition.state == "INACTIVE":
        return Reason.PARTITION_INACTIVE
    qos = state.qos.get(job.request.qos)
    return limit(partition, job.request, job.time_limit_s, qos) or bar(state, partition, job.request)


def describe_wait(partition: Partition, job: Job, reason: Reason) -> str:
    """Describes a `wait_reason`, with both numbers where there are two."""
    config = partition.config
    request = job.request
    name = partition.name
    if reason is Reason.PARTITION_TIME_LIMIT:
        asked = "no limit" if job.time_limit_s < 0 else format_elapsed(job.time_limit_s)
        return f"its time limit is {asked}, partition {name} has MaxTime={format_elapsed(config.max_time_s)}"
    if reason is Reason.PARTITION_NODE_LIMIT:
        most = config.max_nodes if config.max_nodes >= 0 else "UNLIMITED"
        asked = f"{request.nodes_min}" + (f"-{request.nodes_max}" if request.nodes_max > request.nodes_min else "")
        return f"it requests {asked} nodes, partition {name} has MinNodes={config.min_nodes} MaxNodes={most}"
    if reason in (Reason.PARTITION_DOWN, Reason.PARTITION_INACTIVE):
        return f"partition {name} is {partition.state}"
    return _text(partition, reason, request)


def nodes_max(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """Returns MaxNodes of the partition for such a job; -1 = no limit."""
    qos = state.qos.get(request.qos)
    return -1 if qos is not None and "PartitionMaxNodes" in qos.flags else int(partition.config.max_nodes)


def enforce(state: ClusterState, partitions: tuple[Partition, ...], request: JobRequest, has_time: bool) -> None:
    """Refuses a job that its partitions do not admit. `has_time`: it gave a time limit. Raises Refused."""
    how = state.config.enforce_part_limits
    least_s = request.time_min_s or request.time_limit_s
    limit_s = (-1 if least_s is None else least_s) if has_time else 0  # else each partition's default would be used
    bars = [bar(state, partition, request) for partition in partitions]
    qos = state.qos.get(request.qos)
    limits = [limit(partition, request, limit_s, qos) if how != "NO" else None for partition in partitions]
    if how == "ALL":
        _check_each(state, partitions, request)
        limits = [one or _range(state, each, request) for one, each in zip(limits, partitions, strict=True)]
    found = [one or other for one, other in zip(bars, limits, strict=True)]
    if all(found) or (how == "ALL" and any(found)):
        index = next(i for i, reason in enumerate(found) if reason)
        reason = found[index]
        assert reason is not None
        raise Refused(_CODES[reason], _text(partitions[index], reason, request))


def _check_each(state: ClusterState, partitions: tuple[Partition, ...], request: JobRequest) -> None:
    """Checks that each partition has the nodes that --nodelist names. Raises Refused."""
    for name in request.nodes_required:
        for partition in partitions:
            if not partition.node_bits >> state.nodes[name].index & 1:
                raise Refused(Code.REQUESTED_NODES_NOT_IN_PARTITION, f"{name} is not in {partition.name}")


def _range(state: ClusterState, partition: Partition, request: JobRequest) -> Reason | None:
    """Checks `-N 1-4` as a whole: MaxNodes does not reduce it."""
    most = nodes_max(state, partition, request)
    return Reason.PARTITION_NODE_LIMIT if request.nodes_asked and 0 <= most < request.nodes_max else None


def _text(partition: Partition, reason: Reason, request: JobRequest) -> str:
    config = partition.config
    texts = {
        Reason.ACCOUNT_NOT_ALLOWED: f"account {request.account or 'that the job has'} is not let in",
        Reason.QOS_NOT_ALLOWED: f"QOS {request.qos} is not let in",
        Reason.PARTITION_TIME_LIMIT: f"MaxTime is {config.max_time_s // 60} minutes",
        Reason.PARTITION_NODE_LIMIT: f"MinNodes={config.min_nodes} MaxNodes={config.max_nodes}",
    }
    closed = "it takes jobs in a reservation only" if config.req_resv else "AllocNodes does not list this host"
    return f"partition {partition.name}: {texts.get(reason, closed)}"
