"""Reports from the roll-up: usage by account and user, and the utilisation of the cluster.

A window is read in as few rows as possible: whole local months from `usage_month`, whole local days from `usage_day`,
the rest from `usage_hour`; of the cluster likewise. An hour belongs to a window when it begins in it. Where local days do
not begin with a whole hour of UTC, a window that is not of whole days is read from hours alone.

Amounts are summed exactly and rounded to whole seconds once, where the answer is made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, func, select

from accounting.clusterdays import day_shares, hour_shares
from accounting.rolling import Marks, read_marks
from accounting.rollup import HOUR_US, Calendar
from accounting.schema import TRES
from accounting.tables import (
    CLUSTER_DAY,
    CLUSTER_HOUR,
    CLUSTER_MONTH,
    FIXED_TRES,
    USAGE_DAY,
    USAGE_HOUR,
    USAGE_KEY,
    USAGE_MONTH,
)
from penstock.values.errors import BadValue
from penstock.values.localtime import US

#: Keys by which usage may be grouped: a column of `usage_key`, or a time.
OWNERS = {"account": "account", "user": "user_name", "wckey": "wckey", "qos": "qos", "partition": "partition"}
TIMES = ("month", "day", "hour")
#: Numbers in one IN list, below the limit of every driver.
_IDS_MAX = 5_000
#: Seconds are summed in two halves: a sum of a few large numbers does not fit the type in which SQLite adds.
_HALF = 1 << 31


class UsageQuery(NamedTuple):
    """A query of usage. Of several values of one field one must hold; () = any. Times are microseconds."""

    start_at_us: int
    end_at_us: int
    group_by: tuple[str, ...] = ()
    tres: tuple[str, ...] = ()  # () = cpu
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    wckeys: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


class UsageOwner(NamedTuple):
    """The owner of usage; field names are those of `usage_key`."""

    key_id: int
    assoc_id: int
    account: str
    user_name: str
    user_id: int
    partition: str
    wckey: str
    qos: str


class UsageRowValues(NamedTuple):
    """One line of a report."""

    keys: tuple[str, ...]
    tres: str
    values: tuple[int, ...]


def whole_s(amount_us: int) -> int:
    """Rounds to the nearest second."""
    return (amount_us + US // 2) // US


def check_groups(group_by: Sequence[str], known: Sequence[str]) -> None:
    """Checks the keys of a report. Raises BadValue."""
    for word in group_by:
        if word not in known:
            raise BadValue(f"group by {word}: known are {', '.join(known)}")


def tres_numbers(connection: Connection, names: Sequence[str]) -> dict[int, str]:
    """The ids of these TRES that have one; () = cpu, `all` = all."""
    wanted = {name.lower() if name.lower() in FIXED_TRES else name for name in names} or {"cpu"}
    known = {number: name for name, number in FIXED_TRES.items()} | {
        number: name for number, name in connection.execute(select(TRES))
    }
    return {number: name for number, name in known.items() if "all" in wanted or name in wanted}


def usage(
    connection: Connection, calendar: Calendar, ask: UsageQuery, sees: Callable[[UsageOwner], bool]
) -> list[UsageRowValues]:
    """TRES seconds by the groups of `ask`; only of owners that `sees` accepts. Raises BadValue."""
    check_groups(ask.group_by, (*OWNERS, *TIMES))
    owners = {owner.key_id: owner for owner in _owners(connection, ask) if sees(owner)}
    names = tres_numbers(connection, ask.tres)
    if not owners or not names:
        return []
    by_time = next((word for word in TIMES if word in ask.group_by), "")
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for start_us, tres_id, key_id, high, low, micros in _rows(connection, calendar, ask, by_time, owners, names):
        owner = owners.get(key_id)
        if owner is not None:
            keys = tuple(_key(word, owner, start_us) for word in ask.group_by)
            entry = (keys, names[tres_id])
            sums[entry] = sums.get(entry, 0) + (int(high) * _HALF + int(low)) * US + int(micros)
    return [
        UsageRowValues(keys, tres, (whole_s(amount_us),))
        for (keys, tres), amount_us in sorted(sums.items())
        if amount_us
    ]


def _owners(connection: Connection, ask: UsageQuery) -> Iterator[UsageOwner]:
    query = select(*(USAGE_KEY.c[name] for name in UsageOwner._fields))
    for column, values in (
        (USAGE_KEY.c.account, ask.accounts),
        (USAGE_KEY.c.user_name, ask.users),
        (USAGE_KEY.c.wckey, spellings(ask.wckeys)),
        (USAGE_KEY.c.qos, ask.qos),
        (USAGE_KEY.c.partition, ask.partitions),
    ):
        if values:
            query = query.where(column.in_(values))
    return (UsageOwner(*row) for row in connection.execute(query.order_by(USAGE_KEY.c.key_id)))


def _key(word: str, owner: UsageOwner, start_us: int) -> str:
    found = getattr(owner, OWNERS[word]) if word in OWNERS else str(start_us // US)
    return found.lstrip("*") if word == "wckey" else found


def spellings(wckeys: Sequence[str]) -> tuple[str, ...]:
    """A wckey as a job names it, and as its user's default gives it."""
    return tuple(text for key in wckeys for text in (key, f"*{key}"))


