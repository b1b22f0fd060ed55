"""What a partition takes: its lists of accounts, QOS and hosts, its limits of time and nodes, and what of them refuses a job.

Limits of time and nodes: with EnforcePartLimits=NO a job that breaks them is accepted and waits until they are changed;
with ANY one of its partitions must take it; with ALL each of them (slurm.conf(5)). Lists are not a matter of waiting:
a job that no partition takes because of them is refused whatever EnforcePartLimits says; of several partitions those
that do not take it are passed over, and it waits in the others. A QOS with PartitionMaxNodes, PartitionMinNodes or
PartitionTimeLimit is not bound by that limit of the partition (sacctmgr(1)).
"""

from ctld.core.effects import Refused
from ctld.core.model import JobRequest, Partition, Qos
from ctld.core.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import Reason

#: What a refusal says, by the reason for which such a job would wait.
_CODES = {
    Reason.ACCOUNT_NOT_ALLOWED: Code.INVALID_ACCOUNT,
    Reason.QOS_NOT_ALLOWED: Code.INVALID_QOS,
    Reason.PARTITION_CONFIG: Code.ACCESS_DENIED,
    Reason.PARTITION_TIME_LIMIT: Code.INVALID_TIME_LIMIT,
    Reason.PARTITION_NODE_LIMIT: Code.INVALID_NODE_COUNT,
}


def bar(state: ClusterState, partition: Partition, request: JobRequest) -> Reason | None:
    """Why its lists do not let such a job in, None if they do."""
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
    """Which limit of the partition the job breaks. `limit_s`: its time limit, -1 = none."""
    config, free_of = partition.config, qos.flags if qos is not None else ()
    too_long = config.max_time_s >= 0 and (limit_s < 0 or limit_s > config.max_time_s)
    if too_long and "PartitionTimeLimit" not in free_of:
        return Reason.PARTITION_TIME_LIMIT
    too_many = config.max_nodes >= 0 and request.nodes_min > config.max_nodes and "PartitionMaxNodes" not in free_of
    if too_many or (request.nodes_max < config.min_nodes and "PartitionMinNodes" not in free_of):
        return Reason.PARTITION_NODE_LIMIT
    return None


def nodes_max(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """MaxNodes of the partition for such a job; -1 = no limit."""
    qos = state.qos.get(request.qos)
    return -1 if qos is not None and "PartitionMaxNodes" in qos.flags else int(partition.config.max_nodes)


def enforce(state: ClusterState, partitions: tuple[Partition, ...], request: JobRequest, has_time: bool) -> None:
    """Refuse a job that its partitions do not take. `has_time`: it said its time limit. Raises Refused."""
    how = state.config.enforce_part_limits
    least_s = request.time_min_s or request.time_limit_s
    limit_s = (-1 if least_s is None else least_s) if has_time else 0  # else each partition's own would be used
    bars = [bar(state, partition, request) for partition in partitions]
    qos = state.qos.get(request.qos)
    limits = [limit(partition, request, limit_s, qos) if how != "NO" else None for partition in partitions]
    found = [one or other for one, other in zip(bars, limits, strict=True)]
    if all(found) or (how == "ALL" and any(found)):
        index = next(i for i, reason in enumerate(found) if reason)
        reason = found[index]
        assert reason is not None
        raise Refused(_CODES[reason], _text(partitions[index], reason, request))


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
