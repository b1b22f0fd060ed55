"""sbatch: submits a batch script to the controller.

Sources of options, the highest first: the command line, SBATCH_* variables, #SBATCH lines. The script is a file,
standard input or --wrap. Everything that needs no controller is checked before the request: limits of script, arguments
and environment, NUL bytes, numbers out of range. Script, arguments, environment and paths are bytes and sent unchanged.
Text that is shown elsewhere (name, comment, submit line) is UTF-8 without control characters: refused where the user
wrote it, escaped in the submit line.

Statuses: 0; 1 (SLURM_EXIT_ERROR) for errors; 255 for a bad option or directive; with --wait the job's own code (128+n
after a signal).
"""

import os
from typing import NoReturn

from cli.base.environment import current_umask, export_text, job_environment, soft_limits, trace_parent
from cli.base.exitstatus import with_exit_error
from cli.base.options import STATUS_WRONG_LINE, OptionValues, parse
from cli.base.requestkey import new_key
from cli.base.run import CommandError, RemoteAnswer, need_own_process, run
from cli.filters.hooks import OptionFilters, cluster_here
from cli.jobs.batchopts import COMMAND as COMMAND
from cli.jobs.batchopts import PREFIX
from cli.jobs.bindwords import BindHint
from cli.jobs.components import join, parse_components
from cli.jobs.gpuchecks import check_gpus
from cli.jobs.hostfile import apply_hostfile
from cli.jobs.jobopts import environment_values
from cli.jobs.jobrequest import (
    check_conflicts,
    current_folder,
    fewer_nodes,
    job_request,
    merge,
    named_cluster,
    open_for_job,
    shown,
    submit_line,
)
from cli.jobs.script import Script, check, directives, from_file, from_stdin, from_wrap
from cli.jobs.submitting import report, send
from penstock.clusterfile import ClusterFile
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.v1.controller_pb2 import SubmitJobRequest
from penstock.values.text import check_name

