"""POST job/submit: a script, or the components of a heterogeneous job; POST job/allocate: nodes without a script.

The request is the one that sbatch sends, or salloc --no-shell. The key by which the controller recognises a repeated
submission is the caller's (header Idempotency-Key), or new for each request.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import Final, cast

from cli.base.document import Json
from cli.base.run import CommandError
from cli.jobs.script import SCRIPT_BYTES_MAX, check
from penstock.v1.common_pb2 import SALLOC, JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobReply, SubmitJobRequest
from penstock.v1.steps_pb2 import AllocationReply, AwaitAllocationRequest
from penstock.values.errors import BadValue
from penstock.values.requestkey import new_request_key, read_request_key
from penstock.values.states import ENDED
from penstock.values.text import check_name
from rest.answers import RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION
from rest.handlers.jobfields import check_hosts, requested, without_effect
from rest.handlers.members import Members
from rest.limits import CALL_TIMEOUT_S, PLAN_TIMEOUT_S

#: Slurm's numbers of what a submission lacks.
NO_SCRIPT: Final = 9000
BAD_SCRIPT: Final = 2009
NO_ENVIRONMENT: Final = 2127
NO_DIRECTORY: Final = 2063
#: The name of a job that has none.
DEFAULT_NAME: Final = "openapi_job"
NO_COMMAND: Final = "(null)"
COMPONENTS_MAX: Final = 128
#: The longest time that POST job/allocate waits for nodes.
ALLOCATION_WAIT_S: Final = 2
#: Slurm's number and text of an allocation that cannot be had at once.
NOT_AT_ONCE: Final = 2013
TEXT_NOT_AT_ONCE: Final = "Immediate execution impossible, insufficient priority"
WAITING: Final = ("PENDING", "REQUEUED", "")
#: Never passed on to a job, as by sbatch.
_SECRET: Final = "SLURM_JWT="  # noqa: S105 (a variable)
_PATHS: Final = {"standard_output": "std_out", "standard_error": "std_err", "standard_input": "std_in"}


async def submit(call: RestCall) -> Json:
    """Queues one job, an array, or a heterogeneous job."""
    reply = await _send(call, *await _submission(call))
    return {"job_id": reply.job_id, "step_id": "batch", "job_submit_user_msg": "\n".join(reply.user_messages)}


async def test(call: RestCall) -> Json:
    """When and where the job would start, as sbatch --test-only; nothing is queued. 0: no start is known."""
    reply = await _send(call, *await _submission(call), test_only=True)
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
    components = _components(body, "jobs")
    jobs = await _jobs(components, call)
    first = components[0][1]
    return jobs, _spec(first, str(first.get("script") or body.get("script") or ""))


async def allocate(call: RestCall) -> Json:
    """Asks for nodes, and answers within ALLOCATION_WAIT_S: also when the job still waits, unless it is `immediate`."""
    components = _components(call.record(), "hetjob")
    jobs = await _jobs(components, call)
    for job, (_, members) in zip(jobs, components, strict=True):
        job.kind = SALLOC
        if members.get("immediate"):
            job.immediate_s = 0
    sent = await _send(call, jobs, JobSpec())
    job_id = sent.job_id
    reply: AllocationReply = await call.call(
        "AwaitAllocation", AwaitAllocationRequest(job_id=job_id, wait_s=ALLOCATION_WAIT_S)
    )
    if reply.state in ENDED:
        raise RestError(422, NOT_AT_ONCE, TEXT_NOT_AT_ONCE, f"job {job_id}: {reply.reason or reply.state}")
    if reply.state in WAITING:
        call.warn(f"job {job_id} waits ({reply.reason}); it is cancelled when nobody waits for it for a minute")
    return {"job_id": job_id, "job_submit_user_msg": "\n".join(sent.user_messages)}


async def _send(call: RestCall, jobs: list[JobRequest], spec: JobSpec, test_only: bool = False) -> SubmitJobReply:
    request = SubmitJobRequest(
        request_key=_key(call.idempotency_keys), job=jobs[0], spec=spec, components=jobs[1:], test_only=test_only
    )
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


def _components(body: Mapping[str, object], list_name: str) -> list[tuple[str, Members]]:
    """The descriptions, each with its path: `job`, or all of the list. Raises RestError."""
    one, several = body.get("job"), body.get(list_name)
    if one is not None and several:
        text = f"the request has both job and {list_name}: give one of them"
        raise RestError(422, NO_SCRIPT, text, source=f"#/{list_name}")
    if isinstance(several, list) and several:
        if len(several) > COMPONENTS_MAX:
            raise RestError(422, NO_SCRIPT, f"a job has at most {COMPONENTS_MAX} components", source=f"#/{list_name}")
        return [(f"#/{list_name}/{index}", cast("Members", each)) for index, each in enumerate(several)]
    if not isinstance(one, dict):
        raise RestError(422, NO_SCRIPT, f"the request has neither job nor {list_name}", source="#/job")
    return [("#/job", one)]


async def _jobs(components: Sequence[tuple[str, Members]], call: RestCall) -> list[JobRequest]:
    """The request of each component; others have their turn between two. Raises RestError."""
    check_hosts(components)
    made: list[JobRequest] = []
    for source, one in components:
        made.append(_job(one, source, call))
        await asyncio.sleep(0)
    return made


def _job(members: Members, source: str, call: RestCall) -> JobRequest:
    """The request of one component. Raises RestError."""
    for name in without_effect(members):
        call.warn(f"{name} has no effect", f"{source}/{name}")
    job = requested(members, source)
    try:
        job.name = check_name(str(members.get("name") or DEFAULT_NAME), "job name")
    except BadValue as error:
        raise RestError(422, CONVERSION, str(error), source=f"{source}/name") from error
    folder = str(members.get("current_working_directory") or "")
    if not folder.startswith("/"):
        text = (
            "current_working_directory must be an absolute path" if folder else "current_working_directory is missing"
        )
        raise RestError(422, NO_DIRECTORY, text, source=f"{source}/current_working_directory")
    job.work_dir = job.submit_dir = folder.encode()
    job.command = NO_COMMAND
    for name, field in _PATHS.items():
        setattr(job, field, str(members.get(name) or "").encode())
    for name, field in (("user_id", "run_as_uid"), ("group_id", "run_as_gid")):
        if members.get(name):
            setattr(job, field, _number(members[name], f"{source}/{name}"))
    limits = members.get("rlimits")
    if isinstance(limits, dict):
        job.rlimits.update({name.upper(): value for name, value in limits.items() if isinstance(value, int)})
    return job


def _number(value: object, source: str) -> int:
    """A uid or gid, as a number: names are the controller's machine's. Raises RestError."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and int(text) < 2**32):
        raise RestError(422, CONVERSION, f"{text[:40]!r} is no number of a user or group", source=source)
    return int(text)


def _spec(members: Members, script: str) -> JobSpec:
    """Script, arguments and environment. Raises RestError for what is missing, and for a script that sbatch refuses."""
    environment = members.get("environment")
    if not isinstance(environment, list) or not environment:
        raise RestError(422, NO_ENVIRONMENT, "environment is missing", source="#/job/environment")
    if not script:
        raise RestError(422, NO_SCRIPT, "script is missing", source="#/script")
    if len(script) <= SCRIPT_BYTES_MAX:  # the controller has the number of a larger one
        try:
            check(script.encode())
        except CommandError as error:
            raise RestError(422, BAD_SCRIPT, str(error), source="#/script") from error
    argv = members.get("argv")
    return JobSpec(
        script=script.encode(),
        argv=[str(one).encode() for one in argv] if isinstance(argv, list) else [],
        environment=[line.encode() for line in map(str, environment) if not line.startswith(_SECRET)],
    )
