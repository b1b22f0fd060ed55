"""Everything that the planner does not know of and that keeps a pending job from starting, each with its numbers.

The same checks as ready.py, which stops at the first: here all of them are told. `at_us` is when an obstacle goes by
itself, or by when the job must have started; 0 = nobody knows.
"""

from typing import NamedTuple

from ctld.core import arrays, budgets, depends, het, limit_nodes, limits, standing
from ctld.core.model import Job, Partition
from ctld.core.ready import HELD_BY_CONTROLLER, latest_start_s, partition_reason, preemptor
from ctld.core.reserve_view import choices
from ctld.core.state import ClusterState
from penstock.values.dependency import Dependency, Term, format_dependency
from penstock.values.duration import format_elapsed
from penstock.values.reasons import sentence
from penstock.values.states import Hold, JobState, Reason

US = 1_000_000
#: Terms of a dependency that are told one by one.
TERMS_SHOWN = 20


class Obstacle(NamedTuple):
    """One thing that stands in the way; `changeable` if another request would not have it."""

    reason: Reason
    text: str
    at_us: int = 0
    changeable: bool = False


def obstacles(state: ClusterState, job: Job, now_us: int) -> tuple[Obstacle, ...]:
    """All of them, in the order of the reasons that squeue shows."""
    found = [*_hold(job), *_dependency(state, job), *_begin(job, now_us), *_array(state, job), *_partitions(state, job)]
    found += [*_standing(state, job), *_reservation(state, job), *_limits(state, job), *_budget(state, job, now_us)]
    found += _preemptor(state, job, now_us)
    if job.job_id in state.mig_waits:
        found.append(Obstacle(Reason.RESOURCES, state.mig_waits[job.job_id]))
    if job.request.deadline_at_us:
        at_us = latest_start_s(job) * US
        found.append(Obstacle(Reason.DEADLINE, "to end before its deadline it must have started by", at_us))
    return tuple(found)


def _hold(job: Job) -> list[Obstacle]:
    if job.hold is Hold.NO:
        return []
    if job.reason_detail in HELD_BY_CONTROLLER:
        return [Obstacle(Reason(job.reason_detail), sentence(job.reason_detail))]
    if job.hold is Hold.SPECIAL_EXIT:
        return [
            Obstacle(
                Reason.JOB_HELD_USER, "its script ended with a status of RequeueExitHold: scontrol release lets it go"
            )
        ]
    if job.hold is Hold.USER:
        return [Obstacle(Reason.JOB_HELD_USER, f"held by its owner {job.user_name}: scontrol release lets it go")]
    return [Obstacle(Reason.JOB_HELD_ADMIN, "held by an administrator")]


def _dependency(state: ClusterState, job: Job) -> list[Obstacle]:
    if job.job_id not in state.waiting_for:
        return []
    any_of, terms = state.waiting_for[job.job_id]
    never = job.reason is Reason.DEPENDENCY_NEVER_SATISFIED
    told = "; ".join(_term(state, job, term) for term in terms[:TERMS_SHOWN])
    more = f"; and {len(terms) - TERMS_SHOWN} more" if len(terms) > TERMS_SHOWN else ""
    which = "any of " if any_of and len(terms) > 1 else ""
    text = (
        f"it will never start, for it depends on {which}{told}{more}" if never else f"it waits for {which}{told}{more}"
    )
    return [Obstacle(Reason.DEPENDENCY_NEVER_SATISFIED if never else Reason.DEPENDENCY, text)]


def _term(state: ClusterState, job: Job, term: Term) -> str:
    text = format_dependency(Dependency(False, (term,)))
    if term.kind == "singleton":
        return f"singleton (an older job of the name {job.request.name} is not over)"
    found = depends.targets_of(state, term) or []
    counts: dict[JobState, int] = {}
    for target in found:
        counts[target.state] = counts.get(target.state, 0) + arrays.weight(target)
    if not counts:
        return f"{text} (gone)"
    if sum(counts.values()) == 1:
        return f"{text} ({next(iter(counts)).name})"
    return f"{text} ({', '.join(f'{number} {one.name}' for one, number in sorted(counts.items()))})"


