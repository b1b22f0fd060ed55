"""Answers `--test-only`: when and where a job would start in the present queue, and whose planned starts it would move."""

from ctld.core.diagnose.plan_change import PlanChange, PlanChangeInquiry, inquire_arrival, plan_change
from ctld.core.diagnose.start_estimate import Expected, StartInquiry, estimate_start, inquire_start
from ctld.core.records.effects import Refused, Submitted
from ctld.core.records.events import SubmitJob
from ctld.rpc.explain.planinfo import plan_change_reply
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.services import Services
from ctld.runtime.errors import BadRequest
from penstock.v1 import controller_pb2
from penstock.values.hostlist import compress


async def expected_start(
    services: Services, event: SubmitJob, body: Submitted, compares: bool
) -> controller_pb2.SubmitJobReply:
    """Asks the planner once, or twice to compare the plans. Raises BadRequest."""
    runtime = services.runtime
    ask = services.planner_queries.ask
    uid = caller().uid

    def arrival() -> PlanChangeInquiry:
        return inquire_arrival(runtime.core.state, runtime.clock_us(), event)

    def start() -> StartInquiry:
        return inquire_start(runtime.core.state, runtime.clock_us(), event)

    change: PlanChange | None = None
    try:
        if compares:
            change = await ask(uid, plan_change, arrival)
        found = change.own if change is not None else await ask(uid, estimate_start, start)
    except Refused as error:  # the configuration has changed since
        raise BadRequest(error.code, error.text) from None
    reply = _reply(body, found)
    if change is not None:
        reply.plan_change.CopyFrom(await plan_change_reply(services, caller(), change))
    return reply


def _reply(body: Submitted, expected: Expected | None) -> controller_pb2.SubmitJobReply:
    """The answer; None: no start is known."""
    return controller_pb2.SubmitJobReply(
        job_id=body.job_id,
        warnings=body.warnings,
        start_at_us=expected.start_s * 1_000_000 if expected is not None else 0,
        node_list=compress(expected.nodes) if expected is not None else "",
        cpus=body.cpus,
        partition=expected.partition if expected is not None else body.partition,
    )
