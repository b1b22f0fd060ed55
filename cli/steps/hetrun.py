"""The course of an srun over several components: an allocation if need be, a step of each, one session over all."""

import os
from typing import TYPE_CHECKING

from cli.environment import step_environment
from cli.exitstatus import error_status
from cli.options import Command
from cli.run import CommandError, complain
from cli.steps.creation import OwnJob, StepMaker, say
from cli.steps.het import Piece, number_tasks, pieces_of
from cli.steps.request import own_address, own_job, settle_counts, step_spec, streams_of
from penstock.client import Client
from penstock.v1.steps_pb2 import CreateStepReply, StepSpec

if TYPE_CHECKING:
    from collections.abc import Callable


def run_pieces(command: Command, argv: list[str]) -> int:
    """All parts to their end; the highest exit status."""
    pieces = pieces_of(command, argv, os.environ)
    values = pieces[0].values
    quiet = bool(values.get("quiet"))
    for piece in pieces:
        settle_counts(piece.values, _silent if quiet else _warn)
    tell = _silent if quiet else say
    own = None
    with Client.open() as client:
        specs = [step_spec(p.values, p.command, p.argv, owns_job=not p.job_id) for p in pieces]
        if not pieces[0].job_id:
            jobs = [own_job(p.values, p.command, p.argv) for p in pieces]
            own = OwnJob(client, jobs[0], tell, jobs[1:])
            own.allocate()
            pieces = [p._replace(job_id=own.job_id + number) for number, p in enumerate(pieces)]
        status = error_status()
        try:
            number_tasks(specs)
            created = _create(client, pieces, specs, tell)
            status = _serve(client, created, pieces, specs)
            if own is not None:
                own.await_step(*created)
        finally:
            if own is not None:
                own.end(status)
    return status


def _create(
    client: Client, pieces: list[Piece], specs: list[StepSpec], tell: "Callable[[str], None]"
) -> list[CreateStepReply]:
    """A step of each component, with one number; none is left behind when one cannot be made."""
    created: list[CreateStepReply] = []
    address = own_address(client.cluster).encode()
    try:
        for piece, spec in zip(pieces, specs, strict=True):
            spec.het_group, spec.launch_node = piece.group, address
            spec.line_buffered = not spec.unbuffered
            if created:
                spec.het_step = created[0].step_id
            export = piece.values.get("export", "")
            environment = step_environment(export, os.environb, inside="SLURM_JOB_ID" in os.environ)
            maker = StepMaker(client, piece.job_id, tell)
            created.append(maker.create(spec, [os.fsencode(word) for word in piece.command], environment))
    except CommandError:
        for reply in created:
            StepMaker(client, reply.job_id, tell).cancel(reply)
        raise
    return created


def _serve(client: Client, created: list[CreateStepReply], pieces: list[Piece], specs: list[StepSpec]) -> int:
    from cli.srun import console_of, feed, rules_of
    from cli.steps.session import Session

    values = pieces[0].values
    whole = CreateStepReply()
    whole.CopyFrom(created[0])
    whole.plan.ntasks = sum(reply.plan.ntasks for reply in created)
    try:
        console = console_of(whole, values)
        session = Session(client.cluster, created[0], console, rules_of(values, created[0]), others=created[1:])
        feed(session, specs[0], streams_of(values).input, whole)
    except CommandError:
        for reply in created:
            StepMaker(client, reply.job_id, _silent).cancel(reply)
        raise
    return session.run()


def _warn(text: str) -> None:
    complain("srun", f"srun: warning: {text}", plain=True)


def _silent(text: str) -> None:
    """-Q: nobody is told."""
