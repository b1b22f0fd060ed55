"""Virtual time: one heap of scheduled events, and the trace of past ones. Ties are broken by the order of scheduling,
so a world is a function of its seed. The trace keeps the last lines for reports and a running hash of all lines to
compare two runs.
"""

import hashlib
import heapq
from collections import deque
from collections.abc import Callable

US = 1_000_000
#: The lines kept for a report. A world of the default size writes some thousands.
LINES_MAX = 50_000

_Act = Callable[..., None]


class Timeline:
    """The current time and the scheduled events. Times are microseconds since 1970 of an undisturbed clock."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        self.start_us = now_us
        self.number = 0  # events processed
        self._heap: list[tuple[int, int, _Act, tuple[object, ...]]] = []
        self._planned = 0
        self._lines: deque[tuple[int, int, str]] = deque(maxlen=LINES_MAX)
        self._hash = hashlib.sha256()

    def after(self, delay_us: int, act: _Act, *args: object) -> None:
        """Schedules a call after a delay."""
        self.at(self.now_us + delay_us, act, *args)

    def at(self, at_us: int, act: _Act, *args: object) -> None:
        """Schedules a call at a time, or now if that has passed."""
        self._planned += 1
        heapq.heappush(self._heap, (max(at_us, self.now_us), self._planned, act, args))

    def run(self, until_us: int) -> None:
        """Runs all events that are due until then."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, act, args = heapq.heappop(heap)
            self.number += 1
            act(*args)
        self.now_us = max(self.now_us, until_us)

    def say(self, job_id: int, text: str) -> None:
        """Add a line to the trace. `job_id` 0 = not about a job."""
        self._lines.append((self.now_us, job_id, text))
        self._hash.update(f"{self.now_us} {job_id} {text}\n".encode())

    def digest(self) -> str:
        """A hash of all lines so far."""
        return self._hash.hexdigest()

    def story(self, job_ids: tuple[int, ...] = (), last: int = 30) -> list[str]:
        """The last lines about these jobs or about none; no ids = all lines."""
        lines = [line for line in self._lines if not job_ids or line[1] in job_ids or not line[1]]
        return [f"{(at_us - self.start_us) / US:12.6f}  {text}" for at_us, _, text in lines[-last:]]
