"""Which jobs have a trace: one in PenstockTraceOneIn, and of those no more than PenstockTracesPerSecond on average.

A token bucket: a job with a trace takes a token; PenstockTracesPerSecond tokens come back each second, and at most those of
BURST_S are there. A job that finds none has no trace. Of an array that finds too few, one task in so many has one that
about as many have one as tokens were left; which ones follows from their ids (penstock/values/tracecontext.py).

The upper half of the bucket is for those who come first. Of the lower half a user may take a tenth of all tokens, which come back
in BURST_S: one who submits thousands gets what comes in each second, and does not keep others from having some.

Rules
    - It is decided at the submission, by its time and user alone, and stored with the job: all processes agree, after restarts,
      too, and a change of the parameters leaves the jobs that are there as they are.
    - The tokens are not stored: a controller that starts has all of them.
    - A job of a traced caller has the caller's answer and takes nothing; without a collector no job takes any.
"""

from collections import OrderedDict
from typing import Final

#: Seconds whose tokens are kept: a cluster with a few jobs at a time has a trace of each.
BURST_S: Final = 10
#: The part of all tokens that a user may take of the lower half.
OWN_PART: Final = 10
#: Users who are known to have taken of the lower half, each within BURST_S.
USERS_MAX: Final = 1_000
_US: Final = 1_000_000


class TraceRate:
    """The tokens, in millionths, and the time of the last submission.

    `until_us`: by uid, when a user has all of the own part again, by `_clock_us`, which never goes back.
    """

    __slots__ = ("_at_us", "_clock_us", "_micro_tokens", "until_us")

    def __init__(self) -> None:
        self._micro_tokens = -1  # as many as there can be
        self._at_us = 0
        self._clock_us = 0
        self.until_us: OrderedDict[int, int] = OrderedDict()

    def take(self, now_us: int, uid: int, number: int, one_in: int, per_s: int) -> int:
        """Returns that one in so many of a job's tasks has a trace (a job that is no array has one task), 0 if none has.

        `one_in`: how many have one at most; `per_s`: tokens that come back, 0 = there is no limit. A clock that was set
        back brings none back.
        """
        if not per_s:
            return one_in
        full = BURST_S * per_s * _US
        left = self._left(now_us, per_s, full)
        for_all = max(0, left - full // 2)
        until_us = max(self.until_us.get(uid, 0), self._clock_us)
        own = (BURST_S * _US - (until_us - self._clock_us)) * per_s // OWN_PART
        most = for_all + min(own, left - for_all)
        found, wanted = one_in, -(-number * _US // one_in)
        if wanted > most:
            if most < _US:
                return 0
            found = -(-number * _US // most)
            wanted = number * _US // found
        self._micro_tokens = left - wanted
        if wanted > for_all:
            self._note(uid, until_us - (for_all - wanted) * OWN_PART // per_s)
        return found

    def _left(self, now_us: int, per_s: int, full: int) -> int:
        """Returns the tokens that are there now."""
        if self._micro_tokens < 0:
            self._micro_tokens = full
        else:
            passed_us = max(0, now_us - self._at_us)
            self._clock_us += passed_us
            self._micro_tokens = min(full, self._micro_tokens + passed_us * per_s)
        self._at_us = now_us
        return self._micro_tokens

    def _note(self, uid: int, until_us: int) -> None:
        """Notes what a user has taken. Of too many users, forgets the one who has taken nothing for the longest time."""
        self.until_us[uid] = until_us
        self.until_us.move_to_end(uid)
        if len(self.until_us) > USERS_MAX:
            self.until_us.popitem(last=False)
