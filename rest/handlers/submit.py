"""POST job/submit: a script, or the components of a heterogeneous job; POST job/allocate: nodes without a script.

The request is the one that sbatch sends, or salloc --no-shell. The key by which the controller recognises a repeated
submission is the caller's (header Idempotency-Key), or new for each request.
"""

import asyncio
import os
import time
from typing import Final

from cli.base.document import Json, message_object
from penstock.v1.common_pb2 import SALLOC, JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobReply, SubmitJobRequest
from penstock.v1.steps_pb2 import AllocationReply, AwaitAllocationRequest
from penstock.values.errors import BadValue
from penstock.values.requestkey import new_request_key, read_request_key
from penstock.values.states import ENDED
from rest.answers import RestError
from rest.calling import RestCall
from rest.handlers.jobfields import check_hosts
from rest.handlers.submission import Components, components_of, job_of, script_of, spec_of
from rest.limits import CALL_TIMEOUT_S, PLAN_TIMEOUT_S

#: The longest time that POST job/allocate waits for nodes.
ALLOCATION_WAIT_S: Final = 2
#: Slurm's number and text of an allocation that cannot be had at once.
NOT_AT_ONCE: Final = 2013
TEXT_NOT_AT_ONCE: Final = "Immediate execution impossible, insufficient priority"
WAITING: Final = ("PENDING", "REQUEUED", "")


async def submit(call: RestCall) -> Json:
    """Queues one job, an array, or a heterogeneous job."""
    reply = await send(call, *await _submission(call))
    return {"job_id": reply.job_id, "step_id": "batch", "job_submit_user_msg": "\n".join(reply.user_messages)}


async def test(call: RestCall) -> Json:
    """When and where the job would start, as sbatch --test-only; nothing is queued. 0: no start is known."""
    return _expected(await send(call, *await _submission(call), test_only=True))


async def plan_with(call: RestCall) -> Json:
    """The same, and whose planned starts would move."""
    reply = await send(call, *await _submission(call), test_only=True, compare_plans=True)
    return {**_expected(reply), "change": message_object(reply.plan_change)}


def _expected(reply: SubmitJobReply) -> Json:
    return {
        "start_at_us": reply.start_at_us,
        "node_list": reply.node_list,
        "partition": reply.partition,
        "cpus": reply.cpus,
        "job_submit_user_msg": "\n".join(reply.user_messages),
    }


async def _submission(call: RestCall) -> tuple[list[JobRequest], JobSpec]:
    """The components of the body, and the script. Raises RestError."""
    body = call.record()
    components = components_of(body, "jobs")
    jobs = await _jobs(components, call)
    first = components[0][1]
    return jobs, spec_of(first, script_of(body, first))


async def allocate(call: RestCall) -> Json:
    """Asks for nodes, and answers within ALLOCATION_WAIT_S: also when the job still waits, unless it is `immediate`."""
    components = components_of(call.record(), "hetjob")
    jobs = await _jobs(components, call)
    for job, (_, members) in zip(jobs, components, strict=True):
        job.kind = SALLOC
        if members.get("immediate"):
            job.immediate_s = 0
    sent = await send(call, jobs, JobSpec())
    job_id = sent.job_id
    reply: AllocationReply = await call.call(
        "AwaitAllocation", AwaitAllocationRequest(job_id=job_id, wait_s=ALLOCATION_WAIT_S)
    )
    if reply.state in ENDED:
        raise RestError(422, NOT_AT_ONCE, TEXT_NOT_AT_ONCE, f"job {job_id}: {reply.reason or reply.state}")
    if reply.state in WAITING:
        call.warn(f"job {job_id} waits ({reply.reason}); it is cancelled when nobody waits for it for a minute")
    return {"job_id": job_id, "job_submit_user_msg": "\n".join(sent.user_messages)}


async def send(
    call: RestCall, jobs: list[JobRequest], spec: JobSpec, test_only: bool = False, compare_plans: bool = False
) -> SubmitJobReply:
    """Sends a submission, and passes its warnings on. Raises RestError, PenstockError."""
    for job in jobs:
        job.trace_parent = call.trace_parent
    request = SubmitJobRequest(
        request_key=_key(call.idempotency_keys), job=jobs[0], spec=spec, components=jobs[1:], test_only=test_only,
        compare_plans=compare_plans, received_at_us=call.received_at_us,
    )  # fmt: skip
    reply: SubmitJobReply = await call.call("SubmitJob", request, PLAN_TIMEOUT_S if test_only else CALL_TIMEOUT_S)
    for text in reply.warnings:
        call.warn(text, "slurm_submit_batch_job()")
    return reply


def _key(given: tuple[str, ...]) -> str:
    """The key of a submission. The controller refuses one whose time is not of the last ten minutes: it may have been used
    before. Raises RestError.
    """
    if not given:
        return new_request_key(time.time_ns() // 1000, os.urandom(16))
    if len(given) > 1:
        raise RestError(400, 0, "Idempotency-Key: give one", is_plain=True)
    try:
        return read_request_key(given[0].strip('"'))
    except BadValue as error:
        raise RestError(400, 0, f"Idempotency-Key {error}", is_plain=True) from error


async def _jobs(components: Components, call: RestCall) -> list[JobRequest]:
    """The request of each component; others have their turn before each. Raises RestError."""
    check_hosts(components)
    made: list[JobRequest] = []
    for source, one in components:
        await asyncio.sleep(0)
        made.append(job_of(one, source, call.warn))
    return made
