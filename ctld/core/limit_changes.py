"""The ledger begins, and follows what changes beside the jobs: the configuration, the tree of accounts, limits, QOS.

Limits and the tree are changed by accounts.py, assocs.py and qos.py, which mark what they change as dirty. `follow`
looks at that after each step and compares with what the ledger knows. A limit needs no recount: the jobs that wait under
it look again, in the order of their priority. When the tree itself changes, the books are filled anew, which is rare.
"""

from collections.abc import Iterable

from ctld.core import limit_ages, limit_nodes
from ctld.core.ledger import Entry, Ledger, below, enter, entry_of, qos_of, settle
from ctld.core.model import Job, Qos
from ctld.core.priority import rank
from ctld.core.ready import refresh
from ctld.core.spent import Spent, spent_from
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES, JobState

#: Of a QOS, what its limits are made of.
_OF_LIMITS = ("limits", "flags", "usage_threshold_ppm", "limit_factor_ppm")


def configure(state: ClusterState, now_us: int) -> None:
    """A configuration has been laid out: with or without limits from now on. Pending jobs are refreshed after this."""
    if "limits" not in state.config.enforce:
        state.ledger, state.limits_due = None, {}
        return
    if state.ledger is None:
        state.ledger = Ledger()
    _fill(state, now_us)


def recover(state: ClusterState, usage: Iterable[tuple[str, str]], now_us: int) -> None:
    """At a start: `usage` is what QOS have used. What jobs have used since the rows were written is not in them."""
    if "limits" not in state.config.enforce:
        return
    ledger = state.ledger = Ledger()
    for name, text in usage:
        found = spent_from(text)
        if found is not None and name in state.qos:
            ledger.book(("qos", name)).spent = found
    _fill(state, now_us)


def _fill(state: ClusterState, now_us: int) -> None:
    """Count all jobs from nothing; minutes that were used stay."""
    old, new = state.ledger, Ledger()
    assert old is not None
    new.generation, new.accruing = old.generation, old.accruing
    charged = {job_id: entry for job_id, entry in old.entries.items() if entry.runs}
    for key, book in old.books.items():
        if book.spent is not None and key[0] == "qos" and key[1] in state.qos:
            new.book(key).spent = _at_rest(state, book.spent, now_us, bool(charged))
    for assoc in state.shares.by_id.values():
        new.known[assoc.assoc_id] = (assoc.parent.account if assoc.parent else "", assoc.limits)
        if assoc.spent is not None:
            assoc.spent = _at_rest(state, assoc.spent, now_us, bool(charged))
            if assoc.user_name:
                new.book(("assoc", assoc.assoc_id)).spent = assoc.spent
    new.known_qos = dict(state.qos)
    for key, book in new.books.items():
        if book.spent is not None and key[0] == "qos":
            book.spent.decays = "NoDecay" not in qos_of(state, str(key[1])).flags
    state.ledger, state.limits_due = new, {}
    new.moved = dict.fromkeys(state.masks.fences)
    new.aging = old.aging
    if state.priorities is not None:
        state.priorities.aging = new.aging
    running = [job for job in state.jobs.values() if job.state in HOLDING_STATES]
    running.sort(key=lambda job: (job.start_at_us, job.job_id))
    at_us = state.now_us
    for job in running:
        if job.job_id not in charged:  # since it started: rows of the database are of that time, or later
            state.now_us = job.start_at_us
        enter(state, new, job.job_id, entry_of(state, job))
        state.now_us = at_us
    for job in state.jobs.values():
        if job.state not in HOLDING_STATES:
            enter(state, new, job.job_id, entry_of(state, job, new.accruing.get(job.job_id, 0)))


def _at_rest(state: ClusterState, spent: Spent, now_us: int, carry_on: bool) -> Spent:
    """As of now, without what runs, which is entered again."""
    if carry_on:
        spent.advance(state.shares.decay, now_us)
    spent.rates = {}
    return spent


# ---- what others have changed ------------------------------------------------------------------------------------


