"""The arithmetic of the roll-up: from the times of one attempt to amounts of TRES in hours, days and months. Pure.

Rules
    - An attempt uses its allocation from its start to its end. While it is suspended it uses nothing, as in Slurm,
      although its memory and devices are not free. A change of its allocation counts from the microsecond of the
      change. Each attempt of a requeued job counts for itself.
    - An amount is a whole number of TRES-microseconds, so that sums are exact in any order; it is rounded to seconds
      where it is shown. Memory is in megabytes. UsageFactor of a QOS is not applied: reports show allocations; the
      factor belongs to RawUsage and to limits in minutes, as in Slurm.
    - Each amount is entered under its hour (since 1970), and under its local day and month. Days and months are not
      summed from hours, so that they are exact even where a day does not begin with a whole hour of UTC.
    - Counting continues at its last position: `between(a, b)` and `between(b, c)` add up to `between(a, c)`. Usage that
      was counted beyond an end that was reported late is subtracted in the same way.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from penstock.values.localtime import DAY_S, US, Offsets, civil, from_local_us, to_local_s
from penstock.values.tres import parse_tres

HOUR_US: Final = 3600 * US
#: Periods of the usage tables.
HOUR, DAY, MONTH = range(3)
#: Texts of allocations that are cached: the jobs of a cluster have few different ones.
_TEXTS_KEPT: Final = 16_384


class Attempt(NamedTuple):
    """An attempt as the arithmetic needs it. Times in microseconds, 0 = not happened."""

    start_at_us: int
    end_at_us: int
    tres: str  # its allocation, or the last one
    suspended_since_us: int = 0  # it is suspended now
    suspended: tuple[tuple[int, int], ...] = ()  # past suspensions
    changes: tuple[tuple[int, str], ...] = ()  # past allocations with the end of each, oldest first


class RollupPiece(NamedTuple):
    """An interval in which an attempt's allocation was constant and not suspended."""

    from_us: int
    until_us: int
    tres: str


def pieces(attempt: Attempt, from_us: int, until_us: int) -> Iterator[RollupPiece]:
    """The usage of the attempt in [from, until), ignoring its end."""
    at_us = max(from_us, attempt.start_at_us)
    for change_us, tres in attempt.changes:
        if change_us > at_us:
            yield from _running(attempt, at_us, min(change_us, until_us), tres)
            at_us = min(change_us, until_us)
    yield from _running(attempt, at_us, until_us, attempt.tres)


def _running(attempt: Attempt, from_us: int, until_us: int, tres: str) -> Iterator[RollupPiece]:
    stops = attempt.suspended
    if attempt.suspended_since_us:
        stops = (*stops, (attempt.suspended_since_us, max(until_us, attempt.suspended_since_us)))
    for since_us, again_us in sorted(stops):
        if again_us <= from_us:
            continue
        if since_us >= until_us:
            break
        if since_us > from_us:
            yield RollupPiece(from_us, since_us, tres)
        from_us = again_us
    if from_us < until_us:
        yield RollupPiece(from_us, until_us, tres)


@lru_cache(maxsize=_TEXTS_KEPT)
def amounts_of(tres: str) -> tuple[tuple[str, int], ...]:
    """Parses the text of an allocation, without TRES that are not usage."""
    return tuple((name, amount) for name, amount in parse_tres(tres).items() if amount)


class Calendar:
    """Local days and months by the table of offsets that comes with the configuration."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self._days: dict[int, tuple[int, int, int]] = {}  # local day -> its start, the start of the next, month

    def day_of(self, at_us: int) -> tuple[int, int, int]:
        """The start of an instant's local day, that of the next one, and that of its month."""
        local_day = to_local_s(self._offsets, at_us) // DAY_S
        found = self._days.get(local_day)
        if found is None:
            _, _, day_of_month = civil(local_day)
            starts = [from_local_us(self._offsets, day * DAY_S) for day in (local_day, local_day + 1)]
            found = (starts[0], starts[1], from_local_us(self._offsets, (local_day - day_of_month + 1) * DAY_S))
            self._days[local_day] = found
        return found

    def month_of(self, at_us: int) -> tuple[int, int]:
        """The start of an instant's local month, and that of the next one."""
        start_us = self.day_of(at_us)[2]
        following_us = self.day_of(start_us + 32 * DAY_S * US)[2]
        return start_us, following_us


