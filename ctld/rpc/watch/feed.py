"""The last committed changes, in their order, for those who watch.

Each change has a sequence number: the controller's epoch, then a count, so that it grows from one start to the next and a
number of an earlier start is recognised. A change is kept as its encoded message, with what decides who may see it.

Nothing is kept before the first watcher comes, nor KEPT_US after the last one has left. A row whose visible fields are as
they were (a new reason of a waiting job, a priority) is no change: a pass over a long queue would push everything else out.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ctld.core.records.effects import Batch
from ctld.core.records.reservation import Reservation
from ctld.core.state.state import ClusterState
from ctld.rpc.watch.changed import FreshChanges

#: For how long changes are kept, and how many: some 200 bytes each.
KEPT_US: Final = 600 * 1_000_000
KEPT_MAX: Final = 50_000
#: Dropped changes that the list may still have at its front.
SLACK_MAX: Final = 4_096
#: Watchers get a message once in this time, so that one message carries what many changes of a busy time are.
TICK_S: Final = 0.25
#: Bits of a sequence number below the epoch. Both fit into 53 bits, which JavaScript's numbers have.
COUNT_BITS: Final = 32


class KeptChange(NamedTuple):
    """One change. `uid` and `account` are a job's owner, `account` and `user` an association's; `reservation` is what may hide
    a reservation's change."""

    sequence: int
    at_us: int
    kind: str
    encoded: bytes
    uid: int
    account: str
    reservation: Reservation | None
    user: str = ""


class ChangeFeed:
    """The changes of one controller. Belongs to its event loop."""

    def __init__(self, state: ClusterState, epoch: int, clock_us: Callable[[], int]) -> None:
        self._state = state
        self._clock_us = clock_us
        self.sequence = epoch << COUNT_BITS  # of the last change
        self._kept: list[KeptChange] = []
        self._dropped = 0  # so many at its front are not kept any more
        self._known_from = self.sequence  # all changes after this one are kept
        self._fresh = FreshChanges()
        self._watchers = 0
        self._left_at_us = 0
        self._is_on = False
        self._tick: asyncio.Future[None] | None = None
        self._is_due = False

    # ---- who watches ---------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Counts a watcher; from the first one on changes are kept."""
        self._watchers += 1
        if not self._is_on:
            self._is_on = True
            self._known_from = self.sequence

    def leave(self) -> None:
        """Counts a watcher that has gone."""
        self._watchers -= 1
        self._left_at_us = self._clock_us()

    def has_all_after(self, sequence: int) -> bool:
        """Whether nothing after this change was dropped, or happened while nobody watched."""
        return self._known_from <= sequence <= self.sequence

    def after(self, sequence: int, changes_max: int) -> Sequence[KeptChange]:
        """The first changes after this one."""
        first = bisect_right(self._kept, sequence, self._dropped, key=lambda change: change.sequence)
        return self._kept[first : first + changes_max]

    async def changed(self, limit_s: float) -> None:
        """Returns at the next tick with changes, or after that time."""
        if self._tick is None:
            self._tick = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._tick,), timeout=limit_s)

    # ---- changes -------------------------------------------------------------------------------------------------

    def committed(self, batch: Batch) -> None:
        """Keeps the changes of a committed batch."""
        if not self._is_on:
            return
        now_us = self._clock_us()
        before = self.sequence
        if not self._watchers and now_us - self._left_at_us > KEPT_US:
            self._forget()
            return
        for change in self._fresh.of(batch, self._state):
            self.sequence += 1
            message = change.message()
            message.sequence = self.sequence
            message.at_us = now_us
            self._kept.append(
                KeptChange(
                    self.sequence, now_us, change.kind, message.SerializeToString(), change.uid, change.account,
                    change.reservation, change.user,
                )
            )  # fmt: skip
        self._drop_old(now_us)
        if self.sequence != before and self._tick is not None and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(TICK_S, self._tick_over)

    def _drop_old(self, now_us: int) -> None:
        kept, first = self._kept, self._dropped
        while first < len(kept) and (len(kept) - first > KEPT_MAX or now_us - kept[first].at_us > KEPT_US):
            self._known_from = kept[first].sequence
            first += 1
        if first > SLACK_MAX:
            del kept[:first]
            first = 0
        self._dropped = first

    def _forget(self) -> None:
        self._kept.clear()
        self._dropped = 0
        self._fresh.clear()
        self._is_on = False

    def _tick_over(self) -> None:
        self._is_due = False
        self.wake()

    def wake(self) -> None:
        """Lets all watchers examine their rights and the changes at once."""
        if self._tick is not None:
            self._tick.set_result(None)
            self._tick = None
