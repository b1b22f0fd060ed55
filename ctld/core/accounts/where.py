"""Further conditions of a change (sacctmgr's `where`) on accounts, users and their associations.

A value is a comma-separated list, one of which must match; names of accounts and QOS regardless of case. Limits are
compared as text.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.effects import Refused
from ctld.core.records.events import ChangeAccounts, Role
from ctld.core.state.fairshare import PARENT_SHARES, Assoc
from ctld.core.state.state import ClusterState
from penstock.values.limits import OF_ASSOC, texts
from penstock.values.refusals import Code

_NOBODY: Final = UserRow("", "")
_LEVEL_WORDS: Final = {
    Role.USER: ("none",), Role.OPERATOR: ("operator",), Role.ADMINISTRATOR: ("administrator", "admin"),
}  # fmt: skip


def _about(field: str) -> Callable[[ClusterState, Assoc], Iterable[str]]:
    def found(state: ClusterState, assoc: Assoc) -> Iterable[str]:
        about = state.shares.about.get(assoc.account)
        return (getattr(about, field).lower(),) if about is not None else ()

    return found


def _person(field: str) -> Callable[[ClusterState, Assoc], Iterable[str]]:
    def found(state: ClusterState, assoc: Assoc) -> Iterable[str]:
        return (getattr(state.shares.people.get(assoc.user_name, _NOBODY), field).lower(),)

    return found


_CONDITIONS: Final[dict[str, Callable[[ClusterState, Assoc], Iterable[str]]]] = {
    "adminlevel": lambda s, a: _LEVEL_WORDS[Role(s.shares.people.get(a.user_name, _NOBODY).admin_level)],
    "cluster": lambda s, a: (s.config.cluster_name.lower(),),
    "defaultaccount": _person("default_account"),
    "defaultqos": lambda s, a: (a.default_qos.lower(),),
    "defaultwckey": _person("default_wckey"),
    "description": _about("description"),
    "fairshare": lambda s, a: ("parent" if a.shares == PARENT_SHARES else str(a.shares),),
    "id": lambda s, a: (str(a.assoc_id),),
    "organization": _about("organization"),
    "parent": lambda s, a: (a.parent.account if a.parent is not None else "",),
    "partition": lambda s, a: (a.partition.lower(),),
    "priority": lambda s, a: (str(a.priority),),
    "qos": lambda s, a: a.qos,
}
_ALSO: Final = {"clusters": "cluster", "shares": "fairshare", "ids": "id", "qoslevel": "qos", "partitions": "partition"}


def matches(state: ClusterState, assocs: list[Assoc], event: ChangeAccounts) -> list[Assoc]:
    """Returns the entries that satisfy all conditions. Raises Refused for an unknown condition."""
    found = assocs
    for key, text in event.where.items():
        wanted = {word.strip().lower() for word in text.split(",")}
        condition = _CONDITIONS.get(_ALSO.get(key, key))
        if condition is not None:
            found = [assoc for assoc in found if not wanted.isdisjoint(condition(state, assoc))]
        elif key in OF_ASSOC:
            name = OF_ASSOC[key].name
            found = [assoc for assoc in found if texts(assoc.limits).get(name, "-1") == text]
        else:
            raise Refused(Code.NOT_SUPPORTED, f"a condition on {key} is not supported; known: {', '.join(_CONDITIONS)}")
    return found
