"""What a site has beside its jobs, in /penstock/v1/: the configuration in force and its files, certificates and database of the
controller, the audit log, the budgets of accounts, templates of job scripts, the network's switches, times at which nodes were
not up.
"""

import json
from collections.abc import Iterator
from typing import Final

from cli.base.document import Json, message_object
from cli.base.listing import words
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import (
    ReconfigureReply,
    ReconfigureRequest,
    ShowConfigReply,
    ShowConfigRequest,
    ShowControllerReply,
    ShowControllerRequest,
    ShowTopologyReply,
    ShowTopologyRequest,
)
from penstock.v1.governance_pb2 import (
    ListAuditReply,
    ListAuditRequest,
    ListBudgetsReply,
    ListBudgetsRequest,
    ListEventsReply,
    ListEventsRequest,
)
from penstock.values.hostlist import as_lists
from penstock.values.refusals import Code
from rest.calling import RestCall
from rest.listing import listing

DAY_US: Final = 24 * 3600 * 1_000_000
#: Events of nodes without a time: as far back as `sacctmgr show event` with Start=now-30days.
EVENTS_US: Final = 30 * DAY_US


async def config(call: RestCall) -> Json:
    """The lines of `scontrol show config`, with parameters that Slurm does not have."""
    reply: ShowConfigReply = await call.call("ShowConfig", ShowConfigRequest())
    return {"at_us": reply.at_us, "lines": [message_object(one) for one in reply.lines]}


async def config_diff(call: RestCall) -> Json:
    """What a reload would change, as `penstock config diff`. Of files that cannot be read: what is wrong, and where."""
    try:
        reply: ReconfigureReply = await call.call("Reconfigure", ReconfigureRequest(dry_run=True))
    except PenstockError as refusal:
        if refusal.code != Code.CONFIG_INVALID:
            raise
        _, _, text = refusal.text.partition(":\n")
        return {"file_errors": text.splitlines() or [refusal.text], "differences": [], "problems": [], "jobs": []}
    for one in reply.warnings:
        call.warn(one)
    differences = [message_object(one) for one in reply.differences]
    return {"file_errors": [], "differences": differences, "problems": list(reply.problems), "jobs": list(reply.jobs)}


async def controller(call: RestCall) -> Json:
    """The certificates of the cluster and the controller's database."""
    reply: ShowControllerReply = await call.call("ShowController", ShowControllerRequest())
    return {
        "certificates": [message_object(one) for one in reply.certificates],
        "issued": reply.issued,
        "database": message_object(reply.database),
    }


async def templates(call: RestCall) -> Json:
    """The site's templates of job scripts, by title."""
    await call.user_id()
    found = await call.site_templates.all() if call.site_templates is not None else ()
    call.tag.vary(json.dumps(found))
    call.check_modified()
    return {"templates": [dict(one._asdict()) for one in found]}


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


async def topology(call: RestCall) -> Json:
    """The switches or blocks of the network, the lowest level first, as `scontrol show topology`."""
    reply: ShowTopologyReply = await call.call("ShowTopology", ShowTopologyRequest())
    return {"kind": reply.kind, "switches": [message_object(one) for one in reply.switches]}


async def node_events(call: RestCall) -> Json:
    """Times at which nodes, or the cluster, were not up, as `sacctmgr show event`; without a time, of the last 30 days."""
    request = ListEventsRequest(
        start_at_us=call.time_us("start") or call.now_us - EVENTS_US,
        end_at_us=call.time_us("end"),
        nodes=as_lists(call.node_names("nodes")),
        all_clusters_events=True,
    )
    return {"events": await listing(call, "ListEvents", request, _events)}


def _events(page: ListEventsReply) -> Iterator[Json]:
    return (message_object(one) for one in page.events)