def follow(state: ClusterState, now_us: int) -> None:
    """Compare with what is known. Called after a step that has changed associations or QOS."""
    ledger, state.entities_changed = state.ledger, False
    if ledger is None:
        return
    by_id = state.shares.by_id
    changed: list[int] = []
    moved, arrived = False, dict[tuple[str, str], None]()
    for assoc_id in state.dirty_assocs:
        assoc = by_id.get(assoc_id)
        known = ledger.known.get(assoc_id)
        if assoc is None:
            if known is not None:
                del ledger.known[assoc_id]
                moved = True
            continue
        now = (assoc.parent.account if assoc.parent else "", assoc.limits)
        if known == now:
            continue
        ledger.known[assoc_id] = now
        if known is None:
            if assoc.user_name:
                arrived[assoc.account, assoc.user_name] = None
            changed.append(assoc_id)
        elif known[0] != now[0]:
            moved = True
        else:
            changed.append(assoc_id)
    ledger.chains.clear()
    if arrived:
        _arrived(state, ledger, arrived)
    qos = [name for name in state.dirty_qos if _is_other(ledger.known_qos.get(name), state.qos.get(name))]
    if moved:
        _fill(state, now_us)
        state.rules_changed()
        _look_again(state, [job for job in state.jobs.values() if job.state is JobState.PENDING], now_us)
    elif changed or qos:
        for name in qos:
            _new_qos(state, ledger, name, now_us)
        ledger.rules.clear()
        ledger.wishes.clear()
        ledger.started |= {job_id: None for job_id, entry in ledger.entries.items() if entry.runs}
        state.rules_changed()
        _look_again(state, _concerned(state, ledger, changed, qos), now_us)


def _arrived(state: ClusterState, ledger: Ledger, places: dict[tuple[str, str], None]) -> None:
    """New associations of (account, user): jobs that had none, or that of all partitions, may belong to them."""
    for job_id, entry in ledger.entries.items():
        if (entry.account, entry.user) in places:
            state.limits_due[job_id] = None


def _is_other(was: Qos | None, now: Qos | None) -> bool:
    return was is not now and was != now


def _new_qos(state: ClusterState, ledger: Ledger, name: str, now_us: int) -> None:
    was, now = ledger.known_qos.get(name), state.qos.get(name)
    book = ledger.books.get(("qos", name))
    if now is None:
        ledger.known_qos.pop(name, None)
        if book is not None and book.spent is not None:
            book.spent = None
            state.dirty_qos_usage[name] = None
        return
    ledger.known_qos[name] = now
    if book is not None and book.spent is not None:
        book.spent.advance(state.shares.decay, now_us)
        book.spent.decays = "NoDecay" not in now.flags
    if was is not None and was.usage_factor_ppm != now.usage_factor_ppm:
        for job_id, entry in ledger.entries.items():
            if entry.qos == name:
                state.limits_due[job_id] = None
        settle(state)


def _concerned(state: ClusterState, ledger: Ledger, assocs: list[int], qos: list[str]) -> list[Job]:
    """Pending jobs that belong to one of these: those that a limit holds back may fit now, and of those that wait for
    nodes some may not any more. These must say so now: nodes are kept for who is ready."""
    if not ledger.entries and not ledger.waiting:
        return []
    names = frozenset(qos)
    ids = frozenset(one.assoc_id for assoc_id in assocs for one in below(state.shares.by_id[assoc_id]))
    found = dict.fromkeys(job_id for job_id, entry in ledger.entries.items() if _is_of(entry, ids, names))
    found |= dict.fromkeys(job_id for job_id in ledger.waiting if job_id not in ledger.entries)
    jobs = (state.jobs.get(job_id) for job_id in found)
    return [job for job in jobs if job is not None and job.state is JobState.PENDING]


def _is_of(entry: Entry, ids: frozenset[int], qos: frozenset[str]) -> bool:
    return entry.assoc_id in ids or entry.qos in qos or entry.partition_qos in qos


def _look_again(state: ClusterState, jobs: list[Job], now_us: int) -> None:
    ranked = [
        (-max(rank(state, job, state.partitions[name]) for name in job.request.partitions), job.job_id) for job in jobs
    ]
    for _, job_id in sorted(ranked):
        ledger = state.ledger
        if ledger is not None and job_id in ledger.waiting:
            ledger.leave(job_id)
        limit_nodes.enter_again(state, state.jobs[job_id])
        refresh(state, state.jobs[job_id], now_us)


def ranked_anew(state: ClusterState, now_us: int) -> None:
    """Priorities were calculated: queues are in another order, and fair-share may have come above a UsageThreshold."""
    ledger = state.ledger
    if ledger is None:
        return
    ledger.generation += 1
    for job_id in limit_ages.unaged(ledger):
        refresh(state, state.jobs[job_id], now_us)
        settle(state)
    for job_id in ledger.thresholds:
        limit_ages.keeps_nodes(state, state.jobs[job_id])
    unplaced = [state.jobs[job_id] for job_id, places in ledger.waiting.items() if not places]
    thresholds = [job for job in unplaced if qos_of(state, job.request.qos).usage_threshold_ppm >= 0]
    if thresholds:
        _look_again(state, thresholds, now_us)
