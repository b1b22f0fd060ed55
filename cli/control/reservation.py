"""`scontrol create|update|delete|show reservation`: parses the words, sends the request, prints the result; and `sinfo
-T`.

Keys are case-insensitive and may be abbreviated while unique, as in Slurm; the controller validates values. The
messages that scripts for Slurm look for (`Reservation created: `, `Error creating the reservation: `) are the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cli.base import newentity
from cli.base.request import request_once
from cli.base.run import CommandError
from cli.control import creation
from cli.control.keywords import NAME, KeywordCall, words_of
from cli.listings.show import NULL, ShownRecord, ShownReport
from penstock.cluster import find_cluster
from penstock.v1 import controller_pb2 as pb
from penstock.values.dates import format_date, parse_date_us
from penstock.values.duration import format_duration, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code

NONE_AT_ALL = "No reservations in the system"
KEYS = words_of(
    "starttime endtime duration nodes nodecnt corecnt tres trespernode partitionname features users groups accounts "
    "licenses flags burstbuffer maxstartdelay comment qos allowedpartitions skip corespec"
)
ALIASES = {"node": "nodes", "nodelist": "nodes", "nodecount": "nodecnt", "corecount": "corecnt", "partition": "partitionname",
           "start": "starttime", "end": "endtime", "res": "", "reservation": "", "reservationname": "", "name": ""}  # fmt: skip
SHORTEST_KEY = 2
NOT_CREATED, NOT_UPDATED = "No reservation created.", "No reservation update."
#: sinfo -T: the least width of the column of names.
NAME_WIDTH_MIN = 9


class ReservationChanges(NamedTuple):
    """A reservation's name ("" = none was given) and its settings."""

    name: str
    changes: dict[str, str]


def read_words(words: Iterable[str], outcome: str) -> ReservationChanges:
    """Parses `Key=Value`, `Key+=Value` and `Key-=Value`."""
    name, changes = "", {}
    for word in words:
        key, equals, value = word.partition("=")
        sign = key[-1:] if key[-1:] in ("+", "-") else ""
        known = find_key(key[: len(key) - len(sign)].lower())
        if known is None or not equals:
            raise CommandError(f"Unknown parameter {word}.  {outcome}")
        quoted = len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]
        value = value[1:-1] if quoted else value
        if not known:
            name = value
        elif known in changes:
            raise CommandError(f"Parameter {known} specified more than once.  {outcome}")
        else:
            changes[known] = sign + value
    return ReservationChanges(name, changes)


def find_key(word: str) -> str | None:
    """Resolves a key; "" = the reservation's name, None = no key."""
    if word in KEYS:
        return word
    if word in ALIASES:
        return ALIASES[word]
    near = [key for key in KEYS if key.startswith(word)] if len(word) >= SHORTEST_KEY else []
    return near[0] if len(near) == 1 else None


def create(call: KeywordCall) -> int:
    """`create reservation [ReservationName=NAME] KEY=VALUE...`."""
    first, *words = call.words
    entity = first.partition("=")[0].lower()
    if "=" in first and entity in ("reservationname", "reservation", "res"):
        words = call.words
    elif not (len(entity) >= 3 and "reservation".startswith(entity)) or "=" in first:
        other = newentity.entity_of(first)
        if other is not None:
            return creation.create(call, other)
        raise CommandError(f"Invalid creation entity: {first}")
    given = read_words(words, NOT_CREATED)
    _check_new(given)
    request = pb.CreateReservationRequest(name=given.name, changes=given.changes)
    reply = request_once(NAME, "CreateReservation", request, "Error creating the reservation")
    print(f"Reservation created: {reply.name}")  # noqa: T201
    return 0


def _check_new(given: ReservationChanges) -> None:
    """Checks what Slurm's command checks before it sends the request."""
    _check_flags(given.changes.get("flags", ""))
    _check_times(given.changes, NOT_CREATED)
    if "starttime" not in given.changes:
        raise CommandError(f"A start time must be given.  {NOT_CREATED}")
    if "endtime" not in given.changes and "duration" not in given.changes:
        raise CommandError(f"An end time or duration must be given.  {NOT_CREATED}")
    if not {"users", "groups", "accounts", "qos", "allowedpartitions"} & set(given.changes):
        raise CommandError(f"Either Users/Groups and/or Accounts/QOS must be specified.  {NOT_CREATED}")
    resources = {"nodes", "nodecnt", "corecnt", "tres", "trespernode", "licenses", "partitionname", "burstbuffer"}
    if not resources & set(given.changes):
        raise CommandError(f"Nodes, NodeCnt, CoreCnt, TRES, Licenses or PartitionName must be given.  {NOT_CREATED}")


def _check_times(changes: dict[str, str], after: str, last: str = "") -> None:
    """Checks the times as Slurm's command does, in its words; ours say what is allowed. `last`: the line after these."""
    import time

    now_us = time.time_ns() // 1000
    for key, what in (("starttime", "start time"), ("endtime", "end time")):
        if text := changes.get(key):
            try:
                parse_date_us(text, now_us)
            except BadValue as error:
                first = f"Invalid time specification (pos=0): {text}: {error}"
                second = f"{NAME}: error: Invalid {what} {key}={text}.  {after}"
                raise CommandError(f"{first}\n{second}{last}", plain=True) from error
    if text := changes.get("duration"):
        try:
            parse_duration_s(text if text == "-1" else text.lstrip("+-"))
        except BadValue as error:
            raise CommandError(f"Invalid duration duration={text}.  {after}: {error}") from error


