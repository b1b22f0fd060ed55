"""What may go wrong in `penstock db`, beside what goes wrong in the store."""


class DatabaseBusy(Exception):
    """A controller leads on the database."""
