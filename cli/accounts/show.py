"""sacctmgr show account, user, association, cluster.

Fields are in cli/accounts/fields.py; this module has their values (a function of the row and the tree), the default
columns, and the rows. A condition that only concerns associations needs withassoc, as in Slurm.
"""

from collections.abc import Callable, Iterable, Iterator

from cli.accounts.clusters import load_trees
from cli.accounts.fields import FieldValue, columns_of, put_table
from cli.accounts.grammar import OLD_LIMITS
from cli.accounts.qosnames import check_qos
from cli.accounts.tree import RPC_VERSION, AssociationTree, ShownEntity, limit_text, with_below
from cli.accounts.words import ParsedLine
from cli.base.confirm import confirmed
from cli.base.document import is_wanted
from cli.base.options import OptionValues
from cli.base.run import CommandError
from penstock.client import Client
from penstock.v1.shares_pb2 import Association
from penstock.values.limits import OF_ASSOC

ASKED_WITHOUT_ASSOC = (
    "You requested options that are only valid when querying with the withassoc option.\n"
    "Are you sure you want to continue?"
)


_Value = FieldValue[ShownEntity, AssociationTree]


def _of_assoc(value: Callable[[Association, AssociationTree], str]) -> _Value:
    return lambda row, view: value(row.assoc, view) if row.assoc is not None else ""


def _account(row: ShownEntity, view: AssociationTree) -> str:
    if row.account is not None:
        return row.account.name
    return " " * row.indent + row.assoc.account if row.assoc is not None else ""


def _user(row: ShownEntity, view: AssociationTree) -> str:
    if row.user is not None:
        return row.user.name
    return row.assoc.user if row.assoc is not None else ""


def _coordinators(row: ShownEntity, view: AssociationTree) -> str:
    if not row.with_coordinators:
        return ""
    if row.user is not None:
        return ",".join(row.user.coordinator_of)
    return ",".join(row.account.coordinators) if row.account is not None else ""


def _of(part: str, name: str) -> _Value:
    def value(row: ShownEntity, view: AssociationTree) -> str:
        found = getattr(row, part)
        return str(getattr(found, name)) if found is not None else ""

    return value


def _limit(name: str) -> _Value:
    limit = OF_ASSOC[name]
    return _of_assoc(lambda assoc, view: limit_text(view.limits(assoc), limit))


def _of_tres(name: str, tres: str) -> _Value:
    field = OF_ASSOC[name].field

    def value(assoc: Association, view: AssociationTree) -> str:
        amount = dict(getattr(view.limits(assoc), field)).get(tres)
        return "" if amount is None else str(amount)

    return _of_assoc(value)


def _parent_id(assoc: Association, view: AssociationTree) -> str:
    above = view.above(assoc)
    return str(above.id) if above is not None else ""


VALUES: dict[str, _Value] = {
    "account": _account, "accounts": _account, "user": _user, "coordinators": _coordinators,
    "adminlevel": _of("user", "admin_level"), "defaultaccount": _of("user", "default_account"),
    "defaultwckey": _of("user", "default_wckey"), "description": _of("account", "description"),
    "organization": _of("account", "organization"),
    "cluster": lambda row, view: view.cluster,
    "partition": _of("assoc", "partition"), "id": _of("assoc", "id"),
    "parentname": _of_assoc(lambda assoc, view: "" if assoc.user else assoc.parent),
    "parentid": _of_assoc(_parent_id),
    "share": _of_assoc(lambda assoc, view: "parent" if assoc.shares < 0 else str(assoc.shares)),
    "priority": _of_assoc(lambda assoc, view: str(view.priority(assoc) or "")),
    "qos": _of_assoc(lambda assoc, view: ",".join(view.qos(assoc))),
    "qosraw": _of_assoc(lambda assoc, view: ",".join(assoc.own_qos)),
    "defaultqos": _of_assoc(lambda assoc, view: view.default_qos(assoc)),
    "lft": _of_assoc(lambda assoc, view: str(view.spans[assoc.id][0])),
    "rgt": _of_assoc(lambda assoc, view: str(view.spans[assoc.id][1])),
    "rawusage": _of_assoc(lambda assoc, view: str(assoc.usage_s)),
    "budget": _of_assoc(lambda assoc, view: assoc.budget),
    **{limit.name: _limit(limit.name) for limit in OF_ASSOC.values()},
    **{old: _of_tres(*new) for old, new in OLD_LIMITS.items() if new[0] in OF_ASSOC},
}  # fmt: skip
_CLUSTER: dict[str, _Value] = VALUES | {
    "controlhost": lambda row, view: view.whole.controller_host,
    "controlport": lambda row, view: str(view.whole.controller_port),
    "rpc": lambda row, view: str(RPC_VERSION if view.whole.associations else 0),
    "name": lambda row, view: view.cluster,
    "parentname": lambda row, view: "",
}

