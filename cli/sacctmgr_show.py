"""sacctmgr show: tables of accounts, users, associations, clusters and QOS.

Columns of things that this version has not (limits, QOS of associations) are there and empty, in Slurm's order and
width, because scripts cut lines by position.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cli.format import TableColumn, TableStyle, table_lines
from cli.listing import emit, words
from cli.run import CommandError
from cli.sacctmgr import Words
from cli.sshare import load
from penstock.client import Client
from penstock.v1.shares_pb2 import AccountInfo, Association, ListAssociationsReply, UserInfo


class Row(NamedTuple):
    """A line: an association, and the account or user that it is of. Any of them may be None."""

    assoc: Association | None = None
    account: AccountInfo | None = None
    user: UserInfo | None = None
    indent: int = 0


Value = Callable[[Row, Any], str]


def _account(row: Row, view: Any) -> str:
    if row.account is not None:
        return row.account.name
    return " " * row.indent + row.assoc.account if row.assoc is not None else ""


def _user(row: Row, view: Any) -> str:
    if row.user is not None:
        return row.user.name
    return row.assoc.user if row.assoc is not None else ""


def _share(row: Row, view: Any) -> str:
    if row.assoc is None:
        return ""
    return "parent" if row.assoc.shares < 0 else str(row.assoc.shares)


def _of(part: str, name: str) -> Value:
    def value(row: Row, view: Any) -> str:
        found = getattr(row, part)
        return str(getattr(found, name)) if found is not None else ""

    return value


def _parent(row: Row, view: Any) -> str:
    return row.assoc.parent if row.assoc is not None and not row.assoc.user else ""


def _priority(row: Row, view: Any) -> str:
    return str(row.assoc.priority) if row.assoc is not None and row.assoc.priority else ""


def _empty(row: Row, view: Any) -> str:
    return ""


#: By the name that format= takes, in the order in which a name that was cut short is looked for.
FIELDS: dict[str, TableColumn] = {
    "account": TableColumn("Account", 10, _account),
    "adminlevel": TableColumn("Admin", 9, _of("user", "admin_level")),
    "cluster": TableColumn("Cluster", 10, lambda row, view: view.cluster),
    "controlhost": TableColumn("ControlHost", 15, lambda row, view: view.controller_host),
    "controlport": TableColumn("ControlPort", 12, lambda row, view: str(view.controller_port)),
    "rpc": TableColumn("RPC", 5, lambda row, view: "0"),
    "coordinators": TableColumn("Coord", 20, _empty),
    "defaultaccount": TableColumn("Def Acct", 10, _of("user", "default_account")),
    "defaultqos": TableColumn("Def QOS", 9, _empty),
    "description": TableColumn("Descr", 20, _of("account", "description")),
    "fairshare": TableColumn("Share", 9, _share),
    "grpjobs": TableColumn("GrpJobs", 7, _empty),
    "grpsubmitjobs": TableColumn("GrpSubmit", 9, _empty),
    "grptres": TableColumn("GrpTRES", 13, _empty),
    "grptresmins": TableColumn("GrpTRESMins", 13, _empty),
    "grptresrunmins": TableColumn("GrpTRESRunMin", 13, _empty),
    "grpwall": TableColumn("GrpWall", 11, _empty),
    "id": TableColumn("ID", 6, _of("assoc", "id")),
    "maxjobs": TableColumn("MaxJobs", 7, _empty),
    "maxsubmitjobs": TableColumn("MaxSubmit", 9, _empty),
    "maxtres": TableColumn("MaxTRES", 13, _empty),
    "maxtresmins": TableColumn("MaxTRESMins", 13, _empty),
    "maxtrespernode": TableColumn("MaxTRESPerNode", 14, _empty),
    "maxwall": TableColumn("MaxWall", 11, _empty),
    "name": TableColumn("Name", 10, lambda row, view: "normal"),
    "organization": TableColumn("Org", 20, _of("account", "organization")),
    "parentname": TableColumn("Par Name", 10, _parent),
    "partition": TableColumn("Partition", 10, _empty),
    "priority": TableColumn("Priority", 10, _priority),
    "qos": TableColumn("QOS", 20, lambda row, view: "normal"),
    "share": TableColumn("Share", 9, _share),
    "user": TableColumn("User", 10, _user),
}
_LIMITS = (
    "grpjobs,grptres,grpsubmitjobs,grpwall,grptresmins,maxjobs,maxtres,maxtrespernode,maxsubmitjobs,maxwall,"
    "maxtresmins,qos,defaultqos,grptresrunmins"
)
FORMATS = {
    "account": "account,description,organization",
    "user": "user,defaultaccount,adminlevel",
    "association": f"cluster,account,user,partition,share,priority,{_LIMITS}",
    "cluster": f"cluster,controlhost,controlport,rpc,share,{_LIMITS.rpartition(',')[0]}",
}
WITH_ASSOC = {
    "account": f"account,description,organization,cluster,parentname,user,share,priority,{_LIMITS}",
    "user": f"user,defaultaccount,adminlevel,cluster,account,partition,share,priority,{_LIMITS}",
}


def show(client: Client, entity: str, said: Words, options: dict[str, Any]) -> int:
    """One table."""
    answer = load(client)
    with_assoc = "withassoc" in said.flags or bool(options.get("associations"))
    text = said.where.get("format") or said.changes.get("format")
    default = WITH_ASSOC.get(entity, FORMATS[entity]) if with_assoc else FORMATS[entity]
    columns = parse_fields(text or default)
    if "tree" in said.flags:
        columns = [c._replace(width=-20) if c.name == "Account" else c for c in columns]
    delimited = bool(options.get("parsable") or options.get("parsable2"))
    style = TableStyle("|" if delimited else "", bool(options.get("parsable")), not options.get("noheader"))
    emit(list(table_lines(columns, ROWS[entity](answer, said, with_assoc), answer, style)))
    return 0


def parse_fields(text: str) -> list[TableColumn]:
    """format=account,user%-20: names may be cut short."""
    columns = []
    for part in words(text):
        name, percent, width = part.partition("%")
        low = name.lower()
        found = FIELDS.get(low) or next((c for key, c in FIELDS.items() if low and key.startswith(low)), None)
        if found is None:
            raise CommandError(f"Unknown field '{name}'", plain=True)
        if percent and width.removeprefix("-").isdigit() and int(width[:7]):
            found = found._replace(width=int(width[:7]))
        columns.append(found)
    return columns


def _wanted(said: Words, key: str, fold: bool = True) -> set[str]:
    names = words(said.where.get(key))
    return {name.lower() for name in names} if fold else set(names)


def _account_rows(answer: ListAssociationsReply, said: Words, with_assoc: bool) -> Iterable[Row]:
    names = {name.lower() for name in said.names} | _wanted(said, "name") | _wanted(said, "account")
    for info in answer.accounts:
        if names and info.name not in names:
            continue
        if not with_assoc:
            yield Row(account=info)
            continue
        for assoc in answer.associations:
            if assoc.account == info.name:
                yield Row(assoc, info)


def _user_rows(answer: ListAssociationsReply, said: Words, with_assoc: bool) -> Iterable[Row]:
    names = set(said.names) | _wanted(said, "name", False) | _wanted(said, "user", False)
    accounts = _wanted(said, "account")
    defaults = _wanted(said, "defaultaccount")
    for info in answer.users:
        if (names and info.name not in names) or (defaults and info.default_account not in defaults):
            continue
        own = [a for a in answer.associations if a.user == info.name and (not accounts or a.account in accounts)]
        if accounts and not own:
            continue
        yield from (Row(assoc, user=info) for assoc in own) if with_assoc else (Row(user=info),)


def _assoc_rows(answer: ListAssociationsReply, said: Words, with_assoc: bool) -> Iterable[Row]:
    accounts, users = _wanted(said, "account"), _wanted(said, "user", False)
    parents = _wanted(said, "parent")
    tree = "tree" in said.flags
    for assoc in answer.associations:
        if (accounts and assoc.account not in accounts) or (users and assoc.user not in users):
            continue
        if parents and assoc.parent not in parents:
            continue
        yield Row(assoc, indent=assoc.depth if tree else 0)


def _cluster_rows(answer: ListAssociationsReply, said: Words, with_assoc: bool) -> Iterable[Row]:
    return [Row(answer.associations[0])]


ROWS: dict[str, Callable[[ListAssociationsReply, Words, bool], Iterable[Row]]] = {
    "account": _account_rows,
    "user": _user_rows,
    "association": _assoc_rows,
    "cluster": _cluster_rows,
}
