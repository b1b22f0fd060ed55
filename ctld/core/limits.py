"""May a job start, as far as limits go?

What applies is limit_rules.py's business, what is used ledger.py's. A limit holds a job back while

    used + need > 0,    need = what the job wants - what is allowed

`look` is asked when a job could get ready, of what it asks for; `at_start` again when it is about to start, of what it is
given, since several jobs of one pass may exceed a limit together. A job that is held back waits in a queue of that counter
(limit_waits.py) with Slurm's word as its reason, until limit_wake.py finds that it may fit.

Minutes: without `safe` a job starts while there are any left, and is ended when they are used up (limit_ends.py); with it
only if what it and all running jobs may still use fits. Limits that only look at the job itself (MaxTRESPerJob,
MaxWall, MinTRES) hold it back until it, or the limit, is changed.

Deliberately absent: what is refused at submission (limit_submit.py), borrowing, budgets, and who may have which QOS.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ctld.core import assocs, borrow
from ctld.core.decay import USAGE_ONE
from ctld.core.expect import UNLIMITED_S
from ctld.core.factors import billing, tres_amounts
from ctld.core.ledger import PPM, US, Book, Key, entry_of, qos_of, settle
from ctld.core.limit_rules import UNITS, Check, Measure, Rules, is_of_nodes, rules_of
from ctld.core.limit_waits import Need, Place
from ctld.core.model import Job, JobRequest, NodeAlloc
from ctld.core.spent import WALL
from ctld.core.state import ClusterState
from penstock.values.licenses import parse_licenses
from penstock.values.limitreasons import reason_of
from penstock.values.limits import LIMITS
from penstock.values.states import Reason
from penstock.values.tres import gres_keys

_M = Measure
_USED_BY_RUN = USAGE_ONE
#: What is used of these gets less without a job's end.
CHANGE_BY_THEMSELVES = frozenset((_M.RUN_MINUTES, _M.USED_MINUTES, _M.WALL))
#: What jobs want is kept for so many requests: equal submissions of a user share one, and each is asked for some times.
WISHES_MAX = 10_000
#: What would start beside a job, in books of its own.
Beside = Mapping[Key, Book]
NOBODY: Beside = {}


class Wish(NamedTuple):
    """What a job would use."""

    tres: dict[str, int]
    per_node: dict[str, int] | None  # None: the same on each
    limit_s: int
    factor_ppm: int  # UsageFactor
    safe_ppm: int  # that of UsageFactorSafe
    nodes: tuple[str, ...] = ()  # that it is given; () = nobody knows yet


class Block(NamedTuple):
    """A limit that holds a job back. Amounts are in units of the measure (limit_rules.UNITS)."""

    check: Check | None  # None: a QOS's UsageThreshold
    used: int
    want: int
    reason: Reason


def wish_of(state: ClusterState, request: JobRequest, time_limit_s: int, partition: str) -> Wish:
    """What a request asks for, in a partition."""
    tres = tres_amounts(request)
    return _wish(state, request, tres, None, time_limit_s, partition)


def _wish(
    state: ClusterState, request: JobRequest, tres: dict[str, int], per_node: dict[str, int] | None, limit_s: int,
    partition: str, nodes: tuple[str, ...] = (),
) -> Wish:  # fmt: skip
    entry, qos = state.partitions.get(partition), qos_of(state, request.qos)
    weights = entry.config.tres_billing_weights if entry is not None else ()
    tres["billing"] = billing(weights, tres, state.config.priority_flags) // 1_000
    if request.licenses:
        for name, count in parse_licenses(request.licenses):
            tres[f"license/{name}"] = count
    safe = qos.usage_factor_ppm if "UsageFactorSafe" in qos.flags else PPM
    limit_s = request.time_min_s or (UNLIMITED_S if limit_s < 0 else limit_s)
    return Wish(tres, per_node, limit_s, qos.usage_factor_ppm, safe, nodes)


def _wish_at_start(state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...], limit_s: int) -> Wish:
    """What it would be given."""
    per_node = {"cpu": max(part.cpus for part in alloc), "mem": max(part.mem_mb for part in alloc)}
    for part in alloc:
        here: dict[str, int] = {}
        for name, type_, mask in part.gres:
            for key in gres_keys(name, type_):
                here[key] = here.get(key, 0) + mask.bit_count()
        per_node |= {key: max(count, per_node.get(key, 0)) for key, count in here.items()}
    nodes = tuple(part.node for part in alloc)
    return _wish(state, job.request, assocs.allocated_in(alloc), per_node, limit_s, partition, nodes)


# ---- the arithmetic ----------------------------------------------------------------------------------------------


def want(state: ClusterState, check: Check, wish: Wish) -> int:
    """What a job wants of a counter; 0 = it does not touch it."""
    measure, amount = check.measure, wish.tres.get(check.tres, 0)
    if measure is _M.TRES and check.tres == "node":
        return _new_nodes(check, wish)
    if measure is _M.TRES or measure is _M.PER_JOB or measure is _M.LEAST:
        return amount
    if measure is _M.JOBS or measure is _M.WALL:
        return 1
    if measure is _M.PER_NODE:
        if wish.per_node is not None:
            return wish.per_node.get(check.tres, 0)
        return 0 if check.tres.startswith("license/") else -(-amount // max(1, wish.tres["node"]))
    if measure is _M.TIME:
        return wish.limit_s
    if measure is _M.RUN_MINUTES:
        return amount * wish.limit_s * wish.factor_ppm
    if measure is _M.MINUTES:
        return amount * wish.limit_s
    if "safe" in state.config.enforce:  # USED_MINUTES
        return amount * wish.limit_s * wish.safe_ppm * _USED_BY_RUN // PPM
    return 1 if amount else 0


def _new_nodes(check: Check, wish: Wish, beside: Beside = NOBODY) -> int:
    """How many more nodes its group would have, at least."""
    assert check.book is not None
    if not wish.nodes:
        return max(0, wish.tres.get("node", 0) - len(check.book.nodes))
    others = beside[check.book.key].nodes if check.book.key in beside else {}
    return sum(name not in check.book.nodes for name in dict.fromkeys((*wish.nodes, *others)))


def used(state: ClusterState, check: Check) -> int:
    """What is used of a counter now."""
    book = check.book
    return used_at(state, book, check.measure, check.tres, state.now_us) if book is not None else 0


def used_at(state: ClusterState, book: Book, measure: int, tres: str, now_us: int) -> int:
    """The same by its parts; at a later moment, if no job starts or ends until then."""
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


def block_of(state: ClusterState, check: Check, wish: Wish, beside: Beside = NOBODY) -> Block | None:
    """The limit, if it holds the job back, with what starts beside it."""
    wants = want(state, check, wish)
    if check.measure is _M.LEAST:
        return Block(check, 0, wants, check.reason) if wants < check.bound else None
    if is_of_nodes(check):
        wants = _new_nodes(check, wish, beside)
    elif not wants or (check.measure is _M.MINUTES and "safe" not in state.config.enforce):
        return None
    elif check.book is not None and check.book.key in beside:
        wants += used_at(state, beside[check.book.key], check.measure, check.tres, state.now_us)
    has, bound = used(state, check), check.bound
    if has + wants > bound and state.lending.is_on and check.field == "grp_tres" and not check.of_qos:
        bound = borrow.bound(state, check.assoc_id, check.tres, bound, wants)
    return Block(check, has, wants, check.reason) if has + wants > bound else None


def blocks(state: ClusterState, found: Rules, wish: Wish, beside: Beside = NOBODY) -> Iterator[Block]:
    """All limits that hold the job back, in the order of precedence."""
    yield from _usage_blocks(found)
    for check in found.start:
        block = block_of(state, check, wish, beside)
        if block is not None:
            yield block


def _usage_blocks(found: Rules) -> Iterator[Block]:
    for qos in found.usage if found.assoc is not None else ():
        assert found.assoc is not None
        above, below = found.assoc.factor
        if above * PPM < qos.usage_threshold_ppm * below:
            yield Block(None, above * PPM // below, qos.usage_threshold_ppm, reason_of("usage_threshold", True))


def first_block(state: ClusterState, found: Rules, wish: Wish) -> Block | None:
    """The first of `blocks`. What most jobs have passes here without a call for each."""
    block = next(_usage_blocks(found), None) if found.usage else None
    if block is not None:
        return block
    tres, per_job = wish.tres, _M.PER_JOB
    for check in found.start:
        measure, book, bound = check.measure, check.book, check.bound
        if measure is per_job or (measure is _M.TRES and check.tres != "node"):
            amount = tres.get(check.tres, 0)
            has = book.tres.get(check.tres, 0) if book is not None else 0
            if not amount or has + amount <= bound:
                continue
            if not state.lending.is_on:
                return Block(check, has, amount, check.reason)
        elif measure is _M.JOBS and book is not None and book.jobs < bound:
            continue
        block = block_of(state, check, wish)
        if block is not None:
            return block
    return None


# ---- a job that could get ready ----------------------------------------------------------------------------------


def look(state: ClusterState, job: Job) -> dict[str, Block]:
    """By partition, what holds the job back there. Partitions in which it may start are not in it."""
    settle(state)
    found = {}
    for partition in job.request.partitions:
        block = _asked_block(state, job, partition)
        if block is not None:
            found[partition] = block
    return found


def _asked_block(state: ClusterState, job: Job, partition: str) -> Block | None:
    found = rules_of(state, job, partition)
    if not found.start and not found.usage:
        return None
    return first_block(state, found, _kept_wish(state, job, partition))


def _kept_wish(state: ClusterState, job: Job, partition: str) -> Wish:
    """`wish_of`, kept as long as the rules are. The request is kept with it, so that its id is nobody else's."""
    ledger, request, limit_s = state.ledger, job.request, job.time_limit_s
    assert ledger is not None
    key = id(request)
    known = ledger.wishes.get(key)
    if known is not None and known[1] == limit_s and known[2] == partition:
        wish: Wish = known[3]
        return wish
    if len(ledger.wishes) >= WISHES_MAX:
        ledger.wishes.clear()
    wish = wish_of(state, request, limit_s, partition)
    ledger.wishes[key] = (request, limit_s, partition, wish)
    return wish


