"""sshare: shares, usage and fair-share of accounts and users, as of the last calculation of priorities.

The tree is shown by indenting the account. Without -a only the caller's own associations are among the users', as in
Slurm. Numbers are of the level (Fair Tree) or of the whole (NO_FAIR_TREE), as the controller computes. A user's association
for one partition is a line of its own; -m says which.
"""

import math
import os
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from cli.document import DOCUMENT_OPTIONS, is_wanted, number
from cli.format import TableColumn, TableStyle, parse_table, table_lines
from cli.listing import check_clusters, emit, environment, words
from cli.options import YES, Command, Option, parse
from cli.run import CommandError, complain, run
from cli.sprio import NOT_MULTIFACTOR
from cli.tree import load_associations
from cli.users import find_entry, login_of
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.shares_pb2 import Association, ListAssociationsReply

FORMAT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
FORMAT_LONG = (
    "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
)
#: TRES that every cluster has: they are shown with what is running, also when that is nothing.
TRES_ALWAYS = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")

COMMAND = Command(
    "sshare",
    "[OPTIONS]",
    (
        Option("accounts", "A", YES, help="comma separated list of accounts to view", metavar="accounts"),
        Option("all", "a", help="all users, not only your own associations"),
        Option("helpformat", "e", help="list the fields of --format"),
        Option("long", "l", help="more fields, with normalised usage and level fair-share"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "name the cluster to ask, or all", "names"),
        Option("cluster", "", YES, dest="clusters"),
        Option("partition", "m", help="also show the associations' partition"),
        Option("noheader", "n", help="no header"),
        Option("format", "o", YES, help="comma separated list of fields", metavar="fields"),
        Option("parsable", "p", help="values with | behind each"),
        Option("parsable2", "P", help="values with | between them"),
        Option("users", "u", YES, help="comma separated list of users to view", metavar="users"),
        Option("uid", "", YES, dest="users"),
        Option("Users", "U", help="users only, no accounts"),
        Option("verbose", "v", help="verbosity level", counted=True),
        *DOCUMENT_OPTIONS,
    ),
)


def _account(one: Association, view: Any) -> str:
    return " " * one.depth + one.account


def _shares(one: Association, view: Any) -> str:
    if not one.depth:
        return ""
    return "parent" if one.shares < 0 else str(one.shares)


def _level(one: Association, view: Any) -> str:
    return f"{one.level_fs:.6f}" if one.depth else ""


def _amounts(found: Mapping[str, str]) -> str:
    """TRES with what was used of each, in Slurm's order; nothing where the controller says nothing."""
    if not found:
        return ""
    names = dict.fromkeys((*TRES_ALWAYS, *sorted(found)))
    return ",".join(f"{name}={found.get(name, '0')}" for name in names)


COLUMNS = (
    TableColumn("Account", -20, _account),
    TableColumn("Cluster", 10, lambda one, view: view.cluster),
    TableColumn("EffectvUsage", 13, lambda one, view: f"{one.effective_usage:.6f}"),
    TableColumn("FairShare", 10, lambda one, view: f"{one.fair_share:.6f}" if one.user else ""),
    TableColumn("ID", 6, lambda one, view: str(one.id)),
    TableColumn("GrpTRESMins", 30, lambda one, view: one.limits.get("grptresmins", "")),
    TableColumn("GrpTRESRaw", 30, lambda one, view: _amounts(one.tres_mins)),
    TableColumn("LevelFS", 10, _level),
    TableColumn("NormShares", 11, lambda one, view: f"{one.norm_shares:.6f}"),
    TableColumn("NormUsage", 11, lambda one, view: f"{one.norm_usage:.6f}"),
    TableColumn("Partition", 12, lambda one, view: one.partition),
    TableColumn("Parent", 20, lambda one, view: one.parent),
    TableColumn("RawShares", 10, _shares),
    TableColumn("RawUsage", 11, lambda one, view: str(one.usage_s)),
    TableColumn("TRESRunMins", 30, lambda one, view: _amounts(one.tres_run_mins)),
    TableColumn("User", 10, lambda one, view: one.user),
)


def main() -> None:
    """The command sshare."""
    run("sshare", body)


def body(argv: list[str]) -> int:
    """One run of sshare."""
    parsed = parse(COMMAND, argv, environment())
    options = parsed.values
    if options.get("helpformat"):
        names = [f"{column.name:<17}" for column in COLUMNS]
        emit([" ".join(names[at : at + 4]) for at in range(0, len(names), 4)])
        return 0
    if parsed.positional:
        raise CommandError(f"Unrecognized option: {parsed.positional[0]}")
    if options.get("format"):
        _columns(options, True)  # a wrong name is said before anything is asked
    if options.get("verbose"):
        _tell(options)
    with Client.open() as client:
        heading = check_clusters(options.get("clusters"), client.cluster.cluster_name)
        answer = load_associations(client)
        if answer.multifactor and _needs_counters(options, answer.fair_tree):
            add_counters(client, answer)
    if not answer.multifactor:
        complain("sshare", NOT_MULTIFACTOR, plain=True)
        return 1
    _check_names(answer.associations, options)
    columns = _columns(options, answer.fair_tree)
    shown = select(list(answer.associations), options)
    if is_wanted(options):
        from cli.document import document, write_document

        shares = {"shares": [share_object(one, answer) for one in shown], "total_shares": len(shown)}
        write_document(document("shares", [], answer.cluster) | {"shares": shares}, options)
        return 0
    delimited = bool(options.get("parsable") or options.get("parsable2"))
    style = TableStyle("|" if delimited else "", bool(options.get("parsable")), not options.get("noheader"))
    lines = [f"CLUSTER: {answer.cluster}"] if heading else []
    emit(chain(lines, table_lines(columns, shown, answer, style)))
    return 0


