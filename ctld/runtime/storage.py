"""Whether the database takes writes, and what happens to requests while it does not.

Rules
    - No room (StorageFull): submissions are refused at once, everything else waits for the commit that will come.
    - No answer (StorageAway): a request that would change something waits at the door, before it reaches the core, until
      the server answers again. After STORAGE_AWAY_WAIT_S it is refused, and truthfully: nothing was changed. What had
      reached the core before is answered when it is committed.
    - Reading needs no commit and goes on.
"""

import asyncio
import logging
from typing import Final

from ctld.metrics import Metrics
from ctld.runtime.errors import NotTaken
from penstock.values.refusals import Code

log = logging.getLogger("penstock.ctld")

#: How long a change waits: longer than a restart of the server takes, shorter than commands wait (penstock.client).
STORAGE_AWAY_WAIT_S: Final = 8.0
#: Requests at the door.
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
        """A commit or a renewal met one of `passing`."""
        if isinstance(error, self._away):
            self._metrics.storage_away += 1
            if not self.is_away:
                log.error("the database does not answer: %s; changes wait until it does", error)
            self.is_away = True
            self._back.clear()
        else:
            self._metrics.storage_full += 1
            if not self.is_full:
                log.error("the database has no room: %s; submissions are refused until it has", error)
            self.is_full = True

    def answers(self) -> None:
        """A commit went through."""
        if self.is_full or self.is_away:
            log.warning("the database takes writes again")
            self.is_full = self.is_away = False
            self._back.set()

    def answered(self) -> None:
        """A renewal went through, which needs no room."""
        if self.is_away and not self.is_full:
            self.answers()

    def give_up(self) -> None:
        """The process ends: nobody waits any longer."""
        self._back.set()

    async def wait(self) -> None:
        """Return when the server answers. Raises NotTaken."""
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