def all_blocks(state: ClusterState, jobs: list[Job]) -> tuple[Block, ...]:
    """Everything that holds a job back in its first partition, or jobs that start together."""
    if len(jobs) > 1:
        return tuple({(block.check, block.reason): block for block in look_together(state, jobs)}.values())
    (job,) = jobs
    if len(look(state, job)) < len(job.request.partitions):
        return ()  # another of them takes it
    partition = job.request.partitions[0]
    wish = wish_of(state, job.request, job.time_limit_s, partition)
    return tuple(blocks(state, rules_of(state, job, partition), wish))


def hold_back(state: ClusterState, job: Job, rank: int) -> dict[str, Block]:
    """`look`, and the job stands in the queues of what it found."""
    ledger = state.ledger
    assert ledger is not None
    is_new = job.job_id not in ledger.waiting
    if not is_new:
        ledger.leave(job.job_id)
    found = look(state, job)
    if found:
        wait(state, job, found.values(), rank)
        if is_new and state.lending.borrowed and any(b.check and b.check.field == "grp_tres" for b in found.values()):
            state.changed()  # it may want back what was lent (reclaim.py)
    return found


def wait(state: ClusterState, job: Job, found: Iterable[Block], rank: int) -> None:
    """Let a job wait for what holds it back, in each of its partitions."""
    ledger = state.ledger
    assert ledger is not None
    places: list[Place] = []
    for block in found:
        check = block.check
        if check is not None and check.book is not None:
            if check.measure in CHANGE_BY_THEMSELVES:
                ledger.armed[check.book.key] = None
            queue = check.book.waits.queue((int(check.measure), check.tres))
            need = Need(block.want - check.bound, block.want)
            if is_of_nodes(check) and block.want <= check.bound:
                need = Need(-check.bound, block.want)  # which nodes its group has may do, not only how many
            if not places or not any(place.queue is queue and place.need == need for place in places):
                places.append(queue.push(job.job_id, need, rank))
    ledger.waiting[job.job_id] = tuple(places)


