"""The errors of `penstock db`, beside those of the store."""


class DatabaseBusy(Exception):
    """A controller leads on the database."""