#: The most bytes of the script's arguments; the system's limit for all of them is some 2 MB.
ARGUMENTS_BYTES_MAX = 1024 * 1024
NO_COMMAND = "(null)"  # Slurm's name of a job without a script file
#: Options that a script cannot have: its lines are the same in every submission.
NOT_IN_SCRIPTS = ("wrap", "request_key")


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Submits, and waits if asked to."""
    return with_exit_error(COMMAND.name, _body, argv)


def _body(argv: list[str]) -> int:
    lines, positional = parse_components(COMMAND, argv)
    said = merge(*lines)
    if said.flag("wait"):
        need_own_process()
    source = _read_source(said, positional)
    from_environment = environment_values(COMMAND, PREFIX, os.environ)
    if "lint" in said:
        return _lint(source, merge(from_environment, said), positional, argv)
    scripted = [OptionValues()] if "wrap" in said else _read_directives(source, positional)
    if "wrap" not in said and not any("ignore_pbs" in layer for layer in (said, from_environment, *scripted)):
        scripted[0] = merge(scripted[0], foreign_values(source.data))
    here = cluster_here()
    with OptionFilters(COMMAND, here) as filters:
        components = [one.values for one in filters.applied(join(scripted, from_environment, lines))]
        return _submit(components, source, positional, argv, filters, here)


def _submit(
    components: list[OptionValues], source: Script, positional: list[str], argv: list[str], filters: OptionFilters,
    here: ClusterFile | None,
) -> int:  # fmt: skip
    """Submits the job with these options of its components. Returns the exit status."""
    values, *others = components
    for one in components:
        apply_hostfile(one, os.environ)
        check_conflicts(one)
        fewer_nodes(COMMAND.name, one)
        check_gpus(one)
    if values.flag("verbose"):
        from cli.jobs.defined import print_defined

        print_defined(COMMAND, values)
    request = _request(values, source, positional, argv)
    request.components.extend(_job(other, source, argv) for other in others)
    with open_for_job(COMMAND.name, values, lambda: request, here=here) as client:
        cluster = named_cluster(values, client)
        reply = send(COMMAND.name, client, request, cluster)
        if not request.test_only:
            filters.submitted(reply.job_id)
        return report(COMMAND.name, client, request, reply, values, cluster)


def _lint(source: Script, outside: OptionValues, positional: list[str], argv: list[str]) -> int:
    from cli.lint.lintrun import run_lint

    def request(values: OptionValues) -> SubmitJobRequest:
        return _request(values, source, positional, argv)

    return run_lint(positional[0] if positional else source.default_name, source.data, COMMAND, outside, request)


def _request(values: OptionValues, source: Script, positional: list[str], argv: list[str]) -> SubmitJobRequest:
    return SubmitJobRequest(
        request_key=values.text("request_key") or new_key(),
        job=_job(values, source, argv),
        spec=_spec(values, source, positional[1:]),
        test_only=values.flag("test_only"),
    )


def _read_source(values: OptionValues, positional: list[str]) -> Script:
    if "wrap" in values:
        if positional:
            raise CommandError("Script arguments not permitted with --wrap option")
        if not values.text("wrap"):
            raise CommandError("Batch script is empty!")
        return from_wrap(values.text("wrap"))
    script = from_file(positional[0]) if positional else from_stdin()
    if "lint" not in values:
        check(script.data)
    return script


def _read_directives(source: Script, positional: list[str]) -> list[OptionValues]:
    """The options of the script's own lines, by component. --help and --wrap have no meaning there, as in Slurm; nor
    has a request key."""
    where = positional[0] if positional else "the batch script"
    found: list[OptionValues] = []
    values = OptionValues()
    for directive in directives(source.data, where):
        if directive.is_separator():
            found.append(values)
            values = OptionValues()
            continue
        try:
            line = parse(COMMAND, directive.words)
            if line.positional:
                raise CommandError(f"Invalid directive found in batch script: {line.positional[0]}")
            values = merge(values, line.values)
        except RemoteAnswer:
            continue
        except CommandError as error:
            text = f"{error.text}\n{COMMAND.name}: error: " if error.plain else f"{error.text}\n"
            text += f"line {directive.line} of {where}: #SBATCH {' '.join(directive.words)}"
            raise CommandError(text, STATUS_WRONG_LINE, plain=error.plain, detail=error.detail) from error
    found.append(values)
    for one in found:
        for key in NOT_IN_SCRIPTS:
            one.pop(key, None)
    return found


def _job(values: OptionValues, source: Script, argv: list[str]) -> JobRequest:
    job = job_request(values)
    job.name = values.text("job_name") or _default_name(source)
    here = current_folder()
    job.submit_dir = here
    job.work_dir = os.path.join(here, os.fsencode(values.text("chdir"))).rstrip(b"/") or b"/"
    job.submit_host = os.uname().nodename
    job.trace_parent = trace_parent(os.environ)
    job.submit_line = submit_line(COMMAND.name, argv)
    job.command = shown(source.path) if source.path else NO_COMMAND
    job.export_env = export_text(values.text("export"))
    job.umask = current_umask()
    job.rlimits.update(soft_limits(values.text("propagate")))
    job.propagate_asked = bool(values.text("propagate"))
    return job


def _spec(values: OptionValues, source: Script, arguments: list[str]) -> JobSpec:
    size = sum(len(os.fsencode(argument)) + 1 for argument in arguments)
    if size > ARGUMENTS_BYTES_MAX:
        raise CommandError(f"Arguments of the script too large: {size} bytes, the limit is {ARGUMENTS_BYTES_MAX}")
    lines = job_environment(values.text("export"), values.text("export_file"), os.environb)
    if hint := values.of(BindHint, "hint"):  # for its steps
        lines.append(f"SLURM_HINT={hint.text}".encode())
    return JobSpec(script=source.data, argv=[os.fsencode(argument) for argument in arguments], environment=lines)


def _default_name(source: Script) -> str:
    try:
        return check_name(source.default_name, "job name")
    except ValueError as error:
        raise CommandError(f"The script's name cannot be the job's name: {error}. Give one with --job-name.") from error


def foreign_values(data: bytes) -> OptionValues:
    """The options of #PBS or #BSUB lines. With a #BSUB line a script is LSF's."""
    if b"#BSUB" not in data and b"#PBS" not in data:
        return OptionValues()
    from cli.jobs.foreign import LSF, PBS, options_of

    for mark in (LSF, PBS):
        found = directives(data, mark=mark.encode())
        words = [word for directive in found for word in options_of(directive, mark)]
        if words:
            return parse(COMMAND, words).values
    return OptionValues()


if __name__ == "__main__":
    main()
