"""What the loop wants of a store, as a type: `ctld.store` has it with a database, tests have it in other ways.

`commit` and `renew_lease` are called from one thread, `spec` and `history` from another.
"""

from typing import Protocol

from ctld.core.effects import Batch
from ctld.core.model import HistoryRow, SpecRow


class StoreLike(Protocol):
    """The calls of the running controller; opening and loading are main's."""

    def commit(self, batch: Batch) -> None:
        """Write all of the batch or nothing. Raises Deposed, StorageFull or StorageAway."""

    def renew_lease(self, now_us: int) -> None:
        """Say that this controller still leads. Raises Deposed, StorageFull or StorageAway."""

    def spec(self, spec_hash: bytes) -> SpecRow | None:
        """A script with its environment."""

    def history(self, job_id: int) -> list[HistoryRow]:
        """What happened to a job, in order."""
