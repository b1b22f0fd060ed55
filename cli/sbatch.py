"""sbatch: hand a batch script to the controller.

Where options come from, the highest first: the command line, SBATCH_* variables, #SBATCH lines. The script is a file,
the standard input or --wrap. Everything that can be told without the controller is told before it is asked: limits of
script, arguments and environment, NUL bytes, numbers out of range.

What is sent is what was given: script, arguments, environment and paths are bytes. Text that is shown elsewhere (name,
comment, submit line) is UTF-8 without control characters: refused where the user wrote it, escaped in the submit line.

Statuses: 0; 1 (SLURM_EXIT_ERROR) for errors; 255 for a bad directive; with --wait the job's own code (128+n after a
signal).
"""

import math
import os
import time
from typing import Any, NoReturn

from cli.components import join, parse_components
from cli.environment import current_umask, export_text, job_environment, soft_limits
from cli.exitstatus import with_exit_error
from cli.jobopts import JOB_OPTIONS, SUBMIT_FAILED, environment_values, with_environment
from cli.jobrequest import current_folder, fewer_nodes, job_request, merge, named_cluster, prediction, shown
from cli.options import MAYBE, NO, YES, Command, Option, parse
from cli.run import Answered, CommandError, complain, need_own_process, run
from cli.script import STATUS_BAD_DIRECTIVE, Script, check, directives, from_file, from_stdin, from_wrap
from penstock.client import Client, new_request_key
from penstock.errors import RECEIVE_FAILURE, PenstockError
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import AwaitJobRequest, SubmitJobReply, SubmitJobRequest
from penstock.values.exitcode import shell_status
from penstock.values.text import check_name

#: Arguments of the script; the system's own limit for all of them is some 2 MB.
ARGUMENTS_BYTES_MAX = 1024 * 1024
#: What `sacct -o SubmitLine` can usefully show.
SUBMIT_LINE_MAX = 16 * 1024
PREFIX = "SBATCH_"
NO_COMMAND = "(null)"  # Slurm's word for a job without a script file
#: The controller makes a submission durable before it answers, so silence says nothing about which came first.
MAY_BE_QUEUED = "it is not known whether the job was queued: look with squeue before you submit it again"


def _own(name: str, value: str, what: str) -> Option:
    """An option that Slurm has not."""
    const = True if value == NO else ""
    return Option(name, "", value, help=what, metavar="data_parser", const=const, own=True, note="not in Slurm")