def share_object(one: Association, view: ListAssociationsReply) -> dict[str, Any]:
    """One line for --json and --yaml, by the names of Slurm's data_parser."""
    level = None if math.isinf(one.level_fs) else one.level_fs
    return {
        "id": one.id, "cluster": view.cluster, "name": one.user or one.account, "parent": one.parent,
        "partition": one.partition,
        "shares": number(max(one.shares, 0), infinite=one.shares < 0), "shares_normalized": number(one.norm_shares),
        "usage": one.usage_s, "usage_normalized": number(one.norm_usage),
        "effective_usage": number(one.effective_usage), "type": ["USER" if one.user else "ASSOCIATION"],
        "fairshare": {"factor": number(one.fair_share if one.user else None),
                      "level": number(level, infinite=level is None)},
        "tres": {"run_seconds": _tres_list(one.tres_run_mins, 60),
                 "group_minutes": _tres_list(_pairs(one.limits.get("grptresmins", "")), 1),
                 "usage": _tres_list(one.tres_mins, 60)},
    }  # fmt: skip


def _pairs(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in words(text))


def _tres_list(found: Mapping[str, str], factor: int) -> list[dict[str, Any]]:
    """Amounts by name. One that is no plain number is memory with its unit, in TRES minutes."""
    from penstock.values.memory import parse_mb

    return [
        {"name": name, "value": number((int(text) if text.isdigit() else parse_mb(text)) * factor)}
        for name, text in sorted(found.items())
    ]


#: Columns that show what limits count.
_COUNTED = frozenset(("GrpTRESRaw", "TRESRunMins"))


def _needs_counters(options: dict[str, Any], fair_tree: bool) -> bool:
    return is_wanted(options) or not _COUNTED.isdisjoint(column.name for column in _columns(options, fair_tree))


def add_counters(client: Client, answer: ListAssociationsReply) -> None:
    """Into the associations: TRES minutes used, and those that running jobs may still use."""
    from penstock.v1.governance_pb2 import ListCountersRequest
    from penstock.values.refusals import Code

    by_id = {one.id: one for one in answer.associations}
    try:
        pages = list(client.stream("ListCounters", ListCountersRequest(what=["assoc"])))
    except PenstockError as error:
        if error.code != Code.NOT_SUPPORTED:  # a controller that counts nothing: the columns stay empty
            raise
        return
    for counted in (one for page in pages for one in page.counters if one.assoc_id in by_id):
        by_id[counted.assoc_id].tres_mins.update(_pairs(counted.used.get("grptresmins", "")))
        by_id[counted.assoc_id].tres_run_mins.update(_pairs(counted.used.get("grptresrunmins", "")))


def _check_names(found: Iterable[Association], options: dict[str, Any]) -> None:
    """Raise CommandError for an account that is not there, or not the caller's to see, and for a user whom neither the
    cluster nor this machine knows. Slurm says so of numbers only, and shows an empty table of others."""
    there = {name for one in found for name in (("account", one.account), ("user", one.user))}
    for name in words(options.get("accounts")):
        if ("account", name.lower()) not in there:
            raise CommandError(f"Invalid account: {name}")
    for name in words(options.get("users")):
        if name.isascii() and name.isdigit():
            if find_entry(name) is None:
                raise CommandError(f"Invalid user id: {name}", plain=True)
        elif name.upper() != "ALL" and ("user", name) not in there and find_entry(name) is None:
            raise CommandError(f"Invalid user: {name}")


def select(found: list[Association], options: dict[str, Any]) -> list[Association]:
    """The associations to show."""
    accounts = {name.lower() for name in words(options.get("accounts"))}
    named = words(options.get("users"))
    users = {login_of(name) for name in named}
    everybody = options.get("all") or "ALL" in (name.upper() for name in named)
    if not named and not everybody:
        users = {login_of(str(os.getuid()))}
    return [
        one
        for one in found
        if (not accounts or one.account in accounts)
        and ((everybody or one.user in users) if one.user else not options.get("Users"))
    ]


def _tell(options: dict[str, Any]) -> None:
    """With -v: what was asked for."""
    for what in ("users", "accounts"):
        names = words(options.get(what)) or ["all"]
        complain("sshare", f"{what.capitalize()} requested:", plain=True)
        for name in names:
            complain("sshare", f"\t: {name}", plain=True)


def _columns(options: dict[str, Any], fair_tree: bool) -> list[TableColumn]:
    text = FORMAT_LONG if options.get("long") else FORMAT
    if not fair_tree:
        text = text.replace(",LevelFS", "")
    if options.get("partition"):
        text = text.replace("User,", "User,Partition,", 1)
    columns, unknown = parse_table(str(options.get("format") or text), COLUMNS)
    for part in unknown:
        raise CommandError(f'Invalid field requested: "{part.what}"')
    return columns


if __name__ == "__main__":
    main()
