"""Jobs that are ended because minutes are used up: GrpTRESMins, GrpWall, MaxTRESMinsPerJob, without `safe`.

With `safe` a job starts only if it may run to its end, and then does, whatever happens to the limit (slurm.conf(5)).
Without it the jobs of an account, user or QOS run until its minutes are used up, and are then ended as by a time limit:
state TIMEOUT, and the limit's word as the reason.

The moment is computed, not looked for. When a job starts, or a limit changes, a timer is set for the earliest moment at which
a bound can be reached with what runs now: decay only makes it later. When it comes and something is left, it is set
anew; what would never reach the bound, since as much is forgotten as is used, has no timer.
"""

from ctld.core import job_life
from ctld.core.ledger import Book, Ledger
from ctld.core.limit_rules import Check, Measure, rules_of
from ctld.core.limits import used
from ctld.core.model import Job
from ctld.core.spent import RATES_A_SECOND, WALL
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import HOLDING_STATES, JobState

US = 1_000_000
_OF_BOOKS = (Measure.USED_MINUTES, Measure.WALL)


def keep(state: ClusterState, ledger: Ledger, now_us: int) -> None:
    """Set the timers of jobs that have started since, or whose limits have changed."""
    started, ledger.started = ledger.started, {}
    if "safe" in state.config.enforce:
        return
    for job_id in started:
        job = state.jobs.get(job_id)
        if job is None or job.state not in HOLDING_STATES or job.state is JobState.COMPLETING:
            continue
        for check in rules_of(state, job, job.partition).start:
            if check.measure in _OF_BOOKS and check.book is not None:
                _arm(state, ledger, check, check.book, now_us)
            elif check.measure is Measure.MINUTES:
                due_us = _own_end_us(ledger, job, check)
                if due_us is not None:
                    state.timers.set(max(now_us, due_us), Timer.LIMIT_END, job_id, job.attempt)


def _own_end_us(ledger: Ledger, job: Job, check: Check) -> int | None:
    """When a job has used what MaxTRESMinsPerJob allows it."""
    entry = ledger.entries.get(job.job_id)
    amount = dict(entry.tres).get(check.tres, 0) if entry is not None else 0
    if not amount or job.state is JobState.SUSPENDED:
        return None
    return job.start_at_us + job.suspended_us + check.bound * US // amount


def _arm(state: ClusterState, ledger: Ledger, check: Check, book: Book, now_us: int) -> None:
    """A timer for the earliest moment at which a bound can be reached."""
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
    """A timer has come: of a book, or of a job."""
    ledger = state.ledger
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
    for job_id in [i for i, entry in ledger.entries.items() if entry.runs and ledger.is_in(state, entry, book)]:
        if not _end_if_over(state, ledger, state.jobs[job_id], now_us):
            ledger.started[job_id] = None


def _end_if_over(state: ClusterState, ledger: Ledger, job: Job, now_us: int) -> bool:
    if job.state not in HOLDING_STATES or job.state is JobState.COMPLETING:
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


def _touches(ledger: Ledger, job: Job, check: Check) -> bool:
    """The job uses what is used up."""
    entry = ledger.entries.get(job.job_id)
    if entry is None or not entry.factor_ppm:
        return False
    return check.measure is Measure.WALL or any(name == check.tres and amount for name, amount in entry.tres)