_LIMITS = (
    "Share,Priority,GrpJ,GrpTRES,GrpS,GrpWall,GrpTRESMins,MaxJ,MaxTRES,"
    "MaxTRESPerN,MaxS,MaxW,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins"
)
_OF_ACCOUNT = (
    "Cl,ParentN,U,Share,Priority,GrpJ,GrpN,"
    "GrpCPUs,GrpMEM,GrpS,GrpWall,GrpCPUMins,MaxJ,MaxN,MaxCPUs,MaxS,MaxW,MaxCPUMins,QOS,DefaultQOS"
)
_OF_USER = "Cl,Acc,Part,Share,Priority,MaxJ,MaxN,MaxCPUs,MaxS,MaxW,MaxCPUMins,QOS,DefaultQOS"


def show(client: Client, entity: str, said: ParsedLine, options: OptionValues) -> int:
    """Prints one table, or a document."""
    check_qos(client, said, {})
    flags = said.flags | ({"withassoc"} if options.flag("associations") else set())
    columns = columns_of(said.columns or default_columns(entity, flags), VALUES)
    for text in said.conditions.get("id", ()):
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise CommandError(f" Unknown condition: {text}", plain=True)
    needs = set(said.conditions) & _OF_ASSOC_ONLY.get(entity, frozenset())
    if needs and "withassoc" not in flags and not options.flag("immediate") and not confirmed(ASKED_WITHOUT_ASSOC):
        print("Aborted")  # noqa: T201
        return 0
    tree = AssociationTree.load(client, "withdeleted" in flags)
    if flags & {"woplimits", "wopinfo"}:
        tree = tree._replace(own_only=True)
    rows = list(ROWS[entity](tree, said._replace(flags=frozenset(flags))))
    if is_wanted(options):
        from cli.accounts.jsonacctmgr import put_tree

        return put_tree(tree, entity, rows, options)
    if "tree" in flags:
        columns = [c._replace(width=-20 if c.width == 10 else c.width) if c.name == "Account" else c for c in columns]
    if "wopinfo" in flags:
        columns = [c for c in columns if c.name not in ("ParentName", "ParentID")]
    put_table(columns, rows, tree, options)
    return 0


def show_clusters(client: Client, said: ParsedLine, options: OptionValues) -> int:
    """Prints the known clusters, with the limits of their root accounts."""
    flags = said.flags
    columns = columns_of(said.columns or default_columns("cluster", flags), _CLUSTER)
    found = [(tree, list(cluster_rows(tree, said))) for tree in load_trees(client, "withdeleted" in flags)]
    found = [(tree, rows) for tree, rows in found if rows] or found[:1]
    if is_wanted(options):
        from cli.accounts.jsonacctmgr import put_clusters

        return put_clusters(
            [(tree, row.assoc) for tree, rows in found for row in rows], client.cluster.cluster_name, options
        )
    style = options
    for tree, rows in found:
        put_table(columns, rows, tree, style)
        style = OptionValues(options, noheader=True)
    return 0


def default_columns(entity: str, flags: set[str] | frozenset[str]) -> str:
    """The default columns, without format=."""
    with_assoc = "withassoc" in flags
    if entity == "account":
        return (
            "Acc,Des,O" + (f",{_OF_ACCOUNT}" if with_assoc else "") + (",Coord" if "withcoordinators" in flags else "")
        )
    if entity == "user":
        text = "U,DefaultA,Ad" + (f",{_OF_USER}" if with_assoc else "")
        return text + (",Coord" if "withcoordinators" in flags else "")
    if entity == "cluster":
        text = "Cl,Controlh,Controlp,RPC" + ("" if "wolimits" in flags else _CLUSTER_LIMITS)
        return text + (",Federation,ID,Features,FedState" if "withfed" in flags else "")
    return "Cluster,Account,User,Part" + ("" if "wolimits" in flags else f",{_LIMITS}")


