"""Which wckey a job has, and may have (what wckeys are: wckeys.py). No changes of accounting's records here."""

from ctld.core.fairshare import WckeyRow
from ctld.core.state import ClusterState

#: Of one cluster.
WCKEYS_MAX = 100_000
#: Those that made themselves, of one user: whoever needs more has them added.
WCKEYS_BY_THEMSELVES_MAX = 100


def wckey_allowed(state: ClusterState, user: str, wckey: str) -> bool:
    """True when the user's jobs may have it. No wckey: when he has a default one."""
    if wckey.startswith("*") or not wckey:
        person = state.shares.people.get(user)
        return person is not None and bool(person.default_wckey) and wckey in ("", "*", f"*{person.default_wckey}")
    row = state.shares.wckeys.get((wckey, user))
    return row is not None and not row.deleted


def wckey_of(state: ClusterState, user: str, asked: str) -> str:
    """What a job has that asks for this one, as it is kept and shown; "" without TrackWCKey."""
    if not state.config.track_wckey:
        return asked
    if asked and not asked.startswith("*"):
        return asked
    person = state.shares.people.get(user)
    return f"*{person.default_wckey}" if person is not None else "*"


def note(state: ClusterState, user: str, wckey: str) -> None:
    """A job has named it: with TrackWCKey and nobody to refuse it, it is the user's from now on."""
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
    """The number of a new one: one a row, and none is ever taken out."""
    return len(state.shares.wckeys) + 1
