"""What was used in a period, from the roll-ups that sreport reads, which are exact for whole hours:

GET /penstock/v1/usage          by account, user, ...
GET /penstock/v1/usage/hours    hour by hour, of the accounts, users, ... that used most
GET /penstock/v1/utilization    of the whole cluster, hour by hour: allocated, down, idle
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from cli.base.document import Json, message_object
from cli.base.listing import words
from penstock.v1.governance_pb2 import ReportReply, ReportRequest, ReportRow
from rest.calling import RestCall, bad_query
from rest.contract.facts import Words
from rest.contract.parse import CONVERSION, UNKNOWN_WORD
from rest.listing import listing

HOUR_US: Final = 3600 * 1_000_000
DAY_US: Final = 24 * HOUR_US
#: What rows may be grouped by. Not by hours: a year of them is no table.
GROUPS: Final = Words(("account", "user", "wckey", "qos", "partition"))


#: A group, and the filter of a report that names it.
_FILTERS: Final = {"account": "accounts", "user": "users", "wckey": "wckeys", "qos": "qos", "partition": "partitions"}
#: Members of a group, and their types. `hours`: seconds in each hour from the start.
USAGE_HOURS: Final = {"key": "string", "total_s": "integer", "hours": "integer[]"}
#: Groups without `count`, and at most.
HOURS_GROUPS: Final = 6
_HOURS_GROUPS_MAX: Final = 20
#: Hours of a month: more are asked for a part after the other.
HOURS_MAX: Final = 31 * 24
_PARTS: Final = ("allocated_s", "down_s", "planned_down_s", "idle_s", "planned_s", "reported_s", "over_s", "count")
#: Members of an hour, and their types.
UTILIZATION: Final = {"at_us": "integer", "tres": "string"} | dict.fromkeys(_PARTS, "integer")


def period(call: RestCall, length_us: int = DAY_US) -> tuple[int, int]:
    """The period of the query, in whole hours; without times, the last `length_us`. The answer's tag depends on it, since without
    times it depends on the clock. Raises RestError."""
    end_us = -(-(call.time_us("end") or call.now_us) // HOUR_US) * HOUR_US
    start_us = (call.time_us("start") or end_us - length_us) // HOUR_US * HOUR_US
    if start_us >= end_us:
        raise bad_query("start", call.query.get("start", ""), UNKNOWN_WORD)
    call.tag.vary(f"{start_us} {end_us}")
    return start_us, end_us


async def utilization(call: RestCall) -> Json:
    """Each hour's TRES seconds of the whole cluster, as `sreport cluster utilization` sums them; without times, of the last 24
    hours that are over. The hour that runs is not there yet."""
    if not call.query.get("end"):
        call.now_us = call.now_us // HOUR_US * HOUR_US
    start_us, end_us = period(call)
    if end_us - start_us > HOURS_MAX * HOUR_US:
        raise bad_query("start", call.query.get("start", ""), UNKNOWN_WORD)
    request = ReportRequest(
        kind=ReportRequest.CLUSTER, start_at_us=start_us, end_at_us=end_us, group_by=["hour"],
        tres=words(call.query.get("tres")) or ["cpu", "gres/gpu"],
    )  # fmt: skip
    pages = [page async for page in call.pages("Report", request)]
    call.check_modified()
    return {
        "start_at_us": start_us, "end_at_us": end_us, "rolled_up_to_us": max(page.rolled_up_to_us for page in pages),
        "hours": [_hour(row) for page in pages for row in page.rows],
    }  # fmt: skip


def _hour(row: ReportRow) -> Json:
    at_us = int(row.keys[0]) * 1_000_000
    return {"at_us": at_us, "tres": row.tres} | dict(zip(_PARTS, row.values, strict=True))


async def usage(call: RestCall) -> Json:
    """TRES seconds by what `group_by` names; without times, of the last day."""
    group_by = call.words("group_by") or ["account", "user"]
    start_us, end_us = period(call)
    request = ReportRequest(
        kind=ReportRequest.USAGE,
        start_at_us=start_us,
        end_at_us=end_us,
        group_by=group_by,
        tres=words(call.query.get("tres")) or ["cpu", "gres/gpu"],
    )
    rolled_up_to_us: list[int] = []  # the first page has it, and `listing` reads that page before it returns
    rows = await listing(call, "Report", request, _rows, partial(_note_progress, rolled_up_to_us))
    return {
        "start_at_us": start_us,
        "end_at_us": end_us,
        "rolled_up_to_us": max(rolled_up_to_us, default=0),
        "rows": rows,
    }


async def usage_hours(call: RestCall) -> Json:
    """A TRES hour by hour, of the groups that used most of it, the most first; without times, of the last day."""
    by = call.words("by") or ["account"]
    tres = call.query.get("tres") or "cpu"
    count = call.number("count")
    if len(by) > 1:
        raise bad_query("by", call.query["by"], UNKNOWN_WORD)
    start_us, end_us = period(call)
    if end_us - start_us > HOURS_MAX * HOUR_US:
        raise bad_query("start", call.query.get("start", ""), UNKNOWN_WORD)
    if count > _HOURS_GROUPS_MAX:
        raise bad_query("count", call.query.get("count", ""), CONVERSION)

    def asked(*groups: str) -> ReportRequest:
        return ReportRequest(
            kind=ReportRequest.USAGE, start_at_us=start_us, end_at_us=end_us, group_by=groups, tres=[tres]
        )

    pages = [page async for page in call.pages("Report", asked(*by))]
    total_s = {row.keys[0]: row.values[0] for page in pages for row in page.rows if row.tres == tres and row.keys[0]}
    most = sorted(total_s, key=lambda key: (-total_s[key], key))[: count or HOURS_GROUPS]
    hours_s = {key: [0] * ((end_us - start_us) // HOUR_US) for key in most}
    if most:
        hourly = asked(*by, "hour")
        getattr(hourly, _FILTERS[by[0]]).extend(most)
        async for page in call.pages("Report", hourly):
            for row in page.rows:
                if row.tres == tres and row.keys[0] in hours_s:
                    hours_s[row.keys[0]][(int(row.keys[1]) * 1_000_000 - start_us) // HOUR_US] += row.values[0]
    call.check_modified()
    return {
        "start_at_us": start_us, "end_at_us": end_us, "rolled_up_to_us": max(page.rolled_up_to_us for page in pages),
        "groups": [{"key": key, "total_s": total_s[key], "hours": hours_s[key]} for key in most],
    }  # fmt: skip


def _rows(page: ReportReply) -> Iterable[Json]:
    return map(message_object, page.rows)


def _note_progress(rolled_up_to_us: list[int], page: ReportReply) -> str:
    rolled_up_to_us.append(page.rolled_up_to_us)
    return ""