def _check_flags(text: str) -> None:
    from penstock.values.reservations import parse_flags

    try:
        parse_flags(text)
    except BadValue as error:
        raise CommandError(f"Error parsing flags {text}.  {NOT_CREATED}: {error}") from error


def update(words: list[str]) -> int:
    """`update ReservationName=NAME KEY=VALUE...`."""
    given = read_words(words, NOT_UPDATED)
    if not given.name:
        raise CommandError(f"ReservationName must be given.  {NOT_UPDATED}")
    if not given.changes:
        raise CommandError("No changes specified", plain=True)
    _check_times(given.changes, NOT_UPDATED, f"\nslurm_update error: {TEXT[Code.INVALID_TIME_VALUE]}")
    request = pb.UpdateReservationRequest(name=given.name, changes=given.changes)
    request_once(NAME, "UpdateReservation", request, "Error updating the reservation", "slurm_update")
    print("Reservation updated.")  # noqa: T201
    return 0


def delete(call: KeywordCall) -> int:
    """`delete ReservationName=NAME`, `delete reservation NAME`."""
    first, *words = call.words
    entity, equals, name = first.partition("=")
    if entity.lower() not in ("reservationname", "reservation", "res"):
        other = newentity.entity_of(first)
        if other is not None:
            return creation.delete(call, other)
        if not equals and not words:
            raise CommandError("Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
        raise CommandError(f"Invalid deletion entity: {first}", plain=True)
    if not equals and len(words) == 1:
        name = words[0]
    elif words or not name:
        raise CommandError("ReservationName=NAME must be given, and nothing else.  No reservation deleted.")
    request_once(
        NAME, "DeleteReservation", pb.DeleteReservationRequest(name=name), f"delete_reservation {' '.join(call.words)}"
    )
    return 0


def show(call: KeywordCall) -> int:
    """`show reservation [NAME]`."""
    found = load()
    wanted = {name for word in call.words for name in word.split(",")}
    chosen = [r for r in found if not wanted or r.name in wanted]
    if call.wants_document():
        call.put_document("reservations_document", chosen, find_cluster().cluster_name)
    else:
        call.put_update_time(len(found))
        if not found and not wanted:
            print(NONE_AT_ALL)  # noqa: T201
        call.put([record(reservation, call.report()) for reservation in chosen])
    missing = sorted(wanted - {r.name for r in chosen})
    for name in missing:
        print(f"Reservation {name} not found")  # noqa: T201
    return 1 if missing else 0


def load() -> list[pb.ReservationInfo]:
    """Loads all reservations."""
    reply = request_once(NAME, "ListReservations", pb.ListReservationsRequest(), "slurm_load_reservations error")
    return list(reply.reservations)


def record(resv: pb.ReservationInfo, report: ShownReport) -> ShownRecord:
    """One reservation, as `scontrol show reservation` prints it."""
    length = format_duration((resv.end_at_us - resv.start_at_us) // 1_000_000)
    lines = [
        f"ReservationName={resv.name} StartTime={report.date(resv.start_at_us)} EndTime={report.date(resv.end_at_us)} "
        f"Duration={length}",
        f"Nodes={resv.node_list or NULL} NodeCnt={resv.node_count} CoreCnt={resv.core_count} "
        f"Features={resv.features or NULL} PartitionName={resv.partition or NULL} Flags={resv.flags}",
        f"TRES={resv.tres or NULL}",
        f"Users={_names(resv.users)} Groups={_names(resv.groups)} Accounts={_names(resv.accounts)} "
        f"Licenses={_names(resv.licenses)} State={'ACTIVE' if resv.is_active else 'INACTIVE'} BurstBuffer={NULL}",
        f"MaxStartDelay={NULL}",
    ]
    lines += [f"AllowedPartitions={_names(resv.allowed_partitions)}"] if resv.allowed_partitions else []
    lines += [f"QOS={_names(resv.qos)}"] if resv.qos else []
    return [*lines, f"Comment={resv.comment}"] if resv.comment else lines


def _names(names: Iterable[str]) -> str:
    return ",".join(names) or NULL


def table(found: Iterable[pb.ReservationInfo], now_us: int, style: str, *, header: bool) -> list[str]:
    """Prints `sinfo -T`: a line for each reservation, or the one that says that there is none."""
    rows = [
        (
            resv.name, "ACTIVE" if resv.is_active else "INACTIVE", format_date(resv.start_at_us, now_us, style=style),
            format_date(resv.end_at_us, now_us, style=style),
            format_duration((resv.end_at_us - resv.start_at_us) // 1_000_000), resv.node_list,
        )
        for resv in found
    ]  # fmt: skip
    if not rows:
        return [NONE_AT_ALL]
    width = max(NAME_WIDTH_MIN, *(len(row[0]) for row in rows))
    head = [("RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST")] if header else []
    return [f"{n:<{width}}  {s:>8}  {b:>19}  {e:>19}  {d:>11}  {nodes}" for n, s, b, e, d, nodes in head + rows]
