"""One heap of deadlines with lazy deletion.

An entry is (due, kind, key, check). Nothing is ever taken out early: when an entry comes due, its handler looks whether
it still applies (the job's attempt is the same, the node is still silent). 100,000 entries cost 21 ms and no task.
"""

import heapq
from enum import IntEnum, unique


@unique
class Timer(IntEnum):
    """What a deadline is for. The number breaks ties between deadlines of one instant."""

    MAIL_LIMIT = 0  # key = job id, check = attempt and which share of the time limit (mail.py); before the limit itself
    BEGIN_TIME = 1  # key = job id
    DEPENDENCY_DELAY = 2  # key = job id
    TIME_LIMIT = 3  # key = job id, check = attempt
    PURGE = 4  # key = job id, check = attempt
    NODE_TIMEOUT = 5  # key = node name, check = link id that was lost
    LEASE = 15  # key = node name, check = job id
    FENCE = 16  # key = node name, check = link id that was lost
    REBOOT = 70  # key = node name
    RESUME_AFTER = 71  # key = node name
    FULL_PASS = 7
    MIG = 90  # a GPU that had to rest may be divided again
    SWITCH_WAIT = 11  # key = job id
    DEADLINE = 10  # key = job id
    PREEMPT_EXEMPT = 40  # key = job id, check = attempt
    PREEMPT_GRACE = 41  # key = job id, check = attempt
    TIME_SLICE = 42
    END_WARNING = 9  # key = job id, check = attempt
    PRIORITY = 20  # check = generation of the period, or which step of a calculation
    RESERVATION = 30  # key = name: it begins, ends or may be purged
    RESERVED_NODES = 31  # a node's state has changed: are reservations still whole
    ENTER = 51  # the next slice of jobs that have no rows yet (entering.py)
    TELLING = 50  # the next slice of reasons
    OWNER = 80  # key = job id: is its salloc or srun still there
    STEP_LIMIT = 81  # key = job id, check = attempt and step id (steps.limit_check)
    STEP_WARNING = 83  # key = job id, check as of STEP_LIMIT: --signal of a step
    GPU_WORK = 91  # key = node name: something that is done to a GPU there has taken too long
    GPU_CARE = 92  # is there a GPU to be checked or reset
    GPU_IDLE = 93  # key = job id, check = attempt: its GPUs have been idle for too long
    IMMEDIATE = 82  # key = job id: --immediate
    LIMITS = 320  # key = a book of the ledger: jobs that wait for it may fit now (limit_wake.py)
    LIMIT_END = 321  # key = a book or a job id: minutes are used up (limit_ends.py)
    TRIGGERS = 300  # is there something that triggers wait for
    BUDGET = 310  # key = of the budget: its period ends, or it is used up
    RESERVATION_OVERRUN = 32  # key = job id, check = attempt: its reservation has ended


class Timers:
    """The heap. Ties are broken by kind, then key, so that the order never depends on insertion."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Timer, int | str, int]] = []

    def set(self, due_us: int, kind: Timer, key: int | str = 0, check: int = 0) -> None:
        """Add a deadline."""
        heapq.heappush(self._heap, (due_us, kind, key, check))

    def next_us(self) -> int | None:
        """When the next deadline is due, None if there is none."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_us: int) -> tuple[Timer, int | str, int] | None:
        """Take one deadline that is due."""
        if not self._heap or self._heap[0][0] > now_us:
            return None
        _, kind, key, check = heapq.heappop(self._heap)
        return kind, key, check

    def __len__(self) -> int:
        return len(self._heap)
