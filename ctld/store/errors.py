"""Errors of the store. Database errors are translated into these once, in committer.py."""


class StoreError(Exception):
    """The database cannot be used; the process should end and report the cause."""


class LeaseHeld(StoreError):
    """Another controller leads on this database."""

    def __init__(self, holder: str, expires_at_us: int) -> None:
        super().__init__(
            f"another controller leads on this database: {holder}. Stop it, or wait until its lease has expired"
        )
        self.holder = holder
        self.expires_at_us = expires_at_us


class Deposed(StoreError):
    """Another controller has taken over: this one must end at once, and release nothing that it holds."""


class StoreOlder(StoreError):
    """The database lacks something that was acknowledged."""


class StoreDamaged(StoreError):
    """A page is not readable: a restart would fail in the same way."""


class ValueRefused(StoreError):
    """The database does not take a value: the same batch would fail again."""


class SchemaTooNew(StoreError):
    """A newer program has written the database."""


class StorageWaits(StoreError):
    """A transient error: the same batch may be committed again later, repeatedly if necessary."""


class StorageFull(StorageWaits):
    """Nothing was written for lack of space."""


class StorageAway(StorageWaits):
    """The server of the database does not answer. Whether the last batch is committed is known when it answers again."""