_CLUSTER_LIMITS = ",Fa,GrpJ,GrpTRES,GrpS,MaxJ,MaxTRES,MaxS,MaxW,QOS,DefaultQOS"
#: Conditions that concern associations and not the account or user itself.
_OF_ASSOC_ONLY = {
    "account": frozenset(("user", "parent", "defaultqos", "qos", "id")),
    "user": frozenset(("account", "partition", "parent", "defaultqos", "qos", "id", "wckey")),
}


def _one_of(said: ParsedLine, key: str, value: str, fold: bool = True) -> bool:
    """Whether the condition (none: always) holds for a value."""
    wanted = said.conditions.get(key)
    if wanted is None:
        return True
    return value.lower() in (word.lower() for word in wanted) if fold else value in wanted


def _fits(said: ParsedLine, tree: AssociationTree, assoc: Association) -> bool:
    """Whether the conditions on associations hold."""
    wanted_qos = said.conditions.get("qos")
    users = said.conditions.get("user")
    ids = said.conditions.get("id")
    return (
        (not said.conditions.get("cluster") or _one_of(said, "cluster", tree.cluster))
        and _one_of(said, "account", assoc.account)
        and (users is None or assoc.user in (users or ("",)))  # `user=`: the accounts' own
        and (not said.conditions.get("partition") or _one_of(said, "partition", assoc.partition, False))
        and _one_of(said, "parent", assoc.parent)
        and _one_of(said, "defaultqos", tree.default_qos(assoc))
        and (ids is None or assoc.id in (int(text) for text in ids))
        and (wanted_qos is None or bool(set(wanted_qos) & set(tree.qos(assoc))))
    )


def account_rows(tree: AssociationTree, said: ParsedLine) -> Iterator[ShownEntity]:
    """Accounts, with their associations if requested."""
    for info in sorted(tree.accounts.values(), key=lambda one: one.name):
        if (
            _one_of(said, "name", info.name)
            and _one_of(said, "description", info.description)
            and _one_of(said, "organization", info.organization)
        ):
            own = (one for one in tree.whole.associations if one.account == info.name)
            yield from _with_own(tree, said, "account", ShownEntity(account=info), own)


def user_rows(tree: AssociationTree, said: ParsedLine) -> Iterator[ShownEntity]:
    """Users, with their associations if requested."""
    for info in sorted(tree.users.values(), key=lambda one: one.name):
        if (
            _one_of(said, "name", info.name, False)
            and _one_of(said, "adminlevel", info.admin_level)
            and _one_of(said, "defaultaccount", info.default_account)
            and _one_of(said, "defaultwckey", info.default_wckey)
        ):
            own = (one for one in tree.whole.associations if one.user == info.name)
            yield from _with_own(tree, said, "user", ShownEntity(user=info), own)


def _with_own(
    tree: AssociationTree, said: ParsedLine, entity: str, row: ShownEntity, own: Iterable[Association]
) -> Iterator[ShownEntity]:
    """One line, or with `withassoc` one for each of its selected associations."""
    row = row._replace(with_coordinators="withcoordinators" in said.flags)
    found = [one for one in own if _fits(said, tree, one)] if "withassoc" in said.flags else []
    yield from (row._replace(assoc=one) for one in found)
    if not found and ("withassoc" not in said.flags or not set(said.conditions) & _OF_ASSOC_ONLY[entity]):
        yield row


def assoc_rows(tree: AssociationTree, said: ParsedLine) -> Iterator[ShownEntity]:
    """Associations in the order of the tree."""
    if "withsubaccounts" in said.flags and "account" in said.conditions:
        said = said._replace(conditions=said.conditions | {"account": with_below(tree, said.conditions["account"])})
    for assoc in tree.whole.associations:
        if "onlydefaults" in said.flags:
            info = tree.users.get(assoc.user)
            if info is None or info.default_account != assoc.account:
                continue
        if _fits(said, tree, assoc):
            yield ShownEntity(assoc, indent=assoc.depth if "tree" in said.flags else 0)


def cluster_rows(tree: AssociationTree, said: ParsedLine) -> Iterator[ShownEntity]:
    """The cluster of a tree, with the limits of its root account."""
    excluding = {"federations", "classification", "flags", "rpcversions"} & set(said.conditions)
    if _one_of(said, "name", tree.cluster, False) and not any(said.conditions[key] for key in excluding):
        yield ShownEntity(next((one for one in tree.whole.associations if not one.parent and not one.user), None))


ROWS: dict[str, Callable[[AssociationTree, ParsedLine], Iterator[ShownEntity]]] = {
    "account": account_rows,
    "user": user_rows,
    "association": assoc_rows,
}
