"""Resolves the limits that apply to a job, of its associations, its QOS and its partition's, to a list of checks.

The order of precedence is Slurm's (resource_limits, sacctmgr(1)):

    the partition's QOS, the job's QOS (reversed if that has OverPartQOS), then associations

A limit that a QOS sets (a TRES limit for that TRES) overrides the same limit further down. Of associations, Grp limits
hold at each level: the user's, its account's, and so on up to root; Max limits are those of the nearest that sets them,
and apply to the usage of the user's own association. `SAME` lists limits that have different names in a QOS and in an
association.

LimitFactor of the job's QOS multiplies TRES limits of associations. A QOS with the flag Relative means percent of the
cluster, or of the partition whose QOS it is. GrpTRESMins and GrpWall of root are not enforced, as in Slurm.

The checks of an (association, QOS, partition) are computed once and cached until a limit, the tree or the configuration
changes; a job without limits has none and no overhead.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from ctld.core.limits.ledger import PPM, assoc_of, partition_qos, qos_of, track
from ctld.core.queue.qos import DEFAULT_QOS
from ctld.core.records.job import Job
from ctld.core.records.qos import Qos
from ctld.core.state.books import LimitBook, LimitLedger
from ctld.core.state.fairshare import Assoc
from ctld.core.state.spent_minutes import MINUTE
from ctld.core.state.state import ClusterState
from penstock.values.limitreasons import reason_of
from penstock.values.limits import LIMITS, NO_LIMIT, LimitKind
from penstock.values.states import Reason
from penstock.values.tres import there_is


class Measure(IntEnum):
    """The quantity that a limit is compared with. Those before JOBS depend on the job alone."""

    PER_JOB = 0  # TRES
    PER_NODE = 1  # TRES on one node
    MINUTES = 2  # TRES x time limit
    TIME = 3  # time limit
    LEAST = 4  # TRES, a minimum
    JOBS = 10  # of running jobs
    TRES = 11  # held by running jobs
    RUN_MINUTES = 12  # that running jobs may still use
    USED_MINUTES = 13  # minutes used
    WALL = 14  # time used
    SUBMITTED = 20  # jobs that have not ended
    ACCRUING = 21  # pending jobs that age


class Check(NamedTuple):
    """One limit that applies. `bound` is in units of its measure (`UNITS`); `book` is None where only the job counts."""

    measure: Measure
    tres: str
    bound: int
    book: LimitBook | None
    field: str
    of_qos: str  # name of the QOS that sets it; "" = an association
    assoc_id: int  # id of the one that sets it
    reason: Reason  # Slurm's reason of a job that it blocks


def is_of_nodes(check: Check | None) -> bool:
    """Whether a limit bounds the number of different nodes of a group."""
    return check is not None and check.tres == "node" and check.measure is Measure.TRES


#: One unit of a limit, in units of its counter.
UNITS = {
    Measure.MINUTES: 60,
    Measure.TIME: 60,
    Measure.RUN_MINUTES: 60 * PPM,
    Measure.USED_MINUTES: MINUTE,
    Measure.WALL: MINUTE,
}

_M = Measure
#: Limits of a QOS: field, measure, and whose counters: "qos", "user" or "account" in it; "" = only the job counts.
_OF_QOS = (
    ("max_tres_per_job", _M.PER_JOB, ""),
    ("max_tres_per_node", _M.PER_NODE, ""),
    ("max_tres_min_per_job", _M.MINUTES, ""),
    ("max_wall_min", _M.TIME, ""),
    ("min_tres_per_job", _M.LEAST, ""),
    ("grp_jobs", _M.JOBS, "qos"),
    ("max_jobs_per_account", _M.JOBS, "account"),
    ("max_jobs_per_user", _M.JOBS, "user"),
    ("grp_wall_min", _M.WALL, "qos"),
    ("grp_tres", _M.TRES, "qos"),
    ("grp_tres_min", _M.USED_MINUTES, "qos"),
    ("grp_tres_run_min", _M.RUN_MINUTES, "qos"),
    ("max_tres_per_account", _M.TRES, "account"),
    ("max_tres_per_user", _M.TRES, "user"),
    ("max_tres_run_min_per_account", _M.RUN_MINUTES, "account"),
    ("max_tres_run_min_per_user", _M.RUN_MINUTES, "user"),
    ("grp_submit_jobs", _M.SUBMITTED, "qos"),
    ("max_submit_jobs_per_account", _M.SUBMITTED, "account"),
    ("max_submit_jobs_per_user", _M.SUBMITTED, "user"),
    ("grp_jobs_accrue", _M.ACCRUING, "qos"),
    ("max_jobs_accrue_per_account", _M.ACCRUING, "account"),
    ("max_jobs_accrue_per_user", _M.ACCRUING, "user"),
)
#: Limits of associations: field, measure, and whether it applies at every level (Grp) or only the nearest counts.
_OF_ASSOC = (
    ("max_tres_per_job", _M.PER_JOB, False),
    ("max_tres_per_node", _M.PER_NODE, False),
    ("max_tres_min_per_job", _M.MINUTES, False),
    ("max_wall_min", _M.TIME, False),
    ("grp_jobs", _M.JOBS, True),
    ("max_jobs", _M.JOBS, False),
    ("grp_wall_min", _M.WALL, True),
    ("grp_tres", _M.TRES, True),
    ("grp_tres_min", _M.USED_MINUTES, True),
    ("grp_tres_run_min", _M.RUN_MINUTES, True),
    ("grp_submit_jobs", _M.SUBMITTED, True),
    ("max_submit_jobs", _M.SUBMITTED, False),
    ("grp_jobs_accrue", _M.ACCRUING, True),
    ("max_jobs_accrue", _M.ACCRUING, False),
)
#: Fields of a QOS that override an association's field of another name.
SAME = {
    "max_jobs": ("max_jobs_per_user", "max_jobs_per_account"),
    "max_submit_jobs": ("max_submit_jobs_per_user", "max_submit_jobs_per_account"),
    "max_jobs_accrue": ("max_jobs_accrue_per_user", "max_jobs_accrue_per_account"),
}
#: Only the job's QOS limits these (man sacctmgr), not the partition's.
_NOT_OF_PARTITION = frozenset(("grp_jobs_accrue", "max_jobs_accrue_per_account", "max_jobs_accrue_per_user"))
_NOT_OF_ROOT = frozenset(("grp_tres_min", "grp_wall_min"))
_IS_TRES = {limit.field: limit.kind is LimitKind.TRES for limit in LIMITS}


class LimitRules(NamedTuple):
    """The limits of a user's jobs with a QOS in a partition."""

    start: tuple[Check, ...]  # checked when a job is to start
    submit: tuple[Check, ...]
    accrue: tuple[Check, ...]
    qos: tuple[Qos, ...]  # in their order of precedence
    assoc: Assoc | None
    nodes: tuple[Check, ...]  # those of `start` that count different nodes
    usage: tuple[Qos, ...]  # with a UsageThreshold that is enforced
    denies: bool  # DenyOnLimit
    min_priority: int  # MinPrioThreshold: of the QOS in their order, else of the nearest association; -1 = none


