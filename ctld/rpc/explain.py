"""The Explain service: penstock why, penstock fits, sdiag.

Everybody may ask about every job that squeue shows him (sight.py).
"""

import asyncio
from typing import Any, Final

from ctld.core.events import Actor
from ctld.core.fits import find_fits, inquire_fits
from ctld.core.model import JobRow
from ctld.core.step_wait import waiting_steps
from ctld.core.why import Inquiry, Why, explain, inquire
from ctld.metrics import OTHERS, Passes
from ctld.rpc import stepinfo
from ctld.rpc.auth import caller
from ctld.rpc.listing import named_rows
from ctld.rpc.refusals import BadRequest, translated
from ctld.rpc.services import Services
from ctld.rpc.sight import ALL_JOBS, is_private, job_sight
from ctld.rpc.whyinfo import fits_reply, shown_id, why_reply
from penstock.v1 import explain_pb2 as pb
from penstock.values.refusals import TEXT, Code
from penstock.values.states import JobState

#: Threads of the controller that serve: the loop, the committer, the planner, this one.
THREADS: Final = 4
US: Final = 1_000_000


class ExplainService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runtime = services.runtime

    @translated
    async def WhyJob(self, request: Any, context: Any) -> Any:
        """Why a job waits, and what would start it sooner."""
        actor = caller()
        rows = await named_rows(self._runtime.snapshot, [request.id])
        sight = job_sight(self._runtime.core.state, actor)
        rows = [row for row in rows if sight.sees(row)]
        if not rows:
            raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {request.id[:64]}")
        row = next((row for row in rows if row.state is JobState.PENDING), rows[0])
        now_us = self._runtime.clock_us()
        reply = pb.WhyJobReply(
            job_id=row.job_id, shown_id=shown_id(row), name=row.request.name, state=row.state.name,
            reason=row.reason.value, user_name=row.user_name, now_us=now_us,
        )  # fmt: skip
        found = await self._services.thinker.ask(_explain, lambda: self._inquiry(row.job_id, actor))
        if found is None:
            state = self._runtime.core.state
            job = state.jobs.get(row.job_id)
            for one in waiting_steps(state, job) if job is not None else ():
                reply.steps.add(name=stepinfo.name_of(one.wish.event), since_us=one.since_us, waits_for=one.why)
            await self._tell_story(reply, row)
            return reply
        return why_reply(reply, found, self._runtime.snapshot)

    def _inquiry(self, job_id: int, actor: Actor) -> Inquiry | None:
        """None: it does not wait (any more)."""
        state = self._runtime.core.state
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING:
            return None
        return inquire(state, self._runtime.clock_us(), job, actor)

    async def _tell_story(self, reply: Any, row: JobRow) -> None:
        """The last thing that happened to it."""
        store, reader = self._services.store, self._services.reader
        lines = await asyncio.get_running_loop().run_in_executor(reader, store.history, row.job_id)
        if lines:
            last = lines[-1]
            reply.last_event, reply.last_event_at_us = f"{last.event} {last.detail}".strip(), last.at_us

    @translated
    async def Fits(self, request: Any, context: Any) -> Any:
        """The largest shapes that would start now."""
        state = self._runtime.core.state
        for name in request.partitions:
            if name not in state.partitions:
                raise BadRequest(Code.INVALID_PARTITION, f"{TEXT[Code.INVALID_PARTITION]}: {name[:64]}")
        now_us = self._runtime.clock_us()
        _, places = await self._services.thinker.ask(
            find_fits, lambda: inquire_fits(state, now_us, tuple(request.partitions))
        )
        return fits_reply(now_us, places)

    @translated
    async def Diagnostics(self, request: Any, context: Any) -> Any:
        """sdiag."""
        runtime, services = self._runtime, self._services
        diagnostics, (pending, running) = runtime.diagnostics, services.job_counts(caller())
        links = list(services.registry.by_node.values())
        state, actor = runtime.core.state, caller()
        sees_users = job_sight(state, actor) is ALL_JOBS and not is_private(state.config, actor, "users")
        by_user = {uid: row for uid, row in diagnostics.by_user.items() if sees_users or uid == actor.uid}
        names = {uid: await services.names.name(uid) for uid in sorted(by_user) if uid != OTHERS}
        return pb.DiagnosticsReply(
            now_us=runtime.clock_us(), since_us=diagnostics.since_us, boot_at_us=services.boot_at_us,
            server_threads=THREADS, agents=len(links), agent_queue=sum(link.queued() for link in links),
            inbox=runtime.inbox_length(), jobs_submitted=diagnostics.jobs["submit"],
            jobs_started=diagnostics.jobs["start"], jobs_completed=diagnostics.jobs["completed"],
            jobs_canceled=diagnostics.jobs["canceled"], jobs_failed=diagnostics.jobs["failed"],
            jobs_pending=pending, jobs_running=running,
            main=_passes(diagnostics.main), backfill=_passes(diagnostics.backfill),
            backfilled_jobs=diagnostics.backfilled, backfilled_last=diagnostics.backfilled_last,
            backfilled_boot=diagnostics.backfilled_boot, last_backfill_at_us=diagnostics.last_backfill_at_us,
            commits=diagnostics.commits, commit_us=diagnostics.commit_us, jobs_at_us=runtime.clock_us(),
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
    async def ResetDiagnostics(self, request: Any, context: Any) -> Any:
        """sdiag --reset."""
        self._runtime.diagnostics.reset(self._runtime.clock_us())
        return pb.ResetDiagnosticsReply()


def _explain(inquiry: Inquiry | None) -> Why | None:
    return explain(inquiry) if inquiry is not None else None


def _busiest(counts: dict[Any, list[int]]) -> list[tuple[Any, list[int]]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1][0], str(entry[0])))


def _passes(passes: Passes) -> Any:
    return pb.PassStatistics(
        cycles=passes.cycles, last_us=passes.last_us, max_us=passes.max_us, total_us=passes.total_us,
        depth=passes.depth, last_depth=passes.last_depth, last_queue=passes.last_queue, queue=passes.queue,
        table_size=passes.table,
    )  # fmt: skip
