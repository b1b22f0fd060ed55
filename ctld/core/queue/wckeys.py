"""Resolves a job's wckey, and checks that the user may use it (changes of wckeys: accounts/wckeys.py)."""

from ctld.core.records.accounting_rows import WckeyRow
from ctld.core.state.state import ClusterState

#: Maximum number in the cluster.
WCKEYS_MAX = 100_000
#: Maximum number of implicitly added ones of one user; further ones are added by sacctmgr.
WCKEYS_BY_THEMSELVES_MAX = 100


def wckey_allowed(state: ClusterState, user: str, wckey: str) -> bool:
    """Whether the user's jobs may have the wckey. No wckey: whether they have a default one."""
    if wckey.startswith("*") or not wckey:
        person = state.shares.people.get(user)
        return person is not None and bool(person.default_wckey) and wckey in ("", "*", f"*{person.default_wckey}")
    row = state.shares.wckeys.get((wckey, user))
    return row is not None and not row.deleted


def wckey_of(state: ClusterState, user: str, asked: str) -> str:
    """Returns the wckey of a job that requests this one, as it is stored and shown; "" without TrackWCKey."""
    if not state.config.track_wckey:
        return asked
    if asked and not asked.startswith("*"):
        return asked
    person = state.shares.people.get(user)
    return f"*{person.default_wckey}" if person is not None else "*"


def note(state: ClusterState, user: str, wckey: str) -> None:
    """Adds a wckey that a job has named to those of its user, with TrackWCKey and without enforcement."""
    table = state.shares.wckeys
    if not state.config.track_wckey or not wckey or wckey.startswith("*"):
        return
    before = table.get((wckey, user))
    if (before is not None and not before.deleted) or len(table) >= WCKEYS_MAX:
        return
    if sum(owner == user for _, owner in table) >= WCKEYS_BY_THEMSELVES_MAX:
        return
    row = WckeyRow(before.wckey_id if before is not None else next_id(state), wckey, user)
    table[wckey, user] = state.registry.dirty_wckeys[row.wckey_id] = row


def next_id(state: ClusterState) -> int:
    """Returns the number of a new one: one for each row, and rows are never deleted."""
    return len(state.shares.wckeys) + 1