def rules_of(state: ClusterState, job: Job, partition: str) -> LimitRules:
    """Returns the limits of a job in one of its partitions."""
    return rules(state, assoc_of(state, job, partition), job.request.qos or DEFAULT_QOS, partition, job.user_name)


def rules(state: ClusterState, assoc: Assoc | None, qos: str, partition: str, user: str) -> LimitRules:
    """Returns the limits of an association's jobs with a QOS in a partition."""
    ledger = state.limits.ledger
    assert ledger is not None
    key = (assoc.assoc_id if assoc is not None else 0, qos, partition, user)
    found: LimitRules | None = ledger.rules.get(key)
    if found is None:
        found = ledger.rules[key] = _compiled(state, ledger, assoc, qos, partition, user)
    return found


def _compiled(
    state: ClusterState, ledger: LimitLedger, assoc: Assoc | None, qos: str, partition: str, user: str
) -> LimitRules:
    own = qos_of(state, qos)
    above = partition_qos(state, partition)
    order = [own]
    if above and above != qos:
        order.insert(len(order) if "OverPartQOS" in own.flags else 0, qos_of(state, above))
    found: list[Check] = []
    taken: set[tuple[str, str]] = set()  # (field, TRES) that a QOS has set
    account = assoc.account if assoc is not None else ""
    for one in order:
        part = partition if one.name == above else ""
        checks = list(_of_qos(state, ledger, one, part, user, account))
        found += [c for c in checks if (c.field, c.tres) not in taken and _applies(c.field, part, one is own)]
        taken |= {(c.field, c.tres) for c in checks}
    if assoc is not None:
        found += _of_assocs(state, ledger, assoc, taken, own)
    return LimitRules(
        tuple(check for check in found if check.measure < _M.SUBMITTED),
        tuple(check for check in found if check.measure is _M.SUBMITTED),
        tuple(check for check in found if check.measure is _M.ACCRUING),
        tuple(order),
        assoc,
        tuple(check for check in found if is_of_nodes(check)),
        tuple(one for one in order if one.usage_threshold_ppm >= 0 and "EnforceUsageThreshold" in one.flags),
        any("DenyOnLimit" in one.flags for one in order),
        _min_priority(order, assoc),
    )


