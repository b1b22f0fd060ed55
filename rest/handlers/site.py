"""What administrators look at in /penstock/v1/: the configuration in force, the audit log, the budgets of accounts."""

from collections.abc import Iterator
from typing import Final

from cli.base.document import Json, message_object
from cli.base.listing import words
from penstock.v1.controller_pb2 import ShowConfigReply, ShowConfigRequest
from penstock.v1.governance_pb2 import ListAuditReply, ListAuditRequest, ListBudgetsReply, ListBudgetsRequest
from rest.calling import RestCall
from rest.listing import listing

DAY_US: Final = 24 * 3600 * 1_000_000


async def config(call: RestCall) -> Json:
    """The lines of `scontrol show config`, with parameters that Slurm does not have."""
    reply: ShowConfigReply = await call.call("ShowConfig", ShowConfigRequest())
    return {"at_us": reply.at_us, "lines": [message_object(one) for one in reply.lines]}


async def audit(call: RestCall) -> Json:
    """Records of the audit log, the oldest first; without a time, of the last day."""
    request = ListAuditRequest(
        start_at_us=call.time_us("start") or call.now_us - DAY_US,
        end_at_us=call.time_us("end"),
        users=words(call.query.get("users")),
    )
    return {"records": await listing(call, "ListAudit", request, _records)}


def _records(page: ListAuditReply) -> Iterator[Json]:
    return (message_object(one) for one in page.records)


async def budgets(call: RestCall) -> Json:
    """The budgets of accounts in their present period."""
    request = ListBudgetsRequest(accounts=words(call.query.get("accounts")))
    reply: ListBudgetsReply = await call.call("ListBudgets", request)
    return {"budgets": [message_object(one) for one in reply.budgets]}
