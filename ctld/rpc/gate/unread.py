"""Counts the replies that callers have not read yet, in bytes by user.

A reply stays in memory until its reader has taken it, long after its call has ended, and so does all that pages are still
made of: a long list is held until its reader has the last page. So a user with more than UNREAD_BYTES_MAX of them has no
further call served; reading them is what makes room. One user's answers of one turn are bounded by turnshare.py, and the
lists that are made at a time by scans.py, so the limit is exceeded by some answers at most. Administrators are not limited,
and nodes have streams.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ctld.core.records.events import Actor, Role
from ctld.rpc.gate.underway import PAUSE_MS
from ctld.runtime.errors import BadRequest
from penstock.values.refusals import TEXT, Code

#: Some answers of the largest size; a command reads its answer at once.
UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
#: Of one in a list: a row, and a message of some numbers and names.
POINTER_BYTES: Final = 8
MESSAGE_BYTES: Final = 512


class UnreadReplies:
    """The bytes by uid. Belongs to one event loop."""

    def __init__(self, bytes_max: int = UNREAD_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.bytes: Counter[int] = Counter()

    def refusal(self, actor: Actor | None) -> tuple[Code, str] | None:
        """Returns why no call of this user may be served now; None = it may."""
        if actor is None or actor.role >= Role.ADMINISTRATOR or self.bytes[actor.uid] < self._bytes_max:
            return None
        text = f"replies with {self.bytes[actor.uid]} bytes wait for you to read them, the limit is {self._bytes_max}"
        return Code.RATE_LIMITED, f"{TEXT[Code.RATE_LIMITED]}: {text}; again in milliseconds: {PAUSE_MS}"

    @contextmanager
    def counted_list(self, actor: Actor, size: int) -> Iterator[None]:
        """Counts a list that is sent in pages until its reader has all of them. Raises BadRequest for a user who has too many
        unread bytes already."""
        if (refusal := self.refusal(actor)) is not None:
            raise BadRequest(*refusal)
        with self.counted(actor.uid, size):
            yield

    @contextmanager
    def counted(self, uid: int, size: int) -> Iterator[None]:
        """Counts what is held until its reader has taken it."""
        self.add(uid, size)
        try:
            yield
        finally:
            self.drop(uid, size)

    def add(self, uid: int, size: int) -> None:
        """Counts a reply, or a part of one."""
        self.bytes[uid] += size

    def drop(self, uid: int, size: int) -> None:
        """Counts what has been read, or is dropped with its connection."""
        self.bytes[uid] -= size
        if not self.bytes[uid]:
            del self.bytes[uid]
