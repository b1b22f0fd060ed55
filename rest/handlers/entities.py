"""Changing accounting: accounts, users, associations, QOS, wckeys; clusters and TRES, which are not changed here.

A body's records are one request to the controller: all are accepted, or none. It is made in slices, between which other
requests are served. Nothing to change is 304, as in Slurm. The controller decides who may change what.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, cast

from cli.accounts.tree import AssociationTree
from cli.base.document import Json
from penstock.exporter.pace import WorkPace
from penstock.v1.controller_pb2 import ChangeQosRequest, ListQosRequest, PingRequest
from penstock.v1.governance_pb2 import Change, ChangeManyReply, ChangeManyRequest, ListWckeysRequest
from penstock.v1.shares_pb2 import Association, ChangeAccountsReply
from penstock.values.refusals import TEXT, Code
from rest.answers import BAD_QUERY, NotModified, RestError
from rest.calling import RestCall
from rest.contract.parse import NO_MEMBER
from rest.handlers import accounts as reading
from rest.handlers.entitychanges import (
    ADD,
    DELETED,
    OF_ACCOUNT,
    OF_CONDITION,
    OF_NEW_USER,
    REMOVE,
    Parents,
    accounts_of,
    changed,
    of_account,
    of_association,
    of_qos,
    of_user,
    of_wckey,
    unused,
)
from rest.handlers.members import Members, records_of, settings, text_of, texts_of

_CHANGES: Final[dict[str, Callable[[Members, Parents], Iterator[Change]]]] = {
    "account": of_account, "association": of_association, "user": of_user, "wckey": of_wckey,
}  # fmt: skip
NO_ACCOUNT: Final = "a new user needs an account: give default.account or associations, or post to users_association"


# ---- lists of records


async def post_accounts(call: RestCall) -> Json:
    """POST accounts."""
    return await _post(call, "account", "accounts")


async def post_associations(call: RestCall) -> Json:
    """POST associations."""
    return await _post(call, "association", "associations")


async def post_users(call: RestCall) -> Json:
    """POST users."""
    await _check_users(call, records_of(call.record(), "users"))
    return await _post(call, "user", "users")


async def post_wckeys(call: RestCall) -> Json:
    """POST wckeys."""
    return await _post(call, "wckey", "wckeys")


async def post_qos(call: RestCall) -> Json:
    """POST qos."""
    await change(call, await _of_all_qos(call))
    return {}


async def post_config(call: RestCall) -> Json:
    """POST config: all of it, or nothing. Clusters and TRES follow from the configuration, and change nothing."""
    for name in ("clusters", "tres"):
        if records_of(call.record(), name):
            call.warn(f"{name} has no effect here", f"#/{name}")
    await _check_users(call, records_of(call.record(), "users"))
    qos = await _of_all_qos(call)
    kinds = (("account", "accounts"), ("association", "associations"), ("user", "users"), ("wckey", "wckeys"))
    parents = await _parents(call)
    await change(call, [*qos, *[one for kind, name in kinds for one in await _of_list(call, kind, name, parents)]])
    return {}


async def _post(call: RestCall, kind: str, name: str) -> Json:
    await change(call, await _of_list(call, kind, name, await _parents(call)))
    return {}


async def _parents(call: RestCall) -> Parents:
    """The accounts that there are, if a record of the body is about one. Those that a job's submission made count as new."""
    record = call.record()
    if not records_of(record, "accounts") and all(text_of(one, "user") for one in records_of(record, "associations")):
        return {}
    tree = await reading.tree_of(call, with_deleted=False)
    return {name: one.parent for name, one in tree.nodes.items() if not one.made_by_itself}


async def _of_list(call: RestCall, kind: str, name: str, parents: Parents) -> list[Change]:
    """The changes of a list of records. Accounts of associations are made before users of them."""
    pace = WorkPace()
    first: list[Change] = []
    users: list[Change] = []
    async for index, record in pace.over(enumerate(records_of(call.record(), name))):
        if _is_meant(call, record, kind, f"#/{name}/{index}"):
            made = users if kind == "association" and text_of(record, "user") else first
            made += _CHANGES[kind](record, parents)
    return first + users


async def _of_all_qos(call: RestCall) -> list[Change]:
    """The changes of QOS: each is added before another one may name it."""
    reply = await call.call("ListQos", ListQosRequest())
    by_id = {one.id: one.name for one in reply.qos}
    known = set(by_id.values())
    new: dict[str, None] = {}
    changes: list[Change] = []
    async for index, record in WorkPace().over(enumerate(records_of(call.record(), "qos"))):
        source = f"#/qos/{index}"
        if not _is_meant(call, record, "qos", source):
            continue
        name = text_of(record, "name").lower() or by_id.get(_number(record), "")
        if not name:
            raise RestError(
                422, NO_MEMBER, "name is missing, and there is no QOS with that id", source=f"{source}/name"
            )
        call.check_new(name in known, Code.QOS_EXISTS, name, f"{source}/name")
        if name not in known:
            new[name] = None
        one = of_qos({**record, "name": name})
        changes += [one] if one.qos.changes or name in known else []  # without a change the controller checks the right
    added = [Change(qos=ChangeQosRequest(action=ChangeQosRequest.ADD, names=[name])) for name in new]
    return [*added, *changes]


