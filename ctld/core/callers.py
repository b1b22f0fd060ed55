"""Calls that wait for something, and whether a job's salloc or srun is still there.

A client that owns an allocation always has a call open: it waits for the job, for a step, or for room for one. Calls end
(their `wait_s` is over) and are made again at once, so a short time without one says nothing. After OWNER_GONE_US the
owner is taken as gone; allocations.py says what follows.

Deliberately absent: any trace of calls in the database. After a restart of the controller an owner has that time to come
back, counted from the start.
"""

#: How long no call may be open before the owner of a job without a script is taken as gone.
OWNER_GONE_US = 60 * 1_000_000

Key = tuple[int, ...]


class Owner:
    """The one whose job it is: his open calls, and when the last of them ended."""

    __slots__ = ("calls", "seen_at_us")

    def __init__(self, now_us: int) -> None:
        self.calls: dict[int, None] = {}
        self.seen_at_us = now_us


class Calls:
    """All open calls. A key is (job id,) for an allocation, (job id, attempt, step id) for a step."""

    def __init__(self) -> None:
        self.waiting: dict[Key, dict[int, None]] = {}  # reply_to by what they wait for
        self.keys: dict[int, Key] = {}
        self.owners: dict[int, Owner] = {}  # of active jobs without a script
        self.owned: dict[int, int] = {}  # reply_to of an owner's open call -> job id

    def wait(self, key: Key, reply_to: int) -> None:
        """A call waits for that."""
        self.waiting.setdefault(key, {})[reply_to] = None
        self.keys[reply_to] = key

    def take(self, key: Key, now_us: int) -> list[int]:
        """All who wait for that: they are answered now."""
        found = list(self.waiting.pop(key, ()))
        for reply_to in found:
            del self.keys[reply_to]
            self.leave(reply_to, now_us)
        return found

    def stop(self, reply_to: int, now_us: int) -> None:
        """The caller waits no more."""
        key = self.keys.pop(reply_to, None)
        if key is not None:
            callers = self.waiting[key]
            del callers[reply_to]
            if not callers:
                del self.waiting[key]
        self.leave(reply_to, now_us)

    def enter(self, job_id: int, reply_to: int) -> None:
        """A call of the job's owner is open."""
        owner = self.owners.get(job_id)
        if owner is not None and reply_to:
            owner.calls[reply_to] = None
            self.owned[reply_to] = job_id

    def leave(self, reply_to: int, now_us: int) -> None:
        """It is not open any more."""
        owner = self.owners.get(self.owned.pop(reply_to, 0))
        if owner is not None:
            del owner.calls[reply_to]
            owner.seen_at_us = now_us

    def forget(self, job_id: int) -> None:
        """The job has ended."""
        owner = self.owners.pop(job_id, None)
        for reply_to in owner.calls if owner is not None else ():
            del self.owned[reply_to]