def purged_to(calendar: Calendar, before_us: int) -> tuple[int, int, int]:
    """The bounds of a purge before an instant: hours, days and months that begin before them are deleted. The day and
    the month of the instant itself continue to count."""
    if before_us <= 0:
        return 0, 0, 0
    return before_us, calendar.day_of(before_us)[0], calendar.month_of(before_us)[0]


def periods(calendar: Calendar, from_us: int, until_us: int) -> Iterator[tuple[int, int, int]]:
    """Divides [from, until) into its hours, days and months: (which kind, its start, microseconds in it)."""
    at_us = from_us
    while at_us < until_us:
        hour_us = at_us - at_us % HOUR_US
        next_us = min(hour_us + HOUR_US, until_us)
        yield HOUR, hour_us, next_us - at_us
        at_us = next_us
    at_us = from_us
    months: dict[int, int] = {}
    while at_us < until_us:
        day_us, following_us, month_us = calendar.day_of(at_us)
        next_us = min(following_us, until_us)
        yield DAY, day_us, next_us - at_us
        months[month_us] = months.get(month_us, 0) + next_us - at_us
        at_us = next_us
    for month_us, length_us in months.items():
        yield MONTH, month_us, length_us


class Sums:
    """Amounts by period, TRES and key, to be added to the tables."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self.usage: tuple[dict[tuple[int, str, int], int], ...] = ({}, {}, {})  # by kind: (start, TRES, key) -> us
        self.allocated: dict[tuple[int, str], int] = {}  # by hour
        self.wanted: dict[tuple[int, str], int] = {}  # by hour

    def add(self, key_id: int, found: Iterator[RollupPiece], sign: int = 1) -> None:
        """Adds the result of `pieces`. `sign` -1 subtracts it."""
        for piece in found:
            amounts = amounts_of(piece.tres)
            for kind, start_us, length_us in periods(self._calendar, piece.from_us, piece.until_us):
                sums = self.usage[kind]
                for name, amount in amounts:
                    use = sign * amount * length_us
                    entry = (start_us, name, key_id)
                    sums[entry] = sums.get(entry, 0) + use
                    if kind == HOUR:
                        self.allocated[start_us, name] = self.allocated.get((start_us, name), 0) + use

    def want(self, amounts: Mapping[str, int], from_us: int, until_us: int) -> None:
        """Adds the amounts that a job waited for."""
        at_us = from_us
        while at_us < until_us:
            hour_us = at_us - at_us % HOUR_US
            next_us = min(hour_us + HOUR_US, until_us)
            for name, amount in amounts.items():
                entry = (hour_us, name)
                self.wanted[entry] = self.wanted.get(entry, 0) + amount * (next_us - at_us)
            at_us = next_us

    def energy(self, key_id: int, at_us: int, joules: int, sign: int = 1) -> None:
        """Adds energy, which is no rate: whole joules, at the end of the attempt."""
        for kind, start_us, _ in periods(self._calendar, at_us, at_us + 1):
            entry = (start_us, "energy", key_id)
            self.usage[kind][entry] = self.usage[kind].get(entry, 0) + sign * joules * US
            if kind == HOUR:
                self.allocated[start_us, "energy"] = self.allocated.get((start_us, "energy"), 0) + sign * joules * US


def settle(sums: Sums, key_id: int, attempt: Attempt, counted_to_us: int, until_us: int) -> int:
    """Counts an attempt on, from `counted_to_us` (0 = not counted at all) until `until_us` or its end. Returns until
    when.

    An end before the counted time subtracts the usage after it.
    """
    counted_to_us = max(counted_to_us, attempt.start_at_us)
    if attempt.end_at_us and attempt.end_at_us < counted_to_us:
        sums.add(key_id, pieces(attempt, attempt.end_at_us, counted_to_us), -1)
        return attempt.end_at_us
    until_us = min(until_us, attempt.end_at_us) if attempt.end_at_us else until_us
    sums.add(key_id, pieces(attempt, counted_to_us, until_us))
    return max(counted_to_us, until_us)


# ---- the cluster's capacity
# -------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """An interval with an amount of each TRES. `until_us` 0 = not over."""

    from_us: int
    until_us: int
    amounts: Mapping[str, int]


class ClusterHour(NamedTuple):
    """One TRES in one hour, in TRES-microseconds."""

    units: int  # the number at the end
    total_us: int
    down_us: int
    planned_down_us: int


def overlap_us(span: tuple[int, int], from_us: int, until_us: int) -> int:
    """The part of an interval (end 0 = not over) that is in [from, until)."""
    return max(0, min(span[1] or until_us, until_us) - max(span[0], from_us))


def without(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The remainder of an interval without others; all of them have ends."""
    from_us, until_us = span
    for other_from, other_until in sorted(others):
        if other_until <= from_us or other_from >= until_us:
            continue
        if other_from > from_us:
            yield from_us, other_from
        from_us = max(from_us, other_until)
    if from_us < until_us:
        yield from_us, until_us


def merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same intervals without overlaps, in order."""
    found: list[tuple[int, int]] = []
    for from_us, until_us in sorted(spans):
        if found and from_us <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until_us))
        elif from_us < until_us:
            found.append((from_us, until_us))
    return found


def cluster_hour(
    hour_us: int,
    had: Sequence[Span],
    nodes_down: Mapping[str, Sequence[Span]],
    away: Sequence[tuple[int, int]],
    planned_down: Mapping[str, Sequence[Span]],
) -> dict[str, ClusterHour]:
    """One hour of the cluster, by TRES.

    `had`: the cluster's capacity over time. `nodes_down`: intervals of each node, with its capacity. `planned_down`:
    maintenance, with the reserved part of the node. `away`: no controller was running, and the whole cluster is down.

    A node's time is in one class at each moment: down while no controller was running; else planned to be down, whether
    or not it was up; else down. Of several intervals of one class at a moment, the largest counts.
    """
    until_us = hour_us + HOUR_US
    gone = merged([(max(a, hour_us), min(b or until_us, until_us)) for a, b in away])
    total: dict[str, int] = {}
    count: dict[str, int] = {}
    down: dict[str, int] = {}
    planned: dict[str, int] = {}
    for span in had:
        length_us = overlap_us((span.from_us, span.until_us), hour_us, until_us)
        _add(total, span.amounts, length_us)
        if length_us and (not span.until_us or span.until_us >= until_us):
            count.update(span.amounts)
        for since_us, again_us in gone:
            _add(down, span.amounts, overlap_us((span.from_us, span.until_us), since_us, again_us))
    for name in sorted({*nodes_down, *planned_down}):
        events, plans = nodes_down.get(name, ()), planned_down.get(name, ())
        for since_us, again_us in _stretches((*events, *plans), gone, hour_us, until_us):
            kept = _at(plans, since_us)
            _add(planned, kept, again_us - since_us)
            lost = {what: amount - kept.get(what, 0) for what, amount in _at(events, since_us).items()}
            _add(down, {what: amount for what, amount in lost.items() if amount > 0}, again_us - since_us)
    return {
        name: ClusterHour(count.get(name, 0), total[name], down.get(name, 0), planned.get(name, 0)) for name in total
    }


def _stretches(
    spans: Sequence[Span], gone: Sequence[tuple[int, int]], from_us: int, until_us: int
) -> Iterator[tuple[int, int]]:
    """Yields [from, until) without `gone`, split wherever one of the spans begins or ends."""
    borders = {at for span in spans for at in (span.from_us, span.until_us) if from_us < at < until_us}
    cuts = sorted({from_us, until_us, *borders})
    for since_us, again_us in pairwise(cuts):
        yield from without((since_us, again_us), gone)


def _at(spans: Sequence[Span], at_us: int) -> Mapping[str, int]:
    """Returns the largest amounts at a moment."""
    found: dict[str, int] = {}
    for span in spans:
        if span.from_us <= at_us and (not span.until_us or at_us < span.until_us):
            for name, amount in span.amounts.items():
                found[name] = max(found.get(name, 0), amount)
    return found


def _add(sums: dict[str, int], amounts: Mapping[str, int], length_us: int) -> None:
    for name, amount in amounts.items():
        if amount and length_us:
            sums[name] = sums.get(name, 0) + amount * length_us


class Shares(NamedTuple):
    """The division of an hour of the cluster, in seconds: Slurm's columns. All but `over` are together `reported`."""

    allocated: int
    down: int
    planned_down: int
    idle: int
    planned: int
    reported: int
    over: int


def shares(total: int, allocated: int, down: int, planned_down: int, wanted: int) -> Shares:
    """Divides an hour as Slurm does. Jobs that ran on nodes that count as down (drained, or without the controller)
    reduce its down part; the demand of waiting jobs is planned up to the idle rest, the remainder is `over`."""
    room = max(0, total - allocated)
    planned_down = min(planned_down, room)
    down = min(down, room - planned_down)
    room -= planned_down + down
    planned = min(wanted, room)
    return Shares(allocated, down, planned_down, room - planned, planned, max(total, allocated), wanted - planned)
