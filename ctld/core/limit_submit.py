"""Which jobs may come in, and how a request may be changed, as far as limits go. One function for every way in: sbatch
and its relatives, heterogeneous jobs, crontabs, scontrol update.

Too many: MaxSubmitJobs, GrpSubmitJobs and their kin bound jobs that have not ended, tasks of arrays one by one. A job that
may run in several partitions is counted in the QOS of each of them while it waits, and refused where one of these is full.
What comes in together is counted together; what goes at the same time (a crontab's old jobs, a job's old account) makes
room. A job that stays where it is counted is not refused there, also when the limit has been lowered since.

Never: where a QOS of the job has DenyOnLimit, what could never keep a limit is refused; of several partitions if none would
take it, or with EnforcePartLimits=ALL if one would not. A change of a job is refused only for what it changes.

Operators and administrators may change jobs beyond limits (scontrol(1)); such a job waits until it keeps them.
"""

from collections.abc import Iterable

from ctld.core.arrays import weight
from ctld.core.effects import Refused
from ctld.core.events import Actor, Role
from ctld.core.ledger import Key, settle
from ctld.core.limit_rules import Check, Measure, Rules, is_of_nodes, rules
from ctld.core.limits import Wish, in_numbers, want, wish_of
from ctld.core.model import Job, JobRequest
from ctld.core.qos import DEFAULT_QOS
from ctld.core.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet


def at_submission(
    state: ClusterState, user: str, coming: Iterable[tuple[JobRequest, int]], going: Iterable[Job] = ()
) -> None:
    """Whether a user's jobs may come in, with how many tasks each, while others go. Raises Refused."""
    if state.ledger is None:
        return
    settle(state)
    more = _leaving(state, [(job, weight(job)) for job in going])
    for request, tasks in coming:
        found = _all_rules(state, user, request)
        _check_number(state, found, tasks, more)
        if any(one.denies for one in found.values()):
            _check_size(state, user, request, None, found)


def at_update(state: ClusterState, actor: Actor, job: Job, tasks: TaskSet | None, request: JobRequest) -> None:
    """Whether a job, or some of its tasks, may have another request. Raises Refused."""
    if (
        state.ledger is None
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


def _all_rules(state: ClusterState, user: str, request: JobRequest) -> dict[str, Rules]:
    """What applies in each of its partitions."""
    account = (request.account or state.config.penstock_default_account).lower()
    find, qos = state.shares.find, request.qos or DEFAULT_QOS
    return {name: rules(state, find(account, user, name), qos, name, user) for name in request.partitions}


# ---- too many ----------------------------------------------------------------------------------------------------------


def _leaving(state: ClusterState, going: list[tuple[Job, int]]) -> dict[Key, int]:
    """By book, how many more (fewer) jobs there are when these have gone."""
    ledger, more = state.ledger, dict[Key, int]()
    assert ledger is not None
    for job, tasks in going:
        entry = ledger.entries.get(job.job_id)
        for book in ledger.submitted_in(state, entry) if entry is not None else ():
            more[book.key] = more.get(book.key, 0) - tasks
    return more


def _check_number(state: ClusterState, known: dict[str, Rules], tasks: int, more: dict[Key, int]) -> None:
    """Count jobs into `more`. Raises Refused when they are too many."""
    found: dict[Key, None] = {}
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


# ---- what could never keep a limit -----------------------------------------------------------------------------------


def _check_size(
    state: ClusterState, user: str, request: JobRequest, before: JobRequest | None, known: dict[str, Rules]
) -> None:
    """Raises Refused. `before`: what it asked for until now."""
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
    found: Rules,
    known: dict[str, Rules],
    partition: str,
) -> tuple[Check, int] | None:
    """The first limit that such a job could never keep, and what it wants."""
    wish = _wish(state, request, partition)
    old = _wish(state, before, partition) if before is not None else None
    applied = known[partition].start if partition in known else ()
    for check in found.start:
        wants = _wants(state, check, wish)
        if check.measure is Measure.LEAST:
            never = wants < check.bound
        else:
            never = wants > _most(state, check)
        if check.measure is Measure.TIME and request.time_limit_s is None:
            continue
        if never and not (old is not None and check in applied and _wants(state, check, old) == wants):
            return check, wants
    return None


def _wish(state: ClusterState, request: JobRequest, partition: str) -> Wish:
    return wish_of(state, request, -1 if request.time_limit_s is None else request.time_limit_s, partition)


def _wants(state: ClusterState, check: Check, wish: Wish) -> int:
    return wish.tres.get("node", 0) if is_of_nodes(check) else want(state, check, wish)


def _most(state: ClusterState, check: Check) -> int:
    """What a limit allows at most, with what its account may borrow."""
    if check.field != "grp_tres" or check.of_qos or not state.lending.is_on:
        return check.bound
    return check.bound + dict(state.shares.by_id[check.assoc_id].limits.borrow).get(check.tres, 0)
