"""Wakes jobs that wait for a limit: those that fit what was freed, those of a changed limit, and all whose time has
come.

Freed amounts are in `Ledger.freed` (limits/ledger.py). From each queue jobs are woken in the order of rank while they
fit together, WAKES_MAX in one step; the next step continues. A job that is blocked by another limit moves to that
limit's queue, so that the room here goes to the next.

Minutes that running jobs may still use, and used minutes that decay, get fewer by themselves: a queue of such a counter
has a timer for the moment when its first job fits, if nothing else happens.
"""

from ctld.core.lifecycle.ready import refresh
from ctld.core.limits.checks import CHANGE_BY_THEMSELVES, used_at
from ctld.core.limits.ledger import settle
from ctld.core.queue import priority
from ctld.core.state.books import LimitBook, LimitLedger
from ctld.core.state.limit_waits import LimitQueue
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import JobState

US = 1_000_000
#: Jobs that are checked again in one step; a step is bounded.
WAKES_MAX = 1_000
#: Horizon of the search for such a moment. A later one is not waited for.
HORIZON_US = 366 * 86_400 * US
#: Jobs of a queue that are woken beside one that became ready and did not start, since it waits for nodes.
SPARE = 16


def wake(state: ClusterState, now_us: int) -> None:
    """Wakes jobs after each step, if there are limits."""
    settle(state)
    ledger = state.limits.ledger
    if ledger is None:
        return
    left = WAKES_MAX
    while ledger.freed and left > 0:
        key = next(iter(ledger.freed))
        book = ledger.book(key)
        for queue in list(book.waits.queues.values()):
            left -= _wake_queue(state, ledger, book, queue, left, now_us)
            if not queue.heaps:
                del book.waits.queues[queue.what]
        if left > 0:
            ledger.freed.popitem(last=False)
            ledger.armed[key] = None
    if ledger.freed:
        state.timers.set(now_us, Timer.LIMITS)
    for key in list(ledger.armed):
        del ledger.armed[key]
        _arm(state, ledger, ledger.book(key), now_us)


def after_pass(state: ClusterState, now_us: int) -> bool:
    """Wakes further jobs behind one that was woken and has not started, as they may need other nodes. Returns whether
    there are any. They are few, since nodes are reserved for ready jobs."""
    ledger = state.limits.ledger
    if ledger is None or not ledger.claims:
        return False
    claims = ledger.claims
    ledger.claims = {}
    found = False
    for key, jobs in claims.items():
        if any(job_id in state.jobs and state.jobs[job_id].state is JobState.PENDING for job_id in jobs):
            book = ledger.book(key)
            for queue in list(book.waits.queues.values()):
                found |= _wake_queue(state, ledger, book, queue, SPARE, now_us, counted=False) > 0
    ledger.claims = {}
    return found


def _wake_queue(
    state: ClusterState,
    ledger: LimitLedger,
    book: LimitBook,
    queue: LimitQueue,
    most: int,
    now_us: int,
    counted: bool = True,
) -> int:
    """Wakes jobs of a queue. Returns how many were checked again. `counted`: each leaves less room for the next."""

    def rank_of(job_id: int) -> int:
        job = state.jobs[job_id]
        return max(priority.rank(state, job, state.partitions[name]) for name in job.request.partitions)

    measure, tres = queue.what
    has, tried = used_at(state, book, measure, tres, now_us), 0
    while tried < most:
        found = queue.best(has, ledger.generation, rank_of)
        if found is None:
            return tried
        job_id, need = found
        ledger.leave(job_id)
        tried += 1
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING:
            continue
        refresh(state, job, now_us)
        if job_id in ledger.waiting and any(entry.queue is queue for entry in ledger.waiting[job_id]):
            return tried  # it does not fit after all
        if state.pending.is_ready(job_id):
            has += need.wants if counted else 0
            ledger.claims.setdefault(book.key, {})[job_id] = None
    return tried


def _arm(state: ClusterState, ledger: LimitLedger, book: LimitBook, now_us: int) -> None:
    """Sets a timer for a queue whose first job will fit by the passing of time alone."""
    for queue in book.waits.queues.values():
        least = queue.least() if queue.what[0] in CHANGE_BY_THEMSELVES else None
        if least is None:
            continue
        due_us = _fits_at(state, book, queue, least, now_us)
        if due_us is not None and not now_us < queue.due_us <= due_us:
            queue.due_us = due_us
            name = "/".join(map(str, (*book.key, *queue.what)))
            ledger.timers[name] = book.key
            state.timers.set(due_us, Timer.LIMITS, name)


def _fits_at(state: ClusterState, book: LimitBook, queue: LimitQueue, lacks: int, now_us: int) -> int | None:
    measure, tres = queue.what

    def is_over(at_us: int) -> bool:
        return used_at(state, book, measure, tres, at_us) + lacks > 0

    low, high = now_us, now_us + HORIZON_US
    if not is_over(low) or is_over(high):
        return None
    while high - low > US:
        middle = (low + high) // 2
        if is_over(middle):
            low = middle
        else:
            high = middle
    return high


def due(state: ClusterState, now_us: int, key: object) -> None:
    """Handles a timer; `wake` follows at the end of the step."""
    ledger = state.limits.ledger
    found = ledger.timers.get(str(key)) if ledger is not None else None
    if ledger is not None and found is not None:
        ledger.freed[found] = None
