"""The users of accounting and their levels, as of the last whole change.

A very large change of accounting is made in slices, and may be rolled back at the end (ctld/core/accounts/requests.py).
Until then a caller's role is what it was before, so that calls which read nothing that such a change touches need not wait
for its end.
"""

from collections.abc import Iterator, Mapping

from ctld.core.controller import Core
from ctld.core.records.accounting_rows import UserRow


class SettledUsers(Mapping[str, UserRow]):
    """By name. Belongs to one event loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._before: dict[str, UserRow] | None = None

    def keep(self) -> None:
        """Keeps the users as they are now: a change begins."""
        self._before = dict(self._core.state.shares.people)

    def let_go(self) -> None:
        """The change is whole, or rolled back."""
        self._before = None

    @property
    def are_kept(self) -> bool:
        """Whether those before a change in progress are known."""
        return self._before is not None

    @property
    def _users(self) -> Mapping[str, UserRow]:
        return self._core.state.shares.people if self._before is None else self._before

    def __getitem__(self, name: str) -> UserRow:
        return self._users[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)
