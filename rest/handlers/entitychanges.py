"""Records of accounting in a request, as the changes that sacctmgr sends for them. Pure.

A record says what there should be: it is added unless it is there, then its settings are made. Both are changes of one
request, so that all records of a body are accepted or none. An account that is known to be there is changed alone: adding and
moving it need rights to the account above, which a coordinator who may change its settings need not have. Settings that a
record leaves out stay as they are, and so do TRES that a list of limits leaves out; a limit of -1 or infinite is taken away.

Members that answers have for information (id, lineage, the associations of an account) change nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from cli.base.account_tree import ROOT
from penstock.v1.controller_pb2 import ChangeQosRequest
from penstock.v1.governance_pb2 import Change
from penstock.v1.shares_pb2 import ChangeAccountsRequest
from rest.handlers.members import (
    Members,
    MemberSetting,
    as_amounts,
    as_duration,
    as_factor,
    as_level,
    as_limit,
    as_names,
    as_preempt_mode,
    as_shares,
    as_text,
    at,
    records_of,
    settings,
    text_of,
    texts_of,
)

ADD: Final = ChangeAccountsRequest.ADD
MODIFY: Final = ChangeAccountsRequest.MODIFY
REMOVE: Final = ChangeAccountsRequest.REMOVE
#: A record with this flag describes something that is gone.
DELETED: Final = "DELETED"
#: The accounts that there are, as far as the caller may see them, each with the one above it.
Parents: TypeAlias = Mapping[str, str]


# ---- members and keys

_LIMITS_OF_ASSOC: Final = {
    "max.jobs.per.count": "grpjobs", "max.jobs.per.accruing": "grpjobsaccrue", "max.jobs.per.submitted": "grpsubmitjobs",
    "max.jobs.per.wall_clock": "maxwalldurationperjob", "max.jobs.active": "maxjobs", "max.jobs.accruing": "maxjobsaccrue",
    "max.jobs.total": "maxsubmitjobs", "max.per.account.wall_clock": "grpwall",
    "min.priority_threshold": "minpriothreshold", "priority": "priority",
}  # fmt: skip
_TRES_OF_ASSOC: Final = {
    "max.tres.total": "grptres", "max.tres.group.minutes": "grptresmins", "max.tres.group.active": "grptresrunmins",
    "max.tres.minutes.per.job": "maxtresminsperjob", "max.tres.per.job": "maxtresperjob",
    "max.tres.per.node": "maxtrespernode",
}  # fmt: skip
_LIMITS_OF_QOS: Final = {
    "limits.max.active_jobs.accruing": "grpjobsaccrue", "limits.max.active_jobs.count": "grpjobs",
    "limits.max.jobs.count": "grpsubmitjobs", "limits.max.jobs.active_jobs.per.account": "maxjobsperaccount",
    "limits.max.jobs.active_jobs.per.user": "maxjobsperuser", "limits.max.jobs.per.account": "maxsubmitjobsperaccount",
    "limits.max.jobs.per.user": "maxsubmitjobsperuser", "limits.max.accruing.per.account": "maxjobsaccrueperaccount",
    "limits.max.accruing.per.user": "maxjobsaccrueperuser", "limits.max.wall_clock.per.qos": "grpwall",
    "limits.max.wall_clock.per.job": "maxwalldurationperjob", "limits.min.priority_threshold": "minpriothreshold",
    "limits.grace_time": "gracetime", "priority": "priority",
}  # fmt: skip
_TRES_OF_QOS: Final = {
    "limits.max.tres.total": "grptres", "limits.max.tres.minutes.total": "grptresmins",
    "limits.max.tres.minutes.per.qos": "grptresrunmins", "limits.max.tres.minutes.per.job": "maxtresminsperjob",
    "limits.max.tres.minutes.per.account": "maxtresrunminsperaccount",
    "limits.max.tres.minutes.per.user": "maxtresrunminsperuser", "limits.max.tres.per.account": "maxtresperaccount",
    "limits.max.tres.per.job": "maxtresperjob", "limits.max.tres.per.node": "maxtrespernode",
    "limits.max.tres.per.user": "maxtresperuser", "limits.min.tres.per.job": "mintresperjob",
}  # fmt: skip


def _table(limits: Mapping[str, str], tres: Mapping[str, str], **others: MemberSetting) -> dict[str, MemberSetting]:
    return (
        {path: MemberSetting(key, as_limit) for path, key in limits.items()}
        | {path: MemberSetting(key, as_amounts) for path, key in tres.items()}
        | {path.replace("__", "."): setting for path, setting in others.items()}
    )


OF_ASSOC: Final = _table(
    _LIMITS_OF_ASSOC,
    _TRES_OF_ASSOC,
    qos=MemberSetting("qos", as_names),
    default__qos=MemberSetting("defaultqos", as_text),
    shares_raw=MemberSetting("fairshare", as_shares),
)
OF_QOS: Final = _table(
    _LIMITS_OF_QOS,
    _TRES_OF_QOS,
    description=MemberSetting("description", as_text),
    limits__factor=MemberSetting("limitfactor", as_factor),
    usage_factor=MemberSetting("usagefactor", as_factor),
    usage_threshold=MemberSetting("usagethreshold", as_factor),
    preempt__list=MemberSetting("preempt", as_names),
    preempt__mode=MemberSetting("preemptmode", as_preempt_mode),
    preempt__exempt_time=MemberSetting("preemptexempttime", as_duration),
)
OF_ACCOUNT: Final = {
    "description": MemberSetting("description", as_text),
    "organization": MemberSetting("organization", as_text),
}
OF_USER: Final = {
    "administrator_level": MemberSetting("adminlevel", as_level),
    "default.account": MemberSetting("defaultaccount", as_text),
    "default.wckey": MemberSetting("defaultwckey", as_text),
}
#: `association` and `user` of users_association and accounts_association: the members are sacctmgr's keys.
_FLAT_COUNTS: Final = (
    "grpjobs", "grpjobsaccrue", "grpsubmitjobs", "grpwall", "maxjobs", "maxjobsaccrue", "maxsubmitjobs",
    "maxwalldurationperjob", "priority",
)  # fmt: skip
_FLAT_TRES: Final = (
    "grptres", "grptresmins", "grptresrunmins", "maxtresminsperjob", "maxtresperjob", "maxtrespernode",
)  # fmt: skip
OF_CONDITION: Final = _table(
    dict(zip(_FLAT_COUNTS, _FLAT_COUNTS, strict=True)) | {"minpriothresh": "minpriothreshold"},
    dict(zip(_FLAT_TRES, _FLAT_TRES, strict=True)),
    defaultqos=MemberSetting("defaultqos", as_text),
    fairshare=MemberSetting("fairshare", as_shares),
    parent=MemberSetting("parent", as_text),
    qoslevel=MemberSetting("qos", as_names),
)
OF_NEW_USER: Final = {
    "adminlevel": MemberSetting("adminlevel", as_level),
    "defaultaccount": MemberSetting("defaultaccount", as_text),
    "defaultwckey": MemberSetting("defaultwckey", as_text),
}
#: Members that are accepted and change nothing here.
WITHOUT_EFFECT: Final = {
    "account": ("associations",),
    "association": ("accounting", "comment", "max.tres.minutes.total"),
    "condition": ("comment", "maxtresrunmins"),
    "user": ("default.qos",),
    "new user": ("defaultqos",),
    "qos": (),
    "wckey": ("accounting",),
}
_QOS_FLAGS: Final = {
    "DENY_LIMIT": "DenyOnLimit", "ENFORCE_USAGE_THRESHOLD": "EnforceUsageThreshold", "NO_DECAY": "NoDecay",
    "NO_RESERVE": "NoReserve", "OVERRIDE_PARTITION_QOS": "OverPartQOS", "PARTITION_MAXIMUM_NODE": "PartitionMaxNodes",
    "PARTITION_MINIMUM_NODE": "PartitionMinNodes", "PARTITION_TIME_LIMIT": "PartitionTimeLimit",
    "RELATIVE": "Relative", "REQUIRED_RESERVATION": "RequiresReservation", "USAGE_FACTOR_SAFE": "UsageFactorSafe",
}  # fmt: skip
_SIGNS: Final = {"ADD": "+", "REMOVE": "-"}


def unused(record: Members, kind: str) -> list[str]:
    """The members with a value that change nothing."""
    return [path for path in WITHOUT_EFFECT[kind] if at(record, path)]


# ---- changes


def changed(
    action: "ChangeAccountsRequest.Action", entity: str, names: Iterable[str], changes: Mapping[str, str] | None = None,
    **more: Iterable[str] | Mapping[str, str],
) -> Change:  # fmt: skip
    """One change of accounting. `more`: further fields of the request."""
    request = ChangeAccountsRequest(action=action, entity=entity, names=names, changes=changes or {}, **more)  # type: ignore[arg-type]  # fields of the message
    return Change(accounts=request)


def of_account(record: Members, parents: Parents) -> Iterator[Change]:
    """An account, below root if it is new; its coordinators are added. The root account's description does not change."""
    name = text_of(record, "name")
    said = settings(record, OF_ACCOUNT)
    coordinators = [text_of(one, "name") for one in records_of(record, "coordinators")]
    if name.lower() not in parents or not (said or coordinators):  # without a change the controller checks the right
        yield changed(ADD, "account", [name], said)
    if said and name.lower() != ROOT:
        yield changed(MODIFY, "account", [name], said)
    if coordinators:
        yield changed(ADD, "coordinator", [name], users=coordinators)


