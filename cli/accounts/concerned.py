"""What sacctmgr prints of the associations that a change concerns: which ones, in which order, and the line of each.

Slurm lists the association that is changed and behind it those of users that have the new value from it. Programs read
the lines, so they are Slurm's.
"""

from cli.accounts.context import ChangeContext
from cli.accounts.tree import INHERITED, AssociationTree
from cli.accounts.words import ParsedLine
from cli.base.account_tree import ROOT
from cli.base.run import CommandError
from penstock.v1.shares_pb2 import Association


def added_line(cluster: str, one: Association) -> str:
    """The line of an association that is added."""
    where = f"A = {one.account:<10.10} C = {cluster:<10.10}"
    if not one.user:
        return f"  {where}"
    return f"  U = {one.user:<9.9} {where}" + (f" P = {one.partition:<10.10}" if one.partition else "")


def changed_line(cluster: str, one: Association) -> str:
    """The line of an association that is changed."""
    if one.user:
        text = f"  C = {cluster:<10} A = {one.account:<20} U = {one.user:<9}"
        return f"{text} P = {one.partition}" if one.partition else text
    return (
        f"  C = {cluster:<10} A = {one.account} of {one.parent}"
        if one.parent
        else f"  C = {cluster:<10} A = {one.account}"
    )


def deleted_lines(context: ChangeContext, found: list[Association]) -> list[str]:
    """The associations that are deleted, and the users that have no other."""
    lines = []
    for one in found:
        line = f"  C = {context.cluster:<10.10} A = {one.account:<10.10} U = {one.user:<9.9}"
        lines.append(
            line + (f" P = {one.partition}" if one.partition else "")
            if one.user
            else changed_line(context.cluster, one)
        )
    gone = {_place(one) for one in found}
    users = dict.fromkeys(one.user for one in found if one.user)
    if users:
        kept = {one.user for one in context.tree.whole.associations if _place(one) not in gone}
        users = dict.fromkeys(user for user in users if user not in kept)
    return [*lines, *((" Deleting users (No Associations)...", *(f"  {user}" for user in users)) if users else ())]


def concerned(context: ChangeContext, found: list[Association], changes: dict[str, str]) -> list[Association]:
    """The associations that a change concerns, as Slurm lists them: behind accounts those of users that have the new value
    from them, users in the order of the tree."""
    keys = {key.rstrip("+-") for key in changes} & INHERITED
    accounts = [one for one in found if not one.user]
    if len(found) == len(accounts) and not keys:
        return found
    tree = context.tree
    if not accounts:
        root = tree.nodes.get(ROOT)
        places = {_place(one): at for at, one in enumerate(tree.users_below(root) if root is not None else ())}
        return sorted(found, key=lambda one: places.get(_place(one), len(places)))
    tops = [tree.nodes[one.account] for one in accounts if one.account in tree.nodes]
    heirs = {_place(one): one for top in tops for key in sorted(keys) for one in tree.users_below(top, key)}
    return [*accounts, *heirs.values()]


def _place(one: Association) -> tuple[str, str, str]:
    return (one.account, one.user, one.partition)


def without_default(
    context: ChangeContext, entity: str, said: ParsedLine, changes: dict[str, str], names: list[str]
) -> list[str]:
    """Slurm's lines about users that are not in the account, or associations that may not use the QOS, that becomes their
    default. Raises CommandError with those about a QOS."""
    account, qos = changes.get("defaultaccount", "").lower(), changes.get("defaultqos", "")
    if not account and not qos:
        return []
    tree = context.tree
    if account:
        there = {one.user for one in tree.whole.associations if one.user and one.account == account}
        if missing := [name for name in names if name in tree.users and name not in there]:
            text = f" Can't modify because these users aren't associated with new default account '{account}'..."
            return [text, *(f"  U = {name} C = {context.cluster}" for name in missing)]
    if not qos or {"qos", "qos+", "qos-"} & set(changes) or set(said.conditions) - {"name", "account", "cluster"}:
        return []
    if entity == "user":
        accounts = {name.lower() for name in said.conditions.get("account", ())}
        found = [
            (one, _default_after(tree, one, qos))
            for one in tree.whole.associations
            if one.user in names and (not accounts or one.account in accounts)
        ]
    else:
        tops = [tree.nodes[name] for name in names if name in tree.nodes]
        found = [
            (one, _default_after(tree, top, qos))
            for top in tops
            for one in (top, *tree.users_below(top, "defaultqos"))
            if one.account in names
        ]
    if lacking := [(one, default) for one, default in found if default and default not in tree.qos(one)]:
        where = (
            f"  DefQOS = {default:<10} C = {context.cluster:<10} A = {one.account:<20} "
            + (f"U = {one.user:<9}" if one.user else "")
            for one, default in lacking
        )
        text = (
            " These associations don't have access to their default qos.\n"
            " Please give them access before they the default can be set to this."
        )
        raise CommandError("\n".join((text, *where)), plain=True)
    return []


def _default_after(tree: AssociationTree, assoc: Association, qos: str) -> str:
    """The default QOS of an association for which this was set; -1: that of the account above."""
    above = tree.above(assoc)
    return qos if qos != "-1" else tree.default_qos(above) if above is not None else ""


def check_there(tree: AssociationTree, users: list[str], accounts: list[str]) -> None:
    """Checks that these are in the tree. Raises CommandError."""
    for name in accounts:
        if name not in tree.nodes:
            raise CommandError(f" You specified a non-existent account '{name}'.", plain=True)
    for name in users:
        if name not in tree.users:
            raise CommandError(f" You specified a non-existent user '{name}'.", plain=True)