def _rows(
    connection: Connection,
    calendar: Calendar,
    ask: UsageQuery,
    by_time: str,
    owners: Mapping[int, UsageOwner],
    names: Mapping[int, str],
) -> Iterator[Row[int, int, int, int, int, int]]:
    months, days, hours = windows(calendar, ask.start_at_us, ask.end_at_us, by_time)
    for table, starts in ((USAGE_MONTH, months), (USAGE_DAY, days)):
        if starts:
            yield from _sums(connection, table, table.c.start_at_us.in_(starts), by_time, owners, names)
    for from_us, until_us in hours:
        column = USAGE_HOUR.c.start_at_us
        yield from _sums(connection, USAGE_HOUR, (column >= from_us) & (column < until_us), by_time, owners, names)


def _sums(
    connection: Connection,
    table: Table,
    when: ColumnElement[bool],
    by_time: str,
    owners: Mapping[int, UsageOwner],
    names: Mapping[int, str],
) -> Iterator[Row[int, int, int, int, int, int]]:
    columns = table.c
    start = columns.start_at_us if by_time else func.min(columns.start_at_us)
    by = (columns.tres_id, columns.key_id) + ((columns.start_at_us,) if by_time else ())
    halves = func.sum(columns.seconds // _HALF), func.sum(columns.seconds % _HALF)
    query = select(start, columns.tres_id, columns.key_id, *halves, func.sum(columns.micros))
    query = query.where(when, columns.tres_id.in_(list(names))).group_by(*by)
    if len(owners) <= _IDS_MAX:
        query = query.where(columns.key_id.in_(list(owners)))
    yield from connection.execute(query)


def windows(
    calendar: Calendar, start_us: int, end_us: int, by_time: str = ""
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Starts of whole months, of whole days beside them, and [from, until) of what is left for hours.

    `by_time`: rows that are grouped by day are not taken from months, and so on.
    """
    months: list[int] = []
    days: list[int] = []
    hours: list[tuple[int, int]] = []
    at_us = start_us
    while at_us < end_us:
        day_us, next_day_us, _ = calendar.day_of(at_us)
        month_us, next_month_us = calendar.month_of(at_us)
        if at_us == month_us and next_month_us <= end_us and by_time in ("", "month"):
            months.append(month_us)
            at_us = next_month_us
        elif at_us == day_us and next_day_us <= end_us and by_time in ("", "day"):
            days.append(day_us)
            at_us = next_day_us
        else:
            until_us = min(next_day_us, end_us)
            if hours and hours[-1][1] == at_us:
                hours[-1] = (hours[-1][0], until_us)
            else:
                hours.append((at_us, until_us))
            at_us = until_us
    if hours and any(border % HOUR_US for border in (*months, *days)):  # they would overlap with hours
        return [], [], [(start_us, end_us)]
    return months, days, hours


# ---- the cluster -----------------------------------------------------------------------------------------------------


def cluster(connection: Connection, calendar: Calendar, ask: UsageQuery) -> list[UsageRowValues]:
    """By TRES, and by month, day or hour if that is asked for: allocated, down, planned down, idle, planned, reported,
    over (in seconds), and how many there were at the end. Raises BadValue."""
    check_groups(ask.group_by, TIMES)
    names = tres_numbers(connection, ask.tres)
    by_time = next((word for word in reversed(TIMES) if word in ask.group_by), "")
    found = [
        (row, hour_shares(row) if table is CLUSTER_HOUR else day_shares(row))
        for table, when in _cluster_parts(calendar, ask, by_time, read_marks(connection))
        for row in connection.execute(select(table).where(when, table.c.tres_id.in_(list(names))))
    ]
    sums: dict[tuple[tuple[str, ...], str], list[int]] = {}
    for row, parts in sorted(found, key=lambda one: (one[0].start_at_us, one[0].tres_id)):
        at_us = row.start_at_us
        times = {"hour": at_us, "day": calendar.day_of(at_us)[0], "month": calendar.month_of(at_us)[0]}
        keys = tuple(str(times[word] // US) for word in ask.group_by)
        entry = sums.setdefault((keys, names[row.tres_id]), [0] * len(parts) + [0])
        for i, amount_us in enumerate(parts):
            entry[i] += amount_us
        entry[-1] = row._mapping["count"]
    return [
        UsageRowValues(keys, tres, (*map(whole_s, entry[:-1]), entry[-1]))
        for (keys, tres), entry in sorted(sums.items())
    ]


def _cluster_parts(
    calendar: Calendar, ask: UsageQuery, by_time: str, marks: Marks
) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Returns the rows of each table to read. Days and months only as far as all their hours are in them
    (clusterdays.py)."""
    folded_us = marks.folded_us
    if folded_us >= marks.cursor_us:  # true except in the first passes over an old database
        folded_us = ask.end_at_us
    whole_us = min(ask.end_at_us, max(folded_us, ask.start_at_us))
    months, days, hours = windows(calendar, ask.start_at_us, whole_us, by_time)
    if whole_us < ask.end_at_us:
        hours.append((whole_us, ask.end_at_us))
    for table, starts in ((CLUSTER_MONTH, months), (CLUSTER_DAY, days)):
        if starts:
            yield table, table.c.start_at_us.in_(starts)
    for from_us, until_us in hours:
        yield CLUSTER_HOUR, and_(CLUSTER_HOUR.c.start_at_us >= from_us, CLUSTER_HOUR.c.start_at_us < until_us)