def room(state: ClusterState, job: Job, most: int) -> int:
    """How many tasks of an array may start together, in the partition that allows the most; 1 at least."""
    best = 1
    for partition in job.request.partitions:
        number = most
        wish = wish_of(state, job.request, job.time_limit_s, partition)
        for check in rules_of(state, job, partition).start:
            if check.measure in (_M.JOBS, _M.TRES, _M.RUN_MINUTES):
                wants = want(state, check, wish)
                if is_of_nodes(check):
                    continue  # they may be on the same
                if wants and state.lending.is_on and check.field == "grp_tres" and not check.of_qos:
                    number = min(number, borrow.room(state, check.assoc_id, check.tres, wants, number))
                elif wants:
                    number = min(number, (check.bound - used(state, check)) // wants)
        best = max(best, number)
    return best


def before_start(state: ClusterState, job: Job, partition: str) -> Block | None:
    """What holds a job back that the planner would start, whatever it is given: jobs of the same pass have started since
    it got ready. Asked before anything is done for it."""
    settle(state)
    return _asked_block(state, job, partition)


def at_start(state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...], limit_s: int) -> Block | None:
    """What holds a job back that is about to start with this."""
    settle(state)
    found = rules_of(state, job, partition)
    if not found.start and not found.usage:
        return None
    return first_block(state, found, _wish_at_start(state, job, partition, alloc, limit_s))


