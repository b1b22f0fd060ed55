"""sreport's reports of capacity: of the cluster (Utilization), and of reservations.

A cluster's time is divided into allocated, down, planned down (maintenance), planned (kept free for a pending job) and
idle. Their sum is the reported time. Percentages are of that; for a reservation, of the reserved time.
"""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from cli.base.listing import words
from cli.base.run import CommandError
from cli.listings.sreport_fields import ReportField, Setting, choose, heading, table, text_field, usage_field
from cli.listings.sreport_usage import rows_of, times
from cli.listings.sreport_words import ReportQuestion
from penstock.client import Client
from penstock.v1.governance_pb2 import ReportRequest
from penstock.values.dates import format_date

RESERVATION_USAGE_WIDTH = 20
US = 1_000_000


class ClusterUse(NamedTuple):
    """A line: seconds of one TRES, as the reply has them."""

    cluster: str
    tres: str
    allocated: int
    down: int
    planned_down: int
    idle: int
    planned: int
    reported: int
    overcommitted: int
    amount: int  # in total


def _part(name: str, header: str, field: str) -> ReportField[ClusterUse]:
    return usage_field(name, header, lambda row: (getattr(row, field), row.reported))


CLUSTER_FIELDS: tuple[ReportField[ClusterUse], ...] = (
    _part("Allocated", "Allocated", "allocated"),
    text_field("Cluster", "Cluster", 9, lambda row: row.cluster),
    _part("Down", "Down", "down"),
    _part("Idle", "Idle", "idle"),
    _part("OverCommitted", "Over Comm", "overcommitted"),
    _part("PlannedDown", "PLND Down", "planned_down"),
    _part("Planned", "Planned", "planned"),
    _part("Reported", "Reported", "reported"),
    text_field("TresCount", "TRES Count", 10, lambda row: row.amount),
    text_field("TresName", "TRES Name", 14, lambda row: row.tres),
)
CLUSTER_ALIASES = {"reserved": "planned", "res": "planned", "cpucount": "trescount"}
CLUSTER_SHOWN = "Cluster,Allocated,Down,PlannedDown,Idle,Planned,Reported"


def utilization(client: Client, asked: ReportQuestion, setting: Setting) -> Iterable[str]:
    """cluster Utilization."""
    own = CLUSTER_SHOWN.replace(",", ",TresName,", 1) if setting.tres_given else CLUSTER_SHOWN
    fields = choose(asked.fields or own, CLUSTER_FIELDS, CLUSTER_ALIASES)
    request = ReportRequest(
        kind=ReportRequest.CLUSTER, start_at_us=asked.start_us, end_at_us=asked.end_us, tres=setting.tres
    )
    found = {
        row.tres: ClusterUse(client.cluster.cluster_name, row.tres, *row.values[:8]) for row in rows_of(client, request)
    }
    rows = [found[tres] for tres in setting.tres if tres in found]
    head = heading(f"Cluster Utilization {times(asked)}", f"Usage reported in {setting.unit_words}", setting)
    return chain(head, table(fields, rows, setting))


class ReservedUse(NamedTuple):
    """A line: one TRES of a reservation."""

    cluster: str
    name: str
    number: str
    start_us: int
    end_us: int
    nodes: str
    flags: str
    associations: str
    tres: str
    allocated: int
    idle: int

    @property
    def total(self) -> int:
        """TRES seconds that were reserved."""
        return self.allocated + self.idle

    @property
    def seconds(self) -> int:
        """The duration of the reservation in the window."""
        return max(self.end_us - self.start_us, 0) // 1_000_000


def _time(value: int) -> str:
    return format_date(value)


RESERVATION_FIELDS: tuple[ReportField[ReservedUse], ...] = (
    usage_field("Allocated", "Allocated", lambda row: (row.allocated, row.total), RESERVATION_USAGE_WIDTH),
    text_field("Associations", "Associations", 15, lambda row: row.associations),
    text_field("Cluster", "Cluster", 9, lambda row: row.cluster),
    text_field("End", "End", 19, lambda row: _time(row.end_us)),
    text_field("Flags", "Flags", 20, lambda row: row.flags),
    usage_field("Idle", "Idle", lambda row: (row.idle, row.total), RESERVATION_USAGE_WIDTH),
    text_field("Name", "Name", 9, lambda row: row.name),
    text_field("Nodes", "Nodes", 15, lambda row: row.nodes),
    text_field("ReservationId", "Id", 8, lambda row: row.number),
    text_field("Start", "Start", 19, lambda row: _time(row.start_us)),
    usage_field("TotalTime", "TotalTime", lambda row: (row.seconds, row.seconds), 9),
    text_field("TresCount", "TRES count", 15, lambda row: row.total // row.seconds if row.seconds else 0),
    text_field("TresName", "TRES Name", 14, lambda row: row.tres),
    usage_field("TresTime", "TRES Time", lambda row: (row.total, row.total), 9),
)
RESERVATION_ALIASES = {"cpucount": "trescount", "cputime": "trestime", "assoc": "associations"}
RESERVATION_SHOWN = "Cluster,Name,Start,End,TresName,Allocated,Idle"


def reservations(client: Client, asked: ReportQuestion, setting: Setting) -> Iterable[str]:
    """reservation Utilization: those that overlap the window, with all of their time."""
    fields = choose(asked.fields or RESERVATION_SHOWN, RESERVATION_FIELDS, RESERVATION_ALIASES)
    request = ReportRequest(
        kind=ReportRequest.RESERVATIONS, start_at_us=asked.start_us, end_at_us=asked.end_us, names=asked.of("names"),
        nodes=asked.of("nodes"), tres=setting.tres if setting.tres_given else (),
    )  # fmt: skip
    rows = []
    for row in rows_of(client, request):
        name, number, start, end, nodes, flags, associations = row.keys
        if number not in (asked.of("ids") or (number,)):
            continue
        rows.append(
            ReservedUse(
                client.cluster.cluster_name, name, number, int(start) * US, int(end) * US, nodes, flags, associations, row.tres,
                *row.values[:2],
            )
        )  # fmt: skip
    setting = setting._replace(tres_given=True)
    if setting.time.percent and not setting.time.seconds:
        unit = setting.time.words
    else:
        unit = setting.unit_words
    head = heading(f"Reservation Utilization {times(asked)}", f"Usage reported in {unit}", setting)
    return chain(head, table(fields, rows, setting))


def known_tres(client: Client, text: str) -> tuple[str, ...]:
    """The names given with -T, as the cluster has them; ALL = every one."""
    from penstock.v1.governance_pb2 import ListTresRequest

    names = [
        f"{one.type}/{one.name}" if one.name else one.type for one in client.call("ListTres", ListTresRequest()).tres
    ]
    if text.upper() == "ALL":
        return tuple(names)
    by_word = {name.lower(): name for name in names}
    found = dict.fromkeys(by_word[word.lower()] for word in words(text) if word.lower() in by_word)
    if not found:
        raise CommandError(
            "No valid TRES given", detail=f"{text[:80]}: the cluster has {', '.join(names) or 'none'}", level="fatal"
        )
    return tuple(found)
