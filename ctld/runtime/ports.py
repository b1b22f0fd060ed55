"""The interface of a store for the loop: `ctld.store` implements it with a database, tests with fakes.

`commit` and `renew_lease` are called from one thread, `spec` and `history` from another.
"""

from typing import Protocol

from ctld.core.records.effects import Batch
from ctld.core.records.job import HistoryRow, SpecRow


class StoreLike(Protocol):
    """The interface of a store for the running controller; opening and loading belong to the daemon."""

    def commit(self, batch: Batch) -> None:
        """Writes all of the batch or nothing. Raises Deposed, StorageFull or StorageAway."""

    def renew_lease(self, now_us: int) -> None:
        """Renews this controller's leadership. Raises Deposed, StorageFull or StorageAway."""

    def spec(self, spec_hash: bytes) -> SpecRow | None:
        """Returns a script with its environment."""

    def history(self, job_id: int) -> list[HistoryRow]:
        """Returns a job's history, in order."""
