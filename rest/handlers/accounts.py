"""Reading accounting: shares, records of jobs, accounts, users, associations, QOS, TRES, clusters, wckeys."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cli.accounts.jsonacctmgr import (
    account_object,
    association_object,
    cluster_object,
    list_object,
    qos_object,
    user_object,
)
from cli.accounts.tree import AssociationTree
from cli.base.account_tree import ROOT
from cli.base.document import Json
from cli.base.listing import STATE_OF_WORD, words
from cli.listings.jsonacct import record_object
from cli.listings.jsonshare import share_object
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import ListRecordsReply, ListRecordsRequest
from penstock.v1.controller_pb2 import ListQosRequest, PingRequest
from penstock.v1.governance_pb2 import ListClustersReply, ListClustersRequest, ListTresRequest, ListWckeysRequest
from penstock.v1.shares_pb2 import Association, ListAssociationsReply, ListAssociationsRequest
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue
from rest.answers import BAD_QUERY, RestError
from rest.calling import DIGITS_MAX, RestCall, bad_query
from rest.contract.parse import CONVERSION
from rest.handlers.jobs import check_ids, job_path
from rest.listing import AnswerList, listing

NOTHING_FOUND = "Nothing found"


async def ping(call: RestCall) -> Json:
    """GET ping: accounting is in the controller."""
    reply = await call.call("Ping", PingRequest())
    one = {"hostname": reply.controller_host, "responding": True, "latency": 0, "primary": True, "status": "UP"}
    return {"pings": [one]}


# ---- records of jobs


async def jobs(call: RestCall) -> Json:
    """GET jobs: the filters of sacct. Without a time, ids or states: since midnight, as sacct."""
    get = call.query.get
    states = [_state(word) for word in words(get("state"))]
    ids = words(get("step"))
    check_ids(one.partition(".")[0] for one in ids)
    start_us, end_us = _time(call, "start_time"), _time(call, "end_time")
    if not start_us and not ids:
        start_us = call.now_us if states else parse_date_us("midnight", call.now_us, past=True)
    if states and not end_us:
        end_us = start_us
    request = ListRecordsRequest(
        ids=ids, users=words(get("users")), accounts=words(get("account")), partitions=words(get("partition")),
        names=words(get("job_name")), states=sorted(set(states)), nodes=[node] if (node := get("node")) else (),
        start_at_us=start_us, end_at_us=end_us, duplicates=call.flag("show_duplicates"),
        no_steps=call.flag("skip_steps"), qos=words(get("qos")), wckeys=words(get("wckey")), cluster=asked_cluster(call),
    )  # fmt: skip
    return {"jobs": await _records(call, request)}


async def job(call: RestCall) -> Json:
    """GET job/{job_id}: every attempt of it."""
    text = call.path["job_id"]
    job_path(text)
    found = await _records(call, ListRecordsRequest(ids=[text], duplicates=True))
    _check_any(call, found, f"job {text}")
    return {"jobs": found}


def asked_cluster(call: RestCall) -> str:
    """The other cluster of the same database that the query names; "" = the own one. Raises RestError for several."""
    names = list(dict.fromkeys(words(call.query.get("cluster"))))
    if len(names) > 1:
        raise RestError(
            422, BAD_QUERY, f"cluster: {','.join(names)[:100]}: name one cluster a request", source="#/cluster"
        )
    return "" if names in ([], [call.cluster]) else names[0]


async def _records(call: RestCall, request: ListRecordsRequest) -> AnswerList:
    def made(page: ListRecordsReply) -> Iterator[Json]:
        return (record_object(one, call.cluster, call.now_us, {}) for one in page.records)

    def time_of(page: ListRecordsReply) -> str:  # jobs that run have an elapsed time
        return "" if all(one.end_at_us for one in page.records) else str(call.now_us // 1_000_000)

    return await listing(call, "ListRecords", request, made, time_of)


def _state(word: str) -> str:
    known: str | None = STATE_OF_WORD.get(word.upper())
    if known is None:
        raise bad_query("state", word, CONVERSION)
    return known


def _time(call: RestCall, name: str) -> int:
    """A time of the query: seconds since 1970, or a date as sacct takes it; 0 = not there. Raises RestError."""
    text = call.query.get(name, "")
    if not text or text.isdigit():
        return call.time_us(name)
    try:
        return parse_date_us(text, call.now_us, past=True)
    except BadValue as error:
        raise bad_query(name, text, CONVERSION) from error


# ---- associations


async def shares(call: RestCall) -> Json:
    """GET shares."""
    accounts, users = set(words(call.query.get("accounts"))), set(words(call.query.get("users")))
    whole = await _associations(call, with_deleted=False)
    found = [
        share_object(one, whole)
        for one in whole.associations
        if (not accounts or one.account in accounts) and (not users or one.user in users)
    ]
    return {"shares": {"shares": found, "total_shares": len(found)}}


async def accounts(call: RestCall) -> Json:
    """GET accounts."""
    with_assocs, with_coords = call.flag("WithAssociations"), call.flag("WithCoordinators")
    tree = await tree_of(call, call.flag("DELETED"))
    return {"accounts": [_account(tree, one, with_assocs, with_coords) for one in tree.accounts]}


async def account(call: RestCall) -> Json:
    """GET account/{account_name}."""
    name = call.path["account_name"]
    tree = await tree_of(call, call.flag("with_deleted"))
    found = [_account(tree, one, True, True) for one in tree.accounts if one == name]
    _check_any(call, found, f"account {name}")
    return {"accounts": found}


async def users(call: RestCall) -> Json:
    """GET users."""
    with_assocs, with_coords = call.flag("with_assocs"), call.flag("with_coords")
    levels, default = set(words(call.query.get("admin_level"))), set(words(call.query.get("default_account")))
    tree = await tree_of(call, call.flag("with_deleted"))
    found = [_user(tree, one, with_assocs, with_coords) for one in tree.users]
    return {
        "users": [
            made
            for name, made in zip(tree.users, found, strict=True)
            if (not levels or (tree.users[name].admin_level or "None") in levels)
            and (not default or tree.users[name].default_account in default)
        ]
    }


async def user(call: RestCall) -> Json:
    """GET user/{name}."""
    name = call.path["name"]
    with_assocs, with_coords = call.flag("with_assocs"), call.flag("with_coords")
    tree = await tree_of(call, call.flag("with_deleted"))
    found = [_user(tree, one, with_assocs, with_coords) for one in tree.users if one == name]
    _check_any(call, found, f"user {name}")
    return {"users": found}


async def associations(call: RestCall) -> Json:
    """GET associations."""
    tree = await tree_of(call, call.flag("Include deleted associations"), asked_cluster(call))
    return {"associations": [association_object(tree, one) for one in chosen(call, tree)]}


async def association(call: RestCall) -> Json:
    """GET association: the first that passes the filters."""
    tree = await tree_of(call, call.flag("Include deleted associations"), asked_cluster(call))
    found = [association_object(tree, one) for one in chosen(call, tree)[:1]]
    _check_any(call, found, "association")
    return {"associations": found}


async def config(call: RestCall) -> Json:
    """GET config: all of the above and below, as POST config takes it."""
    tree = await tree_of(call, with_deleted=False)
    return {
        "accounts": [_account(tree, name, True, True) for name in tree.accounts],
        "associations": [association_object(tree, one) for one in tree.whole.associations],
        "clusters": [cluster_object(tree, tree.nodes.get(ROOT))],
        "qos": [qos_object(one) for one in (await call.call("ListQos", ListQosRequest())).qos],
        "tres": (await tres(call))["TRES"],
        "users": [_user(tree, name, True, True) for name in tree.users],
        "wckeys": await _all_wckeys(call),
    }


async def clusters(call: RestCall) -> Json:
    """GET clusters: this one and the others of its database. update_time has no effect."""
    return {"clusters": await _all_clusters(call)}


async def _all_clusters(call: RestCall) -> list[Json]:
    tree = await tree_of(call, with_deleted=False)
    return [cluster_object(tree, tree.nodes.get(ROOT)), *await _neighbours(call, tree.cluster)]


async def _neighbours(call: RestCall, own: str) -> list[Json]:
    """The other clusters of the database. One that cannot be read, or all of them, is a warning."""
    found: list[Json] = []
    try:
        reply: ListClustersReply = await call.call("ListClusters", ListClustersRequest())
        for name in (one.name for one in reply.clusters if one.name != own):
            tree = await tree_of(call, with_deleted=False, cluster=name)
            found.append(cluster_object(tree, tree.nodes.get(ROOT)))
    except PenstockError as error:
        call.warn(error.text)
    return found


async def cluster(call: RestCall) -> Json:
    """GET cluster/{cluster_name}."""
    name = call.path["cluster_name"]
    found = [one for one in await _all_clusters(call) if one["name"] == name]
    _check_any(call, found, f"cluster {name}")
    return {"clusters": found}


#: Filters of associations.
FILTERS: Final[dict[str, Callable[[AssociationTree, Association], str]]] = {
    "account": lambda tree, one: one.account,
    "cluster": lambda tree, one: tree.cluster,
    "default_qos": lambda tree, one: tree.default_qos(one),
    "id": lambda tree, one: str(one.id),
    "parent_account": lambda tree, one: one.parent,
    "partition": lambda tree, one: one.partition,
    "user": lambda tree, one: one.user,
}


def chosen(call: RestCall, tree: AssociationTree) -> list[Association]:
    """The associations that pass the filters of the query."""
    filters = [(get, set(words(call.query[name]))) for name, get in FILTERS.items() if call.query.get(name)]
    return [one for one in tree.whole.associations if all(get(tree, one) in wanted for get, wanted in filters)]


def _account(tree: AssociationTree, name: str, with_assocs: bool, with_coords: bool) -> Json:
    made = account_object(tree, tree.accounts[name])
    return made | ({} if with_assocs else {"associations": []}) | ({} if with_coords else {"coordinators": []})


def _user(tree: AssociationTree, name: str, with_assocs: bool, with_coords: bool) -> Json:
    made = user_object(tree, tree.users[name])
    hidden: Json = {} if with_assocs else {"associations": [], "default": {"account": "", "qos": 0, "wckey": ""}}
    return made | hidden | ({} if with_coords else {"coordinators": []})


async def _associations(call: RestCall, *, with_deleted: bool, cluster: str = "") -> ListAssociationsReply:
    whole = ListAssociationsReply()
    request = ListAssociationsRequest(with_deleted=with_deleted, cluster=cluster)
    async for page in call.pages("ListAssociations", request):
        whole.MergeFrom(page)
    return whole


async def tree_of(call: RestCall, with_deleted: bool, cluster: str = "") -> AssociationTree:
    """All associations that the caller may see, of the own cluster ("") or another one of its database. Raises
    PenstockError."""
    return AssociationTree.of(await _associations(call, with_deleted=with_deleted, cluster=cluster))


# ---- QOS, TRES, wckeys


async def all_qos(call: RestCall) -> Json:
    """GET qos."""
    names, ids = set(words(call.query.get("name"))), set(words(call.query.get("id")))
    reply = await call.call("ListQos", ListQosRequest(with_deleted=call.flag("Include deleted QOS")))
    found = [one for one in reply.qos if (not names or one.name in names) and (not ids or str(one.id) in ids)]
    return {"qos": [qos_object(one) for one in found]}


async def qos(call: RestCall) -> Json:
    """GET qos/{qos}."""
    name = call.path["qos"]
    reply = await call.call("ListQos", ListQosRequest(with_deleted=call.flag("with_deleted")))
    found = [qos_object(one) for one in reply.qos if name in (one.name, str(one.id))]
    _check_any(call, found, f"QOS {name}")
    return {"qos": found}


async def tres(call: RestCall) -> Json:
    """GET tres."""
    reply = await call.call("ListTres", ListTresRequest())
    return {"TRES": [list_object("tres", one, call.cluster) for one in reply.tres]}


async def wckeys(call: RestCall) -> Json:
    """GET wckeys."""
    names, owners = set(words(call.query.get("name"))), set(words(call.query.get("user")))
    other = asked_cluster(call)
    reply = await call.call("ListWckeys", ListWckeysRequest(with_deleted=call.flag("with_deleted"), cluster=other))
    found = [one for one in reply.wckeys if (not names or one.name in names) and (not owners or one.user in owners)]
    return {"wckeys": [list_object("wckey", one, other or call.cluster) for one in found]}


async def _all_wckeys(call: RestCall) -> list[Json]:
    reply = await call.call("ListWckeys", ListWckeysRequest())
    return [list_object("wckey", one, call.cluster) for one in reply.wckeys]


async def wckey(call: RestCall) -> Json:
    """GET wckey/{id}."""
    number = wckey_number(call)
    reply = await call.call("ListWckeys", ListWckeysRequest(with_deleted=True))
    found = [list_object("wckey", one, call.cluster) for one in reply.wckeys if one.id == number]
    _check_any(call, found, f"wckey {number}")
    return {"wckeys": found}


def wckey_number(call: RestCall) -> int:
    """The number in the path. Raises RestError."""
    text = call.path["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise RestError(422, BAD_QUERY, f"{text[:40]!r} is no number of a wckey", source="#/id")
    return int(text)


def _check_any(call: RestCall, found: Iterable[object], what: str) -> None:
    """An empty answer has a warning."""
    if not found:
        call.warn(f"{NOTHING_FOUND}: {what}")
