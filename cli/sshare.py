"""sshare: lists shares, usage and fair-share of accounts and users, as of the last calculation of priorities.

The tree is shown by indenting the account. Without -a only the caller's own associations are among the users', as in
Slurm. Numbers are relative to the level (Fair Tree) or to the whole (NO_FAIR_TREE), as the controller computes. A
user's association for one partition has its own line; -m shows the partition.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from cli.base.account_tree import load_associations
from cli.base.clusters import on_each
from cli.base.document import DOCUMENT_OPTIONS, is_wanted
from cli.base.format import TableColumn, TableStyle, parse_table, table_lines
from cli.base.listing import emit, environment, words
from cli.base.options import SHARES, YES, Command, Option, OptionValues, parse
from cli.base.run import CommandError, complain, run
from cli.base.users import find_entry, login_of
from cli.listings.helplists import name_lines
from cli.listings.jsonshare import amounts_of, share_object
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.shares_pb2 import Association, ListAssociationsReply

FORMAT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
FORMAT_LONG = (
    "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
)
#: TRES that every cluster has: shown with the running amount, also when it is 0.
TRES_ALWAYS = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")

COMMAND = Command(
    "sshare",
    "[OPTION]",
    (
        Option("accounts", "A", YES, help="comma separated list of accounts to view", metavar="accounts"),
        Option("all", "a", help="all users, not only your own associations"),
        Option("helpformat", "e", help="list the fields of --format"),
        Option("long", "l", help="more fields, with normalised usage and level fair-share"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "clusters to list one after the other, or all", "names"),
        Option("cluster", "", YES, dest="clusters"),
        Option("partition", "m", help="also show the associations' partition"),
        Option("noheader", "n", help="no header"),
        Option("noheader", "h", note="an older spelling of -n"),
        Option("format", "o", YES, help="comma separated list of fields", metavar="fields"),
        Option("parsable", "p", help="values with | after each"),
        Option("parsable2", "P", help="values with | between them"),
        Option("users", "u", YES, help="comma separated list of users to view", metavar="users"),
        Option("uid", "", YES, dest="users"),
        Option("Users", "U", help="users only, no accounts"),
        Option("verbose", "v", help="display more information", counted=True),
        *DOCUMENT_OPTIONS,
    ),
    shape=SHARES,
)


def _account(one: Association, view: ListAssociationsReply) -> str:
    return " " * one.depth + one.account


def _is_root(one: Association) -> bool:
    return not (one.parent or one.user)


def _shares(one: Association, view: ListAssociationsReply) -> str:
    if _is_root(one):
        return ""
    return "parent" if one.shares < 0 else str(one.shares)


def _level(one: Association, view: ListAssociationsReply) -> str:
    return "" if _is_root(one) else f"{one.level_fs if view.multifactor else 0:.6f}"


def _fair_share(one: Association, view: ListAssociationsReply) -> str:
    return f"{one.fair_share if view.multifactor else 0:.6f}" if one.user else ""


def _normal(name: str) -> Callable[[Association, ListAssociationsReply], str]:
    """A part of the whole: priority/basic computes none, and Slurm prints nothing."""
    return lambda one, view: f"{getattr(one, name):.6f}" if view.multifactor else ""


_norm_usage = _normal("norm_usage")


def _amounts(found: Mapping[str, str]) -> str:
    """The usage of each TRES, in Slurm's order."""
    names = dict.fromkeys((*TRES_ALWAYS, *sorted(found)))
    return ",".join(f"{name}={found.get(name, '0')}" for name in names)


COLUMNS: tuple[TableColumn[Association, ListAssociationsReply], ...] = (
    TableColumn("Account", -20, _account),
    TableColumn("Cluster", 10, lambda one, view: view.cluster),
    TableColumn("EffectvUsage", 13, lambda one, view: f"{one.effective_usage:.6f}"),
    TableColumn("FairShare", 10, _fair_share),
    TableColumn("GrpTRESMins", 30, lambda one, view: one.limits.get("grptresmins", "")),
    TableColumn("GrpTRESRaw", 30, lambda one, view: _amounts(one.tres_mins)),
    TableColumn("ID", 6, lambda one, view: str(one.id)),
    TableColumn("LevelFS", 10, _level),
    TableColumn("NormShares", 11, _normal("norm_shares")),
    TableColumn("NormUsage", 11, lambda one, view: _norm_usage(one, view) if one.user or not view.fair_tree else ""),
    TableColumn("Partition", 12, lambda one, view: one.partition),
    TableColumn("Parent", 20, lambda one, view: one.parent),
    TableColumn("RawShares", 10, _shares),
    TableColumn("RawUsage", 11, lambda one, view: str(one.usage_s)),
    TableColumn("TRESRunMins", 30, lambda one, view: "" if view.without_jobs else _amounts(one.tres_run_mins)),
    TableColumn("User", 10, lambda one, view: one.user),
)


def main() -> None:
    """The command sshare."""
    run("sshare", body)


