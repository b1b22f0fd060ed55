"""Changes to associations, shared by accounts, users and the cluster: values from requests, and removals."""

from collections.abc import Iterable

from ctld.core.accounts.draft import Draft
from ctld.core.accounts.keys import EntityChanges
from ctld.core.accounts.wckeys import forget_all
from ctld.core.queue.associations import qos_of
from ctld.core.queue.rights import check_bounds, check_forget
from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.effects import Changed, Refused
from ctld.core.state.fairshare import Assoc
from ctld.core.state.state import ClusterState
from penstock.values.fields import Fields
from penstock.values.limits import change
from penstock.values.refusals import Code

#: Maximum number of associations: far more than any site has; ranking as many takes a second.
ASSOCS_MAX = 100_000

_FIELDS = {"fairshare": "shares", "priority": "priority", "budget": "budget", "defaultqos": "default_qos"}


def check_room(state: ClusterState, number: int) -> None:
    """Raises Refused when so many more associations would exceed the maximum."""
    if len(state.shares.by_id) + number > ASSOCS_MAX:
        raise Refused(Code.INVALID_VALUE, f"more than {ASSOCS_MAX} associations")


def answer(names: Iterable[str], assocs: Iterable[Assoc]) -> Changed:
    """Builds the answer to a change: what was done."""
    found = tuple((a.account, a.user_name, a.parent.account if a.parent else "", a.partition) for a in assocs)
    return Changed(tuple(dict.fromkeys(names)), found)


def grant(draft: Draft, assoc: Assoc, wanted: EntityChanges) -> None:
    """Gives an association the requested values, after which it exists by request. Raises Refused."""
    values: Fields = {_FIELDS[key]: value for key, value in wanted.values.items() if key in _FIELDS}
    limits = assoc.limits
    for limit, text in wanted.limits:
        limits = change(limits, limit, text)
    values["limits"] = limits
    own_qos: tuple[str, ...] = ()
    if wanted.qos:
        values["qos"] = own_qos = _qos_list(assoc, wanted.qos)
    default_qos = wanted.values.get("defaultqos", "")
    if assoc.parent is not None:
        asked = (*own_qos, *((default_qos,) if default_qos else ()))
        check_bounds(draft.actor, assoc.parent, limits, [limit for limit, _ in wanted.limits], asked)
    draft.set_assoc(assoc, **values)
    if wanted.qos:
        check_default_qos(assoc)
    elif default_qos and default_qos not in qos_of(assoc):
        raise Refused(Code.INVALID_QOS, f"{default_qos} is not among the QOS of the association")
    if "rawusage" in wanted.values:
        for one in with_all_below(assoc):
            draft.forget_usage(one)


def _qos_list(assoc: Assoc, changes: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """Computes its own list after the changes; += and -= start with the inherited list when it has none of its own."""
    found = qos_of(assoc)
    for sign, names in changes:
        if sign and not names:
            raise Refused(Code.INVALID_QOS, f"qos{sign}= names none")
        if sign == "-":
            found = tuple(name for name in found if name not in names)
        else:
            found = tuple(dict.fromkeys((*found, *names))) if sign else names
        if sign and not found:
            raise Refused(Code.INVALID_QOS, "no QOS would be left; qos= without names is what the account above has")
    return found


def described(assoc: Assoc) -> str:
    """Returns the words for an association in a refusal."""
    return f"{assoc.user_name} in account {assoc.account}" if assoc.user_name else f"account {assoc.account}"


def check_default_qos(assoc: Assoc) -> None:
    """Checks after a change of a QOS list that every association that inherits it still has its default QOS. Raises
    Refused."""
    below = [assoc]
    for one in below:
        if one.default_qos and one.default_qos not in qos_of(one):
            raise Refused(Code.NO_REMOVE_DEFAULT_QOS, f"{described(one)} has {one.default_qos}")
        below += [child for child in one.children.values() if not child.qos]


# ---- removing ----------------------------------------------------------------------------------------------------


def with_all_below(assoc: Assoc) -> list[Assoc]:
    """Returns the association and everything below it; parents come first."""
    order = [assoc]
    for one in order:
        order += one.children.values()
    return order


def left_without(state: ClusterState, assocs: Iterable[Assoc]) -> list[str]:
    """Returns the users without any remaining association by request once these associations are removed."""
    gone = {assoc.assoc_id: assoc.user_name for assoc in assocs if assoc.user_name}
    users = dict.fromkeys(gone.values())
    by_user = state.shares.by_user
    return [user for user in users if all(a.made_by_itself or a.assoc_id in gone for a in by_user.get(user, ()))]


def remove(draft: Draft, assocs: list[Assoc]) -> None:
    """Removes associations, each with those below it in the list, and the users without any remaining one. Raises
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
    """Removes a user, with their level, their coordinatorships and their wckeys. Raises Refused."""
    tree = draft.state.shares
    check_forget(draft.state, draft.actor, user)
    for account in tree.coordinator_of.get(user, ()):
        about = tree.about[account]
        draft.put_account(about._replace(coordinators=tuple(name for name in about.coordinators if name != user)))
    forget_all(draft, user)
    if user in tree.people:
        draft.put_user(UserRow(user, "", deleted=True))


def _check_default_account(draft: Draft, user: str) -> None:
    """Checks that users who keep accounts keep their default account (ESLURM_NO_REMOVE_DEFAULT_ACCOUNT)."""
    tree = draft.state.shares
    person = tree.people.get(user)
    if person is None or not person.default_account:
        return
    if all(assoc.account != person.default_account for assoc in tree.by_user.get(user, ())):
        raise Refused(Code.NO_REMOVE_DEFAULT_ACCOUNT, f"user {user}, account {person.default_account}")


def _depth(assoc: Assoc) -> int:
    depth, at = 0, assoc.parent
    while at is not None:
        depth, at = depth + 1, at.parent
    return depth