def _number(record: Members) -> int:
    found = record.get("id")
    return found if isinstance(found, int) else 0


def _is_meant(call: RestCall, record: Members, kind: str, source: str) -> bool:
    """Whether a record is to be made. Warns of what has no effect. Raises RestError for another cluster."""
    check_clusters(call, record, source)
    if DELETED in (record.get("flags") or ()):  # type: ignore[operator]  # a list, by the contract
        call.warn("a record with the flag DELETED is left out: use DELETE to remove", f"{source}/flags")
        return False
    _warn_unused(call, record, kind, source)
    return True


def _warn_unused(call: RestCall, record: Members, kind: str, source: str) -> None:
    for name in unused(record, kind):
        call.warn(f"{name} has no effect here", f"{source}/{name.replace('.', '/')}")


def check_clusters(call: RestCall, record: Members, source: str) -> None:
    """Raises RestError for a record of another cluster."""
    named = [text_of(record, "cluster")]
    named += [text_of(one, "cluster") for name in ("associations", "wckeys") for one in records_of(record, name)]
    named += texts_of(record, "clusters")
    for name in named:
        if name and name != call.cluster:
            text = f"this is the accounting of cluster {call.cluster} alone, not of {name}"
            raise RestError(422, BAD_QUERY, text, source=source)


async def _check_users(call: RestCall, records: list[Members]) -> None:
    """Raises RestError for a user who is new and gets no account: nothing would come of it."""
    pace = WorkPace()
    unplaced = [record async for record in pace.over(records) if not accounts_of(record)]
    if unplaced:
        tree = await reading.tree_of(call, with_deleted=False)
        async for record in pace.over(unplaced):
            if not {text_of(record, "name"), text_of(record, "old_name")} & tree.users.keys():
                raise RestError(422, Code.INVALID_ACCOUNT, NO_ACCOUNT, source=text_of(record, "name"))


async def change(call: RestCall, changes: Iterable[Change]) -> list[ChangeAccountsReply]:
    """Makes changes, all or none. Raises NotModified if nothing changes, PenstockError."""
    request = ChangeManyRequest()
    async for one in WorkPace().over(changes):
        request.changes.append(one)
    reply: ChangeManyReply = await call.call("ChangeMany", request)
    if not any(one.names or one.associations for one in reply.replies):
        raise NotModified
    return list(reply.replies)


# ---- by condition


async def add_accounts(call: RestCall) -> Json:
    """POST accounts_association: accounts, all with the same settings."""
    condition = _condition(call, "accounts")
    said = _settings(call, condition) | settings(_member(call.record(), "account"), OF_ACCOUNT)
    (reply,) = await change(call, [changed(ADD, "account", texts_of(condition, "accounts"), said)])
    lines = [" Adding Account(s)", *(f"  {name}" for name in reply.names)]
    lines += [" Associations", *(f"  {_place(call.cluster, one)}" for one in reply.associations)]
    return {"added_accounts": _lines(lines)}


async def add_users(call: RestCall) -> Json:
    """POST users_association: users in accounts, all with the same settings."""
    condition, user = _condition(call, "users"), _member(call.record(), "user")
    _warn_unused(call, user, "new user", "#/user")
    said = _settings(call, condition) | settings(user, OF_NEW_USER)
    names, wckeys = texts_of(condition, "users"), texts_of(condition, "wckeys")
    accounts = texts_of(condition, "accounts") or [said[key] for key in ("defaultaccount",) if key in said]
    partitions = texts_of(condition, "partitions")
    changes = [changed(ADD, "user", names, said, accounts=accounts, partitions=partitions)]
    if wckeys:
        changes.append(changed(ADD, "wckey", wckeys, users=names))
    reply, *_ = await change(call, changes)
    lines = [" Adding User(s)", *(f"  {name}" for name in dict.fromkeys(reply.names))]
    lines += [" Associations =", *(f"  U = {one.user:<9} {_place(call.cluster, one)}" for one in reply.associations)]
    return {"added_users": _lines(lines)}


def _condition(call: RestCall, entity: str) -> Members:
    """The association_condition of a body. Raises RestError for another cluster, and if it names no `entity`."""
    condition = _member(call.record(), "association_condition")
    check_clusters(call, condition, "#/association_condition/clusters")
    if not texts_of(condition, entity):
        raise RestError(422, NO_MEMBER, f"{entity} is empty", source=f"#/association_condition/{entity}")
    return condition


