"""Table of the keys that sacctmgr may set on accounts, users and their associations, each with its parser.

A request's keys are parsed once, into an `EntityChanges`, before anything is changed; limits stay text until they are
applied to the association, since `GrpTRES=cpu=4` changes one TRES of several. A key that an entity does not have is
refused.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypedDict, cast

from ctld.core.queue import tres
from ctld.core.records.effects import Refused
from ctld.core.records.events import ChangeAccounts, Role
from ctld.core.state.fairshare import PARENT_SHARES, SHARES_MAX
from ctld.core.state.state import ClusterState
from penstock.values import limits as lim
from penstock.values.budgets import Budget, check_budget, parse_budgets, why_unpaid
from penstock.values.errors import BadValue
from penstock.values.fields import Fields
from penstock.values.limits import Limit, LimitKind
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.text import check_name, shown

NAME_CHARS_MAX: Final = 128
PRIORITY_MAX: Final = 2**31 - 1
QOS_NAMES_MAX: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+$-]*")
_LEVELS: Final = {
    "": Role.USER, "-1": Role.USER, "none": Role.USER, "operator": Role.OPERATOR, "admin": Role.ADMINISTRATOR,
    "administrator": Role.ADMINISTRATOR,
}  # fmt: skip
#: Kinds of TRES that are known by the part before the slash; the part after it is the site's.
_STATIC: Final = ("bb/", "fs/", "ic/")


class EntityValues(TypedDict, total=False):
    """Values by key, each of its parser's type."""

    fairshare: int
    priority: int
    defaultqos: str
    budget: str
    parent: str
    defaultaccount: str
    defaultwckey: str
    adminlevel: Role
    newname: str
    description: str
    organization: str
    rawusage: int


class EntityChanges(NamedTuple):
    """The values to be set."""

    values: EntityValues
    limits: tuple[tuple[Limit, str], ...] = ()
    qos: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (sign, names), in order; () = the list stays
    keys: tuple[str, ...] = ()  # all of them, as they were requested

    def of_assoc(self) -> bool:
        """Whether a value of an association is to be set."""
        return bool(self.limits or self.qos or not ASSOC_KEYS.isdisjoint(self.values))


# ---- names -------------------------------------------------------------------------------------------------------


def name_of(text: str, what: str) -> str:
    """Validates a name of a user, an account or a wckey. Raises BadValue."""
    if len(text) > NAME_CHARS_MAX or not _NAME.fullmatch(text):
        raise BadValue(f"Invalid {what}: {shown(text)}")
    return text


def account_name(text: str) -> str:
    """Normalises the name of an account to lower case."""
    return name_of(text.lower(), "account name")


def wckey_name(text: str) -> str:
    """Validates a wckey; the star before a default is Slurm's way to print it."""
    return name_of(text.removeprefix("*"), "wckey") if text else ""


# ---- values ------------------------------------------------------------------------------------------------------


def _shares(text: str) -> int:
    if text == "-1":
        return 1
    return PARENT_SHARES if text.lower() == "parent" else parse_int(text, 0, SHARES_MAX, "fairshare")


def _priority(text: str) -> int:
    return 0 if text == "-1" else parse_int(text, 0, PRIORITY_MAX, "priority")


def _level(text: str) -> Role:
    level = _LEVELS.get(text.lower())
    if level is None:
        raise BadValue(f"Invalid adminlevel: expected None, Operator or Administrator, not {shown(text)}")
    return level


def _default_qos(text: str) -> str:
    return "" if text in ("", "-1") else name_of(text.lower(), "QOS")


KEYS: Final[dict[str, Callable[[str], object]]] = {
    "fairshare": _shares,
    "priority": _priority,
    "defaultqos": _default_qos,
    "budget": check_budget,
    "parent": account_name,
    "defaultaccount": account_name,
    "defaultwckey": wckey_name,
    "adminlevel": _level,
    "newname": lambda text: name_of(text, "user name"),
    "description": lambda text: check_name(text, "description", 255),
    "organization": lambda text: check_name(text, "organization", 255),
    "rawusage": lambda text: parse_int(text, 0, 0, "rawusage"),
}
#: Keys of an association itself.
ASSOC_KEYS: Final = frozenset(("fairshare", "priority", "defaultqos", "budget", "rawusage"))
_OF_ENTITY: Final = {
    "account": ASSOC_KEYS | {"parent", "description", "organization"},
    "user": (ASSOC_KEYS - {"budget"}) | {"defaultaccount", "defaultwckey", "adminlevel", "newname"},
    "cluster": ASSOC_KEYS,
}


def read_changes(state: ClusterState, event: ChangeAccounts) -> EntityChanges:
    """Parses the values that the request wants to set. Raises Refused or BadValue."""
    found: Fields = {}
    limits: list[tuple[Limit, str]] = []
    qos: list[tuple[str, tuple[str, ...]]] = []
    keys = _OF_ENTITY[event.entity]
    for key, text in event.changes.items():
        if key in ("qos", "qos+", "qos-"):
            qos.append((key[3:], _qos_names(state, text)))
        elif key in keys:
            found[key] = KEYS[key](text)
        elif key in lim.OF_ASSOC:
            limits.append((lim.OF_ASSOC[key], text))
        else:
            raise Refused(Code.NOT_SUPPORTED, f"{key}= is not supported for a {event.entity}")
    values = cast(EntityValues, found)  # the parsers of KEYS return these types
    _check_limits(state, limits)
    if values.get("defaultqos") and values["defaultqos"] not in state.qos:
        raise Refused(Code.INVALID_QOS, values["defaultqos"])
    _check_money(state, values.get("budget", ""))
    return EntityChanges(values, tuple(limits), tuple(qos), tuple(event.changes))


def _check_money(state: ClusterState, text: str) -> None:
    """Refuses a budget that no usage is charged to, since it would limit nothing. Raises BadValue."""
    for budget in parse_budgets(text):
        if why := unpaid(state, budget):
            raise BadValue(f"Invalid budget {shown(text)}: {why}")


def unpaid(state: ClusterState, budget: Budget) -> str:
    """Returns why a budget has no effect with this configuration; "" = it has."""
    has_prices = any(partition.config.prices for partition in state.partition_list)
    return why_unpaid(budget, state.config.penstock_currency, has_prices)


def _qos_names(state: ClusterState, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip() not in ("", "-1")))
    if len(names) > QOS_NAMES_MAX:
        raise BadValue(f"Invalid QOS list: {len(names)} names, the limit is {QOS_NAMES_MAX}")
    for name in names:
        if name not in state.qos:
            raise Refused(Code.INVALID_QOS, name)
    return names


def _check_limits(state: ClusterState, limits: list[tuple[Limit, str]]) -> None:
    """Checks the syntax of limits, and that the cluster has each TRES: a misspelt one would limit nothing."""
    for limit, text in limits:
        check_tres(state, limit, lim.change(lim.NO_LIMITS, limit, text))


def check_tres(state: ClusterState, limit: Limit, limits: lim.Limits) -> None:
    """Raises BadValue when a limit names a TRES that the cluster does not have."""
    if limit.kind is not LimitKind.TRES:
        return
    for name, _ in lim.get(limits, limit):
        if name not in tres.BUILT_IN and name not in state.registry.tres_ids and not name.startswith(_STATIC):
            known = ", ".join((*tres.BUILT_IN, *state.registry.tres_ids))
            raise BadValue(f"Invalid {limit.keyword}: there is no TRES {shown(name)}; known: {known}")
