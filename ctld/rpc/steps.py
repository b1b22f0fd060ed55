"""The Steps service: allocations without a script, and the steps of any job. No decisions: they are the core's.

Calls that wait do so for `wait_s` at the longest. Then the core is told that nobody waits, and asked once more without
waiting, so that the answer says how things stand. What they wait for is the controller's state, so nothing is lost.
"""

import asyncio
from typing import Any, Final

import msgspec

from ctld.agents.stepmessages import step_plan, step_spec, stream_key
from ctld.core.effects import Allocation, Refusal, StepCreated, StepSeen
from ctld.core.events import Actor, AwaitAllocation, AwaitStep, CreateStep, EndAllocation, NotifyJob, Role
from ctld.core.model import JobRow
from ctld.core.step_model import StepRow
from ctld.rpc import stepinfo, wanted
from ctld.rpc.auth import caller
from ctld.rpc.listing import named_rows
from ctld.rpc.refusals import BadRequest, refuse_as, translated
from ctld.rpc.services import Services
from ctld.rpc.sight import job_sight
from ctld.rpc.wantedstep import wanted_step
from penstock.v1 import steps_pb2
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selector
from penstock.values.refusals import TEXT, Code
from penstock.values.states import HOLDING_STATES
from penstock.values.stepframes import asking_key

#: The longest that a call waits; clients ask again.
WAIT_S_MAX: Final = 300


