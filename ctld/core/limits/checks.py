"""Checks a pending job against its limits before it may start.

The limits that apply are found by rules.py, the usage is in ledger.py. A limit blocks a job while

    used + need > 0,    need = what the job wants - what is allowed

`blocking_limits` checks the request when a job could become ready; `at_start` checks the allocation when it is about to
start, since several jobs of one pass may exceed a limit together. A blocked job waits in a queue of that counter
(state/limit_waits.py) with Slurm's reason, until lifecycle/limit_wake.py finds that it may fit.

Minutes: without `safe` a job starts while there are any left, and is ended when they are used up
(lifecycle/limit_ends.py); with it only if what it and all running jobs may still use fits. Limits on the job itself
(MaxTRESPerJob, MaxWall, MinTRES) block it until it, or the limit, is changed.

Deliberately absent: refusals at submission (submission.py), borrowing, budgets, and the rights to QOS.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ctld.core.demand.factors import billing, tres_amounts
from ctld.core.jobs.expected_end import UNLIMITED_S
from ctld.core.limits import borrow
from ctld.core.limits.ledger import PPM, US, entry_of, qos_of, settle
from ctld.core.limits.rules import UNITS, Check, LimitRules, Measure, is_of_nodes, rules_of
from ctld.core.queue import associations
from ctld.core.records.decay import USAGE_ONE
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.state.books import BookKey, LimitBook
from ctld.core.state.limit_waits import LimitDemand, WaitEntry
from ctld.core.state.spent_minutes import WALL
from ctld.core.state.state import ClusterState
from penstock.values.hres import MODE_3
from penstock.values.licenses import parse_licenses
from penstock.values.limitreasons import reason_of
from penstock.values.limits import LIMITS
from penstock.values.states import Reason
from penstock.values.tres import gres_keys

_M = Measure
_USED_BY_RUN = USAGE_ONE
#: Usage of these decreases without the end of a job.
CHANGE_BY_THEMSELVES = frozenset((_M.RUN_MINUTES, _M.USED_MINUTES, _M.WALL))
#: Requests whose demand is cached: equal submissions of a user share one, and each is checked several times.
DEMANDS_MAX = 10_000
#: The jobs that would start beside a job, in books of their own.
Beside = Mapping[BookKey, LimitBook]
NOBODY: Beside = {}


class ResourceDemand(NamedTuple):
    """The resources that a job would use."""

    tres: dict[str, int]
    per_node: dict[str, int] | None  # None: the same on each
    limit_s: int
    factor_ppm: int  # UsageFactor
    safe_ppm: int  # that of UsageFactorSafe
    nodes: tuple[str, ...] = ()  # its allocated nodes; () = not known yet


class LimitBlock(NamedTuple):
    """A limit that blocks a job. Amounts are in units of the measure (rules.UNITS)."""

    check: Check | None  # None: a QOS's UsageThreshold
    used: int
    want: int
    reason: Reason


def demand_of(state: ClusterState, request: JobRequest, time_limit_s: int, partition: str) -> ResourceDemand:
    """Computes the demand of a request in a partition."""
    tres = tres_amounts(request)
    return _demand(state, request, tres, None, time_limit_s, partition)


def _demand(
    state: ClusterState, request: JobRequest, tres: dict[str, int], per_node: dict[str, int] | None, limit_s: int,
    partition: str, nodes: tuple[str, ...] = (),
) -> ResourceDemand:  # fmt: skip
    entry, qos = state.partitions.get(partition), qos_of(state, request.qos)
    weights = entry.config.tres_billing_weights if entry is not None else ()
    tres["billing"] = billing(weights, tres, state.config.priority_flags) // 1_000
    if request.licenses:
        for name, count in parse_licenses(request.licenses):
            pool = state.layout.hres.get(name)
            by_node = pool is not None and pool.mode == MODE_3
            tres[f"license/{name}"] = count * max(1, tres.get("node", 1)) if by_node else count
    safe = qos.usage_factor_ppm if "UsageFactorSafe" in qos.flags else PPM
    limit_s = request.time_min_s or (UNLIMITED_S if limit_s < 0 else limit_s)
    return ResourceDemand(tres, per_node, limit_s, qos.usage_factor_ppm, safe, nodes)


def _demand_at_start(
    state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...], limit_s: int
) -> ResourceDemand:
    """Computes the demand of a planned allocation."""
    per_node = {"cpu": max(part.cpus for part in alloc), "mem": max(part.mem_mb for part in alloc)}
    for part in alloc:
        here: dict[str, int] = {}
        for name, type_, mask in part.gres:
            for key in gres_keys(name, type_):
                here[key] = here.get(key, 0) + mask.bit_count()
        per_node |= {key: max(count, per_node.get(key, 0)) for key, count in here.items()}
    nodes = tuple(part.node for part in alloc)
    return _demand(state, job.request, associations.allocated_in(alloc), per_node, limit_s, partition, nodes)


# ---- the arithmetic ----------------------------------------------------------------------------------------------


def want(state: ClusterState, check: Check, demand: ResourceDemand) -> int:
    """Returns a job's demand on a counter; 0 = it does not affect it."""
    measure, amount = check.measure, demand.tres.get(check.tres, 0)
    if measure is _M.TRES and check.tres == "node":
        return _new_nodes(check, demand)
    if measure is _M.TRES or measure is _M.PER_JOB or measure is _M.LEAST:
        return amount
    if measure is _M.JOBS or measure is _M.WALL:
        return 1
    if measure is _M.PER_NODE:
        if demand.per_node is not None:
            return demand.per_node.get(check.tres, 0)
        return 0 if check.tres.startswith("license/") else -(-amount // max(1, demand.tres["node"]))
    if measure is _M.TIME:
        return demand.limit_s
    if measure is _M.RUN_MINUTES:
        return amount * demand.limit_s * demand.factor_ppm
    if measure is _M.MINUTES:
        return amount * demand.limit_s
    if "safe" in state.config.enforce:  # USED_MINUTES
        return amount * demand.limit_s * demand.safe_ppm * _USED_BY_RUN // PPM
    return 1 if amount else 0


def _new_nodes(check: Check, demand: ResourceDemand, beside: Beside = NOBODY) -> int:
    """Returns the least number of nodes that the group would have in addition."""
    assert check.book is not None
    if not demand.nodes:
        return max(0, demand.tres.get("node", 0) - len(check.book.nodes))
    others = beside[check.book.key].nodes if check.book.key in beside else {}
    return sum(name not in check.book.nodes for name in dict.fromkeys((*demand.nodes, *others)))


def used(state: ClusterState, check: Check) -> int:
    """Returns the present value of a counter."""
    book = check.book
    return used_at(state, book, check.measure, check.tres, state.now_us) if book is not None else 0


def used_at(state: ClusterState, book: LimitBook, measure: int, tres: str, now_us: int) -> int:
    """Returns the value of a counter at a later moment, if no job starts or ends until then."""
    if measure == _M.TRES:
        return book.tres.get(tres, 0)
    if measure == _M.JOBS:
        return book.jobs
    if measure == _M.SUBMITTED:
        return book.submitted
    if measure == _M.ACCRUING:
        return book.accruing
    if measure == _M.RUN_MINUTES:
        return book.run_left(tres, now_us)
    spent = book.spent.at(state.shares.decay, now_us) if book.spent is not None else {}
    if measure == _M.WALL:
        return spent.get(WALL, 0)
    found = spent.get(tres, 0)
    if "safe" in state.config.enforce:
        found += book.run_left(tres, now_us) * _USED_BY_RUN // PPM
    return found


def block_of(state: ClusterState, check: Check, demand: ResourceDemand, beside: Beside = NOBODY) -> LimitBlock | None:
    """Returns the limit if it blocks the job, together with those that start beside it."""
    wants = want(state, check, demand)
    if check.measure is _M.LEAST:
        return LimitBlock(check, 0, wants, check.reason) if wants < check.bound else None
    if is_of_nodes(check):
        wants = _new_nodes(check, demand, beside)
    elif not wants or (check.measure is _M.MINUTES and "safe" not in state.config.enforce):
        return None
    elif check.book is not None and check.book.key in beside:
        wants += used_at(state, beside[check.book.key], check.measure, check.tres, state.now_us)
    has, bound = used(state, check), check.bound
    if has + wants > bound and state.limits.lending.is_on and check.field == "grp_tres" and not check.of_qos:
        bound = borrow.bound(state, check.assoc_id, check.tres, bound, wants)
    return LimitBlock(check, has, wants, check.reason) if has + wants > bound else None


def blocks(
    state: ClusterState, found: LimitRules, demand: ResourceDemand, beside: Beside = NOBODY
) -> Iterator[LimitBlock]:
    """Returns all limits that block the job, in the order of precedence."""
    yield from _usage_blocks(found)
    for check in found.start:
        block = block_of(state, check, demand, beside)
        if block is not None:
            yield block


def _usage_blocks(found: LimitRules) -> Iterator[LimitBlock]:
    for qos in found.usage if found.assoc is not None else ():
        assert found.assoc is not None
        above, below = found.assoc.factor
        if above * PPM < qos.usage_threshold_ppm * below:
            yield LimitBlock(None, above * PPM // below, qos.usage_threshold_ppm, reason_of("usage_threshold", True))


def first_block(state: ClusterState, found: LimitRules, demand: ResourceDemand) -> LimitBlock | None:
    """Returns the first of `blocks`. Inlined, since most jobs pass here."""
    block = next(_usage_blocks(found), None) if found.usage else None
    if block is not None:
        return block
    tres, per_job = demand.tres, _M.PER_JOB
    for check in found.start:
        measure = check.measure
        book = check.book
        bound = check.bound
        if measure is per_job or (measure is _M.TRES and check.tres != "node"):
            amount = tres.get(check.tres, 0)
            has = book.tres.get(check.tres, 0) if book is not None else 0
            if not amount or has + amount <= bound:
                continue
            if not state.limits.lending.is_on:
                return LimitBlock(check, has, amount, check.reason)
        elif measure is _M.JOBS and book is not None and book.jobs < bound:
            continue
        block = block_of(state, check, demand)
        if block is not None:
            return block
    return None


# ---- a job that could become ready -------------------------------------------------------------------------------


def blocking_limits(state: ClusterState, job: Job) -> dict[str, LimitBlock]:
    """Returns the limits that block the job, by partition. Partitions in which it may start are absent."""
    settle(state)
    found = {}
    for partition in job.request.partitions:
        block = _asked_block(state, job, partition)
        if block is not None:
            found[partition] = block
    return found


def _asked_block(state: ClusterState, job: Job, partition: str) -> LimitBlock | None:
    found = rules_of(state, job, partition)
    if not found.start and not found.usage:
        return None
    return first_block(state, found, _kept_demand(state, job, partition))


def _kept_demand(state: ClusterState, job: Job, partition: str) -> ResourceDemand:
    """Returns `demand_of`, cached as long as the rules. The cache holds the request, so that its id is not reused."""
    ledger = state.limits.ledger
    request = job.request
    limit_s = job.time_limit_s
    assert ledger is not None
    key = id(request)
    known = ledger.demands.get(key)
    if known is not None and known[1] == limit_s and known[2] == partition:
        demand: ResourceDemand = known[3]
        return demand
    if len(ledger.demands) >= DEMANDS_MAX:
        ledger.demands.clear()
    demand = demand_of(state, request, limit_s, partition)
    ledger.demands[key] = (request, limit_s, partition, demand)
    return demand


def all_blocks(state: ClusterState, job: Job, partition: str) -> tuple[LimitBlock, ...]:
    """Returns all limits that block a job in one of its partitions, in the order of precedence."""
    settle(state)
    demand = demand_of(state, job.request, job.time_limit_s, partition)
    return tuple(blocks(state, rules_of(state, job, partition), demand))


def wait_for_limits(state: ClusterState, job: Job, rank: int) -> dict[str, LimitBlock]:
    """Computes `blocking_limits`, and enters the job in the queues of these limits."""
    ledger = state.limits.ledger
    assert ledger is not None
    is_new = job.job_id not in ledger.waiting
    if not is_new:
        ledger.leave(job.job_id)
    found = blocking_limits(state, job)
    if found:
        wait(state, job, found.values(), rank)
        if (
            is_new
            and state.limits.lending.borrowed
            and any(b.check and b.check.field == "grp_tres" for b in found.values())
        ):
            state.changed()  # it may reclaim what was lent (passes/reclaim.py)
    return found


def wait(state: ClusterState, job: Job, found: Iterable[LimitBlock], rank: int) -> None:
    """Enters a job in the queues of the limits that block it, in each of its partitions."""
    ledger = state.limits.ledger
    assert ledger is not None
    entries: list[WaitEntry] = []
    for block in found:
        check = block.check
        if check is not None and check.book is not None:
            if check.measure in CHANGE_BY_THEMSELVES:
                ledger.armed[check.book.key] = None
            queue = check.book.waits.queue((int(check.measure), check.tres))
            need = LimitDemand(block.want - check.bound, block.want)
            if is_of_nodes(check) and block.want <= check.bound:
                need = LimitDemand(-check.bound, block.want)  # the group's nodes count, not only their number
            if not entries or not any(entry.queue is queue and entry.need == need for entry in entries):
                entries.append(queue.push(job.job_id, need, rank))
    ledger.waiting[job.job_id] = tuple(entries)


def room(state: ClusterState, job: Job, most: int) -> int:
    """Returns how many tasks of an array may start together, in the partition that allows the most; 1 at least."""
    best = 1
    for partition in job.request.partitions:
        number = most
        demand = demand_of(state, job.request, job.time_limit_s, partition)
        for check in rules_of(state, job, partition).start:
            if check.measure in (_M.JOBS, _M.TRES, _M.RUN_MINUTES):
                wants = want(state, check, demand)
                if is_of_nodes(check):
                    continue  # they may share nodes
                if wants and state.limits.lending.is_on and check.field == "grp_tres" and not check.of_qos:
                    number = min(number, borrow.room(state, check.assoc_id, check.tres, wants, number))
                elif wants:
                    number = min(number, (check.bound - used(state, check)) // wants)
        best = max(best, number)
    return best


def before_start(state: ClusterState, job: Job, partition: str) -> LimitBlock | None:
    """Returns the limit that blocks a job which the planner would start, whatever its allocation: jobs of the same pass
    have started since it became ready. Checked before any work is done for it."""
    settle(state)
    return _asked_block(state, job, partition)


def at_start(
    state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...], limit_s: int
) -> LimitBlock | None:
    """Returns the limit that blocks a job which is about to start with this allocation."""
    settle(state)
    found = rules_of(state, job, partition)
    if not found.start and not found.usage:
        return None
    return first_block(state, found, _demand_at_start(state, job, partition, alloc, limit_s))


# ---- jobs that start together --------------------------------------------------------------------------------------


def blocks_together(state: ClusterState, jobs: Iterable[Job]) -> Iterator[LimitBlock]:
    """Returns all limits that block jobs which start together (components of one), by their requests."""
    settle(state)
    demands = []
    for job in jobs:
        partition = job.request.partitions[0]
        demands.append((job, partition, demand_of(state, job.request, job.time_limit_s, partition)))
    return _together(state, demands)


def together(state: ClusterState, starts: Iterable[tuple[Job, str, tuple[NodeAlloc, ...], int]]) -> LimitBlock | None:
    """Returns the first limit that blocks such jobs with their allocations."""
    settle(state)
    return next(_together(state, [(one[0], one[1], _demand_at_start(state, *one)) for one in starts]), None)


def _together(state: ClusterState, demands: list[tuple[Job, str, ResourceDemand]]) -> Iterator[LimitBlock]:
    """Returns their blocks; each job counts for the following ones, beside the books, and its block includes their
    demand."""
    ledger = state.limits.ledger
    assert ledger is not None
    beside: dict[BookKey, LimitBook] = {}
    for job, partition, demand in demands:
        yield from blocks(state, rules_of(state, job, partition), demand, beside)
        entry = entry_of(state, job)
        if entry is not None:
            end_s = state.now_us // US + demand.limit_s
            tres = tuple(sorted(demand.tres.items()))
            entry = entry._replace(tasks=0, accruing=0, runs=True, tres=tres, end_s=end_s, nodes=demand.nodes)
            for book in ledger.books_of(state.shares, entry):
                beside.setdefault(book.key, LimitBook(book.key)).enter(entry, 1)


# ---- texts -------------------------------------------------------------------------------------------------------

_KEYWORDS = {limit.field: limit.keyword for limit in LIMITS}


def describe(state: ClusterState, block: LimitBlock) -> str:
    """Describes a block: "account physics: GrpTRES gres/gpu=8, 7 are used, 2 are wanted"."""
    check = block.check
    if check is None:
        return f"fair-share factor {block.used / PPM:.6f} is below UsageThreshold {block.want / PPM:.6f}"
    return in_numbers(state, check, block.used, block.want)


def in_numbers(state: ClusterState, check: Check, has: int, wants: int) -> str:
    """Returns the limit, the used and the wanted amount."""
    unit = UNITS.get(check.measure, 1)
    bound = f"{check.tres}={check.bound // unit}" if check.tres else f"{check.bound // unit}"
    text = f"{owner_of(state, check)}: {_KEYWORDS[check.field]} {bound}"
    if check.book is not None:
        text += f", {-(-has // unit)} are used"
    if check.measure is _M.WALL or (check.measure is _M.USED_MINUTES and "safe" not in state.config.enforce):
        return text
    return f"{text}, {-(-wants // unit)} are wanted"


def describe_usage(state: ClusterState, check: Check) -> str:
    """Describes the usage of a limit: "account physics: GrpTRES node=4, 4 are used"."""
    return in_numbers(state, check, used(state, check), 0).rpartition(",")[0]


def owner_of(state: ClusterState, check: Check) -> str:
    """Returns the entity that has the limit, and for whom it counts."""
    if check.of_qos:
        whose = f" for {check.book.key[0]} {check.book.key[2]}" if check.book and len(check.book.key) > 2 else ""
        return f"QOS {check.of_qos}{whose}"
    assoc = state.shares.by_id[check.assoc_id]
    return f"user {assoc.user_name} in account {assoc.account}" if assoc.user_name else f"account {assoc.account}"
