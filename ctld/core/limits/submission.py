"""Checks submissions and changes of requests against limits. One function for every kind of submission: sbatch, salloc
and srun, heterogeneous jobs, crontabs, scontrol update.

Number: MaxSubmitJobs, GrpSubmitJobs and the like bound jobs that have not ended, tasks of arrays one by one. A job that
may run in several partitions is counted in the QOS of each of them while it waits, and refused where one of these is
full. Jobs of one request are counted together; jobs that it removes (a crontab's old jobs, a job's old account) make
room. A job is not refused where it is counted already, even if the limit has been lowered since.

Size: where a QOS of the job has DenyOnLimit, a job that could never satisfy a limit is refused; of several partitions
if none would take it, or with EnforcePartLimits=ALL if one would not. A change of a job is refused only for what it
changes.

Operators and administrators may change jobs beyond limits (scontrol(1)); such a job waits until it satisfies them.
"""

from collections.abc import Iterable

from ctld.core.jobs.arrays import weight
from ctld.core.limits.checks import ResourceDemand, demand_of, in_numbers, want
from ctld.core.limits.ledger import settle
from ctld.core.limits.rules import Check, LimitRules, Measure, is_of_nodes, rules
from ctld.core.queue.qos import DEFAULT_QOS
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, Role
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest
from ctld.core.state.books import BookKey
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet


def at_submission(
    state: ClusterState, user: str, coming: Iterable[tuple[JobRequest, int]], going: Iterable[Job] = ()
) -> None:
    """Checks whether a user's jobs may be added, with how many tasks each, while others are removed. Raises Refused."""
    if state.limits.ledger is None:
        return
    settle(state)
    more = _leaving(state, [(job, weight(job)) for job in going])
    for request, tasks in coming:
        found = _all_rules(state, user, request)
        _check_number(state, found, tasks, more)
        if any(one.denies for one in found.values()):
            _check_size(state, user, request, None, found)


def at_update(state: ClusterState, actor: Actor, job: Job, tasks: TaskSet | None, request: JobRequest) -> None:
    """Checks whether a job, or some of its tasks, may have another request. Raises Refused."""
    if (
        state.limits.ledger is None
        or actor.role >= Role.OPERATOR
        or job.state is not JobState.PENDING
        or request == job.request
    ):
        return
    settle(state)
    number = weight(job) if tasks is None else len(tasks)
    found = _all_rules(state, job.user_name, request)
    _check_number(state, found, number, _leaving(state, [(job, number)]))
    _check_size(state, job.user_name, request, job.request, found)


def _all_rules(state: ClusterState, user: str, request: JobRequest) -> dict[str, LimitRules]:
    """Returns the rules of each of its partitions."""
    account = (request.account or state.config.penstock_default_account).lower()
    find, qos = state.shares.find, request.qos or DEFAULT_QOS
    return {name: rules(state, find(account, user, name), qos, name, user) for name in request.partitions}


# ---- number
# ------------------------------------------------------------------------------------------------------------


def _leaving(state: ClusterState, going: list[tuple[Job, int]]) -> dict[BookKey, int]:
    """Returns by book the change in the number of jobs when these are removed."""
    ledger, more = state.limits.ledger, dict[BookKey, int]()
    assert ledger is not None
    for job, tasks in going:
        entry = ledger.entries.get(job.job_id)
        for book in ledger.submitted_in(state.shares, entry) if entry is not None else ():
            more[book.key] = more.get(book.key, 0) - tasks
    return more


def _check_number(state: ClusterState, known: dict[str, LimitRules], tasks: int, more: dict[BookKey, int]) -> None:
    """Counts jobs into `more`. Raises Refused when they are too many."""
    found: dict[BookKey, None] = {}
    for one in known.values():
        for check in one.submit:
            assert check.book is not None
            key = check.book.key
            found[key] = None
            change = more.get(key, 0) + tasks
            has = check.book.submitted + more.get(key, 0)
            if change > 0 and has + tasks > check.bound:
                raise _refused(state, check, has, tasks)
    for key in found:
        more[key] = more.get(key, 0) + tasks


def _refused(state: ClusterState, check: Check, has: int, wants: int) -> Refused:
    return Refused(Code.ACCOUNTING_POLICY, f"{check.reason}: {in_numbers(state, check, has, wants)}")


# ---- size ------------------------------------------------------------------------------------------------------------


def _check_size(
    state: ClusterState, user: str, request: JobRequest, before: JobRequest | None, known: dict[str, LimitRules]
) -> None:
    """Raises Refused when a job could never satisfy a limit. `before`: its previous request."""
    first, takes = None, 0
    old = _all_rules(state, user, before) if before is not None else {}
    for partition, found in known.items():
        broken = _never(state, request, before, found, old, partition) if found.denies else None
        takes += broken is None
        first = first or broken
    if first is not None and (not takes or state.config.enforce_part_limits == "ALL"):
        raise _refused(state, first[0], 0, first[1])


def _never(
    state: ClusterState,
    request: JobRequest,
    before: JobRequest | None,
    found: LimitRules,
    known: dict[str, LimitRules],
    partition: str,
) -> tuple[Check, int] | None:
    """Returns the first limit that such a job could never satisfy, and its demand."""
    demand = _demand(state, request, partition)
    old = _demand(state, before, partition) if before is not None else None
    applied = known[partition].start if partition in known else ()
    for check in found.start:
        wants = _wants(state, check, demand)
        if check.measure is Measure.LEAST:
            never = wants < check.bound
        else:
            never = wants > _most(state, check)
        if check.measure is Measure.TIME and request.time_limit_s is None:
            continue
        if never and not (old is not None and check in applied and _wants(state, check, old) == wants):
            return check, wants
    return None


def _demand(state: ClusterState, request: JobRequest, partition: str) -> ResourceDemand:
    return demand_of(state, request, -1 if request.time_limit_s is None else request.time_limit_s, partition)


def _wants(state: ClusterState, check: Check, demand: ResourceDemand) -> int:
    return demand.tres.get("node", 0) if is_of_nodes(check) else want(state, check, demand)


def _most(state: ClusterState, check: Check) -> int:
    """Returns the most that a limit allows, including what its account may borrow."""
    if check.field != "grp_tres" or check.of_qos or not state.limits.lending.is_on:
        return check.bound
    return check.bound + dict(state.shares.by_id[check.assoc_id].limits.borrow).get(check.tres, 0)
