"""sreport's reports of usage: of accounts, users, wckeys and QOS, and the top users.

The controller sums usage by the keys of the report (Report, kind USAGE); there is a line for each requested TRES.
Accounts are shown in tree order, each with the sum of its descendants; users by descending usage. Percentages are of
the cluster's capacity in that time (kind CLUSTER).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

# Any: fields of the request, checked where the message is made, and functions with arguments of their own
from typing import Any, NamedTuple

from cli.base.account_tree import AccountTree, load_tree
from cli.base.users import login_of, named
from cli.listings.sreport_fields import ReportField, Setting, choose, heading, table, text_field, usage_field
from cli.listings.sreport_words import ReportQuestion
from penstock.client import Client
from penstock.v1.governance_pb2 import ReportRequest, ReportRow

ENERGY = "energy"
#: Sums by the keys of the grouping.
_Sums = dict[tuple[str, ...], dict[str, int]]


class UsageReportLine(NamedTuple):
    """One line: the owner, the TRES and the usage."""

    cluster: str
    tres: str
    used: int
    whole: int  # the cluster's capacity; 0 = not requested
    account: str = ""
    user: str = ""
    proper: str = ""
    key: str = ""  # a wckey or a QOS
    amount: int = 0  # the cluster's amount of it
    energy: int = 0
    energy_whole: int = 0


def _used(line: UsageReportLine) -> tuple[float, float]:
    return line.used, line.whole


def _energy(line: UsageReportLine) -> tuple[float, float]:
    return line.energy, line.energy_whole


FIELDS: tuple[ReportField[UsageReportLine], ...] = (
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


class UsageReportKind(NamedTuple):
    """One of the reports: heading, columns, grouping of usage."""

    title: str
    group_by: tuple[str, ...]
    fields: str


KINDS = {
    "AccountUtilizationByUser": UsageReportKind("Cluster/Account/User", ("account", "user"), "Cluster,Ac,Login,Proper"),
    "AccountUtilizationByQOS": UsageReportKind("Cluster/Account/QOS", ("account", "qos"), "Cluster,Ac,QOS"),
    "UserUtilizationByAccount": UsageReportKind("Cluster/User/Account", ("user", "account"), "Cluster,Login,Proper,Ac"),
    "UserUtilizationByWckey": UsageReportKind("Cluster/User/WCKey", ("user", "wckey"), "Cluster,Login,Proper,WCKey"),
    "WCKeyUtilizationByUser": UsageReportKind("Cluster/WCKey/User", ("wckey", "user"), "Cluster,WCKey,Login,Proper"),
    "TopUsage": UsageReportKind("Top", ("user", "account"), "Cluster,Login,Proper,Ac"),
}


def report(client: Client, name: str, asked: ReportQuestion, setting: Setting) -> Iterable[str]:
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


def times(asked: ReportQuestion) -> str:
    """The window, its last second included."""
    from penstock.values.dates import format_date

    return f"{format_date(asked.start_us)} - {format_date(asked.end_us - 1_000_000)}"


def _left(field: ReportField[UsageReportLine]) -> ReportField[UsageReportLine]:
    return field._replace(width=TREE_WIDTH)


def _own_fields(kind: UsageReportKind, setting: Setting) -> str:
    if setting.tres_given:
        return f"{kind.fields},TresName,Used"
    return f"{kind.fields},Used" if "wckey" in kind.group_by else f"{kind.fields},Used,Energy"


# -- data from the controller


def usage_request(asked: ReportQuestion, **more: Any) -> ReportRequest:
    """The filters and the window, as every report has them."""
    return ReportRequest(
        start_at_us=asked.start_us, end_at_us=asked.end_us, accounts=asked.of("accounts"),
        users=[login_of(text) for text in asked.of("users")],
        wckeys=asked.of("wckeys"), qos=asked.of("qos"), partitions=asked.of("partitions"), nodes=asked.of("nodes"),
        **more,
    )  # fmt: skip


def rows_of(client: Client, request: ReportRequest) -> Iterator[ReportRow]:
    """All rows of an answer."""
    for page in client.stream("Report", request):
        yield from page.rows


def load_sums(client: Client, group_by: tuple[str, ...], asked: ReportQuestion, setting: Setting) -> _Sums:
    """TRES seconds by the keys, by TRES; energy in joules."""
    tres = list(dict.fromkeys((*setting.tres, *(() if setting.tres_given else (ENERGY,)))))
    request = usage_request(
        asked, kind=ReportRequest.USAGE, group_by=group_by, tres=tres, with_subaccounts="account" in group_by
    )
    sums: _Sums = {}
    for row in rows_of(client, request):
        found = sums.setdefault(tuple(row.keys), {})
        found[row.tres] = found.get(row.tres, 0) + row.values[0]
    return sums


class Whole(NamedTuple):
    """The cluster's total of one TRES."""

    seconds: int
    amount: int


