"""A body of job/submit as what sbatch sends: for the REST daemon, and for job files (rest/jobfiles).

components = components_of(body, "jobs")      # [("#/job", members)]
check_hosts(components)
jobs = [job_of(members, source, warn) for source, members in components]
spec = spec_of(components[0][1], script)

What options describe is jobfields.py's. Sends nothing, and waits for nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from cli.base.run import CommandError
from cli.jobs.script import SCRIPT_BYTES_MAX, check
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.values.errors import BadValue
from penstock.values.text import check_name
from rest.answers import RestError
from rest.contract.parse import CONVERSION
from rest.handlers.jobfields import requested, without_effect
from rest.handlers.members import Members

#: Digits of 2^32.
UID_DIGITS_MAX: Final = 10
#: Slurm's numbers of what a submission lacks.
NO_SCRIPT: Final = 9000
BAD_SCRIPT: Final = 2009
NO_ENVIRONMENT: Final = 2127
NO_DIRECTORY: Final = 2063
#: The name of a job that has none.
DEFAULT_NAME: Final = "openapi_job"
NO_COMMAND: Final = "(null)"
COMPONENTS_MAX: Final = 128
#: Never passed on to a job, as by sbatch.
_SECRET: Final = "SLURM_JWT="  # noqa: S105 (a variable)
_PATHS: Final = {"standard_output": "std_out", "standard_error": "std_err", "standard_input": "std_in"}

#: Takes the text of a warning, and the path of what it is about.
WarnMember: TypeAlias = Callable[[str, str], None]
#: Descriptions of jobs, each with its path in the body.
Components: TypeAlias = Sequence[tuple[str, Members]]


def components_of(body: Mapping[str, object], list_name: str) -> Components:
    """The descriptions: `job`, or all of the list. Raises RestError."""
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


def script_of(body: Mapping[str, object], first: Members) -> str:
    """The script: the first component's own, or that of the body; "" = there is none."""
    return str(first.get("script") or body.get("script") or "")


def job_of(members: Members, source: str, warn: WarnMember) -> JobRequest:
    """The request of one component. Raises RestError."""
    for name in without_effect(members):
        warn(f"{name} has no effect", f"{source}/{name}")
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


def spec_of(members: Members, script: str, environment: Sequence[bytes] = ()) -> JobSpec:
    """Script, arguments and environment. `environment`: what a description without one has. Raises RestError for what is
    missing, and for a script that sbatch refuses.
    """
    given = members.get("environment")
    if isinstance(given, list) and given:
        environment = [line.encode() for line in map(str, given) if not line.startswith(_SECRET)]
    elif not environment:
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
        environment=environment,
    )


def _number(value: object, source: str) -> int:
    """A uid or gid, as a number: names are the controller's machine's. Raises RestError."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= UID_DIGITS_MAX and int(text) < 2**32):
        raise RestError(422, CONVERSION, f"{text[:40]!r} is no number of a user or group", source=source)
    return int(text)
