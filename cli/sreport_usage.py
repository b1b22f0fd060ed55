"""sreport's reports of usage: of accounts, users, wckeys and QOS, and who used most.

Usage comes summed by what a report groups by (Report, kind USAGE); a line for each TRES that was asked for. Accounts are
shown as the tree has them, each with the sum of what is below it; users in the order of use. Percentages are of all that
the cluster had in that time (kind CLUSTER).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from cli.sreport_fields import Field, Setting, choose, heading, table, text_field, usage_field
from cli.sreport_words import Asked
from cli.tree import AccountTree, load_tree
from cli.users import login_of, named
from penstock.client import Client
from penstock.v1.governance_pb2 import ReportRequest

ENERGY = "energy"
#: Sums by the keys of the grouping.
Sums = dict[tuple[str, ...], dict[str, int]]


class Line(NamedTuple):
    """One line: whose usage, of which TRES."""

    cluster: str
    tres: str
    used: int
    whole: int  # what the cluster had of it; 0 = not asked
    account: str = ""
    user: str = ""
    proper: str = ""
    key: str = ""  # a wckey or a QOS
    amount: int = 0  # how much of it the cluster has
    energy: int = 0
    energy_whole: int = 0


def _used(line: Line) -> tuple[float, float]:
    return line.used, line.whole


def _energy(line: Line) -> tuple[float, float]:
    return line.energy, line.energy_whole


FIELDS = (
    text_field("Accounts", "Account", 15, lambda line: line.account),
    text_field("Cluster", "Cluster", 9, lambda line: line.cluster),
    usage_field("Energy", "Energy", _energy)._replace(raw=True),
    text_field("Login", "Login", 9, lambda line: line.user),
    text_field("Proper", "Proper Name", 15, lambda line: line.proper),
    text_field("QOS", "QOS", 15, lambda line: line.key),
    text_field("TresCount", "TRES Count", 10, lambda line: line.amount),
    text_field("TresName", "TRES Name", 14, lambda line: line.tres),
    usage_field("Used", "Used", _used),
    text_field("WCKey", "WCKey", 20, lambda line: line.key),
)
ALIASES = {"cpucount": "trescount", "account": "accounts"}
TREE_WIDTH = -20


class Kind(NamedTuple):
    """One of the reports: heading, columns, what usage is grouped by."""

    title: str
    group_by: tuple[str, ...]
    fields: str


KINDS = {
    "AccountUtilizationByUser": Kind("Cluster/Account/User", ("account", "user"), "Cluster,Ac,Login,Proper"),
    "AccountUtilizationByQOS": Kind("Cluster/Account/QOS", ("account", "qos"), "Cluster,Ac,QOS"),
    "UserUtilizationByAccount": Kind("Cluster/User/Account", ("user", "account"), "Cluster,Login,Proper,Ac"),
    "UserUtilizationByWckey": Kind("Cluster/User/WCKey", ("user", "wckey"), "Cluster,Login,Proper,WCKey"),
    "WCKeyUtilizationByUser": Kind("Cluster/WCKey/User", ("wckey", "user"), "Cluster,WCKey,Login,Proper"),
    "TopUsage": Kind("Top", ("user", "account"), "Cluster,Login,Proper,Ac"),
}


def report(client: Client, name: str, asked: Asked, setting: Setting) -> Iterable[str]:
    """The lines of one of KINDS."""
    kind = KINDS[name]
    fields = choose(asked.fields or _own_fields(kind, setting), FIELDS, ALIASES)
    as_tree = name == "AccountUtilizationByUser" and "tree" in asked.flags
    if as_tree:
        fields = [_left(field) if field.name == "Accounts" and field.width == 15 else field for field in fields]
    sums = load_sums(client, kind.group_by, asked, setting)
    wholes = load_wholes(client, asked, setting, {field.name for field in fields})
    make = _Maker(client.cluster.cluster_name, setting.tres, wholes)
    lines = list(_ARRANGE[name](client, sums, asked, make))
    title = f"Top {asked.top} Users" if name == "TopUsage" else f"{kind.title} Utilization"
    span = times(asked)
    head = heading(f"{title} {span} ({asked.seconds} secs)", f"Usage reported in {setting.unit_words}", setting)
    if not as_tree:
        lines = [line._replace(account=line.account.lstrip()) for line in lines]
    return chain(head, table(fields, lines, setting))


def times(asked: Asked) -> str:
    """The window, its last second included."""
    from penstock.values.dates import format_date

    return f"{format_date(asked.start_us)} - {format_date(asked.end_us - 1_000_000)}"


def _left(field: Field) -> Field:
    return field._replace(width=TREE_WIDTH)


def _own_fields(kind: Kind, setting: Setting) -> str:
    if setting.tres_given:
        return f"{kind.fields},TresName,Used"
    return f"{kind.fields},Used" if "wckey" in kind.group_by else f"{kind.fields},Used,Energy"


# -- what the controller says


def usage_request(asked: Asked, **more: Any) -> ReportRequest:
    """The filters and the window, as every report has them."""
    return ReportRequest(
        start_at_us=asked.start_us, end_at_us=asked.end_us, accounts=asked.of("accounts"),
        users=[login_of(text) for text in asked.of("users")],
        wckeys=asked.of("wckeys"), qos=asked.of("qos"), partitions=asked.of("partitions"), nodes=asked.of("nodes"),
        **more,
    )  # fmt: skip


def rows_of(client: Client, request: ReportRequest) -> Iterator[Any]:
    """All rows of an answer."""
    for page in client.stream("Report", request):
        yield from page.rows


def load_sums(client: Client, group_by: tuple[str, ...], asked: Asked, setting: Setting) -> Sums:
    """TRES seconds by the keys, by TRES; energy in joules."""
    tres = list(dict.fromkeys((*setting.tres, *(() if setting.tres_given else (ENERGY,)))))
    request = usage_request(
        asked, kind=ReportRequest.USAGE, group_by=group_by, tres=tres, with_subaccounts="account" in group_by
    )
    sums: Sums = {}
    for row in rows_of(client, request):
        found = sums.setdefault(tuple(row.keys), {})
        found[row.tres] = found.get(row.tres, 0) + row.values[0]
    return sums


class Whole(NamedTuple):
    """What the cluster had of one TRES."""

    seconds: int
    amount: int


def load_wholes(client: Client, asked: Asked, setting: Setting, shown: set[str]) -> dict[str, Whole]:
    """What the cluster had of each TRES, where somebody will see it."""
    if not setting.time.percent and "TresCount" not in shown:
        return {}
    tres = list(dict.fromkeys((*setting.tres, *(() if setting.tres_given else (ENERGY,)))))
    request = ReportRequest(kind=ReportRequest.CLUSTER, start_at_us=asked.start_us, end_at_us=asked.end_us, tres=tres)
    return {row.tres: Whole(row.values[5], row.values[7]) for row in rows_of(client, request)}


class _Maker(NamedTuple):
    """Makes lines of sums."""

    cluster: str
    tres: tuple[str, ...]
    wholes: dict[str, Whole]

    def lines(self, found: dict[str, int], **what: str) -> Iterator[Line]:
        """A line for each TRES."""
        nothing = Whole(0, 0)
        for tres in self.tres:
            whole = self.wholes.get(tres, nothing)
            yield Line(
                self.cluster, tres, found.get(tres, 0), whole.seconds, amount=whole.amount,
                energy=found.get(ENERGY, 0), energy_whole=self.wholes.get(ENERGY, nothing).seconds, **what,
            )  # fmt: skip

    def rank(self, item: tuple[tuple[str, ...], dict[str, int]]) -> tuple[Any, ...]:
        """Most of the first TRES first, then by name."""
        keys, found = item
        return -found.get(self.tres[0], 0), keys


def proper_name(user: str) -> str:
    """The name in the user database of this machine."""
    entry = named(user)
    return "" if entry is None else str(entry.pw_gecos)


# -- the order of lines


def add(into: dict[str, int], more: dict[str, int]) -> None:
    """Sums of sums."""
    for tres, amount in more.items():
        into[tres] = into.get(tres, 0) + amount


def below(tree: AccountTree, sums: Sums) -> dict[str, dict[str, int]]:
    """By account, what it and all accounts below it have used."""
    totals: dict[str, dict[str, int]] = {}
    for keys, found in sums.items():
        for account in tree.path(keys[0]):
            add(totals.setdefault(account, {}), found)
    return totals


def _account_tree(client: Client, sums: Sums, asked: Asked, make: _Maker) -> Iterator[Line]:
    tree = load_tree(client, (keys[0] for keys in sums))
    totals = below(tree, sums)
    by_account: dict[str, list[str]] = {}
    for account, user in sorted(sums):
        by_account.setdefault(account, []).append(user)
    for account, depth in tree.walk(asked.of("accounts")):
        name = " " * depth + account
        if account in totals and not asked.of("users"):
            yield from make.lines(totals[account], account=name)
        for user in filter(None, by_account.get(account, ())):
            yield from make.lines(sums[account, user], account=name, user=user, proper=proper_name(user))


def _account_qos(client: Client, sums: Sums, asked: Asked, make: _Maker) -> Iterator[Line]:
    tree = load_tree(client, (keys[0] for keys in sums))
    for account, _ in tree.walk(asked.of("accounts")):
        for keys in sorted(keys for keys in sums if keys[0] == account):
            yield from make.lines(sums[keys], account=account, key=keys[1])


def _by_use(client: Client, sums: Sums, asked: Asked, make: _Maker, what: str) -> Iterator[Line]:
    for (user, key), found in sorted(sums.items(), key=make.rank):
        yield from make.lines(found, user=user, proper=proper_name(user), **{what: key})


def _wckeys(client: Client, sums: Sums, asked: Asked, make: _Maker) -> Iterator[Line]:
    totals: dict[str, dict[str, int]] = {}
    for (wckey, _), found in sums.items():
        add(totals.setdefault(wckey, {}), found)
    for wckey in sorted(totals):
        yield from make.lines(totals[wckey], key=wckey)
        for keys in sorted(keys for keys in sums if keys[0] == wckey):
            yield from make.lines(sums[keys], key=wckey, user=keys[1], proper=proper_name(keys[1]))


def _top(client: Client, sums: Sums, asked: Asked, make: _Maker) -> Iterator[Line]:
    if "group" in asked.flags:
        sums = _by_user(sums)
    for (user, account), found in sorted(sums.items(), key=make.rank)[: asked.top]:
        yield from make.lines(found, user=user, proper=proper_name(user), account=account)


def _by_user(sums: Sums) -> Sums:
    """The accounts of each user together."""
    accounts: dict[str, list[str]] = {}
    totals: dict[str, dict[str, int]] = {}
    for user, account in sorted(sums):
        accounts.setdefault(user, []).append(account)
        add(totals.setdefault(user, {}), sums[user, account])
    return {(user, ", ".join(accounts[user])): found for user, found in totals.items()}


_ARRANGE: dict[str, Any] = {
    "AccountUtilizationByUser": _account_tree,
    "AccountUtilizationByQOS": _account_qos,
    "UserUtilizationByAccount": partial(_by_use, what="account"),
    "UserUtilizationByWckey": partial(_by_use, what="key"),
    "WCKeyUtilizationByUser": _wckeys,
    "TopUsage": _top,
}
