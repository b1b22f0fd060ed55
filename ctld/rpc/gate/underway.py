"""Limits on calls in progress: how many one user may have, and how large their requests may be together.

A call that waits (for a job, an allocation, a step), and a listing that its reader consumes slowly, hold a task, a
connection's stream and the request with everything derived from it. So one number bounds them for all methods, and one
the bytes of their requests. Further calls are refused with a delay for the next attempt, as with the rate limit
(ratelimit.py), which commands execute_commands.

No request of a user is larger than REQUEST_BYTES_MAX, well below gRPC's limit: the largest script, environment and
arguments with all texts. Administrators are not limited, and nodes have streams (agents/link.py).
"""

from collections import Counter
from typing import Final

from ctld.core.records.events import Actor, Role
from penstock.values.refusals import TEXT, Code

#: Maximum size of one request of a user.
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
#: Concurrent calls of one user: `sbatch --wait`, srun, salloc, listings.
CALLS_MAX: Final = 2048
#: Total size of their requests, as received.
BYTES_MAX: Final = 32 * 1024 * 1024
#: Delay before the next attempt of a refused caller.
PAUSE_MS: Final = 1000


class Underway:
    """Counts of calls in progress by user. Belongs to one event loop."""

    def __init__(self, calls_max: int = CALLS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._calls_max = calls_max
        self._bytes_max = bytes_max
        self.calls: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()

    def refusal(self, actor: Actor, size: int) -> tuple[Code, str] | None:
        """Returns why this request may not be served now; None = it may."""
        if actor.role >= Role.ADMINISTRATOR:
            return None
        if size > REQUEST_BYTES_MAX:
            text = f"the request has {size} bytes, the limit is {REQUEST_BYTES_MAX}"
            return Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {text}"
        calls, held = self.calls[actor.uid], self.bytes[actor.uid]
        if calls >= self._calls_max:
            text = f"{calls} calls of yours are under way, the limit is {self._calls_max}"
        elif held and held + size > self._bytes_max:
            text = f"requests of yours with {held} bytes are under way, the limit is {self._bytes_max}"
        else:
            return None
        return Code.RATE_LIMITED, f"{TEXT[Code.RATE_LIMITED]}: {text}; again in milliseconds: {PAUSE_MS}"

    def begin(self, uid: int, size: int) -> None:
        """Counts a call that is served."""
        self.calls[uid] += 1
        self.bytes[uid] += size

    def end(self, uid: int, size: int) -> None:
        """Counts the end of a call."""
        self.calls[uid] -= 1
        self.bytes[uid] -= size
        if not self.calls[uid]:
            del self.calls[uid], self.bytes[uid]