def load_wholes(client: Client, asked: ReportQuestion, setting: Setting, shown: set[str]) -> dict[str, Whole]:
    """Loads the cluster's total of each TRES, if it is shown."""
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

    def lines(self, found: dict[str, int], **what: str) -> Iterator[UsageReportLine]:
        """A line for each TRES."""
        nothing = Whole(0, 0)
        for tres in self.tres:
            whole = self.wholes.get(tres, nothing)
            yield UsageReportLine(
                self.cluster, tres, found.get(tres, 0), whole.seconds, amount=whole.amount,
                energy=found.get(ENERGY, 0), energy_whole=self.wholes.get(ENERGY, nothing).seconds, **what,
            )  # fmt: skip

    def rank(self, item: tuple[tuple[str, ...], dict[str, int]]) -> tuple[object, ...]:
        """Most of the first TRES first, then by name."""
        keys, found = item
        return -found.get(self.tres[0], 0), keys


def proper_name(user: str) -> str:
    """The name in the user database of this machine."""
    entry = named(user)
    return "" if entry is None else str(entry.pw_gecos)


# -- the order of lines


def add(into: dict[str, int], more: dict[str, int]) -> None:
    """Adds up sums."""
    for tres, amount in more.items():
        into[tres] = into.get(tres, 0) + amount


def below(tree: AccountTree, sums: _Sums) -> dict[str, dict[str, int]]:
    """By account, its usage with that of all accounts below it."""
    totals: dict[str, dict[str, int]] = {}
    for keys, found in sums.items():
        for account in tree.path(keys[0]):
            add(totals.setdefault(account, {}), found)
    return totals


def _account_tree(client: Client, sums: _Sums, asked: ReportQuestion, make: _Maker) -> Iterator[UsageReportLine]:
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


def _account_qos(client: Client, sums: _Sums, asked: ReportQuestion, make: _Maker) -> Iterator[UsageReportLine]:
    tree = load_tree(client, (keys[0] for keys in sums))
    for account, _ in tree.walk(asked.of("accounts")):
        for keys in sorted(keys for keys in sums if keys[0] == account):
            yield from make.lines(sums[keys], account=account, key=keys[1])


def _by_use(client: Client, sums: _Sums, asked: ReportQuestion, make: _Maker, what: str) -> Iterator[UsageReportLine]:
    for (user, key), found in sorted(sums.items(), key=make.rank):
        yield from make.lines(found, user=user, proper=proper_name(user), **{what: key})


def _wckeys(client: Client, sums: _Sums, asked: ReportQuestion, make: _Maker) -> Iterator[UsageReportLine]:
    totals: dict[str, dict[str, int]] = {}
    for (wckey, _), found in sums.items():
        add(totals.setdefault(wckey, {}), found)
    for wckey in sorted(totals):
        yield from make.lines(totals[wckey], key=wckey)
        for keys in sorted(keys for keys in sums if keys[0] == wckey):
            yield from make.lines(sums[keys], key=wckey, user=keys[1], proper=proper_name(keys[1]))


def _top(client: Client, sums: _Sums, asked: ReportQuestion, make: _Maker) -> Iterator[UsageReportLine]:
    if "group" in asked.flags:
        sums = _by_user(sums)
    for (user, account), found in sorted(sums.items(), key=make.rank)[: asked.top]:
        yield from make.lines(found, user=user, proper=proper_name(user), account=account)


def _by_user(sums: _Sums) -> _Sums:
    """Groups lines by user over all accounts."""
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
