"""GET /penstock/v1/usage: what was used in a period, from the roll-ups that sreport reads, which are exact for whole hours."""

from typing import Final

from cli.base.document import Json, message_object
from cli.base.listing import words
from penstock.v1.governance_pb2 import ReportReply, ReportRequest
from rest.calling import RestCall, bad_query
from rest.contract.facts import Words
from rest.contract.parse import UNKNOWN_WORD

HOUR_US: Final = 3600 * 1_000_000
DAY_US: Final = 24 * HOUR_US
#: What rows may be grouped by. Not by hours: a year of them is no table.
GROUPS: Final = Words(("account", "user", "wckey", "qos", "partition"))


async def usage(call: RestCall) -> Json:
    """TRES seconds by what `group_by` names; without times, of the last day."""
    group_by = call.words("group_by") or ["account", "user"]
    end_us = -(-(call.time_us("end") or call.now_us) // HOUR_US) * HOUR_US
    start_us = (call.time_us("start") or end_us - DAY_US) // HOUR_US * HOUR_US
    if start_us >= end_us:
        raise bad_query("start", call.query.get("start", ""), UNKNOWN_WORD)
    request = ReportRequest(
        kind=ReportRequest.USAGE,
        start_at_us=start_us,
        end_at_us=end_us,
        group_by=group_by,
        tres=words(call.query.get("tres")) or ["cpu", "gres/gpu"],
    )
    whole = ReportReply()
    async for page in call.pages("Report", request):
        whole.MergeFrom(page)
    return {
        "start_at_us": start_us,
        "end_at_us": end_us,
        "rolled_up_to_us": whole.rolled_up_to_us,
        "rows": [message_object(row) for row in whole.rows],
    }
