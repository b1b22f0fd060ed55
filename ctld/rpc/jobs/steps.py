"""The Steps service: allocations without a script, and the steps of any job. The core makes all decisions.

Calls wait for `wait_s` at most. Then the wait is cancelled in the core, and the call repeated without waiting, so that
the answer is the present state. The awaited conditions are state of the controller, so no event is missed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

# Any: an answer's type depends on its event, and callers know it
from typing import Any, Final

import msgspec

from ctld.agents.stepmessages import step_plan, step_spec, stream_key
from ctld.core.records import events
from ctld.core.records.effects import AllocationState, Refusal, StepCreated, StepSeen
from ctld.core.records.events import (
    Actor,
    AwaitAllocation,
    AwaitStep,
    EndAllocation,
    Event,
    NotifyJob,
    Role,
)
from ctld.core.records.job import JobRow
from ctld.core.records.step import StepRow
from ctld.rpc.gate.auth import Authenticator, caller, current_peer
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import job_visibility
from ctld.rpc.jobs import stepinfo, submission
from ctld.rpc.jobs.listing import NamedRows
from ctld.rpc.jobs.outputs import OutputOpener
from ctld.rpc.jobs.step_request import wanted_step
from ctld.runtime.errors import BadRequest
from penstock.v1 import steps_pb2
from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP, parse_selector
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ALLOCATED_STATES
from penstock.values.stepframes import asking_key

#: The longest wait of a call; clients repeat it.
WAIT_S_MAX: Final = 300
#: Ids that are looked up between two turns of the loop.
IDS_AT_ONCE: Final = 1_000
#: Steps that are encoded, and jobs whose steps are all listed, between two turns: some 5 ms of work.
STEPS_AT_ONCE: Final = 200


class StepsService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services, authenticator: Authenticator) -> None:
        self._services = services
        self._runtime = services.runtime
        self._waits = authenticator.waits
        self._outputs = OutputOpener(services)

    async def _ask_for(self, event: Event, wait_s: int, context: Context) -> object:
        """Returns the answer; None if there is none within `wait_s`."""
        try:
            async with asyncio.timeout(min(wait_s, WAIT_S_MAX)):
                return await self._services.ask(event, context)
        except TimeoutError:
            return None

    async def _ask_or_see(self, event: AwaitStep | AwaitAllocation, wait_s: int, context: Context) -> Any:
        body = await self._ask_for(event, wait_s, context) if event.wait else None
        if body is None:
            again = msgspec.structs.replace(event, wait=False, reply_to=self._runtime.new_reply_to())
            body = await self._services.ask(again, context)
        return body

    # ---- allocations ---------------------------------------------------------------------------------------------

    @translated
    async def AwaitAllocation(
        self, request: steps_pb2.AwaitAllocationRequest, context: Context
    ) -> steps_pb2.AllocationReply:
        """Answers when the job has its nodes or has ended."""
        reply_to = self._runtime.new_reply_to()
        event = AwaitAllocation(caller(), request.job_id, request.wait_s > 0, reply_to)
        body: AllocationState = await self._ask_or_see(event, request.wait_s, context)
        return stepinfo.whole_reply(self._runtime.core.state, body.job, body.components)

    @translated
    async def EndAllocation(
        self, request: steps_pb2.EndAllocationRequest, context: Context
    ) -> steps_pb2.EndAllocationReply:
        """Releases the allocation."""
        code, signal = request.exit.code & 0xFF, request.exit.signal & 0x7F
        event = EndAllocation(caller(), request.job_id, code, signal, self._runtime.new_reply_to())
        await self._services.ask(event, context)
        return steps_pb2.EndAllocationReply()

    # ---- steps ---------------------------------------------------------------------------------------------------

    @translated
    async def CreateStep(self, request: steps_pb2.CreateStepRequest, context: Context) -> steps_pb2.CreateStepReply:
        """Starts a step, as soon as its resources are free."""
        key, _ = submission.submit_key(request.step_key)
        step = wanted_step(request.step)
        spec = submission.spec_row(request.spec, self._runtime.core.state.config, has_script=False)
        wait_s = request.wait_s
        if step.immediate_s is not None:
            wait_s = min(wait_s, step.immediate_s)
        event = events.CreateStep(caller(), request.job_id, key, step, spec, wait_s > 0, self._runtime.new_reply_to())
        body: StepCreated | Refusal | None = await self._create(event, wait_s)
        if isinstance(body, Refusal) and (body.code != Code.NODES_BUSY or step.immediate_s is not None):
            await refuse_as(context, body)
        if body is None or isinstance(body, Refusal):
            if step.immediate_s is not None and step.immediate_s <= wait_s:
                raise BadRequest(Code.NODES_BUSY, TEXT[Code.NODES_BUSY])
            return steps_pb2.CreateStepReply(busy=True, job_id=request.job_id)
        row = body.step
        state = self._runtime.core.state
        return steps_pb2.CreateStepReply(
            step_id=row.step_id, attempt=row.attempt, plan=step_plan(row), warnings=body.warnings, job_id=row.job_id,
            streams=stepinfo.streams_of(state, [part.node for part in row.parts or ()], last_known=True),
            io_key=self._key(row),
            kill_on_bad_exit=state.config.kill_on_bad_exit, wait_s=state.config.wait_time_s,
        )  # fmt: skip

    async def _create(self, event: events.CreateStep, wait_s: int) -> Any:
        """Returns the answer; None = the step still waits for its resources, and does not start until the call is
        repeated."""
        if not event.wait:
            return await self._runtime.ask(event)
        peer = current_peer()
        try:
            async with asyncio.timeout(min(wait_s, WAIT_S_MAX)) as limit:
                with self._waits.bounded(limit, peer, peer.ends_at_us):
                    return await self._runtime.ask(event)
        except TimeoutError:
            return None

    def _key(self, row: StepRow) -> bytes:
        return stream_key(self._services.stream_secret, row.job_id, row.attempt, row.step_id)

    @translated
    async def AwaitStep(self, request: steps_pb2.AwaitStepRequest, context: Context) -> steps_pb2.AwaitStepReply:
        """Answers when the step has ended."""
        reply_to = self._runtime.new_reply_to()
        event = AwaitStep(caller(), request.job_id, request.attempt, request.step_id, request.wait_s > 0, reply_to)
        body: StepSeen = await self._ask_or_see(event, request.wait_s, context)
        return stepinfo.await_reply(body.step, body.job_state)

    @translated
    async def AttachStep(self, request: steps_pb2.AttachStepRequest, context: Context) -> steps_pb2.AttachStepReply:
        """Returns the addresses of a step's streams."""
        actor = caller()
        if current_peer().session_job_id not in (0, request.job_id):  # by a token for another job
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        job, row = self._found(request.job_id, request.step_id, actor)
        plan, key = step_plan(row), self._key(row)
        if actor.uid != job.user_id and actor.role < Role.ADMINISTRATOR:
            key = asking_key(key)  # a user who can type into a step can do everything that its owner can
        return steps_pb2.AttachStepReply(
            job_id=row.job_id, step_id=row.step_id, attempt=row.attempt, plan=plan, io_key=key,
            streams=stepinfo.streams_of(self._runtime.core.state, plan.nodes), user_id=job.user_id,
            spec=step_spec(row.request) if row.request is not None else None,
        )  # fmt: skip

    @translated
    async def OpenOutput(self, request: steps_pb2.OpenOutputRequest, context: Context) -> steps_pb2.AttachStepReply:
        """Has a node prepared to read the output files of a job or step once, and returns its address."""
        return await self._outputs.open(request)

    def _found(self, job_id: int, step_id: int, actor: Actor) -> tuple[JobRow, StepRow]:
        job = self._runtime.snapshot.jobs.get(job_id)
        if job is None or not job_visibility(self._runtime.core.state, actor).sees(job):
            raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {job_id}")
        if actor.uid != job.user_id and actor.role < Role.OPERATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        row = next((row for row in self._steps_of(job) if row.step_id == step_id), None)
        if row is None:
            raise BadRequest(Code.INVALID_STEP, f"{TEXT[Code.INVALID_STEP]}: {job_id}.{step_id}")
        return job, row

    def _steps_of(self, job: JobRow) -> list[StepRow]:
        """Returns a job's known steps, in the order of their ids."""
        steps = [row for row in self._runtime.snapshot.steps.get(job.job_id, {}).values() if row.attempt == job.attempt]
        batch = stepinfo.batch_step(job)
        return sorted([*steps, batch] if batch is not None else steps, key=lambda row: row.step_id)

    def _named_steps(self, job: JobRow, step_ids: Iterable[int | None]) -> list[StepRow]:
        """Returns those of a job's known steps that have one of the ids."""
        steps = self._runtime.snapshot.steps.get(job.job_id, {})
        rows = [row for step_id in step_ids if step_id is not None and (row := steps.get(step_id)) is not None]
        batch = stepinfo.batch_step(job) if BATCH_STEP in step_ids else None
        return [*(row for row in rows if row.attempt == job.attempt), *([batch] if batch is not None else ())]

    @translated
    async def ListSteps(self, request: steps_pb2.ListStepsRequest, context: Context) -> steps_pb2.ListStepsReply:
        """Returns committed steps."""
        uids, unknown = await self._services.names.uids(list(request.users))
        visibility = job_visibility(self._runtime.core.state, caller())
        found: dict[tuple[int, int], tuple[JobRow, StepRow]] = {}
        whole: dict[int, None] = {}
        reply = steps_pb2.ListStepsReply()
        pace = self._services.scans.pace(caller().uid)
        await pace.begin()
        async for job, step_ids in self._chosen(request.ids, pace):
            if unknown or (uids and job.user_id not in uids) or not visibility.sees(job):
                continue
            if None not in step_ids:
                found.update(((job.job_id, row.step_id), (job, row)) for row in self._named_steps(job, step_ids))
            elif job.job_id not in whole:
                whole[job.job_id] = None
                reply.waiting.extend(stepinfo.waiting_infos(self._runtime.core.state, job))
                found.update(((job.job_id, row.step_id), (job, row)) for row in self._steps_of(job))
                if len(whole) % STEPS_AT_ONCE == 0:
                    await pace.pause()
        for number, key in enumerate(sorted(found)):
            if number % STEPS_AT_ONCE == STEPS_AT_ONCE - 1:
                await pace.pause()
            reply.steps.append(stepinfo.step_info(*found[key]))
        return reply

    async def _chosen(self, ids: Sequence[str], pace: ScanPace) -> AsyncIterator[tuple[JobRow, dict[int | None, None]]]:
        """Yields the jobs that ids select, with the ids of the wanted steps; None = all of them. Without ids: the jobs
        that have nodes. Raises BadRequest."""
        snapshot = self._runtime.snapshot
        if not ids:
            for row in [row for row in list(snapshot.jobs.values()) if row.state in ALLOCATED_STATES]:
                yield row, {None: None}
            return
        wanted: dict[str, dict[int | None, None]] = {}  # steps by the part of the id that selects jobs
        for number, text in enumerate(ids):
            if number % IDS_AT_ONCE == IDS_AT_ONCE - 1:
                await pace.pause()
            try:
                wanted.setdefault(text.partition(".")[0], {})[parse_selector(text).step_id] = None
            except BadValue as error:
                raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {error}") from None
        named = NamedRows(snapshot, is_union=False, pace=pace)
        for text, step_ids in wanted.items():
            for row in await named.of(text, len(step_ids)):
                yield row, step_ids

    @translated
    async def NotifyJob(self, request: steps_pb2.NotifyJobRequest, context: Context) -> steps_pb2.NotifyJobReply:
        """Writes a line to the error output of a job."""
        await self._services.ask(NotifyJob(caller(), request.id, request.text, self._runtime.new_reply_to()), context)
        return steps_pb2.NotifyJobReply()
