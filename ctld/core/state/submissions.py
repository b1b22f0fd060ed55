"""State shared between submissions, which makes the next one cheaper, and the keys of answered ones."""

from collections import deque

# Any: values of every kind that are stored once and returned unchanged
from typing import Any, TypeVar

from ctld.core.state.stored import Stored
from ctld.core.state.trace_rate import TraceRate

T = TypeVar("T")
#: Shared values; beyond it the table is cleared (existing objects stay shared).
SHARED_MAX = 50_000


class Submissions:
    """The shared values and the known keys. Kept by requests/submit.py."""

    __slots__ = ("accepted", "completed", "key_times", "keys", "shared", "stored", "traces")

    def __init__(self) -> None:
        self.accepted: dict[object, Any] = {}  # cached results of checks, by submission and user
        self.completed: dict[object, Any] = {}  # the same by submission and partitions, for all users
        # (uid, request key) -> job id: the same key of the same user is the same submission
        self.keys: dict[tuple[int, str], int] = {}
        self.key_times: deque[tuple[int, int, str]] = deque()  # when they may be dropped
        self.stored = Stored()  # texts that users store
        self.traces = TraceRate()
        self.shared: dict[object, Any] = {}  # equal values of many jobs, stored once

    def share(self, value: T) -> T:
        """Returns an equal value that other jobs hold already: 100,000 jobs of one user have one folder and one set of
        limits.
        """
        if len(self.shared) >= SHARED_MAX:
            self.shared.clear()
        same: T = self.shared.setdefault(value, value)
        return same
