"""May a pending job start now, as far as everything but resources goes? One table of checks, the first that holds is
the reason.

`refresh()` is called whenever something that a check looks at may have changed for a job: at submit, hold, release,
update, the end of a dependency, a begin time, a task of its array, a partition's state. It puts the job's rows among
the ready ones or takes them out. Resources and priority are the planner's business (schedule.py).
"""

from collections.abc import Callable, Iterable

from ctld.core import arrays, priority
from ctld.core.columns import Shape
from ctld.core.model import Job, JobRequest, Node, Partition
from ctld.core.state import ClusterState
from penstock.values.features import parse_features
from penstock.values.states import Hold, JobState, Reason

#: Reasons that the planner gives to ready jobs; a refresh leaves them as they are.
PLANNER_REASONS = frozenset({Reason.PRIORITY, Reason.RESOURCES, Reason.REQ_NODE_NOT_AVAIL, Reason.BAD_CONSTRAINTS})
#: Reasons for which the controller itself holds a job; kept in `reason_detail` while it is held.
HELD_BY_CONTROLLER = frozenset(r.value for r in (Reason.LAUNCH_FAILED_REQUEUED_HELD, Reason.JOB_HOLD_MAX_REQUEUE))


def _held(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if job.hold is Hold.NO:
        return None
    if job.reason_detail in HELD_BY_CONTROLLER:
        return Reason(job.reason_detail)
    return Reason.JOB_HELD_USER if job.hold is Hold.USER else Reason.JOB_HELD_ADMIN


def _dependency(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if job.job_id not in state.waiting_for:
        return None
    return job.reason if job.reason is Reason.DEPENDENCY_NEVER_SATISFIED else Reason.DEPENDENCY


def _begin(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.BEGIN_TIME if max(job.request.begin_at_us, job.eligible_at_us) > now_us else None


def _array_limit(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.JOB_ARRAY_TASK_LIMIT if arrays.startable(state, job) == 0 else None


def _partition(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    worst = None
    for name in job.request.partitions:
        worst = partition_reason(state.partitions[name], job)
        if worst is None:
            return None
    return worst


CHECKS: tuple[Callable[[ClusterState, Job, int], Reason | None], ...] = (
    _held,
    _dependency,
    _begin,
    _array_limit,
    _partition,
)


def partition_reason(partition: Partition, job: Job) -> Reason | None:
    """Why the partition takes no such job now, None if it does."""
    config, limit_s = partition.config, job.time_limit_s
    if partition.state == "DOWN":
        return Reason.PARTITION_DOWN
    if partition.state == "INACTIVE":
        return Reason.PARTITION_INACTIVE
    if config.max_time_s >= 0 and (limit_s < 0 or limit_s > config.max_time_s):
        return Reason.PARTITION_TIME_LIMIT
    if (config.max_nodes >= 0 and job.request.nodes_min > config.max_nodes) or job.request.nodes_max < config.min_nodes:
        return Reason.PARTITION_NODE_LIMIT
    return None


def refresh(state: ClusterState, job: Job, now_us: int) -> None:
    """Look again whether a pending job is ready."""
    if job.state is not JobState.PENDING:
        return
    if not state.pending.rows_of(job.job_id):
        state.pending.add(job.job_id, shapes(state, job.request))
    reason = next((r for check in CHECKS if (r := check(state, job, now_us)) is not None), None)
    if reason is not None:
        state.pending.set_waiting(job.job_id)
        set_reason(state, job, reason, job.reason_detail if reason.value == job.reason_detail else "")
        return
    if not job.eligible_at_us:
        job.eligible_at_us = now_us  # also when a clock that was set back puts that before its submission
        state.touch(job)
    ranks = []
    for name in job.request.partitions:
        partition = state.partitions[name]
        ranks.append(None if partition_reason(partition, job) else priority.rank(job, partition))
    state.pending.set_ready(job.job_id, ranks, arrays.startable(state, job))
    if job.reason not in PLANNER_REASONS:
        set_reason(state, job, Reason.PRIORITY)
    state.changed()


def set_reason(state: ClusterState, job: Job, reason: Reason, detail: str | None = None) -> None:
    """Say why the job waits; nothing is written when it is what it was."""
    if job.reason is not reason or (detail is not None and job.reason_detail != detail):
        job.reason = reason
        if detail is not None:
            job.reason_detail = detail
        state.touch(job)


def shapes(state: ClusterState, request: JobRequest) -> list[tuple[int, Shape]]:
    """What the planner must know of a request: one (partition index, shape) for each of its partitions.

    A reload may have removed what a pending job asks for: such a job keeps its place, with no node to run on.
    """
    gres = [0] * len(state.gres_kinds)
    known = True
    for name, type_, count in request.gres_per_node:
        for key in dict.fromkeys(((name, ""), (name, type_))):
            if key in state.gres_kinds:
                gres[state.gres_kinds[key]] += count
            else:
                known = False
    consumable = state.config.memory_is_consumable()
    found = []
    for name in request.partitions:
        partition = state.partitions[name]
        most = partition.config.max_nodes
        found.append(
            (
                state.partition_list.index(partition),
                Shape(
                    mask=mask_row(state, partition, request) if known else state.masks.nowhere(),
                    nodes_min=request.nodes_min,
                    nodes_max=request.nodes_max if most < 0 else max(request.nodes_min, min(request.nodes_max, most)),
                    ntasks=request.ntasks,
                    cpus_per_task=request.cpus_per_task,
                    ntasks_per_node=request.ntasks_per_node,
                    mem_node_mb=request.mem_per_node_mb if consumable and request.mem_per_node_mb is not None else -1,
                    mem_cpu_mb=request.mem_per_cpu_mb if consumable and request.mem_per_cpu_mb is not None else -1,
                    gres=tuple(gres),
                    exclusive=int(request.exclusive),
                ),
            )
        )
    return found


def mask_row(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """The row of the nodes that the request may run on in that partition."""
    key = (partition.name, request.features, request.nodes_required, request.nodes_excluded)
    row = state.masks.row(key)
    return row if row is not None else state.masks.add(key, mask_bits(state, partition, request))


def mask_bits(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """Those nodes as a bit map."""
    bits = partition.node_bits
    if request.nodes_required:
        if any(name not in state.nodes for name in request.nodes_required):
            return 0
        bits &= bits_of(state.nodes[name] for name in request.nodes_required)
    if request.nodes_excluded:
        bits &= ~bits_of(state.nodes[name] for name in request.nodes_excluded if name in state.nodes)
    if request.features:
        wanted = parse_features(request.features)
        bits &= bits_of(node for node in state.node_list if wanted.matches(frozenset(node.features)))
    return bits


def bits_of(nodes: Iterable[Node]) -> int:
    """A bit map of node indices."""
    found = 0
    for node in nodes:
        found |= 1 << node.index
    return found
