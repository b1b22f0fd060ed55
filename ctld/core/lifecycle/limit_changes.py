"""Builds the limit ledger, and updates it when the configuration, the tree of accounts, limits or QOS change.

Limits and the tree are changed by accounts/requests.py, queue/associations.py and queue/qos.py, which mark their
changes as dirty. `follow` compares these with the ledger after each step. A changed limit needs no recount: the jobs
that wait for it are checked again, in the order of their priority. When the tree itself changes, the books are rebuilt,
which is rare.
"""

from collections.abc import Iterable

from ctld.core.lifecycle.ready import refresh
from ctld.core.lifecycle.recheck import recheck
from ctld.core.limits import ages as limit_ages
from ctld.core.limits.ledger import below, enter, entry_of, qos_of, settle
from ctld.core.queue import priority
from ctld.core.queue.priority import rank
from ctld.core.records.job import Job
from ctld.core.records.qos import Qos
from ctld.core.state.books import LimitEntry, LimitLedger
from ctld.core.state.spent_minutes import Spent, spent_from
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES, JobState


def configure(state: ClusterState, now_us: int) -> None:
    """Applies a configuration, with or without limits. Pending jobs are refreshed afterwards."""
    if "limits" not in state.config.enforce:
        state.limits.ledger = None
        state.limits.due = {}
        return
    if state.limits.ledger is None:
        state.limits.ledger = LimitLedger()
    _fill(state, now_us)


def recover(state: ClusterState, usage: Iterable[tuple[str, str]], now_us: int) -> None:
    """Builds the ledger at a start: `usage` is what QOS have used. What jobs have used since the rows were written is
    not in them.
    """
    if "limits" not in state.config.enforce:
        return
    ledger = state.limits.ledger = LimitLedger()
    for name, text in usage:
        found = spent_from(text)
        if found is not None and name in state.qos:
            ledger.book(("qos", name)).spent = found
    _fill(state, now_us)


def _fill(state: ClusterState, now_us: int) -> None:
    """Counts all jobs from zero; used minutes are kept."""
    old, new = state.limits.ledger, LimitLedger()
    assert old is not None
    new.generation = old.generation
    new.accruing = old.accruing
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
    state.limits.ledger = new
    state.limits.due = {}
    new.moved = dict.fromkeys(state.layout.masks.fences)
    new.aging = old.aging
    if state.priorities is not None:
        state.priorities.aging = new.aging
    running = [job for job in state.jobs.records() if job.state in ALLOCATED_STATES]
    running.sort(key=lambda job: (job.start_at_us, job.job_id))
    at_us = state.now_us
    for job in running:
        if job.job_id not in charged:  # its time since its start: the rows in the database are of that time, or later
            state.now_us = job.start_at_us
        enter(state, new, job.job_id, entry_of(state, job))
        state.now_us = at_us
    for job in state.jobs.records():
        if job.state not in ALLOCATED_STATES:
            enter(state, new, job.job_id, entry_of(state, job, new.accruing.get(job.job_id, 0)))


def _at_rest(state: ClusterState, spent: Spent, now_us: int, carry_on: bool) -> Spent:
    """Returns the usage as of now, without the rates of running jobs, which are entered again."""
    if carry_on:
        spent.advance(state.shares.decay, now_us)
    spent.rates = {}
    return spent


# ---- changes by other modules ------------------------------------------------------------------------------------


def follow(state: ClusterState, now_us: int) -> None:
    """Compares associations and QOS with the known ones. Called after a step that has changed any."""
    ledger = state.limits.ledger
    state.registry.entities_changed = False
    if ledger is None:
        return
    by_id = state.shares.by_id
    changed: list[int] = []
    moved, arrived = False, dict[tuple[str, str], None]()
    for assoc_id in state.outputs.dirty_assocs:
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
    qos = [name for name in state.outputs.dirty_qos if _is_other(ledger.known_qos.get(name), state.qos.get(name))]
    if moved:
        _fill(state, now_us)
        state.rules_changed()
        _recheck_all(state, [job for job in state.jobs.records() if job.state is JobState.PENDING], now_us)
    elif changed or qos:
        for name in qos:
            _new_qos(state, ledger, name, now_us)
        ledger.rules.clear()
        ledger.demands.clear()
        ledger.started |= {job_id: None for job_id, entry in ledger.entries.items() if entry.runs}
        state.rules_changed()
        _recheck_all(state, _concerned(state, ledger, changed, qos), now_us)


