"""What prevents a pending job from starting, except resources and priority: one table of rules.

A rule decides in one place, `decide`: it returns the reason that squeue shows, or None. `describe` puts an obstacle
into words, with its numbers; only `penstock why` calls it, and it decides nothing. So readiness and explanation cannot
differ: `refresh` (ready.py) takes the first reason of READINESS and builds no text, `why` (diagnose/why.py) describes
all obstacles, in the same order, and the first is the job's reason.

Two further kinds of rules concern jobs that pass READINESS. `refresh` does not evaluate them in the same way:
    LIMITS      A limit may block a job in one partition and not in another, which is a matter of ranks, and a blocked job
                waits in a queue of its counter. So `refresh` calls limits/checks.py to find limits and queue the job
                (waiting.py); for both, `limit_reason` decides whether the limits found block the whole job.
    PLANNER     Nodes of a job's group, GPUs that are to be divided, a deadline: the job is ready, and the planner decides
                whether it starts. passes/wait_reasons.py sets its reason.

Deliberately absent: a component that waits because another one does (the obstacle is the other one's), and a limit that
only the allocations of one pass together would exceed (`waiting.wait_for_limit`), which is unknown beforehand.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ctld.core.jobs import arrays, dependees, het
from ctld.core.jobs.holds import HELD_BY_CONTROLLER
from ctld.core.limits import budgets, checks, node_limits
from ctld.core.limits.checks import LimitBlock
from ctld.core.queue import admit, preemption, resolve_association
from ctld.core.queue.terms import latest_start_s
from ctld.core.records.job import Job
from ctld.core.reservations.view import choices
from ctld.core.state.state import ClusterState
from penstock.values.reasons import sentence
from penstock.values.states import Hold, JobState, Reason

US = 1_000_000
#: Terms of a dependency that are listed one by one.
TERMS_SHOWN = 20


class Obstacle(NamedTuple):
    """One thing that prevents a job from starting. `at_us`: when it ends by itself, or by when the job must have
    started; 0 = unknown. `changeable`: another request would avoid it."""

    reason: Reason
    text: str
    at_us: int = 0
    changeable: bool = False


class WaitRule(NamedTuple):
    """One rule. `describe` gets the reason that `decide` found, never None."""

    decide: Callable[[ClusterState, Job, int], Reason | None]
    describe: Callable[[ClusterState, Job, int, Reason], Iterable[Obstacle]]


def obstacles(state: ClusterState, job: Job, now_us: int) -> tuple[Obstacle, ...]:
    """Returns all obstacles of a pending job, its reason first."""
    found: list[Obstacle] = []
    for rule in RULES:
        reason = rule.decide(state, job, now_us)
        if reason is not None:
            found += rule.describe(state, job, now_us, reason)
    return tuple(found)


# ---- holds, dependencies, times ----------------------------------------------------------------------------------


def _hold(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if job.hold is Hold.NO:
        return None
    if job.reason_detail in HELD_BY_CONTROLLER or job.reason_detail == Reason.JOB_REQUEUED_HELD.value:
        return Reason(job.reason_detail)
    return Reason.JOB_HELD_ADMIN if job.hold is Hold.ADMIN else Reason.JOB_HELD_USER


def _describe_hold(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    if reason.value in HELD_BY_CONTROLLER or reason is Reason.JOB_REQUEUED_HELD:
        yield Obstacle(reason, sentence(reason.value))
    elif reason is Reason.JOB_HELD_ADMIN:
        yield Obstacle(reason, "held by an administrator")
    elif job.hold is Hold.SPECIAL_EXIT:
        yield Obstacle(reason, "its script ended with a status of RequeueExitHold: scontrol release releases it")
    else:
        yield Obstacle(reason, f"held by its owner {job.user_name}: scontrol release releases it")


def _dependency(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if job.job_id not in state.dependencies.waiting_for:
        return None
    return job.reason if job.reason is Reason.DEPENDENCY_NEVER_SATISFIED else Reason.DEPENDENCY


def _describe_dependency(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    any_of, terms = state.dependencies.waiting_for[job.job_id]
    named = "; ".join(dependees.describe(state, job, term) for term in terms[:TERMS_SHOWN])
    more = f"; and {len(terms) - TERMS_SHOWN} more" if len(terms) > TERMS_SHOWN else ""
    which = "any of " if any_of and len(terms) > 1 else ""
    never = reason is Reason.DEPENDENCY_NEVER_SATISFIED
    waits = "it will never start, for it depends on" if never else "it waits for"
    yield Obstacle(reason, f"{waits} {which}{named}{more}")


def begins_at_us(job: Job) -> int:
    """Returns the time before which the job may not start: --begin, or an eligible time that lies ahead (a requeue, a
    crontab)."""
    return max(job.request.begin_at_us, job.eligible_at_us)


def _begin(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.BEGIN_TIME if job.request.begin_at_us > now_us or job.eligible_at_us > now_us else None


def _describe_begin(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    yield Obstacle(reason, "it may not begin before", begins_at_us(job))


def _array_limit(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.JOB_ARRAY_TASK_LIMIT if arrays.startable(state, job) == 0 else None


def _describe_array_limit(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    running = state.arrays[job.array_job_id].running
    yield Obstacle(reason, f"{running} tasks of its array run, and its limit is %{job.array_throttle}")


# ---- association and partitions ------------------------------------------------------------------------------------


def _association(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return resolve_association.wait_reason(state, job)


def _describe_association(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    account = job.request.account or "none"
    text = f"user {job.user_name} has no association with account {account} for any of its partitions"
    if reason is Reason.INVALID_QOS:
        text = f"its QOS {job.request.qos} no longer exists"
    yield Obstacle(reason, text, changeable=True)


def _partitions(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """Returns the reason of the last of several partitions; None if one of them admits the job."""
    last = None
    for name in job.request.partitions:
        last = admit.wait_reason(state, state.partitions[name], job)
        if last is None:
            return None
    return last


def _describe_partitions(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    for name in reversed(job.request.partitions):
        partition = state.partitions[name]
        one = admit.wait_reason(state, partition, job) or reason
        yield Obstacle(one, admit.describe_wait(partition, job, one), changeable=True)


def _reservation(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.RESERVATION if job.request.reservation and not choices(state, job) else None


def _describe_reservation(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    text = f"reservation {job.request.reservation} is over, too short for its time limit, or not for its owner"
    yield Obstacle(reason, text, changeable=True)


def _budget(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if not state.limits.budgets.books or budgets.shortage(state, job, now_us) is None:
        return None
    return Reason.PENSTOCK_BUDGET


def _describe_budget(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    found = budgets.shortage(state, job, now_us)
    if found is not None:
        yield Obstacle(reason, budgets.describe(state, job, *found, now_us), changeable=True)


def _preemptor(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """Returns the preemptor of a job preempted by QOS, which must start first even if it ranks lower."""
    if not job.preemptor_id or state.config.preempt_type != preemption.BY_QOS:
        return None
    other = state.jobs.get(job.preemptor_id)
    waits = other is not None and other.state is JobState.PENDING and state.pending.is_ready(other.job_id)
    return Reason.PRIORITY if waits else None


def _describe_preemptor(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    yield Obstacle(reason, f"it was preempted for job {job.preemptor_id}, which goes first")


# ---- limits, and what the planner decides --------------------------------------------------------------------------


def limit_reason(blocks: Mapping[str, LimitBlock], takers: Iterable[str]) -> Reason | None:
    """Returns the limit that blocks a job, of `blocks` by partition; None if a partition that admits it has none."""
    if not blocks or any(name not in blocks for name in takers):
        return None
    return next(iter(blocks.values())).reason


def _limit(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if state.limits.ledger is None:
        return None
    if job.request.het_job_id:
        block = next(checks.blocks_together(state, het.active(state, job)), None)
        return block.reason if block is not None else None
    names = job.request.partitions
    takers = [name for name in names if admit.wait_reason(state, state.partitions[name], job) is None]
    return limit_reason(checks.blocking_limits(state, job), takers or names)


def _describe_limit(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    """Describes all limits that block it; of several partitions those of the first."""
    if job.request.het_job_id:
        blocks: Iterable[LimitBlock] = checks.blocks_together(state, het.active(state, job))
        blocks = {(block.check, block.reason): block for block in blocks}.values()
    else:
        blocks = checks.all_blocks(state, job, next(iter(checks.blocking_limits(state, job))))
    for block in blocks:
        yield Obstacle(block.reason, checks.describe(state, block), changeable=True)


def _fence(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """Describes the limit that restricts it to nodes of its group; omitted where a limit blocks the job anyway."""
    return node_limits.reason_of(state, job) if _limit(state, job, now_us) is None else None


def _describe_fence(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    check = node_limits.is_fenced(state, job)
    if check is not None:
        yield Obstacle(reason, f"{checks.describe_usage(state, check)}, and it may run only there", changeable=True)


def _division(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.RESOURCES if job.job_id in state.gpus.mig_waits else None


def _describe_division(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    yield Obstacle(reason, state.gpus.mig_waits[job.job_id])


def _deadline(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """Describes a deadline that lies ahead: until then the job is ready, afterwards it is ended (job_timers.py)."""
    return Reason.DEADLINE if job.request.deadline_at_us else None


def _describe_deadline(state: ClusterState, job: Job, now_us: int, reason: Reason) -> Iterator[Obstacle]:
    yield Obstacle(reason, "to end before its deadline it must have started by", latest_start_s(job) * US)


#: The rules of `refresh`, in the order of the reasons that squeue shows: the first that applies is the job's.
READINESS = (
    WaitRule(_hold, _describe_hold),
    WaitRule(_dependency, _describe_dependency),
    WaitRule(_begin, _describe_begin),
    WaitRule(_array_limit, _describe_array_limit),
    WaitRule(_association, _describe_association),
    WaitRule(_partitions, _describe_partitions),
    WaitRule(_reservation, _describe_reservation),
    WaitRule(_budget, _describe_budget),
    WaitRule(_preemptor, _describe_preemptor),
)
#: Rules for a job that passes these.
LIMITS = WaitRule(_limit, _describe_limit)
#: Why a ready job does not start, for other reasons than resources.
PLANNER = (
    WaitRule(_fence, _describe_fence),
    WaitRule(_division, _describe_division),
    WaitRule(_deadline, _describe_deadline),
)
RULES = (*READINESS, LIMITS, *PLANNER)
#: READINESS without words, for `refresh`.
DECISIONS = tuple(rule.decide for rule in READINESS)