def body(argv: list[str]) -> int:
    """Runs sshare once."""
    parsed = parse(COMMAND, argv, environment())
    options = parsed.values
    if options.flag("helpformat"):
        emit(name_lines((column.name for column in COLUMNS), width=17))
        return 0
    if options.text("format"):
        _columns(options, True)  # an invalid name is reported before any request
    if options.flag("verbose"):
        _explain(options)
    return on_each(
        "sshare", options, lambda client, is_named: _report(client, options, is_named), document=is_wanted(options),
        reads_accounting=True,
    )  # fmt: skip


def _report(client: Client, options: OptionValues, heading: bool) -> int:
    answer = load_associations(client)
    if _needs_counters(options, answer.fair_tree):
        add_counters(client, answer)
    _check_names(answer.associations, options)
    columns = _columns(options, answer.fair_tree)
    shown = select(list(answer.associations), options)
    _indent(answer.associations, shown)
    if is_wanted(options):
        from cli.base.document import document, write_document

        shares = {"shares": [share_object(one, answer) for one in shown], "total_shares": len(shown)}
        write_document(document("shares", [], answer.cluster) | {"shares": shares}, options)
        return 0
    delimited = options.flag("parsable") or options.flag("parsable2")
    style = TableStyle("|" if delimited else "", options.flag("parsable"), not options.flag("noheader"))
    lines = [f"CLUSTER: {answer.cluster}"] if heading else []
    emit(chain(lines, table_lines(columns, shown, answer, style)))
    return 0


#: Columns with the counters of limits.
_COUNTED = frozenset(("GrpTRESRaw", "TRESRunMins"))


def _needs_counters(options: OptionValues, fair_tree: bool) -> bool:
    return is_wanted(options) or not _COUNTED.isdisjoint(column.name for column in _columns(options, fair_tree))


def add_counters(client: Client, answer: ListAssociationsReply) -> None:
    """Adds to the associations the used TRES minutes, and those that running jobs may still use."""
    from penstock.v1.governance_pb2 import ListCountersRequest
    from penstock.values.refusals import Code

    by_id = {one.id: one for one in answer.associations}
    try:
        pages = list(client.stream("ListCounters", ListCountersRequest(what=["assoc"])))
    except PenstockError as error:
        if error.code != Code.NOT_SUPPORTED:  # a controller without enforcement: the columns stay empty
            raise
        return
    for counted in (one for page in pages for one in page.counters if one.assoc_id in by_id):
        by_id[counted.assoc_id].tres_mins.update(amounts_of(counted.used.get("grptresmins", "")))
        by_id[counted.assoc_id].tres_run_mins.update(amounts_of(counted.used.get("grptresrunmins", "")))


def _check_names(found: Iterable[Association], options: OptionValues) -> None:
    """Raises CommandError for an account that does not exist or is hidden from the caller, and for a user unknown to
    both the cluster and this machine. Slurm does so for numbers only, and shows an empty table for others."""
    there = {name for one in found for name in (("account", one.account), ("user", one.user))}
    for name in words(options.text("accounts")):
        if ("account", name.lower()) not in there:
            raise CommandError(f"Invalid account: {name}")
    for name in words(options.text("users")):
        if name.isascii() and name.isdigit():
            if find_entry(name) is None:
                raise CommandError(f"Invalid user id: {name}", plain=True)
        elif name.upper() != "ALL" and ("user", name) not in there and find_entry(name) is None:
            raise CommandError(f"Invalid user: {name}")


def select(found: list[Association], options: OptionValues) -> list[Association]:
    """The associations to show."""
    accounts = {name.lower() for name in words(options.text("accounts"))}
    named = words(options.text("users"))
    users = {login_of(name) for name in named}
    everybody = options.flag("all") or "ALL" in (name.upper() for name in named)
    if not named and not everybody:
        users = {login_of(str(os.getuid()))}
    return [
        one
        for one in found
        if (not accounts or one.account in accounts)
        and ((everybody or one.user in users) if one.user else not options.flag("Users"))
    ]


def _indent(every: Iterable[Association], shown: list[Association]) -> None:
    """Counts as the depth of each the accounts above it that are shown, too."""
    parents = {one.account: one.parent for one in every if not one.user}
    there = {one.account for one in shown if not one.user}
    for one in shown:
        at, depth = one.account if one.user else one.parent, 0
        while at and depth <= len(parents):
            depth += at in there
            at = parents.get(at, "")
        one.depth = depth


def _explain(options: OptionValues) -> None:
    """With -v: prints the filters."""
    for what in ("users", "accounts"):
        names = words(options.text(what)) or ["all"]
        complain("sshare", f"{what.capitalize()} requested:", plain=True)
        for name in names:
            complain("sshare", f"\t: {name}", plain=True)


def _columns(options: OptionValues, fair_tree: bool) -> list[TableColumn[Association, ListAssociationsReply]]:
    text = FORMAT_LONG if options.flag("long") else FORMAT
    if not fair_tree:
        text = text.replace(",LevelFS", "")
    if options.flag("partition"):
        text = text.replace("User,", "User,Partition,", 1)
    columns, unknown = parse_table(options.text("format") or text, COLUMNS)
    for part in unknown:
        raise CommandError(f'Invalid field requested: "{part.what}"')
    return columns


if __name__ == "__main__":
    main()
