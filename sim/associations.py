"""Accounts for the users of a log on a machine that enforces associations. A log has the users, and sometimes their
groups, but not the site's accounts. With AccountingStorageEnforce=associations every job of such a log would be
refused. So each group of the log is an account below root, and a user belongs to the one in which they submitted first;
without groups there is one account. All have one share, no limits and the QOS of root: the run tests the configuration,
not a policy of accounts (sim/policyplay.py does that).
"""

from collections.abc import Iterator
from typing import Final

from ctld.core.records.events import AccountAction, Actor, ChangeAccounts, Role
from sim.workload import Workload

ADMINISTRATOR: Final = Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR)
#: The most names in one request.
NAMES_MAX: Final = 500


def of_log(workload: Workload, users: list[int], first_reply: int) -> list[ChangeAccounts]:
    """The changes that create the accounts. `users`: by row, as returned by user_numbers()."""
    account_of: dict[int, int] = {}
    for user, group in zip(users, workload.group.tolist(), strict=True):
        account_of.setdefault(user, max(group, -1))
    members: dict[int, list[str]] = {}
    for user, group in account_of.items():
        members.setdefault(group, []).append(f"user{user}")
    found: list[ChangeAccounts] = []

    def add(entity: str, names: tuple[str, ...], accounts: tuple[str, ...] = ()) -> None:
        reply_to = first_reply + len(found)
        found.append(
            ChangeAccounts(ADMINISTRATOR, AccountAction.ADD, entity, names, {}, accounts=accounts, reply_to=reply_to)
        )

    names = {group: f"group{group}" if group >= 0 else "log" for group in members}
    for chunk in _chunks(list(names.values())):
        add("account", chunk)
    for group, those in members.items():
        for chunk in _chunks(those):
            add("user", chunk, (names[group],))
    return found


def _chunks(names: list[str]) -> Iterator[tuple[str, ...]]:
    for at in range(0, len(names), NAMES_MAX):
        yield tuple(names[at : at + NAMES_MAX])
