"""Runs srun over several components: an allocation if needed, a step of each, one session over all."""

import os
from typing import TYPE_CHECKING

from cli.base.environment import number_of, step_environment
from cli.base.exitstatus import error_status
from cli.base.options import Command
from cli.base.run import complain
from cli.filters.hooks import OptionFilters
from cli.jobs.jobrequest import question
from cli.steps.creation import OwnJob, StepMaker, say, unconfirmed
from cli.steps.het import HetPiece, environment_from_outside, named_job, number_tasks, pieces_of, settle_nodes
from cli.steps.request import check_job, filtered, open_client, own_address, own_job, settle_counts, step_spec
from cli.steps.session import Session
from cli.steps.wiring import feed_parts, parts_console, rules_of
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import AwaitAllocationRequest, CreateStepReply, StepSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def run_pieces(command: Command, argv: list[str], filters: OptionFilters) -> int:
    """Runs all parts to their end; returns the highest exit status."""
    pieces = pieces_of(command, argv, _environment(command, argv))
    after = filtered(filters, [piece.values for piece in pieces])
    pieces = [piece._replace(values=values) for piece, values in zip(pieces, after, strict=True)]
    values = pieces[0].values
    quiet = values.all.flag("quiet")
    for piece in pieces:
        settle_counts(piece.values, _silent if quiet else _warn)
    report = _silent if quiet else say
    own = None
    jobs = [] if pieces[0].job_id else [own_job(p.values, p.command, p.argv) for p in pieces]
    with open_client(values, pieces[0].job_id, lambda: question(*jobs)) as client:
        check_job(client, values)
        specs = [step_spec(p.values, p.command, p.argv, owns_job=not p.job_id) for p in pieces]
        if jobs:
            own = OwnJob(client, jobs[0], report, pieces[0].values.all.text("request_key"), jobs[1:])
            own.allocate()
            pieces = [p._replace(job_id=own.job_id + number) for number, p in enumerate(pieces)]
        if values.all.flag("verbose"):
            from cli.steps.verbose import report_job

            for job_id in dict.fromkeys(piece.job_id for piece in pieces):
                report_job(client, job_id)
        status = error_status()
        try:
            if len(specs) > 1 and not all(spec.nodes_min for spec in specs):
                settle_nodes(specs, _nodes(client, pieces), is_own=own is not None)
            number_tasks(specs)
            created = _create(client, pieces, specs, report)
            filters.submitted(created[0].job_id, created[0].step_id)
            status = _serve(client, created, pieces, specs)
            if own is not None:
                own.await_step(*created)
        finally:
            if own is not None and not own.end(status):
                status = status or error_status()
    return status


def _environment(command: Command, argv: list[str]) -> "Mapping[str, str]":
    """The environment, or with --jobid outside of that job one that describes its components."""
    job_id = named_job(command, argv, os.environ)
    if not job_id:
        return os.environ
    with Client.open() as client:
        try:
            reply = client.call("AwaitAllocation", AwaitAllocationRequest(job_id=job_id))
        except PenstockError as error:
            raise unconfirmed(job_id, error) from error
    return environment_from_outside(os.environ, job_id, dict(reply.environment))


def _nodes(client: Client, pieces: list[HetPiece]) -> list[list[int]]:
    """For each part, the CPUs that its job has on each of its nodes."""
    found: dict[int, list[int]] = {}
    for job_id in dict.fromkeys(piece.job_id for piece in pieces):
        try:
            reply = client.call("AwaitAllocation", AwaitAllocationRequest(job_id=job_id))
        except PenstockError as error:
            raise unconfirmed(job_id, error) from error
        found[job_id] = [node.cpus for node in reply.nodes]
    return [found[piece.job_id] for piece in pieces]


def _create(
    client: Client, pieces: list[HetPiece], specs: list[StepSpec], report: "Callable[[str], None]"
) -> list[CreateStepReply]:
    """Creates a step of each component, with one number; cancels all when one fails."""
    created: list[CreateStepReply] = []
    address = own_address(client.cluster).encode()
    try:
        for piece, spec in zip(pieces, specs, strict=True):
            spec.het_group = piece.group
            spec.launch_node = address
            spec.line_buffered = not spec.unbuffered
            if created and piece.job_id != pieces[0].job_id:
                spec.het_step = created[0].step_id
            elif created:
                _beside(spec, created, os.environ)
            export = piece.values.all.text("export")
            environment = step_environment(export, os.environb, inside="SLURM_JOB_ID" in os.environ)
            maker = StepMaker(client, piece.job_id, report)
            created.append(maker.create(spec, [os.fsencode(word) for word in piece.command], environment))
    except BaseException:  # whatever it was: without srun they would run on
        for reply in created:
            StepMaker(client, reply.job_id, report).cancel(reply)
        raise
    return created


def _beside(spec: StepSpec, created: list[CreateStepReply], env: "Mapping[str, str]") -> None:
    """Part of a step in a job that is not heterogeneous: on other nodes than the parts before it, or shares theirs if
    the job has no others."""
    taken = [node for reply in created for node in reply.plan.nodes]
    if len(taken) + spec.nodes_min <= number_of(env, "SLURM_JOB_NUM_NODES", 1):
        spec.nodes_excluded = ",".join(filter(None, (spec.nodes_excluded, *taken)))
    else:
        spec.overlap = True


def _serve(client: Client, created: list[CreateStepReply], pieces: list[HetPiece], specs: list[StepSpec]) -> int:
    all_values = [piece.values for piece in pieces]
    try:
        console = parts_console(list(zip(created, all_values, strict=True)))
        rules = rules_of(all_values[0], created[0])
        session = Session(client.cluster, created[0], console, rules, others=created[1:])
        feed_parts(session, list(zip(created, all_values, specs, strict=True)))
        if all_values[0].all.flag("verbose"):
            from cli.steps.verbose import report_launch

            for reply, spec in zip(created, specs, strict=True):
                report_launch(reply, spec.rank_offset, spec.cpu_bind)
        return session.run()
    except BaseException:  # whatever it was: without srun they would run on
        for reply in created:
            StepMaker(client, reply.job_id, _silent).cancel(reply)
        raise


def _warn(text: str) -> None:
    complain("srun", f"srun: warning: {text}", plain=True)


def _silent(text: str) -> None:
    """-Q: drops the message."""
