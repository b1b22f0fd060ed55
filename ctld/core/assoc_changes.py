"""What changes of accounts, users and the cluster share: how a wish becomes an association's values, and removals."""

from collections.abc import Iterable
from typing import Any

from ctld.core.assocs import qos_of
from ctld.core.draft import Draft
from ctld.core.effects import Changed, Refused
from ctld.core.entity_keys import Wish
from ctld.core.fairshare import Assoc, UserRow
from ctld.core.rights import check_bounds
from ctld.core.state import ClusterState
from ctld.core.wckeys import forget_all
from penstock.values.limits import change
from penstock.values.refusals import Code

#: Associations of a cluster: far more than any site has; a ranking of so many takes a second.
ASSOCS_MAX = 100_000

_FIELDS = {"fairshare": "shares", "priority": "priority", "budget": "budget", "defaultqos": "default_qos"}


def check_room(state: ClusterState, number: int) -> None:
    """Raise Refused when so many more would be too many."""
    if len(state.shares.by_id) + number > ASSOCS_MAX:
        raise Refused(Code.INVALID_VALUE, f"more than {ASSOCS_MAX} associations")


def answer(names: Iterable[str], assocs: Iterable[Assoc]) -> Changed:
    """What was done, for who asked."""
    found = tuple((a.account, a.user_name, a.parent.account if a.parent else "", a.partition) for a in assocs)
    return Changed(tuple(dict.fromkeys(names)), found)


def grant(draft: Draft, assoc: Assoc, wish: Wish) -> None:
    """Give an association what was asked for; from now on it is somebody's will that it is there. Raises Refused."""
    values: dict[str, Any] = {_FIELDS[key]: value for key, value in wish.values.items() if key in _FIELDS}
    limits = assoc.limits
    for limit, text in wish.limits:
        limits = change(limits, limit, text)
    values["limits"] = limits
    if wish.qos is not None:
        values["qos"] = _qos_list(assoc, *wish.qos)
    if assoc.parent is not None:
        asked = (*values.get("qos", ()), *((values["default_qos"],) if values.get("default_qos") else ()))
        check_bounds(draft.actor, assoc.parent, limits, [limit for limit, _ in wish.limits], asked)
    draft.set_assoc(assoc, **values)
    if wish.qos is not None:
        check_default_qos(assoc)
    elif values.get("default_qos") and values["default_qos"] not in qos_of(assoc):
        raise Refused(Code.INVALID_QOS, f"{values['default_qos']} is not among the QOS of the association")
    if "rawusage" in wish.values:
        for one in with_all_below(assoc):
            draft.forget_usage(one)


def _qos_list(assoc: Assoc, sign: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Its own list after the change; += and -= start with what it has from above when it has none of its own."""
    if not sign:
        return names
    if not names:
        raise Refused(Code.INVALID_QOS, f"qos{sign}= names none")
    before = qos_of(assoc)
    if sign == "+":
        return tuple(dict.fromkeys((*before, *names)))
    left = tuple(name for name in before if name not in names)
    if not left:
        raise Refused(Code.INVALID_QOS, "no QOS would be left; qos= without names is what the account above has")
    return left


def check_default_qos(assoc: Assoc) -> None:
    """After a change of its list: everything that has its QOS from here still has its default one. Raises Refused."""
    below = [assoc]
    for one in below:
        if one.default_qos and one.default_qos not in qos_of(one):
            text = f"{one.user_name} in account {one.account}" if one.user_name else f"account {one.account}"
            raise Refused(Code.NO_REMOVE_DEFAULT_QOS, f"{text} has {one.default_qos}")
        below += [child for child in one.children.values() if not child.qos]


# ---- removing ----------------------------------------------------------------------------------------------------


def with_all_below(assoc: Assoc) -> list[Assoc]:
    """The association and everything below it; what is above comes first."""
    order = [assoc]
    for one in order:
        order += one.children.values()
    return order


def left_without(state: ClusterState, assocs: Iterable[Assoc]) -> list[str]:
    """Users to whom nothing is left that somebody gave them, when these associations are gone."""
    gone = {assoc.assoc_id: assoc.user_name for assoc in assocs if assoc.user_name}
    users = dict.fromkeys(gone.values())
    places = state.shares.places
    return [user for user in users if all(a.made_by_itself or a.assoc_id in gone for a in places.get(user, ()))]


def remove(draft: Draft, assocs: list[Assoc]) -> None:
    """Take associations out, each with all that is below it in the list, and the users who are left with none. Raises
    Refused."""
    for assoc in assocs:
        job_id = draft.active.of_assoc(assoc)
        if job_id:
            text = f"job {job_id} of {assoc.user_name} in account {assoc.account}"
            raise Refused(Code.JOBS_ON_ASSOCIATION, text)
    tree = draft.state.shares
    users = dict.fromkeys(assoc.user_name for assoc in assocs if assoc.user_name)
    lost = dict.fromkeys(left_without(draft.state, assocs))
    for assoc in sorted(assocs, key=lambda a: (-_depth(a), a.assoc_id)):
        draft.remove_assoc(assoc)
        if not assoc.user_name:
            about = tree.about.get(assoc.account)
            if about is not None:
                draft.put_account(about._replace(coordinators=(), deleted=True))
    for user in users:
        if user in lost:
            forget(draft, user)
        else:
            _check_default_account(draft, user)


def forget(draft: Draft, user: str) -> None:
    """The user is gone, and with him his level, his coordinatorships and his wckeys."""
    tree = draft.state.shares
    for account in tree.coordinator_of.get(user, ()):
        about = tree.about[account]
        draft.put_account(about._replace(coordinators=tuple(name for name in about.coordinators if name != user)))
    forget_all(draft, user)
    if user in tree.people:
        draft.put_user(UserRow(user, "", deleted=True))


def _check_default_account(draft: Draft, user: str) -> None:
    """A user who is left with accounts is left with his default account (ESLURM_NO_REMOVE_DEFAULT_ACCOUNT)."""
    tree = draft.state.shares
    person = tree.people.get(user)
    if person is None or not person.default_account:
        return
    if all(assoc.account != person.default_account for assoc in tree.places.get(user, ())):
        raise Refused(Code.NO_REMOVE_DEFAULT_ACCOUNT, f"user {user}, account {person.default_account}")


def _depth(assoc: Assoc) -> int:
    depth, at = 0, assoc.parent
    while at is not None:
        depth, at = depth + 1, at.parent
    return depth
