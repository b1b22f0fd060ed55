"""Encodes how the planned starts would change. Who may see which job is decided here, by committed rows."""

from typing import Final

from ctld.core.diagnose.plan_change import MovedJob, PlanChange
from ctld.core.records.events import Actor
from ctld.core.records.job import JobRow
from ctld.rpc.explain.whyinfo import shown_id
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import job_visibility
from penstock.v1 import explain_pb2 as pb
from penstock.values.hostlist import compress

US: Final = 1_000_000
#: Jobs that an answer lists, and names of nodes in it; the others are counted.
JOBS_MAX: Final = 1_000
NODES_MAX: Final = 65_536
#: Jobs that are examined in one slice of the loop, and names of nodes that are written in one.
SLICE_JOBS: Final = 256
SLICE_NODES: Final = 4_096


async def plan_change_reply(services: Services, actor: Actor, found: PlanChange) -> pb.PlanChangeReply:
    """Encodes it, in slices. Jobs that the caller may not see are counted, without their names."""
    snapshot = services.runtime.snapshot
    visibility = job_visibility(services.runtime.core.state, actor)
    reply = pb.PlanChangeReply(now_us=found.now_s * US, compared=found.compared, not_asked=found.not_asked)
    written = 0  # names of nodes
    paused_at = 0
    async with services.scans.one(actor.uid) as pace:
        for number, one in enumerate(found.jobs(), 1):
            if number % SLICE_JOBS == 0 or written - paused_at >= SLICE_NODES:
                paused_at = written
                await pace.pause()
            row = snapshot.jobs.get(one.job_id)
            if row is None:
                continue  # it has ended meanwhile
            if not visibility.sees(row):
                reply.unseen += 1
                continue
            nodes = len(one.before) + len(one.after)
            if len(reply.jobs) >= JOBS_MAX or written + nodes > NODES_MAX:
                reply.more += 1
                continue
            written += nodes
            reply.jobs.append(_moved(one, row))
    return reply


def _moved(one: MovedJob, row: JobRow) -> pb.MovedJob:
    runs = one.before_s < 0 and row.start_at_us > 0
    before = tuple(part.node for part in row.alloc) if runs else one.before
    return pb.MovedJob(
        job_id=row.job_id, shown_id=shown_id(row), name=row.request.name, user_name=row.user_name,
        partition=row.partition, change=one.change,
        before_at_us=row.start_at_us if runs else max(one.before_s, 0) * US, before_node_list=compress(before),
        after_at_us=max(one.after_s, 0) * US, after_node_list=compress(one.after), time_limit_s=row.time_limit_s,
    )  # fmt: skip
