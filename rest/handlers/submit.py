"""POST job/submit: a script, or the components of a heterogeneous job.

The request is the one that sbatch sends. The key by which the controller recognises a repeated submission is new for each
request, or the caller's: header Idempotency-Key is not read yet.
"""

import os
import time
from collections.abc import Mapping
from typing import Final, cast

from cli.base.document import Json
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobReply, SubmitJobRequest
from penstock.values.errors import BadValue
from penstock.values.requestkey import new_request_key
from penstock.values.text import check_name
from rest.answers import RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION
from rest.handlers.jobfields import Members, requested, without_effect

#: Slurm's numbers of what a submission lacks.
NO_SCRIPT: Final = 9000
NO_ENVIRONMENT: Final = 2127
NO_DIRECTORY: Final = 2063
#: The name of a job that has none.
DEFAULT_NAME: Final = "openapi_job"
NO_COMMAND: Final = "(null)"
COMPONENTS_MAX: Final = 128
#: Never passed on to a job, as by sbatch.
_SECRET: Final = "SLURM_JWT="  # noqa: S105 (a variable)
_PATHS: Final = {"standard_output": "std_out", "standard_error": "std_err", "standard_input": "std_in"}


async def submit(call: RestCall) -> Json:
    """Queues one job, an array, or a heterogeneous job."""
    body = call.record()
    components = _components(body)
    jobs = [_job(one, source, call) for source, one in components]
    first = components[0][1]
    request = SubmitJobRequest(
        request_key=new_request_key(time.time_ns() // 1000, os.urandom(16)),
        job=jobs[0],
        spec=_spec(first, str(first.get("script") or body.get("script") or "")),
        components=jobs[1:],
    )
    reply: SubmitJobReply = await call.call("SubmitJob", request)
    for text in reply.warnings:
        call.warn(text, "slurm_submit_batch_job()")
    return {"job_id": reply.job_id, "step_id": "batch", "job_submit_user_msg": ""}


def _components(body: Mapping[str, object]) -> list[tuple[str, Members]]:
    """The descriptions, each with its path: `job`, or all of `jobs`. Raises RestError."""
    one, several = body.get("job"), body.get("jobs")
    if one is not None and several:
        raise RestError(422, NO_SCRIPT, "the request has both job and jobs: give one of them", source="#/jobs")
    if isinstance(several, list) and several:
        if len(several) > COMPONENTS_MAX:
            raise RestError(422, NO_SCRIPT, f"a job has at most {COMPONENTS_MAX} components", source="#/jobs")
        return [(f"#/jobs/{index}", cast("Members", each)) for index, each in enumerate(several)]
    if not isinstance(one, dict):
        raise RestError(422, NO_SCRIPT, "the request has neither job nor jobs", source="#/job")
    return [("#/job", one)]


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
    """Script, arguments and environment. Raises RestError for what is missing."""
    environment = members.get("environment")
    if not isinstance(environment, list) or not environment:
        raise RestError(422, NO_ENVIRONMENT, "environment is missing", source="#/job/environment")
    if not script:
        raise RestError(422, NO_SCRIPT, "script is missing", source="#/script")
    argv = members.get("argv")
    return JobSpec(
        script=script.encode(),
        argv=[str(one).encode() for one in argv] if isinstance(argv, list) else [],
        environment=[line.encode() for line in map(str, environment) if not line.startswith(_SECRET)],
    )
