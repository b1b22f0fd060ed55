"""Opens the output files of a job for one reading, on a node that had the job: for its user and administrators.

The paths and the user are those of the job's own record; a client names the job, a step and a task. The node gets a ticket,
the client the key to it (agents: OutputTicket), and the data do not pass here. Nothing is decided here that the node could
refuse: whether the files are there, and may be read, is found out there with the user's own rights.
"""

import os
from typing import Final, NamedTuple

import msgspec

from accounting.filter import FilterRecord
from accounting.records import RecordsUnavailable
from ctld.core.records.events import Actor, Role
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.core.records.step import StepPart, StepRow
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import job_visibility
from ctld.rpc.jobs import stepinfo
from ctld.rpc.jobs.jobinfo import file_names
from ctld.rpc.jobs.records import record_filter
from ctld.runtime.errors import BadRequest
from penstock.v1 import accounting_pb2, node_pb2, steps_pb2
from penstock.values.errors import BadValue
from penstock.values.filenames import FileNames, default_output, expand_pattern
from penstock.values.jobid import BATCH_STEP, OUTPUT_STEP, format_step
from penstock.values.refusals import TEXT, Code
from penstock.values.stepframes import KEY_BYTES

#: How long after a job's end its files are read: nobody looks for a clue in an old one on a page, and its node has had others.
AFTER_END_US: Final = 7 * 86_400 * 1_000_000
#: Messages that wait for a node; with more it is not asked to read files, too.
QUEUED_MAX: Final = 1_000

_read_request = msgspec.json.Decoder(JobRequest).decode
_Job = JobRow | FilterRecord


class OutputFiles(NamedTuple):
    """Where to read what. Paths are absolute; an empty `std_err`: it is in `std_out`."""

    node: str
    std_out: bytes
    std_err: bytes


class OutputOpener:
    """The method's work."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._number = 0  # of the last ticket

    async def open(self, request: steps_pb2.OpenOutputRequest) -> steps_pb2.AttachStepReply:
        """Sends the ticket, and returns where to come with it. Raises BadRequest."""
        services, actor = self._services, caller()
        job, asked = await self._found(request.job_id, actor)
        if actor.uid != job.user_id and actor.role < Role.ADMINISTRATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        if 0 < job.end_at_us < services.runtime.clock_us() - AFTER_END_US:
            raise _none(f"job {job.job_id} ended more than {AFTER_END_US // 86_400_000_000} days ago")
        files = script_files(job, asked) if request.step_id == BATCH_STEP else self._step_files(job, request)
        link = services.registry.by_node.get(files.node)
        where = stepinfo.streams_of(services.runtime.core.state, [files.node])
        if link is None or not where[0].port:
            raise _none(f"the files are read on node {files.node}, which is not connected")
        if link.queued() > QUEUED_MAX:
            raise BadRequest(Code.BUSY, TEXT[Code.BUSY])
        self._number += 1
        ticket = node_pb2.OutputTicket(
            job_id=job.job_id, number=self._number, user_id=job.user_id, group_id=job.group_id, user_name=job.user_name,
            std_out=files.std_out, std_err=files.std_err, io_key=os.urandom(KEY_BYTES),
        )  # fmt: skip
        link.send(node_pb2.ControllerMessage(output=ticket))
        return steps_pb2.AttachStepReply(
            job_id=job.job_id, step_id=OUTPUT_STEP, attempt=self._number, plan=steps_pb2.StepPlan(nodes=[files.node]),
            streams=where, io_key=ticket.io_key, user_id=job.user_id,
        )  # fmt: skip

    async def _found(self, job_id: int, actor: Actor) -> tuple[_Job, JobRequest]:
        state = self._services.runtime.core.state
        job = self._services.runtime.snapshot.jobs.get(job_id)
        visibility = job_visibility(state, actor)
        if job is not None and visibility.sees(job):
            return job, job.request
        try:
            which = accounting_pb2.ListRecordsRequest(ids=[str(job_id)], no_steps=True)
            asked = record_filter(which, (), visibility, state.config.penstock_default_account.lower())
            threads = self._services.record_threads
            record = await threads.ask(
                actor.uid,
                lambda wanted: next((one for one in self._services.records.list(wanted) if one.job_id == job_id), None),
                lambda: asked,
            )
        except (BadValue, RecordsUnavailable):
            raise BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY]) from None
        if record is None:
            raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: {job_id}")
        return record, _read_request(record.request)

    def _step_files(self, job: _Job, request: steps_pb2.OpenOutputRequest) -> OutputFiles:
        known = self._services.runtime.snapshot.steps.get(job.job_id, {}).get(request.step_id)
        if not isinstance(job, JobRow) or known is None or known.attempt != job.attempt:
            name = f"{job.job_id}.{format_step(request.step_id)}"
            raise _none(
                f"the files of step {name} are not known: they are while the controller has the job (MinJobAge)"
            )
        return step_files(job, known, request.task)


def script_files(job: _Job, request: JobRequest) -> OutputFiles:
    """Returns the files of a batch script. Raises BadRequest."""
    if request.kind or not job.start_at_us or not job.batch_node:
        raise _none(f"job {job.job_id} has run no batch script")
    if not request.std_out:
        request = msgspec.structs.replace(request, std_out=default_output(job.array_task_id is not None))
    found = file_names(job, request)
    return _absolute(job, OutputFiles(job.batch_node, found["std_out"], found.get("std_err", b"")))


def step_files(job: JobRow, step: StepRow, rank: int) -> OutputFiles:
    """Returns the files of a task: those that it writes on its node, else those that srun writes in the batch script. Raises
    BadRequest."""
    asked, name = step.request, f"{job.job_id}.{format_step(step.step_id)}"
    index, part = _place(step, rank)
    if asked is None or part is None:
        raise _none(f"step {name} has no task {rank}")
    is_own = bool(asked.std_out or asked.std_err)
    node = part.node if is_own else asked.client_node
    if not is_own and (not asked.client_out or node not in [one.node for one in job.alloc]):
        raise _none(f"step {name} has no output file: what it writes goes to the terminal or program that started it")
    names = FileNames(
        job_id=job.job_id, array_job_id=job.array_job_id, array_task_id=job.array_task_id, job_name=job.request.name,
        user_name=job.user_name, node_name=node, node_index=index, step=step.step_id, task_id=rank,
        restart_count=job.attempt,
    )  # fmt: skip
    patterns = (asked.std_out, asked.std_err) if is_own else (asked.client_out, asked.client_err)
    try:
        out, err = (expand_pattern(pattern, names) if pattern else b"" for pattern in patterns)
    except BadValue as error:
        raise _none(f"step {name}: {error}") from None
    folder = asked.work_dir or job.request.work_dir
    return _absolute(job, OutputFiles(node, *(os.path.join(folder, path) if path else b"" for path in (out, err))))


def _place(step: StepRow, rank: int) -> tuple[int, StepPart | None]:
    """Returns the part of a step that has a task, and its place among the others."""
    for index, part in enumerate(step.parts or ()):
        if rank in part.ranks:
            return index, part
    return 0, None


def _absolute(job: _Job, files: OutputFiles) -> OutputFiles:
    if not files.std_out.startswith(b"/"):
        raise _none(f"the output of job {job.job_id} has no absolute path")
    return files


def _none(text: str) -> BadRequest:
    return BadRequest(Code.INVALID_STEP, text)
