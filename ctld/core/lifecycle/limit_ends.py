"""Ends jobs whose minutes are used up: GrpTRESMins, GrpWall, MaxTRESMinsPerJob, without `safe`.

With `safe` a job starts only if its limit lets it run to its end, and is never ended for it (slurm.conf(5)). Without it
the jobs of an account, user or QOS run until its minutes are used up, and are then ended as by a time limit: state
TIMEOUT, with the limit's reason.

The moment is computed, not polled. When a job starts, or a limit changes, a timer is set for the earliest moment at
which the running jobs can reach a bound; decay only delays it. If minutes remain when it fires, it is set again. If
decay outweighs the use, so that the bound is never reached, there is no timer.
"""

from ctld.core.lifecycle import job_life
from ctld.core.limits.checks import used
from ctld.core.limits.rules import Check, Measure, rules_of
from ctld.core.records.job import Job
from ctld.core.state.books import LimitBook, LimitLedger
from ctld.core.state.spent_minutes import RATES_A_SECOND, WALL
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import ALLOCATED_STATES, JobState

US = 1_000_000
_OF_BOOKS = (Measure.USED_MINUTES, Measure.WALL)


def keep(state: ClusterState, ledger: LimitLedger, now_us: int) -> None:
    """Sets the timers of jobs that have started since, or whose limits have changed."""
    started = ledger.started
    ledger.started = {}
    if "safe" in state.config.enforce:
        return
    for job_id in started:
        job = state.jobs.get(job_id)
        if job is None or job.state not in ALLOCATED_STATES or job.state is JobState.COMPLETING:
            continue
        for check in rules_of(state, job, job.partition).start:
            if check.measure in _OF_BOOKS and check.book is not None:
                _arm(state, ledger, check, check.book, now_us)
            elif check.measure is Measure.MINUTES:
                due_us = _own_end_us(ledger, job, check)
                if due_us is not None:
                    state.timers.set(max(now_us, due_us), Timer.LIMIT_END, job_id, job.attempt)


def _own_end_us(ledger: LimitLedger, job: Job, check: Check) -> int | None:
    """Returns the time when a job has used up its MaxTRESMinsPerJob."""
    entry = ledger.entries.get(job.job_id)
    amount = dict(entry.tres).get(check.tres, 0) if entry is not None else 0
    if not amount or job.state is JobState.SUSPENDED:
        return None
    return job.start_at_us + job.suspended_us + check.bound * US // amount


def _arm(state: ClusterState, ledger: LimitLedger, check: Check, book: LimitBook, now_us: int) -> None:
    """Sets a timer for the earliest moment at which a bound can be reached."""
    spent = book.spent
    rate = spent.rates.get(WALL if check.measure is Measure.WALL else check.tres, 0) if spent is not None else 0
    if not rate or spent is None:
        return
    left = check.bound - used(state, check)
    due_us = now_us + max(0, left) * US // (rate * RATES_A_SECOND) if left > 0 else now_us
    if left > 0 and not spent.can_reach(rate, check.bound, state.shares.decay):
        return
    due_us = max(due_us, now_us + US) if left > 0 else now_us
    if not now_us <= book.end_due_us <= due_us:
        book.end_due_us = due_us
        name = "/".join(map(str, book.key))
        ledger.timers[name] = book.key
        state.timers.set(due_us, Timer.LIMIT_END, name)


def due(state: ClusterState, now_us: int, key: int | str, attempt: int) -> None:
    """Handles a timer: of a book, or of a job."""
    ledger = state.limits.ledger
    if ledger is None or "safe" in state.config.enforce:
        return
    if isinstance(key, int):
        job = state.jobs.get(key)
        if job is not None and job.attempt == attempt:
            _end_if_over(state, ledger, job, now_us)
        return
    book_key = ledger.timers.get(key)
    if book_key is None:
        return
    book = ledger.book(book_key)
    book.end_due_us = 0
    for job_id in [i for i, entry in ledger.entries.items() if entry.runs and ledger.is_in(state.shares, entry, book)]:
        if not _end_if_over(state, ledger, state.jobs[job_id], now_us):
            ledger.started[job_id] = None


def _end_if_over(state: ClusterState, ledger: LimitLedger, job: Job, now_us: int) -> bool:
    if job.state not in ALLOCATED_STATES or job.state is JobState.COMPLETING:
        return True
    for check in rules_of(state, job, job.partition).start:
        if check.measure in _OF_BOOKS:
            over = used(state, check) >= check.bound and _touches(ledger, job, check)
        elif check.measure is Measure.MINUTES:
            end_us = _own_end_us(ledger, job, check)
            over = end_us is not None and end_us <= now_us
        else:
            continue
        if over:
            job_life.terminate(state, job, JobState.TIMEOUT, check.reason, now_us, str(check.reason))
            return True
    return False


def _touches(ledger: LimitLedger, job: Job, check: Check) -> bool:
    """Whether the job uses the exhausted resource."""
    entry = ledger.entries.get(job.job_id)
    if entry is None or not entry.factor_ppm:
        return False
    return check.measure is Measure.WALL or any(name == check.tres and amount for name, amount in entry.tres)
