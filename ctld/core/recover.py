"""Rebuilds the state from the rows of the database, and the effects that follow from the state.

Only active rows and those that ended less than MinJobAge ago are loaded; history stays in the database. Nothing is
replayed: indexes, counters, columns and timers are built from the rows. Launches, kills and sweeps are sent again when
the nodes register (nodes/life.py): they are functions of the state, and the nodes ignore those that they have done.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ctld.core.gpus import care as gpu_care
from ctld.core.gpus import work as gpu_work
from ctld.core.jobs import arrays, ports, prolog_state, waiters
from ctld.core.jobs.sharing import RELEASED
from ctld.core.lifecycle import (
    allocations,
    depends,
    limit_changes,
    requeue_policy,
    reservation_life,
    restored,
    triggers,
)
from ctld.core.lifecycle.job_life import PREEMPTOR_PAUSE_US, set_end_timers
from ctld.core.lifecycle.ready import PLANNER_REASONS
from ctld.core.limits import budgets
from ctld.core.nodes import admin as node_admin
from ctld.core.nodes import history as node_events
from ctld.core.nodes import kept, reboot
from ctld.core.nodes.layout import lay_out, new_node
from ctld.core.passes import gang, gpu_idle, queue_recovery
from ctld.core.queue import associations, prediction, priority
from ctld.core.queue.qos import DEFAULT_QOS, NORMAL, number_qos
from ctld.core.records.audit import AuditHead
from ctld.core.records.budget_book import BudgetRow
from ctld.core.records.gap import CLOSED, OpenGap
from ctld.core.records.gpu import Gpu
from ctld.core.records.job import NO_STEPS, Job, JobRow, job_from
from ctld.core.records.node import NodeEvent, NodeRow, PartitionRow
from ctld.core.records.periodic import Crontab, Trigger, next_start_us
from ctld.core.records.personal_token import PersonalToken
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest
from ctld.core.records.reservation import Reservation, ReservationSpan
from ctld.core.records.revocation import TokenRevocation
from ctld.core.records.step import SpreadStep, StepRow, step_from
from ctld.core.records.waiting_row import WaitingType, whole
from ctld.core.requests.submit import remember_key, set_deadline
from ctld.core.reservations import spans as reserve_spans
from ctld.core.state import shares
from ctld.core.state.fairshare import LoadedShares
from ctld.core.state.job_step_table import JobStepTable
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from ctld.core.steps.parts import set_limit_timers
from penstock.values.amendment import Amendment
from penstock.values.config import Config
from penstock.values.dependency import parse_dependency, without_states
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState, NodeFlag, Reason
from penstock.values.taskset import TASK_ID_MAX, parse_array

#: How long the nodes have to register before the whole queue is planned. An earlier pass would find nearly all nodes
#: unavailable, give every pending job that reason, and revoke it a second later.
SETTLE_US = 5 * 1_000_000


class ArrayCounts(NamedTuple):
    """Counts of an array's ended tasks, from the whole history: an array with active or recent records has one."""

    array_job_id: int
    ok: int
    failed: int
    exit_code: int  # the highest, with its exit_signal
    exit_signal: int


class SubmitKey(NamedTuple):
    """A request key of a user, and the job that it stands for."""

    uid: int
    key: str
    job_id: int
    at_us: int


class LoadedState(NamedTuple):
    """The result of the store's loader.

    `jobs`: the last attempt of every active or recently ended job, in the order of ids.
    """

    epoch: int
    next_job_id: int
    next_request_id: int
    jobs: list[JobRow]
    steps: list[StepRow]  # of those jobs and attempts
    nodes: list[NodeRow]
    partitions: list[PartitionRow]
    arrays: list[ArrayCounts]
    submit_keys: list[SubmitKey]  # oldest first, younger than SUBMIT_KEY_AGE_US
    shares: LoadedShares = LoadedShares()
    reservations: tuple[Reservation, ...] = ()  # in the order of creation
    qos: Sequence[Qos] = ()
    gpus: Sequence[Gpu] = ()
    crontabs: Sequence[Crontab] = ()
    triggers: Sequence[Trigger] = ()
    amendments: Sequence[Amendment] = ()  # in force in the configuration already
    audit: AuditHead = AuditHead()
    qos_usage: Sequence[tuple[str, str]] = ()  # (name, Spent as text)
    budgets: tuple[BudgetRow, ...] = ()
    node_events: Sequence[NodeEvent] = ()  # not ended
    reservation_spans: Sequence[ReservationSpan] = ()  # the last occurrence of each reservation
    seen_at_us: int = 0  # when a controller last ran; 0 = never
    reservation_id: int = 0  # the last one assigned
    first_unknown_id: int = 0  # the next job id in the database, which may have been behind; 0 = next_job_id
    spec_sizes: Sequence[tuple[bytes, int]] = ()  # (hash, bytes) of the stored texts of these jobs and steps
    request_bytes_max: int | None = None  # of a request of these jobs as it is stored; None = not known
    loss_at_us: int = 0  # when a loss was last accepted, or could not be excluded; 0 = never
    token_revocations: tuple[TokenRevocation, ...] = ()
    personal_tokens: tuple[PersonalToken, ...] = ()
    loss_accepted: bool = False  # an administrator has confirmed that the database is older than what was acknowledged
    gap: OpenGap = CLOSED  # in which an earlier process has ended