COMMAND = Command(
    "sbatch",
    "[OPTIONS...] [script [args...]]",
    with_environment(
        (
            *JOB_OPTIONS,
            Option("ignore-pbs", help="ignore #PBS and #BSUB options in the batch script"),
            _own("json", MAYBE, "with --lint: its findings as JSON"),
            _own("lint", NO, "look for mistakes in the script and ask whether it could run; queue nothing"),
            Option("parsable", help="print only the job id, and the cluster's name with --clusters"),
            Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
            Option("test-only", help="say when and where the job would start, submit nothing"),
            Option("verbose", "v", help="verbose mode: show the options in force", counted=True),
            _own("yaml", MAYBE, "with --lint: its findings as YAML"),
            Option("wait", "W", help="wait until the job has ended, exit with its code"),
            Option("wrap", "", YES, help="submit this command in a sh script", metavar="command"),
        ),
        PREFIX,
    ),
    interspersed=False,
)


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Submit, and wait if asked to."""
    return with_exit_error(COMMAND.name, _body, argv)


def _body(argv: list[str]) -> int:
    lines, positional = parse_components(COMMAND, argv)
    said = merge(*lines)
    if said.get("wait"):
        need_own_process()
    source = _read_source(said, positional)
    from_environment = environment_values(COMMAND, PREFIX, os.environ)
    if "lint" in said:
        return _lint(source, merge(from_environment, said), positional, argv)
    scripted = [{}] if "wrap" in said else _read_directives(source, positional)
    if "wrap" not in said and not any("ignore_pbs" in layer for layer in (said, from_environment, *scripted)):
        scripted[0] = merge(scripted[0], foreign_values(source.data))
    values, *others = join(scripted, from_environment, lines)
    for one in (values, *others):
        fewer_nodes(COMMAND.name, one)
    if values.get("verbose"):
        from cli.defined import tell_defined

        tell_defined(COMMAND, values)
    request = _request(values, source, positional, argv)
    request.components.extend(_job(other, source, argv) for other in others)
    with Client.open() as client:
        cluster = named_cluster(values, client)
        return _submit(client, request, values, cluster)


def _lint(source: Script, outside: dict[str, Any], positional: list[str], argv: list[str]) -> int:
    from cli.lintrun import run_lint

    def request(values: dict[str, Any]) -> SubmitJobRequest:
        return _request(values, source, positional, argv)

    return run_lint(positional[0] if positional else source.default_name, source.data, COMMAND, outside, request)


def _request(values: dict[str, Any], source: Script, positional: list[str], argv: list[str]) -> SubmitJobRequest:
    return SubmitJobRequest(
        request_key=new_request_key(time.time_ns() // 1000, os.urandom(16)),
        job=_job(values, source, argv),
        spec=_spec(values, source, positional[1:]),
        test_only=bool(values.get("test_only")),
    )


def _submit(client: Client, request: SubmitJobRequest, values: dict[str, Any], cluster: str) -> int:
    try:
        reply: SubmitJobReply = client.call("SubmitJob", request)
    except PenstockError as error:
        words = "allocation failure" if request.test_only else f"{COMMAND.name}: error: {SUBMIT_FAILED}"
        more = MAY_BE_QUEUED if error.code == RECEIVE_FAILURE and not request.test_only else ""
        from cli.refusal import lines_of

        raise CommandError(lines_of(COMMAND.name, words, error), plain=True, detail=more) from error
    if not values.get("quiet"):
        for warning in reply.warnings:
            complain(COMMAND.name, f"{COMMAND.name}: warning: {warning}", plain=True)
    if request.test_only:
        complain(COMMAND.name, prediction(COMMAND.name, reply), plain=True)
        return 0
    if values.get("parsable"):
        print(f"{reply.job_id};{cluster}" if cluster else reply.job_id, flush=True)  # noqa: T201
    elif not values.get("quiet"):
        print(f"Submitted batch job {reply.job_id}{f' on cluster {cluster}' if cluster else ''}", flush=True)  # noqa: T201
    if not values.get("wait"):
        return 0
    ended = client.call("AwaitJob", AwaitJobRequest(job_id=reply.job_id), timeout_s=math.inf)
    status = shell_status(ended.exit.code, ended.exit.signal)
    # A job that was cancelled before it started, or whose script caught the signal, has no exit code to tell by.
    return status or (0 if ended.state == "COMPLETED" else 1)


def _read_source(values: dict[str, Any], positional: list[str]) -> Script:
    if "wrap" in values:
        if positional:
            raise CommandError("Script arguments not permitted with --wrap option")
        if not values["wrap"]:
            raise CommandError("Batch script is empty!")
        return from_wrap(values["wrap"])
    script = from_file(positional[0]) if positional else from_stdin()
    if "lint" not in values:
        check(script.data)
    return script


def _read_directives(source: Script, positional: list[str]) -> list[dict[str, Any]]:
    """The options of the script's own lines, by component. --help and --wrap mean nothing there, as in Slurm."""
    where = positional[0] if positional else "the batch script"
    found: list[dict[str, Any]] = []
    values: dict[str, Any] = {}
    for directive in directives(source.data, where):
        if directive.is_separator():
            found.append(values)
            values = {}
            continue
        try:
            line = parse(COMMAND, directive.words)
            if line.positional:
                raise CommandError(f"Invalid directive found in batch script: {line.positional[0]}")
            values = merge(values, line.values)
        except Answered:
            continue
        except CommandError as error:
            text = f"{error.text}\n{COMMAND.name}: error: " if error.plain else f"{error.text}\n"
            text += f"line {directive.line} of {where}: #SBATCH {' '.join(directive.words)}"
            raise CommandError(text, STATUS_BAD_DIRECTIVE, plain=error.plain, detail=error.detail) from error
    found.append(values)
    for one in found:
        one.pop("wrap", None)
    return found


def _job(values: dict[str, Any], source: Script, argv: list[str]) -> JobRequest:
    job = job_request(values)
    job.name = values.get("job_name") or _default_name(source)
    here = current_folder()
    job.submit_dir = here
    job.work_dir = os.path.join(here, os.fsencode(values.get("chdir", ""))).rstrip(b"/") or b"/"
    job.submit_host = os.uname().nodename
    job.submit_line = shown(f"{COMMAND.name} {' '.join(argv)}")[:SUBMIT_LINE_MAX]
    job.command = shown(source.path) if source.path else NO_COMMAND
    job.export_env = export_text(values.get("export", ""))
    job.umask = current_umask()
    job.rlimits.update(soft_limits(values.get("propagate", "")))
    job.propagate_asked = bool(values.get("propagate"))
    return job


def _spec(values: dict[str, Any], source: Script, arguments: list[str]) -> JobSpec:
    size = sum(len(os.fsencode(argument)) + 1 for argument in arguments)
    if size > ARGUMENTS_BYTES_MAX:
        raise CommandError(f"Arguments of the script too large: {size} bytes, the limit is {ARGUMENTS_BYTES_MAX}")
    lines = job_environment(values.get("export", ""), values.get("export_file", ""), os.environb)
    return JobSpec(script=source.data, argv=[os.fsencode(argument) for argument in arguments], environment=lines)


def _default_name(source: Script) -> str:
    try:
        return check_name(source.default_name, "job name")
    except ValueError as error:
        raise CommandError(f"The script's name cannot be the job's name: {error}. Give one with --job-name.") from error


def foreign_values(data: bytes) -> dict[str, Any]:
    """What #PBS or #BSUB lines say. With a #BSUB line a script is LSF's."""
    if b"#BSUB" not in data and b"#PBS" not in data:
        return {}
    from cli.foreign import LSF, PBS, options_of

    for mark in (LSF, PBS):
        found = directives(data, mark=mark.encode())
        words = [word for directive in found for word in options_of(directive, mark)]
        if words:
            return parse(COMMAND, words).values
    return {}


if __name__ == "__main__":
    main()
