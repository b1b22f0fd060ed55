"""The Explain service: penstock why, penstock fits, sdiag.

Users may query every job that squeue shows them (gate/visibility.py).
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from ctld.core.diagnose.fits import find_fits, inquire_fits
from ctld.core.diagnose.plan_change import inquire_loss, plan_change
from ctld.core.diagnose.why import Inquiry, Why, explain, inquire
from ctld.core.records.events import Actor
from ctld.core.records.job import JobRow
from ctld.core.steps.waiting import waiting_steps
from ctld.metrics import OTHERS, Passes
from ctld.rpc.explain.planinfo import plan_change_reply
from ctld.rpc.explain.whyinfo import fits_reply, shown_id, why_reply
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import translated
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility, is_private, job_visibility
from ctld.rpc.jobs import stepinfo
from ctld.rpc.jobs.listing import named_rows
from ctld.runtime.errors import BadRequest
from penstock.v1 import explain_pb2
from penstock.v1 import explain_pb2 as pb
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand_all
from penstock.values.refusals import TEXT, Code
from penstock.values.states import JobState

K = TypeVar("K")
THREADS: Final = 4
US: Final = 1_000_000


class ExplainService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runtime = services.runtime

    @translated
    async def WhyJob(self, request: explain_pb2.WhyJobRequest, context: Context) -> explain_pb2.WhyJobReply:
        """Explains why a job waits, and what would start it sooner."""
        actor = caller()
        rows = await named_rows(self._runtime.snapshot, [request.id], self._services.scans.pace(actor.uid))
        visibility = job_visibility(self._runtime.core.state, actor)
        rows = [row for row in rows if visibility.sees(row)]
        if not rows:
            raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {request.id[:64]}")
        row = next((row for row in rows if row.state is JobState.PENDING), rows[0])
        now_us = self._runtime.clock_us()
        reply = pb.WhyJobReply(
            job_id=row.job_id, shown_id=shown_id(row), name=row.request.name, state=row.state.name,
            reason=row.reason.value, user_name=row.user_name, now_us=now_us,
        )  # fmt: skip
        found = await self._services.planner_queries.ask(actor.uid, _explain, lambda: self._inquiry(row.job_id, actor))
        if found is None:
            state = self._runtime.core.state
            job = state.jobs.look(row.job_id)
            for one in waiting_steps(state, job) if job is not None else ():
                reply.steps.add(name=stepinfo.name_of(one.pending.event), since_us=one.since_us, waits_for=one.why)
            await self._add_last_event(reply, row, visibility)
            return reply
        return why_reply(reply, found, self._runtime.snapshot, visibility)

    def _inquiry(self, job_id: int, actor: Actor) -> Inquiry | None:
        """Returns the inquiry; None: the job is not pending."""
        state = self._runtime.core.state
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING:
            return None
        return inquire(state, self._runtime.clock_us(), job, actor)

    async def _add_last_event(self, reply: explain_pb2.WhyJobReply, row: JobRow, visibility: JobVisibility) -> None:
        """Adds the last event of the job."""
        lines = await self._services.story(row.job_id)
        if lines:
            last = lines[-1]
            last_event = visibility.redact(f"{last.event} {last.detail}".strip(), self._runtime.snapshot.jobs)
            reply.last_event = last_event
            reply.last_event_at_us = last.at_us

    @translated
    async def Fits(self, request: explain_pb2.FitsRequest, context: Context) -> explain_pb2.FitsReply:
        """Returns the largest shapes that would start now."""
        state = self._runtime.core.state
        for name in request.partitions:
            if name not in state.partitions:
                raise BadRequest(Code.INVALID_PARTITION, f"{TEXT[Code.INVALID_PARTITION]}: {name[:64]}")
        now_us = self._runtime.clock_us()
        _, partitions = await self._services.planner_queries.ask(
            caller().uid, find_fits, lambda: inquire_fits(state, now_us, tuple(request.partitions))
        )
        return fits_reply(now_us, partitions)

    @translated
    async def ShowPlanChange(
        self, request: explain_pb2.ShowPlanChangeRequest, context: Context
    ) -> explain_pb2.PlanChangeReply:
        """Returns the planned starts that would move if nodes went."""
        state, actor = self._runtime.core.state, caller()
        names = self._nodes_named(request.nodes)
        found = await self._services.planner_queries.ask(
            actor.uid, plan_change, lambda: inquire_loss(state, self._runtime.clock_us(), names, request.jobs_run_on)
        )
        return await plan_change_reply(self._services, actor, found)

    def _nodes_named(self, lists: Sequence[str]) -> tuple[str, ...]:
        """Returns the nodes of these lists. Raises BadRequest: there is none, or one that is not known to the caller."""
        state = self._runtime.core.state
        try:
            names = tuple(dict.fromkeys(expand_all(lists)))
        except BadValue as error:
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}") from None
        known = {} if is_private(state.config, caller(), "nodes") else state.nodes
        unknown = next((name for name in names if name not in known), "" if names else "name at least one node")
        if unknown or not names:
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {unknown[:64]}")
        return names

    @translated
    async def Diagnostics(
        self, request: explain_pb2.DiagnosticsRequest, context: Context
    ) -> explain_pb2.DiagnosticsReply:
        """sdiag."""
        runtime, services = self._runtime, self._services
        diagnostics, (pending, running) = runtime.diagnostics, services.job_counts(caller())
        links = list(services.registry.by_node.values())
        state, actor = runtime.core.state, caller()
        sees_users = job_visibility(state, actor) is ALL_JOBS and not is_private(state.config, actor, "users")
        by_user = {uid: row for uid, row in diagnostics.by_user.items() if sees_users or uid == actor.uid}
        names = {uid: await services.names.shown(uid) for uid in sorted(by_user) if uid != OTHERS}
        return pb.DiagnosticsReply(
            now_us=runtime.clock_us(), since_us=diagnostics.since_us, boot_at_us=services.boot_at_us,
            server_threads=THREADS, agents=len(links), agent_queue=sum(link.queued() for link in links),
            inbox=len(runtime.inbox), jobs_submitted=diagnostics.jobs["submit"],
            jobs_started=diagnostics.jobs["start"], jobs_completed=diagnostics.jobs["completed"],
            jobs_canceled=diagnostics.jobs["canceled"], jobs_failed=diagnostics.jobs["failed"],
            jobs_pending=pending, jobs_running=running,
            main=_passes(diagnostics.main), backfill=_passes(diagnostics.backfill),
            backfilled_jobs=diagnostics.backfilled, backfilled_last=diagnostics.backfilled_last,
            backfilled_boot=diagnostics.backfilled_boot, last_backfill_at_us=diagnostics.last_backfill_at_us,
            commits=diagnostics.commits, commit_us=diagnostics.commit_us, jobs_at_us=runtime.clock_us(),
            spared=diagnostics.spared, longest_turn_us=runtime.longest_turn(False),
            filter_calls=diagnostics.filter_calls, filter_failures=diagnostics.filter_failures,
            filter_refusals=diagnostics.filter_refusals,
            rollup=_passes(diagnostics.rollup), last_rollup_at_us=diagnostics.last_rollup_at_us,
            by_type=[
                pb.RpcCount(name=name, count=count, total_us=total_us)
                for name, (count, total_us) in _busiest(diagnostics.by_method)
            ],
            by_user=[
                pb.RpcCount(name=names.get(uid, "nodes"), uid=max(uid, 0), count=count, total_us=total_us)
                for uid, (count, total_us) in _busiest(by_user)
            ],
        )  # fmt: skip

    @translated
    async def ResetDiagnostics(
        self, request: explain_pb2.ResetDiagnosticsRequest, context: Context
    ) -> explain_pb2.ResetDiagnosticsReply:
        """sdiag --reset."""
        self._runtime.diagnostics.reset(self._runtime.clock_us())
        self._runtime.longest_turn(True)
        return pb.ResetDiagnosticsReply()


def _explain(inquiry: Inquiry | None) -> Why | None:
    return explain(inquiry) if inquiry is not None else None


def _busiest(counts: dict[K, list[int]]) -> list[tuple[K, list[int]]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1][0], str(entry[0])))


def _passes(passes: Passes) -> pb.PassStatistics:
    return pb.PassStatistics(
        cycles=passes.cycles, last_us=passes.last_us, max_us=passes.max_us, total_us=passes.total_us,
        depth=passes.depth, last_depth=passes.last_depth, last_queue=passes.last_queue, queue=passes.queue,
        table_size=passes.table,
    )  # fmt: skip
