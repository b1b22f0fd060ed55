"""What may go wrong in the store. Database errors are translated into these once, in committer.py."""


class StoreError(Exception):
    """The database cannot be used as it is; the process should end and say so."""


class LeaseHeld(StoreError):
    """Another controller leads on this database."""

    def __init__(self, holder: str, expires_at_us: int) -> None:
        super().__init__(
            f"another controller leads on this database: {holder}. Stop it, or wait until its lease has expired"
        )
        self.holder = holder
        self.expires_at_us = expires_at_us


class Deposed(StoreError):
    """Another controller has taken over: this one must end at once, nothing it holds may be released."""


class SchemaTooNew(StoreError):
    """A newer program has written the database."""


class StorageWaits(StoreError):
    """It passes: the same batch may be committed again later, as often as need be."""


class StorageFull(StorageWaits):
    """Nothing was written for lack of space."""


class StorageAway(StorageWaits):
    """The server of the database does not answer. Whether the last batch is in is seen when it does again."""