def recover(state: ClusterState, config: Config, loaded: LoadedState, now_us: int, consume: bool = False) -> None:
    """Fills an empty state. `config`: the file's, which may have been changed. `consume`: may empty `loaded.jobs`."""
    state.now_us = now_us
    _load_tables(state, loaded)
    _load_jobs(state, loaded, _drained(loaded.jobs) if consume else loaded.jobs)
    state.submissions.stored.restore(state.jobs.records(), dict(loaded.spec_sizes), loaded.request_bytes_max)
    _load_arrays(state, config, loaded)
    named = kept.with_names(state, config)
    _load_nodes(state, named, loaded)
    begun = [job for job in state.jobs.others() if job.state is not JobState.PENDING]
    _book(state, named, begun)
    config = kept.with_sizes(state, config, named)
    _depend(state)
    associations.restore(state, loaded.shares)
    lay_out(state, config, now_us)
    kept.settle(state, now_us)
    associations.resume(state)
    budgets.restore(state, loaded.budgets, now_us)
    state.shares.decay = priority.decay_of(config)
    priority.configure(state, config, now_us)
    limit_changes.recover(state, loaded.qos_usage, now_us)
    prediction.restore(state)
    for row in loaded.partitions:
        if row.name in state.partitions:
            state.partitions[row.name].state = row.state
    for known in loaded.submit_keys:
        remember_key(state, *known)
    first_unknown_id = loaded.first_unknown_id or loaded.next_job_id
    restored.recover(state, first_unknown_id, loaded.loss_at_us, loaded.loss_accepted, now_us, loaded.gap)
    _set_timers(state, now_us)
    _set_step_tables(state, begun, now_us)
    for waiting in list(state.dependencies.waiting_for):
        if waiting in state.dependencies.waiting_for:  # an earlier one may have ended it
            depends.evaluate(state, state.jobs[waiting], now_us)
    queue_recovery.begin(state, now_us)
    _resume_work(state, loaded, now_us)
    if state.jobs:
        state.scheduling.full_pass_not_before_us = now_us + SETTLE_US


def _load_tables(state: ClusterState, loaded: LoadedState) -> None:
    """Fills the tables that are stored as they are."""
    state.epoch = state.gap.sealed_epoch = loaded.epoch
    state.gap.sealed_wait = bool(loaded.gap.gap_epoch)
    state.amended.load(loaded.amendments)
    state.audit.head = loaded.audit
    state.revoked.load(loaded.token_revocations)
    state.personal_tokens.load(loaded.personal_tokens)
    state.next_job_id = loaded.next_job_id
    state.next_request_id = loaded.next_request_id
    state.qos = {DEFAULT_QOS: NORMAL} | {record.name: record for record in loaded.qos if not record.deleted}
    state.registry.qos_deleted = {record.name: record for record in loaded.qos if record.deleted}
    number_qos(state)
    state.open_intervals.node_events = {event.node: event for event in loaded.node_events}
    state.open_intervals.reservation_spans = {span.name: span for span in loaded.reservation_spans}
    state.reservations = {reservation.name: reservation for reservation in loaded.reservations}
    state.registry.reservation_id = loaded.reservation_id
    state.periodic.crontabs = {crontab.uid: crontab for crontab in loaded.crontabs}
    state.periodic.triggers = {trigger.trigger_id: trigger for trigger in loaded.triggers}