def _arrived(state: ClusterState, ledger: LimitLedger, places: dict[tuple[str, str], None]) -> None:
    """Handles new associations of (account, user), to which jobs without one, or of that of all partitions, may belong."""
    for job_id, entry in ledger.entries.items():
        if (entry.account, entry.user) in places:
            state.limits.due[job_id] = None


def _is_other(was: Qos | None, now: Qos | None) -> bool:
    return was is not now and was != now


def _new_qos(state: ClusterState, ledger: LimitLedger, name: str, now_us: int) -> None:
    was, now = ledger.known_qos.get(name), state.qos.get(name)
    book = ledger.books.get(("qos", name))
    if now is None:
        ledger.known_qos.pop(name, None)
        if book is not None and book.spent is not None:
            book.spent = None
            state.outputs.dirty_qos_usage[name] = None
        return
    ledger.known_qos[name] = now
    if book is not None and book.spent is not None:
        book.spent.advance(state.shares.decay, now_us)
        book.spent.decays = "NoDecay" not in now.flags
    if was is not None and was.usage_factor_ppm != now.usage_factor_ppm:
        for job_id, entry in ledger.entries.items():
            if entry.qos == name:
                state.limits.due[job_id] = None
        settle(state)


def _concerned(state: ClusterState, ledger: LimitLedger, assocs: list[int], qos: list[str]) -> list[Job]:
    """Returns the pending jobs of these associations and QOS: those that a limit blocks may fit now, and ready ones may
    be blocked now. The latter must leave the queue at once, since nodes are reserved for ready jobs."""
    if not ledger.entries and not ledger.waiting:
        return []
    names = frozenset(qos)
    ids = frozenset(one.assoc_id for assoc_id in assocs for one in below(state.shares.by_id[assoc_id]))
    found = dict.fromkeys(job_id for job_id, entry in ledger.entries.items() if _is_of(entry, ids, names))
    found |= dict.fromkeys(job_id for job_id in ledger.waiting if job_id not in ledger.entries)
    jobs = (state.jobs.look(job_id) for job_id in found)
    return [job for job in jobs if job is not None and job.state is JobState.PENDING]


def _is_of(entry: LimitEntry, ids: frozenset[int], qos: frozenset[str]) -> bool:
    return entry.assoc_id in ids or entry.qos in qos or entry.partition_qos in qos


def _recheck_all(state: ClusterState, jobs: list[Job], now_us: int) -> None:
    ranked = [
        (-max(rank(state, job, state.partitions[name]) for name in job.request.partitions), job.job_id) for job in jobs
    ]
    by_id = {job.job_id: job for job in jobs}
    if state.limits.ledger is not None:
        for job_id in by_id:
            state.limits.ledger.leave(job_id)
    recheck(state, [by_id[job_id] for _, job_id in sorted(ranked)], now_us)


def calculate_priorities(state: ClusterState, now_us: int, key: object, what: int) -> None:
    """Handles the timer of the calculation of priorities."""
    if priority.calculate(state, now_us, what):
        on_reranking(state, now_us)


def on_reranking(state: ClusterState, now_us: int) -> None:
    """Handles new priorities: queues are reordered, and fair-share may have risen above a UsageThreshold."""
    ledger = state.limits.ledger
    if ledger is None:
        return
    ledger.generation += 1
    for job_id in limit_ages.unaged(ledger):
        refresh(state, state.jobs[job_id], now_us)
        settle(state)
    for job_id in ledger.thresholds:
        limit_ages.keeps_nodes(state, state.jobs[job_id])
    unplaced = [state.jobs[job_id] for job_id, entries in ledger.waiting.items() if not entries]
    thresholds = [job for job in unplaced if qos_of(state, job.request.qos).usage_threshold_ppm >= 0]
    if thresholds:
        _recheck_all(state, thresholds, now_us)
