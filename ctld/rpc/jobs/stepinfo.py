"""Encodes allocations and steps as messages. No decisions."""

from collections.abc import Iterable
from typing import Final

from ctld.agents.hetenv import het_environment
from ctld.agents.launch import end_of
from ctld.agents.stepmessages import allocation_of, step_plan, step_spec, stream_address
from ctld.core.records.events import CreateStep
from ctld.core.records.job import JobRow
from ctld.core.records.step import StepRow
from ctld.core.state.state import ClusterState
from ctld.core.steps.creation import program_of
from ctld.core.steps.waiting import waiting_steps
from ctld.rpc.jobs.allocenv import allocation_environment
from ctld.rpc.jobs.jobinfo import request_message
from ctld.rpc.jobs.records import exit_status
from penstock.v1 import steps_pb2
from penstock.values.hostlist import compress
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import END_STATES, JobState, Reason

S = JobState
#: The causes of a job's end, as the notes of the effects that end steps.
NOTES: Final = {
    S.CANCELLED: "CANCELLED",
    S.TIMEOUT: "TIME LIMIT",
    S.NODE_FAIL: "NODE FAILURE",
    S.PREEMPTED: "PREEMPTION",
    S.REQUEUED: "REQUEUE",
    S.DEADLINE: "DEADLINE",
}


def note_of(row: JobRow) -> str:
    """Returns why the job has ended, or is about to."""
    if row.state is S.CANCELLED and row.reason is Reason.NODES_BUSY:
        return "NODES BUSY"
    return NOTES.get(row.end_state if row.end_state is not None else row.state, "")


def whole_reply(state: ClusterState, row: JobRow, others: Iterable[JobRow]) -> steps_pb2.AllocationReply:
    """Encodes a heterogeneous job for its owner: with the components, and the variables of all."""
    reply = allocation_reply(state, row)
    rows = sorted((row, *others), key=lambda one: one.job_id)
    if len(rows) > 1:
        reply.components.extend(allocation_reply(state, one) for one in rows if one is not row)
        reply.environment.update(het_environment(rows))
        if row.state is S.RUNNING and any(one.state in (S.PENDING, S.CONFIGURING) for one in rows):
            reply.state = S.CONFIGURING.name  # allocated, but some components are not ready
    return reply


def allocation_reply(state: ClusterState, row: JobRow) -> steps_pb2.AllocationReply:
    """Encodes a job for its owner."""
    reply = steps_pb2.AllocationReply(
        job_id=row.job_id, state=row.state.name, reason=row.reason.value, request=request_message(row.request, True),
        attempt=row.attempt, note=note_of(row), start_at_us=row.start_at_us, end_at_us=row.end_at_us or end_of(row),
    )  # fmt: skip
    if row.alloc:
        reply.node_list = compress(part.node for part in row.alloc)
        reply.nodes.extend(allocation_of(part) for part in row.alloc)
        reply.environment.update(allocation_environment(state, row))
    if row.state in END_STATES:
        reply.exit.CopyFrom(exit_status(row.exit_code, row.exit_signal))
    return reply


def streams_of(state: ClusterState, nodes: Iterable[str], last_known: bool = False) -> list[steps_pb2.StreamAddress]:
    """Returns the addresses of these nodes' streams (agents/stepmessages.py)."""
    return [
        stream_address(state.nodes[name], last_known) if name in state.nodes else steps_pb2.StreamAddress(node=name)
        for name in nodes
    ]


def await_reply(row: StepRow, job_state: str) -> steps_pb2.AwaitStepReply:
    """Encodes the state of a step."""
    reply = steps_pb2.AwaitStepReply(state=row.state.name, note=row.note, job_state=job_state)
    for part in row.parts or ():
        if part.state in END_STATES:
            reply.nodes.add(
                node=part.node, exit=exit_status(part.exit_code, part.exit_signal), failure=part.failure,
                out_of_memory=part.out_of_memory,
            )  # fmt: skip
    if row.state in END_STATES:
        reply.exit.CopyFrom(exit_status(row.exit_code, row.exit_signal))
    return reply


def batch_step(row: JobRow) -> StepRow | None:
    """Returns the batch step of a job that has one, derived from the job's own row."""
    if row.request.kind or not row.start_at_us or row.state is S.PENDING:
        return None
    return StepRow(
        row.job_id, row.attempt, BATCH_STEP, "batch", row.state, row.batch_node, 0, 1, row.start_at_us, row.end_at_us,
        row.exit_code, row.exit_signal, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip


def step_info(job: JobRow, row: StepRow) -> steps_pb2.StepInfo:
    """Encodes one step."""
    request = job.request
    here = [part for part in job.alloc if part.node == row.node]
    info = steps_pb2.StepInfo(
        job_id=job.job_id, step_id=row.step_id, attempt=row.attempt, name=row.name, state=row.state.name,
        user_id=job.user_id, user_name=job.user_name, partition=job.partition, start_at_us=row.start_at_us,
        end_at_us=row.end_at_us, time_limit_s=row.time_limit_s, node_list=row.node_list or row.node, tasks=row.tasks,
        cpus=row.cpus or sum(part.cpus for part in here), tres=row.tres_alloc or job.tres_alloc, plan=step_plan(row),
        account=request.account, qos=request.qos, job_name=request.name,
        spec=step_spec(row.request) if row.request is not None else None,
        exit=exit_status(row.exit_code, row.exit_signal) if row.state in END_STATES else None,
        job_submit_at_us=job.submit_at_us,
    )  # fmt: skip
    if job.array_task_id is not None:
        info.array_job_id = job.array_job_id
        info.array_task_id = job.array_task_id
    if request.het_job_id:
        info.het_job_id = request.het_job_id
        info.het_offset = request.het_offset
    return info


def waiting_infos(state: ClusterState, row: JobRow) -> list[steps_pb2.StepInfo]:
    """Encodes the job's steps that wait for resources."""
    job = state.jobs.look(row.job_id)
    if job is None or job.job_id not in state.steps.by_job:
        return []
    return [
        steps_pb2.StepInfo(
            job_id=row.job_id, attempt=row.attempt, name=name_of(one.pending.event), state=S.PENDING.name,
            user_id=row.user_id, user_name=row.user_name, partition=row.partition,
            time_limit_s=-1 if one.pending.event.request.time_limit_s is None else one.pending.event.request.time_limit_s,
            tasks=one.pending.event.request.ntasks, spec=step_spec(one.pending.event.request), account=row.request.account,
            qos=row.request.qos, job_name=row.request.name, waits_for=one.why, waits_since_us=one.since_us,
            array_job_id=row.array_job_id if row.array_task_id is not None else None, array_task_id=row.array_task_id,
            job_submit_at_us=row.submit_at_us,
        )
        for one in waiting_steps(state, job)
    ]  # fmt: skip


def name_of(event: CreateStep) -> str:
    """Returns the name of a step that does not exist yet."""
    return event.request.name or program_of(event)
