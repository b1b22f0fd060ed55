"""sacctmgr delete account, user, coordinator, wckey, cluster."""

from collections.abc import Callable

from cli.accounts.concerned import check_there, deleted_lines
from cli.accounts.context import NOTHING, ChangeContext, nothing
from cli.accounts.requests import coordinators_request, lowered, request_of, wckeys_request
from cli.accounts.wckeys import load_wckeys
from cli.accounts.words import ParsedLine
from cli.base.run import CommandError
from penstock.clusters import MACHINE_FOLDER, known_clusters


def remove_of(entity: str) -> Callable[[ChangeContext, ParsedLine, dict[str, str]], int]:
    def run(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
        if not said.has_conditions():
            raise CommandError(" No conditions given to remove, not executing.", plain=True)
        if entity == "user" and "wckey" in said.conditions:
            if "account" in said.conditions:
                raise CommandError(" Mixing Account and WCKeys is not allowed", plain=True)
            return _remove_keys(context, said.conditions["wckey"], said.names())
        names = lowered(said.names()) if entity == "account" else said.names()
        if entity == "account" and "root" in names:
            raise CommandError(
                " You are not allowed to remove the root account.\n Use remove cluster instead.", plain=True
            )
        request = request_of("remove", entity, said, changes, names=names)
        before = " Error with request: "
        plan = context.send([request], before, True)[0]
        if not plan.names and not plan.associations:
            return nothing(NOTHING["remove"])
        if set(said.conditions) - {"cluster", "name"}:
            context.put(
                f" Deleting {entity} associations...",
                *deleted_lines(context, list(plan.associations)),
            )
        else:
            context.put(f" Deleting {entity}s...", *(f"  {name}" for name in sorted(plan.names)))
        return context.commit([request], before)

    return run


def _remove_keys(context: ChangeContext, keys: list[str], users: list[str]) -> int:
    request = wckeys_request("remove", keys, users, {})
    before = " Error with request: "
    plan = context.send([request], before, True)[0]
    if not plan.names:
        return nothing(NOTHING["remove"])
    gone = [
        f"  C = {context.cluster:<10.10} W = {one.name:<20.20} U = {one.user:<9.9}"
        for one in load_wckeys(context.client)
        if one.name in plan.names and (not users or one.user in users)
    ]
    context.put(" Deleting user WCKeys...", *gone)
    return context.commit([request], before)


def remove_wckeys(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    if not said.has_conditions():
        raise CommandError(" No conditions given to remove, not executing.", plain=True)
    return _remove_keys(context, said.names(), said.conditions.get("user", []))


def remove_coordinators(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    users, accounts = said.names(), lowered(said.conditions.get("account", ()))
    if not users and not accounts:
        raise CommandError(" You need to specify a user list or an account list here.", plain=True)
    tree = context.tree
    check_there(tree, users, accounts)
    request = coordinators_request("remove", users, accounts)
    before = " Error with request: "
    if users:
        context.put(" Removing Coordinators with user name", *(f"  {name}" for name in users))
        context.put(
            *([" From Account(s)", *(f"  {name}" for name in accounts)] if accounts else [" From all accounts"])
        )
    else:
        context.put(" Removing all users from Accounts", *(f"  {name}" for name in accounts))
    plan = context.send([request], before, True)[0]
    if not plan.names and not plan.associations:
        return nothing(" Nothing removed")
    gone = [
        f"  U = {user:<9.9} A = {account:<10.10}"
        for account in plan.names
        for user in tree.accounts[account].coordinators
        if not users or user in users
    ]
    context.put(" Removed Coordinators (sub accounts not listed)...", *gone)
    return context.commit([request], before)


def remove_cluster(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    if not said.names():
        raise CommandError(" No conditions given to remove, not executing.", plain=True)
    if known_clusters(context.client.cluster).keys().isdisjoint(said.names()):
        return nothing(NOTHING["remove"])
    raise CommandError(
        " Error with request: Requested operation not supported on this system", plain=True,
        detail=f"to forget another cluster, remove its file from {MACHINE_FOLDER}; to remove accounts: sacctmgr load FILE clean",
    )  # fmt: skip