def _resume_work(state: ClusterState, loaded: LoadedState, now_us: int) -> None:
    """Continues what was in progress, and flags the jobs whose reason the planner determines."""
    reservation_life.recover_all(state, now_us)
    gang.recover(state, now_us)
    reboot.recover(state, now_us)
    node_admin.recover(state)
    gpu_work.recover(state, now_us)
    gpu_care.recover(state, now_us)
    gpu_idle.recover(state, now_us)
    prolog_state.recover(state)
    triggers.recover(state, now_us)
    node_events.recover(state, loaded.seen_at_us, now_us)
    state.open_intervals.reservations_touched = dict.fromkeys(state.reservations)
    reserve_spans.settle(state, now_us)
    for job in state.jobs.records():
        if job.reason is not Reason.PRIORITY and job.state is JobState.PENDING and job.reason in PLANNER_REASONS:
            state.scheduling.flagged.put(job.job_id, 0)


def _drained(rows: list[JobRow]) -> Iterator[JobRow]:
    """Returns the rows in their order, and removes each from the list.

    So a job's record takes the memory of the row before it. Otherwise a start needs twice the memory for a moment, and the
    freed half remains in the process, scattered.
    """
    rows.reverse()
    while rows:
        yield rows.pop()


def _load_jobs(state: ClusterState, loaded: LoadedState, rows: Iterable[JobRow]) -> None:
    young = {(known.uid, known.key) for known in loaded.submit_keys}
    load, enter = state.jobs.load, state.jobs_by_name.enter
    for row in rows:
        key = row.submit_key
        is_asked_for = bool(key) and (row.user_id, key) in young  # others are too old to be sent again
        is_waiting = type(row) is WaitingType and (is_asked_for or not key)
        job: Job = row  # type: ignore[assignment]  # read only
        if is_waiting:
            load(row)
        else:
            job = state.jobs[row.job_id] = job_from(whole(row))
            job.steps = NO_STEPS
            job.submit_key = key if is_asked_for else ""
        if is_waiting or job.state not in END_STATES:
            if job.request.het_job_id:
                state.hets[job.request.het_job_id] = None
            enter(job)
            state.active_count += 1 if is_waiting else arrays.weight(job)
    for step_row in loaded.steps:
        step = step_from(step_row)
        owner = state.jobs.get(step.job_id)
        if owner is not None and owner.attempt == step.attempt:
            if owner.steps is NO_STEPS:
                owner.steps = {}
            owner.steps[step.step_id] = step


def _load_arrays(state: ClusterState, config: Config, loaded: LoadedState) -> None:
    counts = {c.array_job_id: c for c in loaded.arrays}
    for job in state.jobs.records():
        if not job.array_job_id:
            continue
        record = state.arrays.get(job.array_job_id)
        if record is None:
            # Bounded by the widest limit: it was accepted under a MaxArraySize that may have been larger than today's.
            tasks, _ = parse_array(job.request.array, TASK_ID_MAX + 1)
            record = state.arrays[job.array_job_id] = arrays.blank(job.array_job_id, tasks)
            ended = counts.get(job.array_job_id)
            if ended is not None:
                record.ok = ended.ok
                record.failed = ended.failed
                record.exit_code = ended.exit_code
                record.exit_signal = ended.exit_signal
        if job.array_task_id is not None:
            record.members[job.array_task_id] = job.job_id
            if job.state is JobState.PENDING:
                record.waiting[job.job_id] = None
        else:
            record.unsplit[job.job_id] = None
        if job.state is JobState.PENDING:
            record.pending += arrays.weight(job)
        elif job.state in ALLOCATED_STATES:
            record.running += arrays.weight(job)
        record.began = record.began or bool(job.start_at_us or record.ok or record.failed)


def _load_nodes(state: ClusterState, config: Config, loaded: LoadedState) -> None:
    by_name = {row.name: row for row in loaded.nodes}
    for entry in config.nodes:
        row = by_name.get(entry.name)
        if row is None:
            continue
        node = new_node(entry)
        for name, value in zip(NodeRow._fields, row, strict=True):
            setattr(node, name, value)
        node.flags |= NodeFlag.NO_RESPOND  # until it registers with this controller
        state.nodes[node.name] = node
    for gpu in loaded.gpus:
        if gpu.node in state.nodes:
            state.nodes[gpu.node].gpus[gpu.uuid] = gpu
        else:
            state.outputs.dirty_gpus[gpu.node, gpu.uuid] = None  # its node was removed from the file meanwhile


def _book(state: ClusterState, config: Config, begun: list[Job]) -> None:
    """Books what unfinished jobs hold on their nodes."""
    for job in begun:
        if job.state in ALLOCATED_STATES:
            for part in job.alloc:
                _book_part(state, config, job, part.node)
            state.enter_reservation(job)