def _begin(job: Job, now_us: int) -> list[Obstacle]:
    at_us = max(job.request.begin_at_us, job.eligible_at_us)
    return [Obstacle(Reason.BEGIN_TIME, "it may not begin before", at_us)] if at_us > now_us else []


def _array(state: ClusterState, job: Job) -> list[Obstacle]:
    if arrays.startable(state, job):
        return []
    running = state.arrays[job.array_job_id].running
    text = f"{running} tasks of its array run, and its limit is %{job.array_throttle}"
    return [Obstacle(Reason.JOB_ARRAY_TASK_LIMIT, text)]


def _partitions(state: ClusterState, job: Job) -> list[Obstacle]:
    """Partitions that do not take it now; one that does makes the others no obstacle."""
    found = []
    for name in job.request.partitions:
        partition = state.partitions[name]
        reason = partition_reason(state, partition, job)
        if reason is None:
            return []
        found.append(Obstacle(reason, _partition_text(partition, job, reason), changeable=True))
    return found


def _standing(state: ClusterState, job: Job) -> list[Obstacle]:
    reason = standing.obstacle(state, job)
    if reason is None:
        return []
    if reason is Reason.INVALID_QOS:
        return [Obstacle(reason, f"its QOS {job.request.qos} does not exist any more", changeable=True)]
    account = job.request.account or "none"
    text = f"user {job.user_name} has no association with account {account} for any of its partitions"
    return [Obstacle(reason, text, changeable=True)]


def _reservation(state: ClusterState, job: Job) -> list[Obstacle]:
    name = job.request.reservation
    if not name or choices(state, job):
        return []
    text = f"reservation {name} is over, too short for its time limit, or not for its owner"
    return [Obstacle(Reason.RESERVATION, text, changeable=True)]


def _limits(state: ClusterState, job: Job) -> list[Obstacle]:
    """All limits that hold it back; of several partitions those of the first, unless one takes it."""
    if state.ledger is None:
        return []
    found = limits.all_blocks(state, het.active(state, job))
    fence = limit_nodes.is_fenced(state, job) if not found else None
    if fence is not None:
        text = f"{limits.told(state, fence)}, and it may run only there"
        return [Obstacle(fence.reason, text, changeable=True)]
    return [Obstacle(block.reason, limits.describe(state, block), changeable=True) for block in found]


def _budget(state: ClusterState, job: Job, now_us: int) -> list[Obstacle]:
    text = budgets.told(state, job, now_us) if state.budgets.books else ""
    return [Obstacle(Reason.PENSTOCK_BUDGET, text, changeable=True)] if text else []


def _preemptor(state: ClusterState, job: Job, now_us: int) -> list[Obstacle]:
    if preemptor(state, job, now_us) is None:
        return []
    return [Obstacle(Reason.PRIORITY, f"it was preempted for job {job.preemptor_id}, which goes first")]


def _partition_text(partition: Partition, job: Job, reason: Reason) -> str:
    config, name = partition.config, partition.name
    if reason is Reason.PARTITION_TIME_LIMIT:
        asked = "no limit" if job.time_limit_s < 0 else format_elapsed(job.time_limit_s)
        return f"its time limit is {asked}, partition {name} has MaxTime={format_elapsed(config.max_time_s)}"
    if reason is Reason.PARTITION_NODE_LIMIT:
        most = config.max_nodes if config.max_nodes >= 0 else "UNLIMITED"
        asked = f"{job.request.nodes_min}" + (
            f"-{job.request.nodes_max}" if job.request.nodes_max > job.request.nodes_min else ""
        )
        return f"it asks for {asked} nodes, partition {name} has MinNodes={config.min_nodes} MaxNodes={most}"
    return f"partition {name} is {partition.state}"
