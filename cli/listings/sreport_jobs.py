"""sreport's reports of job sizes: the time of jobs by number of CPUs, by account, by wckey, or by both.

Without Accounts= there is one line, root with all below it; with Accounts= one for each, with all below it.
AcctAsParent shows their direct children instead, FlatView each account with jobs by itself. Grouping=50,100 gives the
boundaries between groups of sizes, Grouping=individual makes a column for each size.
"""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

from cli.base.account_tree import ROOT, AccountTree, load_tree
from cli.base.run import CommandError
from cli.base.users import named_group
from cli.listings.sreport_fields import (
    SIZE_WIDTH,
    ReportField,
    Setting,
    choose,
    heading,
    table,
    text_field,
    usage_field,
)
from cli.listings.sreport_usage import rows_of, times, usage_request
from cli.listings.sreport_words import ReportQuestion
from penstock.client import Client
from penstock.v1.governance_pb2 import ReportRequest

#: Seconds (or jobs) by owner, by size.
_Sizes = dict[str, dict[int, int]]


class SizeReportLine(NamedTuple):
    """The usage of one owner by job size."""

    cluster: str
    name: str
    sizes: dict[int, int]
    whole: int  # of all lines

    @property
    def total(self) -> int:
        """Over all sizes."""
        return sum(self.sizes.values())


class SizeReportKind(NamedTuple):
    """One of the reports."""

    title: str
    group_by: tuple[str, ...]
    field: str
    width: int


KINDS = {
    "SizesByAccount": SizeReportKind("", ("account",), "Account", 9),
    "SizesByWcKey": SizeReportKind("by Wckey ", ("wckey",), "Wckey", 9),
    "SizesByAccountAndWcKey": SizeReportKind("", ("account", "wckey"), "Account", -20),
}


def report(client: Client, name: str, asked: ReportQuestion, setting: Setting) -> Iterable[str]:
    """The lines of one of KINDS."""
    kind = KINDS[name]
    if setting.tres_given and len(setting.tres) != 1:
        raise CommandError(
            " Job report only supports a single --tres type.\n Generate a separate report for each TRES type.",
            plain=True,
        )
    counted = "printjobcount" in asked.flags
    known: tuple[ReportField[SizeReportLine], ...] = (
        text_field(kind.field, kind.field, kind.width, lambda line: line.name),
        text_field("Cluster", "Cluster", 9, lambda line: line.cluster),
    )
    fields = choose(asked.fields or f"Cluster,{kind.field}", known)
    sizes = _load(client, kind, asked, setting, 1 if counted else 0)
    whole = sum(sum(found.values()) for found in sizes.values())
    lines = [SizeReportLine(client.cluster.cluster_name, one, found, whole) for one, found in sizes.items()]
    fields += [_size_field(number, header, counted) for number, header in _headers(asked, sizes)]
    fields.append(ReportField("% of cluster", "% of cluster", 12, text=_part_text))
    head = heading(
        f"Job Sizes {kind.title}{times(asked)} ({asked.seconds} secs)", _unit_lines(setting, counted), setting
    )
    return chain(head, table(fields, lines, setting))


def _unit_lines(setting: Setting, counted: bool) -> str:
    unit = "Units are in number of jobs ran" if counted else f"Time reported in {setting.time.words}"
    return f"TRES type is {setting.tres[0]}\n{unit}" if setting.tres_given else unit


def _part_text(line: SizeReportLine) -> str:
    return f"{100 * line.total / line.whole if line.whole else 0:.2f}%"


def _size_field(number: int, header: str, counted: bool) -> ReportField[SizeReportLine]:
    if counted:
        return text_field(header, header, SIZE_WIDTH, lambda line: line.sizes.get(number, 0))
    return usage_field(header, header, lambda line: (line.sizes.get(number, 0), line.whole), SIZE_WIDTH)


def _headers(asked: ReportQuestion, sizes: _Sizes) -> list[tuple[int, str]]:
    """The groups of sizes, with their headings."""
    if asked.each_size:
        return [(size, f"{size} CPUs") for size in sorted({size for found in sizes.values() for size in found})]
    starts = (0, *asked.bounds)
    closed = [f"{low}-{high - 1} CPUs" for low, high in zip(starts, asked.bounds, strict=False)]
    return list(enumerate([*closed, f">= {starts[-1]} CPUs"]))


def _load(client: Client, kind: SizeReportKind, asked: ReportQuestion, setting: Setting, at: int) -> _Sizes:
    request = usage_request(
        asked, kind=ReportRequest.JOB_SIZES, group_by=kind.group_by, tres=setting.tres, bounds=asked.bounds,
        each_size=asked.each_size, gids=_gids(asked), job_ids=asked.of("jobs"),
        with_subaccounts="flatview" not in asked.flags,
    )  # fmt: skip
    rows = [(tuple(row.keys[:-1]), int(row.keys[-1]), row.values[at]) for row in rows_of(client, request)]
    shown = (lambda account: [account]) if kind.group_by[0] != "account" else _shown(client, asked, rows)
    sizes: _Sizes = {}
    for keys, size, amount in rows:
        for name in shown(keys[0]):
            found = sizes.setdefault(":".join((name, *keys[1:])), {})
            found[size] = found.get(size, 0) + amount
    return dict(sorted(sizes.items()))


def _shown(
    client: Client, asked: ReportQuestion, rows: list[tuple[tuple[str, ...], int, int]]
) -> Callable[[str], list[str]]:
    """The lines that include an account's jobs."""
    if "flatview" in asked.flags:
        return lambda account: [account]
    tree: AccountTree = load_tree(client, (keys[0] for keys, _, _ in rows))
    tops = asked.of("accounts") or [ROOT]
    if "acctasparent" in asked.flags:
        tops = [child for top in tops for child in tree.children(top)]
    wanted = frozenset(tops)
    return lambda account: [name for name in tree.path(account) if name in wanted]


def _gids(asked: ReportQuestion) -> list[int]:
    found = []
    for text in asked.of("gids"):
        gid = int(text) if re.fullmatch("[0-9]{1,10}", text) else named_group(text)
        if gid is None:
            raise CommandError(f"Invalid group id: {text}")
        found.append(gid)
    return found
