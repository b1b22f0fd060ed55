"""How many logins may fail: of one name, and from one address. Deterministic: the clock comes from the caller.

Each key has a bucket of attempts that fills again at a steady rate. An attempt takes one of both before PAM is asked, so that
many at a time cannot exceed them, and a login that succeeds gives it back. The table is bounded; what is full again is forgotten,
and when nothing is, new keys wait.
"""

from collections.abc import Callable
from math import ceil
from typing import Final, NamedTuple

#: Failed logins of one name at once, and the time until there is one more: 12 an hour in the long run.
NAME_ATTEMPTS: Final = 10
NAME_REFILL_S: Final = 300.0
#: Of one address, behind which a whole site may be (a proxy).
ADDRESS_ATTEMPTS: Final = 60
ADDRESS_REFILL_S: Final = 5.0
#: Keys of each kind.
KEYS_MAX: Final = 20_000


class AttemptBucket(NamedTuple):
    """Attempts that were left at a time."""

    left: float
    at_s: float


class AttemptBudget:
    """The attempts of each key of one kind."""

    def __init__(self, most: int, refill_s: float, keys_max: int = KEYS_MAX) -> None:
        self._most = most
        self._refill_s = refill_s
        self._keys_max = keys_max
        self._buckets: dict[str, AttemptBucket] = {}

    def wait_s(self, key: str, now_s: float) -> int:
        """Seconds until the key has an attempt; 0 = it has one."""
        if key not in self._buckets and len(self._buckets) >= self._keys_max:
            self._forget_full(now_s)
            if len(self._buckets) >= self._keys_max:
                return ceil(self._refill_s)
        left = self._left(key, now_s)
        return 0 if left >= 1 else ceil((1 - left) * self._refill_s)

    def take(self, key: str, now_s: float) -> None:
        """Uses up one."""
        self._buckets[key] = AttemptBucket(self._left(key, now_s) - 1, now_s)

    def give_back(self, key: str, now_s: float) -> None:
        """Undoes one `take`."""
        left = min(self._left(key, now_s) + 1, self._most)
        if left >= self._most:
            self._buckets.pop(key, None)
        else:
            self._buckets[key] = AttemptBucket(left, now_s)

    def _left(self, key: str, now_s: float) -> float:
        bucket = self._buckets.get(key)
        if bucket is None:
            return self._most
        return min(bucket.left + (now_s - bucket.at_s) / self._refill_s, self._most)

    def _forget_full(self, now_s: float) -> None:
        self._buckets = {key: one for key, one in self._buckets.items() if self._left(key, now_s) < self._most}


class LoginBudgets:
    """Both kinds."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._names = AttemptBudget(NAME_ATTEMPTS, NAME_REFILL_S)
        self._addresses = AttemptBudget(ADDRESS_ATTEMPTS, ADDRESS_REFILL_S)

    def take(self, name: str, address: str) -> int:
        """Takes an attempt of both and returns 0; or none, and returns the seconds until both have one."""
        now_s = self._clock_s()
        plain = _plain(name)
        wait_s = max(self._names.wait_s(plain, now_s), self._addresses.wait_s(address, now_s))
        if wait_s == 0:
            self._names.take(plain, now_s)
            self._addresses.take(address, now_s)
        return wait_s

    def give_back(self, name: str, address: str) -> None:
        """Undoes a `take`."""
        now_s = self._clock_s()
        self._names.give_back(_plain(name), now_s)
        self._addresses.give_back(address, now_s)


def _plain(name: str) -> str:
    """One key for all ways to write a user's name: directories know no capitals, and one user with and without the domain."""
    return name.partition("@")[0].casefold()
