"""A rate limit for each user: SlurmctldParameters=rl_enable and its numbers, with Slurm's meaning and defaults.

Each user has a bucket of tokens. A request takes one; `rl_refill_rate` come back every `rl_refill_period` seconds, up
to `rl_bucket_size`. Without a token the refusal contains the time of the next one, and the command waits and tries
again. Administrators (root, SlurmUser) and node daemons are not limited. `rl_table_size`: number of buckets; beyond it
the least recently used one is dropped, so that its user has a full one. `rl_log_freq`: at most one line in the log for
one user in so many seconds; 0 = each refusal, -1 = none.
"""

import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from ctld.core.records.events import Actor, Role

log = logging.getLogger("ctld.ratelimit")
NUMBER_MAX: Final = 1_000_000


class RateLimits(NamedTuple):
    """The configured numbers of the limit."""

    bucket: int = 30
    rate: int = 2
    period_s: int = 1
    table: int = 8192
    log_every_s: int = 0

    @classmethod
    def of(cls, parameters: tuple[tuple[str, str], ...]) -> "RateLimits | None":
        """Parses SlurmctldParameters; None = there is no limit. An invalid number counts as not given."""
        words = {name.lower(): value for name, value in parameters}
        if "rl_enable" not in words:
            return None
        standard = cls()

        def number(name: str, default: int, least: int = 1) -> int:
            text = words.get(name, "")
            digits = text.removeprefix("-") if least < 0 else text
            if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(NUMBER_MAX)):
                return default
            return min(max(int(text), least), NUMBER_MAX)

        return cls(
            number("rl_bucket_size", standard.bucket),
            number("rl_refill_rate", standard.rate),
            number("rl_refill_period", standard.period_s),
            number("rl_table_size", standard.table),
            number("rl_log_freq", standard.log_every_s, least=-1),
        )


class Bucket:
    """The token bucket of one user."""

    __slots__ = ("logged_s", "tokens", "turn")

    def __init__(self, tokens: int, turn: int) -> None:
        self.tokens = tokens
        self.turn = turn  # number of the last refill
        self.logged_s = -math.inf


class RateLimiter:
    """The buckets. `parameters` returns the present SlurmctldParameters; the clock is monotonic, in seconds."""

    def __init__(self, parameters: Callable[[], tuple[tuple[str, str], ...]], clock_s: Callable[[], float]) -> None:
        self._parameters = parameters
        self._clock_s = clock_s
        self._read: tuple[tuple[str, str], ...] = ()
        self._limits: RateLimits | None = None
        self._buckets: OrderedDict[int, Bucket] = OrderedDict()  # in the order of their last use

    def wait_ms(self, actor: Actor | None) -> int:
        """Takes a token: returns 0, or in how many milliseconds there will be one."""
        parameters = self._parameters()
        if parameters is not self._read:
            self._limits = RateLimits.of(parameters)
            self._read = parameters
            self._buckets.clear()
        limits = self._limits
        if limits is None or actor is None or actor.role >= Role.ADMINISTRATOR:
            return 0
        now_s = self._clock_s()
        turn = int(now_s // limits.period_s)
        bucket = self._buckets.pop(actor.uid, None) or Bucket(limits.bucket, turn)
        while len(self._buckets) >= limits.table:
            self._buckets.popitem(last=False)
        self._buckets[actor.uid] = bucket
        bucket.tokens = min(limits.bucket, bucket.tokens + (turn - bucket.turn) * limits.rate)
        bucket.turn = turn
        if bucket.tokens > 0:
            bucket.tokens -= 1
            return 0
        self._notify(limits, actor, bucket, now_s)
        return max(1, math.ceil(((turn + 1) * limits.period_s - now_s) * 1000))

    def _notify(self, limits: RateLimits, actor: Actor, bucket: Bucket, now_s: float) -> None:
        if 0 <= limits.log_every_s <= now_s - bucket.logged_s:
            bucket.logged_s = now_s
            log.info("RPC rate limit exceeded by uid %d (%s): its requests wait", actor.uid, actor.user_name)
