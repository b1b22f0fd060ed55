"""The data of `penstock report`, from the controller's roll-ups (RPC Report): usage by day and account, the state of
the cluster by day, waiting times and efficiency by account.

The main resource is the GPU where the cluster has some, else the CPU. Accounts beyond the first ACCOUNTS_SHOWN are
summed as one. Days are the controller's.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from cli.listings.jobreports import Efficiency, Waits, efficiency_of, waits_of
from penstock.client import Client
from penstock.v1.governance_pb2 import ReportRequest, ReportRow
from penstock.values.dates import format_date

ACCOUNTS_SHOWN: Final = 8
OTHERS: Final = "others"
GPU, CPU = "gres/gpu", "cpu"
_Kind = ReportRequest.Kind


class Day(NamedTuple):
    """TRES hours of the whole cluster in one day."""

    name: str
    allocated: float
    planned: float
    idle: float
    down: float


T = TypeVar("T", Waits, Efficiency)


class Report(NamedTuple):
    """Everything on the page."""

    cluster: str
    begin_us: int
    end_us: int
    tres: str
    days: tuple[Day, ...]
    usage: dict[str, dict[str, float]]  # account -> day -> TRES hours; the largest account first
    waits: dict[str, Waits]  # most jobs first
    efficiency: dict[str, Efficiency]  # the same order


def load(client: Client, days: list[tuple[int, int]]) -> Report:
    """`days`: beginning and end of each, in microseconds, rising and without gaps."""
    begin_us, end_us = days[0][0], days[-1][1]
    tres = GPU if any(row.values[7] for row in _rows(client, _Kind.CLUSTER, begin_us, end_us, tres=[GPU])) else CPU
    return Report(
        client.cluster.cluster_name,
        begin_us,
        end_us,
        tres,
        tuple(_day(client, one, tres) for one in days),
        _usage(client, days, tres),
        _most_jobs(
            {row.keys[0]: waits_of(row.values) for row in _rows(client, _Kind.WAITS, begin_us, end_us, by="account")}
        ),
        _most_jobs(
            {
                row.keys[0]: efficiency_of(row.values)
                for row in _rows(client, _Kind.EFFICIENCY, begin_us, end_us, by="account")
            }
        ),
    )


def _rows(
    client: Client, kind: "ReportRequest.Kind", begin_us: int, end_us: int, by: str = "", tres: Sequence[str] = ()
) -> Iterator[ReportRow]:
    request = ReportRequest(kind=kind, start_at_us=begin_us, end_at_us=end_us, group_by=[by] if by else [], tres=tres)
    for page in client.stream("Report", request):
        yield from page.rows


def _most_jobs(found: dict[str, T]) -> dict[str, T]:
    return {name: found[name] for name in sorted(found, key=lambda name: (-found[name].jobs, name))}


def day_name(at_us: int) -> str:
    """2026-11-21."""
    return format_date(at_us).partition("T")[0]


def _day(client: Client, day: tuple[int, int], tres: str) -> Day:
    sums = [0.0] * 4
    for row in _rows(client, _Kind.CLUSTER, *day, tres=[tres]):
        allocated, down, planned_down, idle, planned, *_ = (value / 3600 for value in row.values)
        for place, hours in enumerate((allocated, planned, idle, down + planned_down)):
            sums[place] += hours
    return Day(day_name(day[0]), *sums)


def _usage(client: Client, days: list[tuple[int, int]], tres: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for day in days:
        for row in _rows(client, _Kind.USAGE, *day, by="account", tres=[tres]):
            found.setdefault(row.keys[0], {})[day_name(day[0])] = row.values[0] / 3600
    order = sorted(found, key=lambda name: (-sum(found[name].values()), name))
    shown = {name: found[name] for name in order[:ACCOUNTS_SHOWN]}
    rest: dict[str, float] = {}
    for name in order[ACCOUNTS_SHOWN:]:
        for day_of, hours in found[name].items():
            rest[day_of] = rest.get(day_of, 0.0) + hours
    return {**shown, OTHERS: rest} if rest else shown