class StepsService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runtime = services.runtime

    async def _ask(self, event: Any, context: Any) -> Any:
        body = await self._runtime.ask(event)
        if type(body) is Refusal:
            await refuse_as(context, body)
        return body

    async def _ask_for(self, event: Any, wait_s: int, context: Any) -> Any:
        """The answer that comes within so long; None = none did."""
        try:
            async with asyncio.timeout(min(wait_s, WAIT_S_MAX)):
                return await self._ask(event, context)
        except TimeoutError:
            return None

    async def _ask_or_see(self, event: Any, wait_s: int, context: Any) -> Any:
        body = await self._ask_for(event, wait_s, context) if event.wait else None
        if body is None:
            again = msgspec.structs.replace(event, wait=False, reply_to=self._runtime.new_reply_to())
            body = await self._ask(again, context)
        return body

    # ---- allocations ---------------------------------------------------------------------------------------------

    @translated
    async def AwaitAllocation(self, request: Any, context: Any) -> Any:
        """Answer when the job has its nodes or has ended."""
        reply_to = self._runtime.new_reply_to()
        event = AwaitAllocation(caller(), request.job_id, request.wait_s > 0, reply_to)
        body: Allocation = await self._ask_or_see(event, request.wait_s, context)
        return stepinfo.whole_reply(self._runtime.core.state, body.job, body.components)

    @translated
    async def EndAllocation(self, request: Any, context: Any) -> Any:
        """Its owner needs it no more."""
        code, signal = request.exit.code & 0xFF, request.exit.signal & 0x7F
        event = EndAllocation(caller(), request.job_id, code, signal, self._runtime.new_reply_to())
        await self._ask(event, context)
        return steps_pb2.EndAllocationReply()

    # ---- steps ---------------------------------------------------------------------------------------------------

    @translated
    async def CreateStep(self, request: Any, context: Any) -> Any:
        """Start a step, as soon as its resources are free."""
        key, _ = wanted.submit_key(request.step_key)
        step = wanted_step(request.step)
        spec = wanted.spec_row(request.spec, self._runtime.core.state.config, has_script=False)
        wait_s = request.wait_s
        if step.immediate_s is not None:
            wait_s = min(wait_s, step.immediate_s)
        event = CreateStep(caller(), request.job_id, key, step, spec, wait_s > 0, self._runtime.new_reply_to())
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
            streams=stepinfo.streams_of(state, [part.node for part in row.parts or ()]), io_key=self._key(row),
            kill_on_bad_exit=state.config.kill_on_bad_exit, wait_s=state.config.wait_time_s,
        )  # fmt: skip

    async def _create(self, event: Any, wait_s: int) -> Any:
        """The answer; None = the step still waits for its resources."""
        if not event.wait:
            return await self._runtime.ask(event)
        try:
            async with asyncio.timeout(min(wait_s, WAIT_S_MAX)):
                return await self._runtime.ask(event)
        except TimeoutError:
            return None

    def _key(self, row: StepRow) -> bytes:
        return stream_key(self._services.stream_secret, row.job_id, row.attempt, row.step_id)

    @translated
    async def AwaitStep(self, request: Any, context: Any) -> Any:
        """Answer when the step has ended."""
        reply_to = self._runtime.new_reply_to()
        event = AwaitStep(caller(), request.job_id, request.attempt, request.step_id, request.wait_s > 0, reply_to)
        body: StepSeen = await self._ask_or_see(event, request.wait_s, context)
        return stepinfo.await_reply(body.step, body.job_state)

    @translated
    async def AttachStep(self, request: Any, context: Any) -> Any:
        """Where a step's streams are."""
        actor = caller()
        job, row = self._found(request.job_id, request.step_id, actor)
        plan, key = step_plan(row), self._key(row)
        if actor.uid != job.user_id and actor.role < Role.ADMINISTRATOR:
            key = asking_key(key)  # who can type into a step can do everything that its user can
        return steps_pb2.AttachStepReply(
            job_id=row.job_id, step_id=row.step_id, attempt=row.attempt, plan=plan, io_key=key,
            streams=stepinfo.streams_of(self._runtime.core.state, plan.nodes), user_id=job.user_id,
            spec=step_spec(row.request) if row.request is not None else None,
        )  # fmt: skip

    def _found(self, job_id: int, step_id: int, actor: Actor) -> tuple[JobRow, StepRow]:
        job = self._runtime.snapshot.jobs.get(job_id)
        if job is None or not job_sight(self._runtime.core.state, actor).sees(job):
            raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {job_id}")
        if actor.uid != job.user_id and actor.role < Role.OPERATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        row = next((row for row in self._steps_of(job) if row.step_id == step_id), None)
        if row is None:
            raise BadRequest(Code.INVALID_STEP, f"{TEXT[Code.INVALID_STEP]}: {job_id}.{step_id}")
        return job, row

    def _steps_of(self, job: JobRow) -> list[StepRow]:
        """What is known of a job's steps, in the order of their ids."""
        steps = [row for row in self._runtime.snapshot.steps.get(job.job_id, {}).values() if row.attempt == job.attempt]
        batch = stepinfo.batch_step(job)
        return sorted([*steps, batch] if batch is not None else steps, key=lambda row: row.step_id)

    @translated
    async def ListSteps(self, request: Any, context: Any) -> Any:
        """Steps as committed."""
        snapshot = self._runtime.snapshot
        uids, unknown = await self._services.names.uids(list(request.users))
        sight = job_sight(self._runtime.core.state, caller())
        chosen: list[tuple[JobRow, int | None]] = []
        if request.ids:
            for text in request.ids:
                try:
                    step_id = parse_selector(text).step_id
                except BadValue as error:
                    raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {error}") from None
                chosen += [(row, step_id) for row in await named_rows(snapshot, [text])]
        else:
            chosen = [(row, None) for row in list(snapshot.jobs.values()) if row.state in HOLDING_STATES]
        found: dict[tuple[int, int], Any] = {}
        reply = steps_pb2.ListStepsReply()
        for job, step_id in chosen:
            if unknown or (uids and job.user_id not in uids) or not sight.sees(job):
                continue
            if step_id is None:
                reply.waiting.extend(stepinfo.waiting_infos(self._runtime.core.state, job))
            for row in self._steps_of(job):
                if step_id in (None, row.step_id):
                    found[job.job_id, row.step_id] = (job, row)
        reply.steps.extend(stepinfo.step_info(*found[key]) for key in sorted(found))
        return reply

    @translated
    async def NotifyJob(self, request: Any, context: Any) -> Any:
        """A line to a job's people."""
        await self._ask(NotifyJob(caller(), request.id, request.text, self._runtime.new_reply_to()), context)
        return steps_pb2.NotifyJobReply()
