"""Pending calls, and whether a job's salloc or srun is still connected.

A client that owns an allocation always has a call open: it waits for the job, for a step, or for resources of one.
Calls end (their `wait_s` has passed) and are repeated at once, so a short time without one means nothing. After
OWNER_GONE_US the owner counts as gone; lifecycle/allocations.py handles that.

Calls are not in the database. After a restart of the controller an owner has the same time to reconnect, counted from
the start.
"""

#: Time without an open call after which the owner of a job without a script counts as gone.
OWNER_GONE_US = 60 * 1_000_000

_Key = tuple[int, ...]


class CallOwner:
    """The calls of a job's owner: those that are open, and when the last of them ended."""

    __slots__ = ("calls", "seen_at_us")

    def __init__(self, now_us: int) -> None:
        self.calls: dict[int, None] = {}
        self.seen_at_us = now_us


class Calls:
    """All open calls. A key is (job id,) for an allocation, (job id, attempt, step id) for a step."""

    def __init__(self) -> None:
        self.waiting: dict[_Key, dict[int, None]] = {}  # reply_to by the key that they wait for
        self.keys: dict[int, _Key] = {}
        self.owners: dict[int, CallOwner] = {}  # of active jobs without a script
        self.owned: dict[int, int] = {}  # reply_to of an owner's open call -> job id

    def wait(self, key: _Key, reply_to: int) -> None:
        """Adds a call that waits for the key."""
        self.waiting.setdefault(key, {})[reply_to] = None
        self.keys[reply_to] = key

    def take(self, key: _Key, now_us: int) -> list[int]:
        """Removes and returns all calls that wait for the key, which are answered now."""
        found = list(self.waiting.pop(key, ()))
        for reply_to in found:
            del self.keys[reply_to]
            self.leave(reply_to, now_us)
        return found

    def stop(self, reply_to: int, now_us: int) -> None:
        """Removes a caller."""
        key = self.keys.pop(reply_to, None)
        if key is not None:
            callers = self.waiting[key]
            del callers[reply_to]
            if not callers:
                del self.waiting[key]
        self.leave(reply_to, now_us)

    def enter(self, job_id: int, reply_to: int) -> None:
        """Adds an open call of the job's owner."""
        owner = self.owners.get(job_id)
        if owner is not None and reply_to:
            owner.calls[reply_to] = None
            self.owned[reply_to] = job_id

    def leave(self, reply_to: int, now_us: int) -> None:
        """Removes a call that is not open any more."""
        owner = self.owners.get(self.owned.pop(reply_to, 0))
        if owner is not None:
            del owner.calls[reply_to]
            owner.seen_at_us = now_us

    def forget(self, job_id: int) -> None:
        """Removes a job that has ended."""
        owner = self.owners.pop(job_id, None)
        for reply_to in owner.calls if owner is not None else ():
            del self.owned[reply_to]
