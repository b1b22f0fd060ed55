"""srun: runs tasks in parallel, in the allocation around it or in one of its own.

    1. options: the command line over SLURM_* and SRUN_* variables (cli/steps/stepopts.py)
    2. an allocation: SLURM_JOB_ID or --jobid names it, else srun creates a job that ends with its step
    (steps/creation.py) 3. the step: the controller places its tasks and starts them
    4. the streams to the nodes: output, input, signals, until the step has ended (session.py)

Status: the highest exit code of the tasks, 128+n after a signal; SLURM_EXIT_ERROR (1) for errors of srun itself.

Imports at the top cost time at every start, and a script may start srun thousands of times.
"""

import os
from typing import TYPE_CHECKING, NoReturn

from cli.base.environment import step_environment
from cli.base.exitstatus import error_status, with_exit_error
from cli.base.run import CommandError, RemoteAnswer, complain, run
from cli.filters.hooks import OptionFilters, cluster_here
from cli.jobs.jobopts import SHARED
from cli.jobs.jobrequest import prediction, question
from cli.steps.creation import OwnJob, StepMaker, say
from cli.steps.request import (
    StepValues,
    ask_programs,
    check_job,
    filtered,
    follows_gpus,
    open_client,
    own_address,
    own_job,
    read_values,
    settle_counts,
    step_spec,
    streams_of,
)
from cli.steps.stepopts import COMMAND, MPI_LIST
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from cli.steps.session import Session
    from penstock.v1.steps_pb2 import CreateStepReply, StepSpec

STDIN = 0
NO_NODELIST = "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Runs the step to its end."""
    return with_exit_error(COMMAND.name, _body, argv)


def _body(argv: list[str]) -> int:
    values, command = read_values(COMMAND, argv, os.environ)
    if values.all.text("mpi") == "list":
        raise RemoteAnswer(MPI_LIST)
    here = cluster_here()
    with OptionFilters(COMMAND, here) as filters:
        if ":" in argv or "het_group" in values.all:
            from cli.steps.hetrun import run_pieces

            return run_pieces(COMMAND, argv, filters)
        if not command:
            raise CommandError("srun: fatal: No command given to execute.", plain=True)
        return _run(filtered(filters, [values])[0], command, argv, filters, here)


def _run(
    values: StepValues, command: list[str], argv: list[str], filters: OptionFilters, here: ClusterFile | None
) -> int:
    """Checks the options, and runs the step. Returns srun's exit status."""
    if "SLURM_TEST_EXEC" in os.environ and "multi_prog" not in values.all:
        _check_executable(command[0])
    warn = _discard if values.all.flag("quiet") else _warn
    settle_counts(values, warn)
    if values.all.flag("verbose"):
        from cli.jobs.defined import print_defined

        of_job = {"job_name": os.environ["SLURM_JOB_NAME"]} if "SLURM_JOB_NAME" in os.environ else {}
        print_defined(COMMAND, values.all.over(of_job))
    _check_combinations(values)
    return _run_step(values, command, argv, filters, here)


def _check_executable(program: str) -> None:
    """SLURM_TEST_EXEC: the program must be one on this machine, too, before anything is allocated."""
    import shutil

    if shutil.which(program) is None:
        raise CommandError(f"Can not execute {program}", level="fatal")


def _check_combinations(values: StepValues) -> None:
    """Refuses options that exclude each other or that need a job."""
    job_id = values.all.number("jobid")
    is_exact = values.own.get(SHARED) == "exclusive" and job_id  # of a step, it is --exact
    if "whole" in values.own and ("exact" in values.own or is_exact):
        raise CommandError("--exact and --whole are mutually exclusive.")
    if values.own.get(SHARED) == "exclusive" and "overlap" in values.own:
        raise CommandError("--exclusive and --overlap are mutually exclusive")
    if not job_id and "nodelist" not in values.all and values.all.text("distribution").lower().startswith("arbitrary"):
        raise CommandError(NO_NODELIST)
    if any(key in values.own for key in ("nodes", "relative", "exclude")):
        from cli.steps.nodechecks import check_nodes

        check_nodes(values, os.environ)
    if "relative" in values.own and not job_id:
        raise CommandError("srun: fatal: --relative option invalid for job allocation request", plain=True)


