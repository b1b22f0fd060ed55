"""Days and months of the cluster: the sums of its hours, stored so that they outlive these.

Rules
    - An hour is divided first (rollup.shares), then added to the local day and month that it begins in: a day is
      exactly the sum of its hours, and reports from either agree.
    - It is added once, by `fold`, when all of it is counted: the mark `folded_us` is the progress, and is written in
      the same transaction. A database that is older than these tables begins at 0.
    - Later changes of an hour are added as differences (`Changes`), in the transaction of the change.
    - The division of a purged hour is unknown: usage that is taken back from it counts as idle.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sqlalchemy import Connection, func, select

from accounting.dbrow import DbRow
from accounting.rollup import HOUR_US, Calendar, Shares, purged_to, shares
from accounting.tables import CLUSTER_DAY, CLUSTER_HOUR, CLUSTER_MONTH, CLUSTER_SHARES
from accounting.upsert import add, put, split
from penstock.values.localtime import US

#: Hours of one transaction.
FOLD_HOURS: Final = 48
#: Starts in one IN list, below the limit of every driver.
_STARTS_MAX: Final = 5_000
#: TRES without a total of the cluster; none of them is idle.
_NOT_HAD: Final = frozenset(("energy", "billing"))
#: By (start, number of the TRES).
_Sums = dict[tuple[int, int], list[int]]


def hour_shares(row: DbRow) -> Shares:
    """The division of an hour, in microseconds."""
    return shares(
        row.count_seconds * US,
        row.alloc_seconds * US + row.alloc_micros,
        row.down_seconds * US,
        row.planned_down_seconds * US,
        row.wanted_seconds * US + row.wanted_micros,
    )


def day_shares(row: DbRow) -> Shares:
    """The division of a day or a month, in microseconds."""
    amounts = (
        int(getattr(row, f"{prefix}seconds")) * US + getattr(row, f"{prefix}micros") for prefix in CLUSTER_SHARES
    )
    *parts, over = amounts
    allocated, down, planned_down, idle, planned = parts
    return Shares(allocated, down, planned_down, idle, planned, sum(parts), over)


def _kept(one: Shares) -> tuple[int, ...]:
    """Returns the shares in the order of CLUSTER_SHARES."""
    return (one.allocated, one.down, one.planned_down, one.idle, one.planned, one.over)


def next_hour(connection: Connection, from_us: int) -> int | None:
    """The first hour of the tables from here on."""
    start = CLUSTER_HOUR.c.start_at_us
    found: int | None = connection.execute(select(func.min(start)).where(start >= from_us)).scalar()
    return found


def fold(connection: Connection, calendar: Calendar, from_us: int, until_us: int) -> None:
    """Adds the hours of [from, until). The caller records the progress in the same transaction."""
    start = CLUSTER_HOUR.c.start_at_us
    found = connection.execute(
        select(CLUSTER_HOUR).where(start >= from_us, start < until_us).order_by(start, CLUSTER_HOUR.c.tres_id)
    ).all()
    sums: _Sums = {}
    counts: dict[tuple[int, int], int] = {}
    for row in found:
        _enter(sums, (row.start_at_us, row.tres_id), _kept(hour_shares(row)))
        counts[row.start_at_us, row.tres_id] = row._mapping["count"]
    _write(connection, calendar, sums, counts)


def _enter(sums: _Sums, key: tuple[int, int], amounts: Iterable[int], sign: int = 1) -> None:
    entry = sums.setdefault(key, [0] * len(CLUSTER_SHARES))
    for i, amount in enumerate(amounts):
        entry[i] += sign * amount


def _write(
    connection: Connection,
    calendar: Calendar,
    hours: _Sums,
    counts: Mapping[tuple[int, int], int],
    purged_us: int = 0,
) -> None:
    """Adds hours to their days and months, in the order of the hours; purged periods are left out."""
    _, day_kept_us, month_kept_us = purged_to(calendar, purged_us)
    for table, is_month, kept_us in ((CLUSTER_DAY, False, day_kept_us), (CLUSTER_MONTH, True, month_kept_us)):
        sums: _Sums = {}
        last: dict[tuple[int, int], int] = {}
        for (hour_us, tres_id), amounts in sorted(hours.items()):
            start_us = calendar.month_of(hour_us)[0] if is_month else calendar.day_of(hour_us)[0]
            if start_us < kept_us:
                continue
            _enter(sums, (start_us, tres_id), amounts)
            if (hour_us, tres_id) in counts:
                last[start_us, tres_id] = counts[hour_us, tres_id]
        rows = [
            {"start_at_us": start_us, "tres_id": tres_id}
            | {
                name: value
                for at, prefix in enumerate(CLUSTER_SHARES)
                for name, value in split(amounts[at], prefix).items()
            }
            for (start_us, tres_id), amounts in sorted(sums.items())
        ]
        add(connection, table, rows, CLUSTER_SHARES)
        put(connection, table, [{"start_at_us": s, "tres_id": t, "count": n} for (s, t), n in sorted(last.items())])


class Changes:
    """One transaction's changes of hours that are in days and months already: created before it, entered after it."""

    def __init__(self, connection: Connection, hours: Iterable[int], folded_us: int, purged_us: int) -> None:
        self._connection = connection
        self._purged_us = purged_us
        self._hours = sorted(hour_us for hour_us in set(hours) if hour_us < folded_us)
        self._before = self._now()

    def _now(self) -> _Sums:
        sums: _Sums = {}
        start = CLUSTER_HOUR.c.start_at_us
        kept = [hour_us for hour_us in self._hours if hour_us >= self._purged_us]
        for at in range(0, len(kept), _STARTS_MAX):
            asked = select(CLUSTER_HOUR).where(start.in_(kept[at : at + _STARTS_MAX]))
            for row in self._connection.execute(asked):
                _enter(sums, (row.start_at_us, row.tres_id), _kept(hour_shares(row)))
        return sums

    def enter(
        self, calendar: Calendar, allocated: Mapping[tuple[int, str], int], number_of: Callable[[str], int]
    ) -> None:
        """`allocated`: what the transaction has added, by hour and TRES; used where the hour is purged."""
        if not self._hours:
            return
        sums = self._now()
        for key, amounts in self._before.items():
            _enter(sums, key, amounts, -1)
        for (hour_us, name), amount in allocated.items():
            if hour_us < self._purged_us:
                idle = 0 if name in _NOT_HAD else -amount
                _enter(sums, (hour_us, number_of(name)), (amount, 0, 0, idle, 0, 0))
        changed = {key: amounts for key, amounts in sums.items() if any(amounts)}
        _write(self._connection, calendar, changed, {}, self._purged_us)


def pages(connection: Connection, from_us: int, until_us: int) -> tuple[int, int]:
    """The next work of `fold` in [from, until), without leading hours that have no data."""
    first_us = next_hour(connection, from_us)
    if first_us is None or first_us >= until_us:
        return until_us, until_us
    return first_us, min(until_us, first_us + FOLD_HOURS * HOUR_US)
