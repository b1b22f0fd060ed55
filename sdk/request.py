"""A submission: what sbatch sends, made of a script and keyword arguments.

The script's own #SBATCH lines count; arguments override them. Variables SBATCH_* are not read: what a program submits does
not depend on the shell that it was started from. The job inherits this process's environment, umask and limits, as with
sbatch.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack

from cli.base.environment import current_umask, export_text, job_environment, soft_limits, trace_parent
from cli.base.options import OptionValues
from cli.base.requestkey import new_key
from cli.base.run import CommandError
from cli.jobs.gpuchecks import check_gpus
from cli.jobs.jobrequest import check_conflicts, current_folder, job_request, merge
from cli.jobs.script import Script, check, directives, from_file
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobRequest
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.text import check_name
from sdk.errors import InvalidRequest
from sdk.options import JobOptions, option_values, parsed

NO_COMMAND = "(null)"  # Slurm's name of a job without a script file


class JobProgram(NamedTuple):
    """What a job runs. `name`: of the job, when no option gives one; `path`: "" without a file."""

    script: bytes
    arguments: tuple[str, ...]
    name: str
    path: str


def from_script_file(path: str | os.PathLike[str], arguments: Sequence[str]) -> JobProgram:
    """A batch script's file. Raises InvalidRequest when it cannot be read or is none."""
    try:
        script: Script = from_file(os.fspath(path))
        check(script.data)
    except CommandError as error:
        raise _invalid(error) from error
    return JobProgram(script.data, tuple(arguments), script.default_name, script.path)


def from_text(text: str, arguments: Sequence[str], name: str = "script") -> JobProgram:
    """A batch script's text. Raises InvalidRequest for what is no script."""
    try:
        return JobProgram(check(os.fsencode(text)), tuple(arguments), name, "")
    except CommandError as error:
        raise _invalid(error) from error


def from_command(words: Sequence[str]) -> JobProgram:
    """A program and its arguments, which no shell interprets."""
    if not words:
        raise InvalidRequest(Code.JOB_SCRIPT_MISSING, "the command is empty")
    return from_text('#!/bin/sh\nexec "$@"\n', words, os.path.basename(words[0]) or "command")


def submission(
    program: JobProgram, env: Mapping[str, str], key: str, test_only: bool, **options: Unpack[JobOptions]
) -> SubmitJobRequest:
    """The request. Raises InvalidRequest."""
    return requested(program, option_values(**options), env, key, test_only)


def requested(
    program: JobProgram, values: OptionValues, env: Mapping[str, str], key: str, test_only: bool
) -> SubmitJobRequest:
    """The request. `env`: variables beside those of this process; `key`: of a submission that is repeated, else "".
    Raises InvalidRequest.
    """
    try:
        values = merge(_of_script(program), values)
        check_conflicts(values)
        check_gpus(values)
        job = _job(values, program)
        spec = _spec(values, program, env)
    except CommandError as error:
        raise _invalid(error) from error
    return SubmitJobRequest(request_key=key or new_key(), job=job, spec=spec, test_only=test_only)


def _of_script(program: JobProgram) -> OptionValues:
    """The options of the script's lines."""
    values = OptionValues()
    for directive in directives(program.script, program.path or "the script"):
        if directive.is_separator():
            raise InvalidRequest(
                Code.NOT_SUPPORTED, f"line {directive.line}: heterogeneous jobs are submitted by sbatch only"
            )
        shown = f"line {directive.line}: #SBATCH {' '.join(directive.words)}"
        values = merge(values, parsed(directive.words, shown))
    return values


def _job(values: OptionValues, program: JobProgram) -> JobRequest:
    job = job_request(values)
    try:
        job.name = values.text("job_name") or check_name(program.name, "job name")
    except BadValue as error:
        raise InvalidRequest(Code.CONFIG_INVALID, f"{error}: give another with job_name=") from error
    here = current_folder()
    job.submit_dir = here
    job.work_dir = os.path.join(here, os.fsencode(values.text("chdir"))).rstrip(b"/") or b"/"
    job.submit_host = os.uname().nodename
    job.trace_parent = trace_parent(os.environ)
    job.command = program.path or NO_COMMAND
    job.export_env = export_text(values.text("export"))
    job.umask = current_umask()
    job.rlimits.update(soft_limits(values.text("propagate")))
    job.propagate_asked = bool(values.text("propagate"))
    return job


def _spec(values: OptionValues, program: JobProgram, env: Mapping[str, str]) -> JobSpec:
    source = {**os.environb, **{os.fsencode(name): os.fsencode(value) for name, value in env.items()}}
    return JobSpec(
        script=program.script,
        argv=[os.fsencode(one) for one in program.arguments],
        environment=job_environment(values.text("export"), "", source),
    )


def _invalid(error: CommandError) -> InvalidRequest:
    return InvalidRequest(Code.CONFIG_INVALID, error.text, error.detail)
