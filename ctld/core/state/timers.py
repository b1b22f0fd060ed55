"""One heap of deadlines with lazy deletion.

An entry is (due, kind, key, check). Entries are never removed early: when one comes due, its handler checks whether it
still applies (the job's attempt is the same, the node is still silent). 100,000 entries cost 21 ms and no task.
"""

import heapq
from enum import IntEnum, unique
from typing import TypeAlias

#: The subject of a timer: a job's id, a node's or a reservation's name, 0. It depends on the kind, and so does the
#: type of the handler's parameter.
TimerKey: TypeAlias = int | str


@unique
class Timer(IntEnum):
    """The kinds of deadlines. The number breaks ties between deadlines of one instant."""

    MAIL_LIMIT = 0  # key = job id, check = attempt and percentage (jobs/mail.py); before the limit itself
    BEGIN_TIME = 1  # key = job id
    DEPENDENCY_DELAY = 2  # key = job id
    DEPENDENTS = 21  # the next jobs that wait for those that have started or ended (lifecycle/depends.py)
    TIME_LIMIT = 3  # key = job id, check = attempt
    PURGE = 4  # key = job id, check = attempt
    NODE_TIMEOUT = 5  # key = node name, check = link id that was lost
    LEASE = 15  # key = node name, check = job id
    FENCE = 16  # key = node name, check = link id that was lost
    REBOOT = 70  # key = node name
    RESUME_AFTER = 71  # key = node name
    FULL_PASS = 7
    MIG = 90  # a GPU's pause has ended, and it may be divided again
    SWITCH_WAIT = 11  # key = job id
    DEADLINE = 10  # key = job id
    PREEMPT_EXEMPT = 40  # key = job id, check = attempt
    PREEMPT_GRACE = 41  # key = job id, check = attempt
    TIME_SLICE = 42
    END_WARNING = 9  # key = job id, check = attempt
    PRIORITY = 20  # check = generation of the period, or which step of a calculation
    RESERVATION = 30  # key = name: it begins, ends or may be purged
    RESERVED_NODES = 31  # a node's state has changed: check whether reservations are complete
    QUEUE_RECOVERY = 51  # the next slice of jobs that have no rows yet (passes/queue_recovery.py)
    REASONS = 50  # the next slice of reasons
    OWNER = 80  # key = job id: check whether its salloc or srun is connected
    STEP_LIMIT = 81  # key = job id, check = attempt and step id (steps.limit_check)
    STEP_WARNING = 83  # key = job id, check as of STEP_LIMIT: --signal of a step
    GPU_WORK = 91  # key = node name: work on a GPU there has timed out
    GPU_CARE = 92  # check whether a GPU is due for a check or reset
    GPU_IDLE = 93  # key = job id, check = attempt: its GPUs have been idle for too long
    IMMEDIATE = 82  # key = job id: --immediate
    LIMITS = 320  # key = a book of the ledger: jobs that wait for it may fit now (lifecycle/limit_wake.py)
    LIMIT_END = 321  # key = a book or a job id: minutes are used up (lifecycle/limit_ends.py)
    TRIGGERS = 300  # check the conditions of triggers
    BUDGET = 310  # key = of the budget: its period ends, or it is used up
    RESERVATION_OVERRUN = 32  # key = job id, check = attempt: its reservation has ended


class Timers:
    """The heap. Ties are broken by kind, then key, so that the order never depends on insertion."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Timer, TimerKey, int]] = []

    def set(self, due_us: int, kind: Timer, key: TimerKey = 0, check: int = 0) -> None:
        """Adds a deadline."""
        heapq.heappush(self._heap, (due_us, kind, key, check))

    def next_us(self) -> int | None:
        """The next deadline, None if there is none."""
        return self._heap[0][0] if self._heap else None

    def is_due(self, now_us: int) -> bool:
        """Whether a deadline is due."""
        heap = self._heap
        return bool(heap) and heap[0][0] <= now_us

    def pop_due(self, now_us: int) -> tuple[Timer, TimerKey, int] | None:
        """Removes and returns one deadline that is due."""
        if not self._heap or self._heap[0][0] > now_us:
            return None
        _, kind, key, check = heapq.heappop(self._heap)
        return kind, key, check

    def __len__(self) -> int:
        return len(self._heap)