def of_association(record: Members, parents: Parents) -> Iterator[Change]:
    """An association of an account (without a user), or of a user. The root account's are the cluster's settings."""
    account = text_of(record, "account")
    user = text_of(record, "user")
    said = settings(record, OF_ASSOC)
    if user:
        partition = text_of(record, "partition")
        yield changed(ADD, "user", [user], accounts=[account], partitions=[partition] if partition else ())
        if at(record, "is_default"):
            said["defaultaccount"] = account
        if said:
            yield changed(
                MODIFY, "user", [user], said, accounts=[account], where={"partition": partition}
            )  # fmt: skip
        return
    parent = text_of(record, "parent_account")
    if not parent and account.lower() == ROOT:
        if said:
            yield changed(MODIFY, "cluster", (), said)
        return
    is_there = account.lower() in parents
    stays = not parent or parents.get(account.lower()) == parent.lower()
    place = {} if is_there and stays else {"parent": parent} if parent else {}
    if not is_there or not (said or place):
        yield changed(ADD, "account", [account], {"parent": parent} if parent else {})
    if said | place:
        yield changed(MODIFY, "account", [account], said | place)


def of_user(record: Members, _: Parents) -> Iterator[Change]:
    """A user: renamed, added to the accounts that the record names, changed, made coordinator, given wckeys."""
    name = text_of(record, "name")
    old = text_of(record, "old_name")
    said = settings(record, OF_USER)
    if old and old != name:
        yield changed(MODIFY, "user", [old], {"newname": name})
    for account in accounts_of(record):
        yield changed(ADD, "user", [name], accounts=[account])
    wckeys = [text_of(one, "name") for one in records_of(record, "wckeys")]
    if wckeys:
        yield changed(ADD, "wckey", wckeys, users=[name])
    if said:
        yield changed(MODIFY, "user", [name], said)
    for one in records_of(record, "coordinators"):
        yield changed(ADD, "coordinator", [text_of(one, "name")], users=[name])


def accounts_of(record: Members) -> list[str]:
    """The accounts to which a user's record adds: the default one first."""
    default = text_of(record, "default.account")
    named = [text_of(one, "account") for one in records_of(record, "associations")]
    return list(dict.fromkeys(name for name in (default, *named) if name))


def of_wckey(record: Members, _: Parents) -> Iterator[Change]:
    """A wckey of a user."""
    yield changed(ADD, "wckey", [text_of(record, "name")], users=[text_of(record, "user")])


def of_qos(record: Members) -> Change:
    """The settings of a QOS that is there, or is added before."""
    said = settings(record, OF_QOS)
    flags = texts_of(record, "flags")
    sign = next((sign for word, sign in _SIGNS.items() if word in flags), "")
    known = [_QOS_FLAGS[word] for word in flags if word in _QOS_FLAGS]
    if known or record.get("flags") == []:
        said[f"flags{sign}"] = ",".join(known)
    return Change(qos=ChangeQosRequest(action=ChangeQosRequest.MODIFY, names=[text_of(record, "name")], changes=said))