def _min_priority(order: list[Qos], assoc: Assoc | None) -> int:
    said = [one.limits.min_prio_threshold for one in order]
    while assoc is not None:
        said.append(assoc.limits.min_prio_threshold)
        assoc = assoc.parent
    return next((number for number in said if number != NO_LIMIT), NO_LIMIT)


def _applies(field: str, partition: str, is_own: bool) -> bool:
    return is_own or not partition or field not in _NOT_OF_PARTITION


def _reason(measure: Measure, field: str, of_qos: bool, tres: str) -> Reason:
    return Reason.NONE if measure is Measure.ACCRUING else reason_of(field, of_qos, tres)


def _amounts(limits: object, field: str) -> Iterator[tuple[str, int]]:
    """Returns (TRES, amount) of a limit that is set; TRES "" for one that is not of TRES."""
    value = getattr(limits, field)
    if _IS_TRES[field]:
        yield from value
    elif value != NO_LIMIT:
        yield "", value


def _of_qos(
    state: ClusterState, ledger: LimitLedger, qos: Qos, partition: str, user: str, account: str
) -> Iterator[Check]:
    relative = "Relative" in qos.flags
    for field, measure, whose in _OF_QOS:
        for tres, amount in _amounts(qos.limits, field):
            if relative and tres:
                amount = amount * _total(state, tres, partition) // 100
            book = None
            if whose:
                key = ("qos", qos.name) if whose == "qos" else (whose, qos.name, user if whose == "user" else account)
                book = ledger.book(key)
            bound, reason = amount * UNITS.get(measure, 1), _reason(measure, field, True, tres)
            yield Check(measure, tres, bound, book, field, qos.name, 0, reason)


def _of_assocs(
    state: ClusterState, ledger: LimitLedger, own: Assoc, taken: set[tuple[str, str]], qos: Qos
) -> Iterator[Check]:
    for field, measure, everywhere in _OF_ASSOC:
        if any((name, "") in taken for name in SAME.get(field, ())):
            continue
        set_here: set[str] = set()
        at: Assoc | None = own
        while at is not None:
            skip = at.parent is None and field in _NOT_OF_ROOT
            for tres, amount in () if skip else tuple(_amounts(at.limits, field)):
                if (field, tres) in taken or tres in set_here:
                    continue
                if not everywhere:
                    set_here.add(tres)
                if tres and qos.limit_factor_ppm >= 0:
                    amount = amount * qos.limit_factor_ppm // PPM
                book = None
                if measure >= _M.JOBS:
                    book = ledger.book(("assoc", at.assoc_id if everywhere else own.assoc_id))
                    if measure in (_M.USED_MINUTES, _M.WALL):
                        track(state, book)
                bound, reason = amount * UNITS.get(measure, 1), _reason(measure, field, False, tres)
                yield Check(measure, tres, bound, book, field, "", at.assoc_id, reason)
            at = at.parent


def _total(state: ClusterState, tres: str, partition: str) -> int:
    """Returns the total of a TRES in the cluster, or in a partition."""
    nodes = state.node_list
    if partition:
        nodes = [state.nodes[name] for name in state.partitions[partition].config.nodes if name in state.nodes]
    if tres.startswith("license/"):
        return state.layout.license_totals.get(tres.removeprefix("license/"), 0)
    found = there_is((node.cpus, node.real_memory_mb, node.config.gres) for node in nodes)
    return found.get("cpu" if tres == "billing" else tres, 0)
