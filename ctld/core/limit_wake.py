"""Jobs that waited for a limit look again: those that fit what was freed, those of a limit that was changed, and all
whose time has come.

What was freed is in `Ledger.freed` (ledger.py). Of each queue the first in rank is taken while it fits beside those
that were taken before it, WAKES_MAX in one step; what is left goes on with the next. A job that finds another limit in
its way stands there from then on, so that the room here goes to the next.

Minutes that running jobs may still use, and minutes that were used and decay, get fewer by themselves: a queue of such a
counter has a timer for the moment when its first job fits, if nothing else happens.
"""

from ctld.core import priority
from ctld.core.ledger import Book, Ledger, settle
from ctld.core.limit_waits import Queue
from ctld.core.limits import CHANGE_BY_THEMSELVES, used_at
from ctld.core.ready import refresh
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import JobState

US = 1_000_000
#: Jobs that look again in one step; a step is bounded.
WAKES_MAX = 1_000
#: How far ahead a moment is looked for. Later than that nobody waits for it.
HORIZON_US = 366 * 86_400 * US
#: Jobs of a queue that are let in beside one that got ready and did not start, since it waits for nodes.
SPARE = 16


def wake(state: ClusterState, now_us: int) -> None:
    """After each step, where there are limits."""
    settle(state)
    ledger = state.ledger
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
            del ledger.freed[key]
            ledger.armed[key] = None
    if ledger.freed:
        state.timers.set(now_us, Timer.LIMITS)
    for key in list(ledger.armed):
        del ledger.armed[key]
        _arm(state, ledger, ledger.book(key), now_us)


def after_pass(state: ClusterState, now_us: int) -> bool:
    """Where a job that was woken has not started, some that stand behind it may look, too: they may need other nodes.
    Returns whether there are any. They are few, since nodes are kept for who is ready."""
    ledger = state.ledger
    if ledger is None or not ledger.claims:
        return False
    claims, ledger.claims = ledger.claims, {}
    found = False
    for key, jobs in claims.items():
        if any(job_id in state.jobs and state.jobs[job_id].state is JobState.PENDING for job_id in jobs):
            book = ledger.book(key)
            for queue in list(book.waits.queues.values()):
                found |= _wake_queue(state, ledger, book, queue, SPARE, now_us, counted=False) > 0
    ledger.claims = {}
    return found


def _wake_queue(
    state: ClusterState, ledger: Ledger, book: Book, queue: Queue, most: int, now_us: int, counted: bool = True
) -> int:
    """Returns how many jobs looked again. `counted`: each leaves less room for the next."""

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
        if job_id in ledger.waiting and any(place.queue is queue for place in ledger.waiting[job_id]):
            return tried  # it finds no room after all
        if state.pending.is_ready(job_id):
            has += need.wants if counted else 0
            ledger.claims.setdefault(book.key, {})[job_id] = None
    return tried


def _arm(state: ClusterState, ledger: Ledger, book: Book, now_us: int) -> None:
    """See to it that a queue is looked at when time alone lets its first job fit."""
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


def _fits_at(state: ClusterState, book: Book, queue: Queue, lacks: int, now_us: int) -> int | None:
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
    """A timer has come; `wake` follows at the end of the step."""
    ledger = state.ledger
    found = ledger.timers.get(str(key)) if ledger is not None else None
    if ledger is not None and found is not None:
        ledger.freed[found] = None