def _book_part(state: ClusterState, config: Config, job: Job, name: str) -> None:
    """Books a running job's part on a node."""
    node = state.nodes.get(name)
    if node is None:
        node = state.nodes[name] = new_node(next(entry for entry in config.nodes if entry.name == name))
    part = next(p for p in job.alloc if p.node == name)
    node.jobs[job.job_id] = None
    if job.suspended_by not in RELEASED:
        node.cpus_alloc += part.cpus
        node.cpus_used |= part.cpu_ids
    node.mem_alloc_mb += part.mem_mb
    for gres_name, type_, mask in part.gres:
        node.gres_used[gres_name, type_] = node.gres_used.get((gres_name, type_), 0) | mask
    for share in part.shares:
        shares.take(node.gpu_shares, share)


def _depend(state: ClusterState) -> None:
    for job in state.jobs.others():
        if job.state is JobState.PENDING and job.dependency:
            dependency = parse_dependency(without_states(job.dependency))
            waiters.wait_for(state, job, dependency.any_of, dependency.terms)


def _set_step_tables(state: ClusterState, begun: list[Job], now_us: int) -> None:
    """Rebuilds the step tables of jobs with steps of srun, and the liveness check of the owners of jobs without a
    script."""
    for job in state.jobs.records():
        if job.request.has_owner() and job.state not in END_STATES:
            allocations.watch(state, job, now_us)
    for job in begun:
        if job.state in ALLOCATED_STATES and any(isinstance(step, SpreadStep) for step in job.steps.values()):
            table = state.steps.by_job[job.job_id] = JobStepTable(job.steps.values())
            for step in list(table.live.values()):
                if isinstance(step, SpreadStep):
                    set_limit_timers(state, step)
                    ports.give_step(state, step, step.ports)
    for job in begun:  # after the steps, whose ports are now known
        if job.state in ALLOCATED_STATES:
            ports.give_job(state, job)


def _latest_us(state: ClusterState, job: Job, now_us: int) -> int:
    """Returns until when a job that is not eligible yet may have to wait. If it is until later, the clock was set back
    meanwhile."""
    cron = job.request.cron
    if cron:
        return next_start_us(state.config.utc_offsets, cron, now_us)
    return now_us + requeue_policy.delay_us(state, job)


def _set_timers(state: ClusterState, now_us: int) -> None:
    for job in list(state.jobs.records()):
        kind: object = type(job)
        if kind is WaitingType and type(job.request) is not JobRequest and job.eligible_at_us <= now_us:
            continue  # without the rare fields by which a job has a timer
        if job.state in END_STATES:
            due_us = job.end_at_us + state.config.min_job_age_s * 1_000_000
            state.timers.set(due_us, Timer.PURGE, job.job_id, job.attempt)
        elif job.state is JobState.PENDING:
            if job.eligible_at_us > now_us:
                job = state.jobs[job.job_id]
                job.eligible_at_us = min(job.eligible_at_us, _latest_us(state, job, now_us))
            begin_us = max(job.request.begin_at_us, job.eligible_at_us)
            if begin_us > now_us:
                state.timers.set(begin_us, Timer.BEGIN_TIME, job.job_id)
            set_deadline(state, job)
            if job.preemptor_id:
                state.timers.set(now_us + PREEMPTOR_PAUSE_US, Timer.BEGIN_TIME, job.job_id)
        else:
            set_end_timers(state, job)
            state.note_suspended(job)
            other = state.jobs.get(job.preemptor_id)
            if job.preempt_at_us and other is not None and other.state is JobState.PENDING:
                state.preemption.preempting[other.job_id] = (
                    *state.preemption.preempting.get(other.job_id, ()),
                    job.job_id,
                )
            if job.preempt_end_at_us:
                state.timers.set(job.preempt_end_at_us, Timer.PREEMPT_GRACE, job.job_id, job.attempt)
    for node in state.node_list:
        if node.flags & NodeFlag.NO_RESPOND and not node.flags & NodeFlag.DOWN:
            state.timers.set(now_us + state.config.slurmd_timeout_s * 1_000_000, Timer.NODE_TIMEOUT, node.name)
        elif node.flags & NodeFlag.DOWN and node.jobs:
            state.timers.set(now_us + state.config.slurmd_timeout_s * 1_000_000, Timer.FENCE, node.name)