# ---- jobs that start all or none -----------------------------------------------------------------------------------


def look_together(state: ClusterState, jobs: Iterable[Job]) -> Iterator[Block]:
    """All that holds jobs back that start together (components of one), of what they ask for."""
    settle(state)
    wishes = []
    for job in jobs:
        partition = job.request.partitions[0]
        wishes.append((job, partition, wish_of(state, job.request, job.time_limit_s, partition)))
    return _together(state, wishes)


def together(state: ClusterState, starts: Iterable[tuple[Job, str, tuple[NodeAlloc, ...], int]]) -> Block | None:
    """The first that holds them back with what they are given."""
    settle(state)
    return next(_together(state, [(one[0], one[1], _wish_at_start(state, *one)) for one in starts]), None)


def _together(state: ClusterState, wishes: list[tuple[Job, str, Wish]]) -> Iterator[Block]:
    """Each job is counted for the next, beside the books. Its block wants what all up to it want."""
    ledger = state.ledger
    assert ledger is not None
    beside: dict[Key, Book] = {}
    for job, partition, wish in wishes:
        yield from blocks(state, rules_of(state, job, partition), wish, beside)
        entry = entry_of(state, job)
        if entry is not None:
            end_s = state.now_us // US + wish.limit_s
            tres = tuple(sorted(wish.tres.items()))
            entry = entry._replace(tasks=0, accruing=0, runs=True, tres=tres, end_s=end_s, nodes=wish.nodes)
            for book in ledger.books_of(state, entry):
                beside.setdefault(book.key, Book(book.key)).enter(entry, 1)


# ---- in words ----------------------------------------------------------------------------------------------------

_KEYWORDS = {limit.field: limit.keyword for limit in LIMITS}


def describe(state: ClusterState, block: Block) -> str:
    """account physics: GrpTRES gres/gpu=8, 7 are used, 2 are wanted."""
    check = block.check
    if check is None:
        return f"fair-share factor {block.used / PPM:.6f} is below UsageThreshold {block.want / PPM:.6f}"
    return in_numbers(state, check, block.used, block.want)


def in_numbers(state: ClusterState, check: Check, has: int, wants: int) -> str:
    """The limit, what is used and what is wanted."""
    unit = UNITS.get(check.measure, 1)
    bound = f"{check.tres}={check.bound // unit}" if check.tres else f"{check.bound // unit}"
    text = f"{owner_of(state, check)}: {_KEYWORDS[check.field]} {bound}"
    if check.book is not None:
        text += f", {-(-has // unit)} are used"
    if check.measure is _M.WALL or (check.measure is _M.USED_MINUTES and "safe" not in state.config.enforce):
        return text
    return f"{text}, {-(-wants // unit)} are wanted"


def told(state: ClusterState, check: Check) -> str:
    """account physics: GrpTRES node=4, 4 are used."""
    return in_numbers(state, check, used(state, check), 0).rpartition(",")[0]


def owner_of(state: ClusterState, check: Check) -> str:
    """Who has the limit, and for whom it counts."""
    if check.of_qos:
        whose = f" for {check.book.key[0]} {check.book.key[2]}" if check.book and len(check.book.key) > 2 else ""
        return f"QOS {check.of_qos}{whose}"
    assoc = state.shares.by_id[check.assoc_id]
    return f"user {assoc.user_name} in account {assoc.account}" if assoc.user_name else f"account {assoc.account}"
