"""sacctmgr modify account, user, cluster."""

from collections.abc import Callable

from cli.accounts.concerned import changed_line, concerned, without_default
from cli.accounts.context import NO_WHERE, NOTHING, ChangeContext, is_elsewhere, nothing
from cli.accounts.requests import ACTIONS, lowered, request_of
from cli.accounts.values import ASSOC_LABELS, describe_settings
from cli.accounts.words import ParsedLine
from cli.base.account_tree import ROOT
from cli.base.run import CommandError
from penstock.v1.shares_pb2 import ChangeAccountsRequest

#: Settings that are the account's or the user's own, not its associations'.
OWN = {"account": frozenset(("description", "organization")),
       "user": frozenset(("adminlevel", "defaultaccount", "defaultwckey", "newname"))}  # fmt: skip


def modify_of(entity: str) -> Callable[[ChangeContext, ParsedLine, dict[str, str]], int]:
    def run(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
        if not changes:
            raise CommandError(" You didn't give me anything to set", plain=True)
        names = lowered(said.names()) if entity == "account" else said.names()
        if "newname" in changes and len(names) != 1:
            raise CommandError(" If you are changing a users name you can only specify 1 user at a time.", plain=True)
        if not said.has_conditions() and not context.agreed(NO_WHERE):
            print("Aborted")  # noqa: T201
            return 0
        if not said.has_conditions():
            tree = context.tree
            names = sorted(tree.users) if entity == "user" else sorted(set(tree.nodes) - {"root"})
            if not names:
                return nothing(NOTHING["modify"])
        if "parent" in changes and changes["parent"].lower() not in context.tree.nodes:
            raise CommandError(f" Parent Account {changes['parent']} doesn't exist.", plain=True)
        if lines := without_default(context, entity, said, changes, names):
            print("\n".join(lines))  # noqa: T201
            return 1
        request = request_of("modify", entity, said, changes, names=names)
        is_cluster = entity == "account" and names == [ROOT] and "user" not in said.conditions
        if is_cluster and not OWN[entity] & set(changes):
            if "parent" in changes:
                return nothing(NOTHING["modify"])  # nothing is above it
            request.entity = "cluster"
            request.names[:] = [context.cluster]
        before = " Error with request: "
        plan = context.send([request], before, True)[0]
        if not plan.associations and not plan.names:
            return nothing(NOTHING["modify"])
        if set(changes) == {"rawusage"}:
            return context.commit([request], before, "Would you like to reset usage?")
        if set(changes) & OWN[entity]:
            context.put(f" Modified {entity}s...", *(f"  {name}" for name in plan.names))
        if set(changes) - OWN[entity]:
            shown = concerned(context, list(plan.associations), changes)
            context.put(f" Modified {entity} associations...", *(changed_line(context.cluster, one) for one in shown))
        return context.commit([request], before)

    return run


def modify_cluster(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    if not changes:
        raise CommandError(" You didn't give me anything to set", plain=True)
    for key in ("classification", "federation", "fedstate", "flags", "features"):
        if key in changes or f"{key}+" in changes or f"{key}-" in changes:
            raise CommandError(
                " Error with request: Requested operation not supported on this system",
                plain=True,
                detail=f"{key} of a cluster",
            )
    for key, name in (("grptresrunmins", "GrpTRESRunMins"), ("grptresmins", "GrpTRESMins"), ("grpwall", "GrpWall")):
        if key in changes:
            raise CommandError(f"{name} is not a valid option for the root association of a cluster.", plain=True)
    if is_elsewhere(said._replace(conditions={"cluster": said.names()}), context.cluster):
        return nothing(NOTHING["modify"])
    if not said.names() and not context.agreed(NO_WHERE):
        print("Aborted")  # noqa: T201
        return 0
    request = ChangeAccountsRequest(
        action=ACTIONS["modify"], entity="cluster", names=[context.cluster], changes=changes
    )
    before = " Error with request: "
    plan = context.send([request], before, True)[0]
    if not plan.associations:
        return nothing(NOTHING["modify"])
    shown = concerned(context, list(plan.associations), changes)
    context.put(
        " Setting", "  Default Limits:", *describe_settings(changes, ASSOC_LABELS, 14),
        " Modified cluster defaults for associations...", *(changed_line(context.cluster, one) for one in shown),
    )  # fmt: skip
    return context.commit([request], before)
