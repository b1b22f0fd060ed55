"""Tracks whether the database takes writes, and rejects or delays requests while it does not.

Rules
    - No space (StorageFull): a request that would change something is refused at once, before it reaches the core:
      nothing was changed. Requests that had reached the core are part of a batch that is kept and tried again, so they
      will be done: their callers get that answer at once, and never a failure. So does a submission that is repeated
      (by its key) meanwhile.
    - No answer (StorageAway): a request that would change something waits before it reaches the core, until the server
      answers again. After STORAGE_AWAY_WAIT_S it is refused: nothing was changed. Requests that had reached the core are
      answered when they are committed.
    - Reading needs no commit and continues.
"""

import asyncio
import logging
from typing import Final

from ctld.metrics import Metrics
from ctld.runtime.errors import NotTaken
from penstock.values.refusals import Code

log = logging.getLogger("penstock.ctld")

#: Maximum wait of a change: longer than a restart of the server takes, shorter than the timeout of commands
#: (penstock.calls).
STORAGE_AWAY_WAIT_S: Final = 8.0
#: Maximum number of waiting requests.
WAITING_MAX: Final = 20_000


class Storage:
    """The state of the database as the loop knows it."""

    def __init__(self, metrics: Metrics, full: type[Exception], away: type[Exception]) -> None:
        self.is_full = False
        self.is_away = False
        self.passing = (full, away)
        self._away = away
        self._metrics = metrics
        self._waiting = 0
        self._back = asyncio.Event()
        self._back.set()

    def failed(self, error: BaseException) -> None:
        """Notes that a commit or a renewal has failed with one of `passing`."""
        if isinstance(error, self._away):
            self._metrics.storage_away += 1
            if not self.is_away:
                log.error("the database does not answer: %s; changes wait until it does", error)
            self.is_away = True
            self._back.clear()
        else:
            self._metrics.storage_full += 1
            if not self.is_full:
                log.error("the database has no room: %s; changes are refused until it has", error)
            self.is_full = True

    def answers(self) -> None:
        """Notes that a commit succeeded."""
        if self.is_full or self.is_away:
            log.warning("the database takes writes again")
            self.is_full = False
            self.is_away = False
            self._back.set()

    def answered(self, is_idle: bool) -> None:
        """Notes that a renewal succeeded, which needs no space and proves nothing while a batch waits for some (not
        `is_idle`)."""
        if is_idle or (self.is_away and not self.is_full):
            self.answers()

    def give_up(self) -> None:
        """Releases all waiting requests: the process ends."""
        self._back.set()

    async def wait(self) -> None:
        """Returns when the server answers. Raises NotTaken."""
        if self._waiting >= WAITING_MAX:
            raise NotTaken(Code.BUSY, f"{WAITING_MAX} requests wait for the database")
        self._waiting += 1
        try:
            async with asyncio.timeout(STORAGE_AWAY_WAIT_S):
                await self._back.wait()
        except TimeoutError:
            raise NotTaken(Code.STORAGE_AWAY, "") from None
        finally:
            self._waiting -= 1
