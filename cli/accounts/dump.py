"""sacctmgr dump CLUSTER [file=FILE]: all accounts and users with their settings, in Slurm's flat file.

The file has each association's own values, not the inherited ones. QOS, resources and usage are not in it, as in Slurm.
A temporary file is written and renamed, so that no reader sees half of it.
"""

import os
import stat
import tempfile
from collections.abc import Iterator

from cli.accounts.context import ChangeContext
from cli.accounts.file import PARENT_SHARES, quoted
from cli.accounts.tree import DEFAULT_QOS, AssociationTree
from cli.accounts.wckeys import load_wckeys
from cli.accounts.words import Grammar, keywords, read_line
from cli.base.run import CommandError, complain
from cli.base.users import login_of
from penstock.client import Client
from penstock.v1.shares_pb2 import Association
from penstock.values.limits import LIMITS, OF_ASSOC, from_texts, texts

_GRAMMAR = Grammar(keywords("Clusters:1>name Names:1>name File:1"), use_set=False)
_SLURMS = (
    "GrpTRESMins", "GrpTRESRunMins", "GrpTRES", "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpWall", "MaxTRESMinsPerJob",
    "MaxTRESPerJob", "MaxTRESPerNode", "MaxJobs", "MaxJobsAccrue", "MaxSubmitJobs", "MaxWallDurationPerJob", "MinPrioThreshold",
)  # fmt: skip
#: Limits in Slurm's order; our own come last.
_ORDER = (*_SLURMS, *(limit.keyword for limit in LIMITS if limit.of_assoc and limit.keyword not in _SLURMS))
HEAD = (
    "# Accounts and users of one cluster, written by sacctmgr dump and read by sacctmgr load.",
    "# Parent - says what the accounts and users below it are in; it has to be an account of a line before it, or root.",
    "# Options stand behind colons and may be left out.",
)


def dump(context: ChangeContext, words: list[str]) -> int:
    """Handles `dump`."""
    said = read_line(words, _GRAMMAR, "show")
    names = said.names()
    if not names:
        raise CommandError(" We need a cluster to dump.", plain=True)
    if len(names) > 1:
        raise CommandError(f" Can only do one cluster at a time.  Already doing {names[0]}", plain=True)
    files = said.conditions.get("file", [])
    if len(files) > 1:
        raise CommandError(f" File name already set to {files[0]}", plain=True)
    if names[0] != context.cluster:
        raise CommandError(f" Cluster {names[0]} doesn't exist.", plain=True)
    file = files[0] if files else f"./{context.cluster}.cfg"
    if not files:
        context.put(f" No filename given, using {file}.")
    tree = context.tree
    own = tree.users.get(login_of(str(os.getuid())))
    if own is not None and own.admin_level in ("", "None") and os.getuid() != 0:
        raise CommandError(" Your user does not have sufficient privileges to dump clusters.", plain=True)
    lines = list(lines_of(tree, wckeys_of(context.client, tree)))
    write_whole(file, "\n".join((*HEAD, *lines)) + "\n")
    if not context.options.flag("quiet"):
        for line in lines:
            complain("sacctmgr", f"sacctmgr: {line}", plain=True)
    return 0


def wckeys_of(client: Client, tree: AssociationTree) -> dict[str, list[str]]:
    """The wckeys of each user."""
    found: dict[str, list[str]] = {}
    for one in load_wckeys(client):
        if one.name:
            found.setdefault(one.user, []).append(one.name)
    return {user: sorted(names) for user, names in found.items()}


def write_whole(file: str, text: str) -> None:
    """Writes a text to a file atomically. A file that is not a regular one (/dev/stdout) is written directly."""
    try:
        if os.path.lexists(file) and not stat.S_ISREG(os.stat(file).st_mode):
            with open(file, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text)
            return
        folder = os.path.dirname(os.path.abspath(file))
        handle, name = tempfile.mkstemp(prefix=".sacctmgr-", dir=folder)
        try:
            with open(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, file)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise CommandError(f"Can't open file {file}, {error.strerror}", plain=True) from error


def lines_of(tree: AssociationTree, wckeys: dict[str, list[str]]) -> Iterator[str]:
    """The lines of the file."""
    below: dict[str, list[Association]] = {}
    for one in tree.whole.associations:
        if one.user or one.parent:
            below.setdefault(one.account if one.user else one.parent, []).append(one)
    root = tree.nodes.get("root")
    yield f"Cluster - {quoted(tree.cluster)}" + (settings_of(root) if root is not None else "")
    names = ["root"]
    while names:
        name = names.pop()
        children = sorted(below.get(name, []), key=lambda one: (not one.user, one.user, one.partition, one.account))
        if not children:
            continue
        yield f"Parent - {quoted(name)}"
        for one in children:
            yield _user_line(tree, one, wckeys) if one.user else _account_line(tree, one)
        names += [one.account for one in reversed(children) if not one.user]


def _account_line(tree: AssociationTree, one: Association) -> str:
    info = tree.accounts.get(one.account)
    about = (
        f":Description={quoted(info.description)}:Organization={quoted(info.organization)}" if info is not None else ""
    )
    return f"Account - {quoted(one.account)}{about}{settings_of(one)}"


def _user_line(tree: AssociationTree, one: Association, wckeys: dict[str, list[str]]) -> str:
    line = f"User - {quoted(one.user)}"
    if one.partition:
        line += f":Partition={quoted(one.partition)}"
    info = tree.users.get(one.user)
    if info is not None:
        rows = (
            ("DefaultAccount", info.default_account),
            ("DefaultWCKey", info.default_wckey),
            ("AdminLevel", info.admin_level if info.admin_level != "None" else ""),
            ("Coordinator", ",".join(sorted(info.coordinator_of))),
            ("WCKeys", ",".join(wckeys.get(one.user, ()))),
        )
        line += "".join(f":{key}={quoted(value)}" for key, value in rows if value)
    return line + settings_of(one)


def settings_of(one: Association) -> str:
    """The options of an association."""
    own = texts(from_texts(one.limits))
    line = f":DefaultQOS={quoted(one.default_qos)}" if one.default_qos else ""
    line += ":Fairshare=" + (PARENT_SHARES if one.shares < 0 else str(one.shares))
    line += "".join(f":{name}={own[OF_ASSOC[name.lower()].name]}" for name in _ORDER if name.lower() in own)
    line += f":Priority={one.priority}" if one.priority else ""
    own_qos = one.own_qos or ([] if one.parent or one.user else DEFAULT_QOS)
    line += f":QOS={quoted(','.join(sorted(own_qos)))}" if own_qos else ""
    return line + (f":Budget={quoted(one.budget)}" if one.budget else "")