def _settings(call: RestCall, condition: Members) -> dict[str, str]:
    record = _member(condition, "association")
    _warn_unused(call, record, "condition", "#/association_condition/association")
    return settings(record, OF_CONDITION)


def _member(record: Members, name: str) -> Members:
    found = record.get(name)
    return cast("Members", found) if isinstance(found, dict) else {}


def _place(cluster: str, one: Association) -> str:
    """An association, as sacctmgr names it."""
    return f"A = {one.account:<10} C = {cluster:<10}" + (f" P = {one.partition:<10}" if one.partition else "")


def _lines(lines: list[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


# ---- removals


async def delete_account(call: RestCall) -> Json:
    """DELETE account/{account_name}: with all that is below it."""
    (reply,) = await change(call, [changed(REMOVE, "account", [call.path["account_name"].lower()])])
    return {"removed_accounts": list(reply.names)}


async def delete_user(call: RestCall) -> Json:
    """DELETE user/{name}."""
    await change(call, [changed(REMOVE, "user", [call.path["name"]])])
    return {}


async def delete_association(call: RestCall) -> Json:
    """DELETE association: the one that passes the filters of the query."""
    found = await _filtered(call)
    if len(found[1]) > 1:
        text = f"{len(found[1])} associations pass the filters: DELETE associations removes several"
        raise RestError(422, BAD_QUERY, text, source="#")
    return await _remove(call, *found)


async def delete_associations(call: RestCall) -> Json:
    """DELETE associations: all that pass the filters of the query; of an account with all that is below it."""
    return await _remove(call, *await _filtered(call))


async def _filtered(call: RestCall) -> tuple[AssociationTree, list[Association]]:
    """The associations that pass the filters. None of these: an error, never all associations."""
    if not any(call.query.get(name) for name in reading.FILTERS):
        raise RestError(422, BAD_QUERY, f"no filter is given: {', '.join(reading.FILTERS)}", source="#")
    tree = await reading.tree_of(call, with_deleted=False)
    return tree, reading.chosen(call, tree)


async def _remove(call: RestCall, tree: AssociationTree, found: list[Association]) -> Json:
    accounts = {one.account for one in found if not one.user}
    users = [one for one in found if one.user and not _is_below(tree, one, accounts)]
    changes = [changed(REMOVE, "account", sorted(accounts))] if accounts else []
    changes += [
        changed(REMOVE, "user", [one.user], accounts=[one.account], where={"partition": one.partition}) for one in users
    ]
    await change(call, changes)
    return {"removed_associations": [_removed(tree.cluster, one) for one in found]}


def _is_below(tree: AssociationTree, one: Association, accounts: set[str]) -> bool:
    return any(above.account in accounts for above in tree.chain(one)[1:])


def _removed(cluster: str, one: Association) -> str:
    text = f"C = {cluster:<10} A = {one.account:<20}" + (f" U = {one.user:<9}" if one.user else "")
    return (f"{text} P = {one.partition}" if one.partition else text).rstrip()


async def delete_qos(call: RestCall) -> Json:
    """DELETE qos/{qos}: a name or a number."""
    text = call.path["qos"]
    reply = await call.call("ListQos", ListQosRequest())
    name = next((one.name for one in reply.qos if text in (one.name, str(one.id))), "")
    changes = [Change(qos=ChangeQosRequest(action=ChangeQosRequest.DELETE, names=[name]))] if name else []
    await change(call, changes)
    return {"removed_qos": [name]}


async def delete_wckey(call: RestCall) -> Json:
    """DELETE wckey/{id}."""
    number = reading.wckey_number(call)
    reply = await call.call("ListWckeys", ListWckeysRequest())
    found = [one for one in reply.wckeys if one.id == number and not one.deleted]
    await change(call, [changed(REMOVE, "wckey", [one.name], users=[one.user]) for one in found])
    return {"deleted_wckeys": [f"C = {call.cluster} W = {one.name} U = {one.user}" for one in found]}


# ---- what this accounting cannot change


async def post_clusters(call: RestCall) -> Json:
    """POST clusters: the own one is there; others have an accounting of their own."""
    names = [text_of(one, "name") for one in records_of(call.record(), "clusters")]
    await change(call, [changed(ADD, "cluster", [name]) for name in names])
    return {}


async def delete_cluster(call: RestCall) -> Json:
    """DELETE cluster/{cluster_name}: refused by the controller."""
    await change(call, [changed(REMOVE, "cluster", [call.path["cluster_name"]])])
    return {"deleted_clusters": []}


async def post_tres(call: RestCall) -> Json:
    """POST tres: they follow from the configuration (AccountingStorageTRES, GresTypes)."""
    await call.call("Ping", PingRequest())  # who has no valid token learns no more than that
    raise RestError(422, 2036, TEXT[Code.NOT_SUPPORTED], "TRES follow from slurm.conf")
