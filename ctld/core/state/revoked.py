"""When the JSON web tokens of users were last revoked. Changed by requests/tokens.py; the gate reads `by_user` at each call."""

from ctld.core.records.revocation import TokenRevocation

#: The user of a revocation that holds for everybody's tokens.
EVERYBODY = ""


class RevokedTokens:
    """Revocations by user name, and those since the last batch."""

    def __init__(self) -> None:
        self.by_user: dict[str, int] = {}
        self.dirty: dict[str, None] = {}

    def load(self, rows: tuple[TokenRevocation, ...]) -> None:
        """Sets what the database has."""
        self.by_user.update({row.user_name: row.at_us for row in rows})

    def revoke(self, user_name: str, at_us: int) -> None:
        """Makes all tokens invalid that were issued until then. A clock that has been set back takes nothing back."""
        self.by_user[user_name] = max(at_us, self.by_user.get(user_name, 0))
        self.dirty[user_name] = None

    def rows(self) -> list[TokenRevocation]:
        """Returns the rows to write."""
        return [TokenRevocation(name, self.by_user[name]) for name in self.dirty]

    def start_new_batch(self) -> None:
        """Clears the changes that are in the batch."""
        if self.dirty:
            self.dirty = {}
