"""Renews the lease, the row in the database that proves that this process, and no other, leads the cluster.

A renewal runs in the committer's thread, between commits. If the database takes no write, it is tried again at the next
interval, and the state of the storage is updated (storage.py); any other failure, above all a lost leadership, ends the
process.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from ctld.runtime.storage import Storage

#: A third of the lease: two renewals may fail before it is lost.
LEASE_RENEW_S: Final = 3.0
#: Renewals that one may delay before it is reported: a disk that stands still fails nothing, it only waits.
DELAYED_MAX: Final = 3

log = logging.getLogger("penstock.ctld")


class LeaseKeeper:
    """Renews the lease from `start` to `stop`. `renew` blocks; `is_idle` says that no commit is in progress; `die` ends
    the process.
    """

    def __init__(
        self,
        renew: Callable[[int], None],
        clock_us: Callable[[], int],
        committer: Executor,
        storage: Storage,
        is_idle: Callable[[], bool],
        die: Callable[[str, BaseException | None], None],
    ) -> None:
        self._renew = renew
        self._clock_us = clock_us
        self._committer = committer
        self._storage = storage
        self._is_idle = is_idle
        self._die = die
        self._renewing = False
        self._delayed = 0  # renewals that were due during the present one
        self._stopped = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Starts renewing; the first renewal is due after LEASE_RENEW_S."""
        self._loop.call_later(LEASE_RENEW_S, self._due)

    def stop(self) -> None:
        """Begins no more renewals."""
        self._stopped = True

    def _due(self) -> None:
        if self._stopped:
            return
        self._loop.call_later(LEASE_RENEW_S, self._due)
        if self._renewing:  # an unreachable server times out late
            self._delayed += 1
            if self._delayed == DELAYED_MAX:
                log.error(
                    "the database has not completed a write for %.0f s; changes wait", DELAYED_MAX * LEASE_RENEW_S
                )
            return
        self._renewing = True
        future = self._loop.run_in_executor(self._committer, self._renew, self._clock_us())
        future.add_done_callback(self.renewed)

    def renewed(self, future: "asyncio.Future[None]") -> None:
        """Handles the result of a renewal."""
        self._renewing = False
        if self._delayed >= DELAYED_MAX:
            log.warning("the database completes writes again, after %.0f s", self._delayed * LEASE_RENEW_S)
        self._delayed = 0
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._storage.answered(is_idle=self._is_idle())
        elif isinstance(error, self._storage.passing):
            self._storage.failed(error)  # it reports this once, not at every renewal
        else:
            self._die("the lease cannot be renewed", error)
