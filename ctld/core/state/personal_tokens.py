"""The personal tokens of users (penstock token). Changed by requests/tokens.py; the gate reads `by_id` at each call."""

from ctld.core.records.personal_token import PersonalToken


class PersonalTokens:
    """Personal tokens by id, and those that have changed since the last batch."""

    def __init__(self) -> None:
        self.by_id: dict[str, PersonalToken] = {}
        self.dirty: dict[str, None] = {}
        self._of_user: dict[str, dict[str, str]] = {}  # ids by name

    def load(self, rows: tuple[PersonalToken, ...]) -> None:
        """Sets what the database has."""
        for row in rows:
            self.by_id[row.token_id] = row
            self._of_user.setdefault(row.user_name, {})[row.name] = row.token_id

    def of_user(self, user_name: str) -> list[PersonalToken]:
        """Returns the user's tokens in the order of their creation, expired ones too."""
        return [self.by_id[token_id] for token_id in self._of_user.get(user_name, {}).values()]

    def find(self, user_name: str, name: str) -> PersonalToken | None:
        """Returns the user's token of that name."""
        token_id = self._of_user.get(user_name, {}).get(name)
        return self.by_id[token_id] if token_id is not None else None

    def put(self, token: PersonalToken) -> None:
        """Adds or replaces a record."""
        self.by_id[token.token_id] = token
        self._of_user.setdefault(token.user_name, {})[token.name] = token.token_id
        self.dirty[token.token_id] = None

    def remove(self, token: PersonalToken) -> None:
        """Removes a record: its token is no longer valid."""
        del self.by_id[token.token_id]
        names = self._of_user[token.user_name]
        del names[token.name]
        if not names:
            del self._of_user[token.user_name]
        self.dirty[token.token_id] = None

    def rows(self) -> tuple[list[PersonalToken], list[str]]:
        """Returns the rows to write, and the ids of those to delete."""
        kept = [self.by_id[token_id] for token_id in self.dirty if token_id in self.by_id]
        return kept, [token_id for token_id in self.dirty if token_id not in self.by_id]

    def start_new_batch(self) -> None:
        """Clears the changes that are in the batch."""
        if self.dirty:
            self.dirty = {}