def _run_step(
    values: StepValues, command: list[str], argv: list[str], filters: OptionFilters, here: ClusterFile | None
) -> int:
    """Runs the step, in a job of its own if none is named. Returns srun's exit status."""
    report = _discard if values.all.flag("quiet") else say
    job_id = values.all.number("jobid")
    own = None
    with open_client(values, job_id, lambda: question(own_job(values, command, argv)), here) as client:
        check_job(client, values)
        spec = step_spec(values, command, argv, owns_job=not job_id)
        if "multi_prog" in values.all:
            _read_programs(spec, command)
        if "test_only" in values.all:
            return _test_only(client, values, command, argv)
        if not job_id:
            own = OwnJob(client, own_job(values, command, argv), report, values.all.text("request_key"))
            own.allocate()
            job_id = own.job_id
            if follows_gpus(values):
                spec.ntasks = own.ntasks
        if values.all.flag("verbose"):
            from cli.steps.verbose import report_job

            report_job(client, job_id)
        status = error_status()
        try:
            maker = StepMaker(client, job_id, report)
            run_around(values.all.text("prolog"), command, "prolog")
            created = _create(maker, client, values, spec, command, job_id)
            filters.submitted(job_id, created.step_id)
            status = _serve(maker, client, created, values, spec)
            run_around(values.all.text("epilog"), command, "epilog")
            if own is not None:
                own.await_step(created)
        finally:
            if own is not None and not own.end(status):
                status = status or error_status()
    return status


def _test_only(client: Client, values: StepValues, command: list[str], argv: list[str]) -> int:
    """Prints when and where the job would start."""
    try:
        reply = client.call("SubmitJob", question(own_job(values, command, argv)))
    except PenstockError as error:
        from cli.base.refusal import lines_of

        raise CommandError(lines_of(COMMAND.name, "allocation failure", error), error_status(), plain=True) from error
    complain(COMMAND.name, prediction(COMMAND.name, reply), plain=True)
    return 0


def run_around(program: str, command: list[str], which: str) -> None:
    """--prolog and --epilog: runs a program on this machine, with the step's command as its arguments."""
    if not program or program.lower() == "none":
        return
    import subprocess

    try:
        status = subprocess.run([program, *command], check=False).returncode
    except OSError as error:
        complain(COMMAND.name, f"srun {which} {program}: {error.strerror}")
        return
    if status:
        complain(COMMAND.name, f"srun {which} failed status={status}")


def _create(
    maker: StepMaker, client: Client, values: StepValues, spec: "StepSpec", command: list[str], job_id: int
) -> "CreateStepReply":
    """Creates the step, after copying what it needs to the nodes."""
    environment = step_environment(values.all.text("export"), os.environb, inside="SLURM_JOB_ID" in os.environ)
    if spec.pty:
        from cli.steps.terminal import Terminal

        spec.rows, spec.columns = Terminal(STDIN).size()
    words = [] if spec.multi_prog else [os.fsencode(word) for word in command]
    if "bcast" in values.all and words:
        from cli.steps.bcast import send

        words[0] = send(client.cluster, maker, spec, command[0], values.all.text("bcast"), job_id)
    spec.launch_node = own_address(client.cluster).encode()
    spec.line_buffered = not spec.unbuffered and not spec.pty and spec.ntasks != 1
    return maker.create(spec, words, environment)


def _serve(maker: StepMaker, client: Client, created: "CreateStepReply", values: StepValues, spec: "StepSpec") -> int:
    """Handles input and output of the step until it has ended."""
    from cli.steps.wiring import feed

    try:
        session = _session(client, created, values)
        if spec.pty:
            from cli.steps.terminal import Terminal

            session.use_terminal(Terminal(STDIN))
        feed(session, spec, streams_of(values).input, created)
        if values.all.flag("verbose"):
            from cli.steps.verbose import report_launch

            report_launch(created, 0, values.all.text("cpu_bind"))
        return session.run()
    except BaseException:  # whatever it was: without srun the step would run on
        maker.cancel(created)
        raise


def _session(client: Client, created: "CreateStepReply", values: StepValues) -> "Session":
    from cli.steps.session import Session
    from cli.steps.wiring import console_of, rules_of

    return Session(client.cluster, created, console_of(created, values), rules_of(values, created))


def _read_programs(spec: "StepSpec", command: list[str]) -> None:
    """--multi-prog: the file that the command names."""
    from cli.steps.multiprog import read_config, tasks_of

    programs = read_config(command[0])
    tasks_of(programs, spec.ntasks or max(spec.nodes_min, 1) * max(spec.ntasks_per_node, 1), command[0])
    ask_programs(spec, programs)


def _warn(text: str) -> None:
    complain(COMMAND.name, f"{COMMAND.name}: warning: {text}", plain=True)


def _discard(text: str) -> None:
    """-Q: drops the message."""


if __name__ == "__main__":
    main()
