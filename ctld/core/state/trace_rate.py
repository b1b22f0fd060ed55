"""Which jobs have a trace: one in PenstockTraceOneIn, and of those no more than PenstockTracesPerSecond on average.

A token bucket: a job with a trace takes a token; PenstockTracesPerSecond tokens come back each second, and at most those of
BURST_S are there. A job that finds none has no trace. Of an array that finds too few, one task in so many has one that
about as many have one as tokens were left; which ones follows from their ids (penstock/values/tracecontext.py).

Rules
    - It is decided at the submission, by its time alone, and stored with the job: all processes agree, after restarts, too,
      and a change of the parameters leaves the jobs that are there as they are.
    - The tokens are not stored: a controller that starts has all of them.
    - A job of a traced caller has the caller's answer and takes nothing.
"""

from typing import Final

#: Seconds whose tokens are kept: a cluster with a few jobs at a time has a trace of each.
BURST_S: Final = 10
_US: Final = 1_000_000


class TraceRate:
    """The tokens, in millionths, and the time of the last submission."""

    __slots__ = ("_at_us", "_micro_tokens")

    def __init__(self) -> None:
        self._micro_tokens = -1  # as many as there can be
        self._at_us = 0

    def take(self, now_us: int, number: int, one_in: int, per_s: int) -> int:
        """Returns that one in so many of a job's tasks has a trace (a job that is no array has one task), 0 if none has.

        `one_in`: how many have one at most; `per_s`: tokens that come back, 0 = there is no limit. A clock that was set
        back brings none back.
        """
        if not per_s:
            return one_in
        full = BURST_S * per_s * _US
        if self._micro_tokens < 0:
            left = full
        else:
            left = min(full, self._micro_tokens + max(0, now_us - self._at_us) * per_s)
        self._at_us = now_us
        wanted = -(-number * _US // one_in)
        if wanted <= left:
            self._micro_tokens = left - wanted
            return one_in
        if left < _US:
            self._micro_tokens = left
            return 0
        found = -(-number * _US // left)
        self._micro_tokens = left - number * _US // found
        return found
