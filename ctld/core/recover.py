"""From the rows of the database to the state, and to the effects that the state calls for.

Only active rows and those that ended less than MinJobAge ago are loaded; history stays where it is. Nothing is
replayed: indexes, counters, columns and timers are built from the rows, and launches, kills and sweeps are sent again
when the nodes register (node_life.py), since they are functions of the state and the nodes know what they have done.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ctld.core import (
    again,
    allocations,
    arrays,
    assocs,
    budgets,
    depends,
    entering,
    gang,
    gpu_care,
    gpu_idle,
    gpu_work,
    limit_changes,
    node_admin,
    node_events,
    ports,
    predict,
    priority,
    reboot,
    reserve_life,
    reserve_spans,
    shares,
    surround,
    triggers,
)
from ctld.core.audit import AuditHead
from ctld.core.budget_book import BudgetRow
from ctld.core.fairshare import LoadedShares
from ctld.core.gpu_model import Gpu
from ctld.core.job_life import PREEMPTOR_PAUSE_US, set_end_timers
from ctld.core.layout import lay_out, misfits, new_node
from ctld.core.model import (
    NO_STEPS,
    Job,
    JobRow,
    NodeEvent,
    NodeRow,
    PartitionRow,
    Qos,
    Reservation,
    ReservationSpan,
    job_from,
)
from ctld.core.periodic import Crontab, Trigger, next_start_us
from ctld.core.qos import DEFAULT_QOS, NORMAL, number_qos
from ctld.core.ready import PLANNER_REASONS
from ctld.core.sharing import RELEASED
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, StepRow, step_from
from ctld.core.step_parts import set_limit_timers
from ctld.core.stepdesk import StepDesk
from ctld.core.submit import remember_key, set_deadline
from ctld.core.timers import Timer
from penstock.values.amendment import Amendment
from penstock.values.config import Config, NodeConfig
from penstock.values.dependency import parse_dependency, without_states
from penstock.values.states import END_STATES, HOLDING_STATES, JobState, NodeFlag, Reason
from penstock.values.taskset import TASK_ID_MAX, parse_array

#: How long the nodes have to register before the whole queue is planned. A pass before that would find nearly all nodes
#: closed, and tell every pending job so, only to take it back a second later.
SETTLE_US = 5 * 1_000_000


class ArrayCounts(NamedTuple):
    """Tasks of an array that have ended, from the whole history: an array with active or recent records has one."""

    array_job_id: int
    ok: int
    failed: int
    exit_code: int  # the highest, with exit_signal
    exit_signal: int


class Loaded(NamedTuple):
    """What the store's loader found.

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
    submit_keys: list[tuple[str, int, int]]  # (key, job id, submitted at), oldest first, younger than SUBMIT_KEY_AGE_US
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
    node_events: Sequence[NodeEvent] = ()  # that go on
    reservation_spans: Sequence[ReservationSpan] = ()  # the last of each reservation
    seen_at_us: int = 0  # when a controller was there last; 0 = never
    reservation_id: int = 0  # the last one given


class Misfit(Exception):
    """The jobs do not fit the configuration, which was changed since they were accepted: a line for each problem."""


def recover(state: ClusterState, config: Config, loaded: Loaded, now_us: int) -> None:
    """Fill an empty state. Raises Misfit."""
    state.epoch = loaded.epoch
    state.amended.load(loaded.amendments)
    state.audit.head = loaded.audit
    state.now_us = now_us
    state.next_job_id, state.next_request_id = loaded.next_job_id, loaded.next_request_id
    state.qos = {DEFAULT_QOS: NORMAL} | {record.name: record for record in loaded.qos if not record.deleted}
    state.registry.qos_deleted = {record.name: record for record in loaded.qos if record.deleted}
    number_qos(state)
    _load_jobs(state, loaded)
    _load_arrays(state, config, loaded)
    _load_nodes(state, config, loaded)
    state.node_events = {event.node: event for event in loaded.node_events}
    state.reservation_spans = {span.name: span for span in loaded.reservation_spans}
    state.reservations = {reservation.name: reservation for reservation in loaded.reservations}
    state.registry.reservation_id = loaded.reservation_id
    state.periodic.crontabs = {crontab.uid: crontab for crontab in loaded.crontabs}
    state.periodic.triggers = {trigger.trigger_id: trigger for trigger in loaded.triggers}
    for job in state.jobs.values():
        if job.state in HOLDING_STATES:
            for part in job.alloc:
                _hold(state, config, job, part.node)
            state.enter_reservation(job)
    if problems := misfits(state, config):
        raise Misfit("\n".join(problems))
    _depend(state)
    assocs.restore(state, loaded.shares)
    lay_out(state, config, now_us)
    assocs.resume(state)
    budgets.restore(state, loaded.budgets, now_us)
    state.shares.decay = priority.decay_of(config)
    priority.configure(state, config, now_us)
    limit_changes.recover(state, loaded.qos_usage, now_us)
    predict.restore(state)
    for row in loaded.partitions:
        if row.name in state.partitions:
            state.partitions[row.name].state = row.state
    for key, job_id, at_us in loaded.submit_keys:
        remember_key(state, key, job_id, at_us)
    _set_timers(state, now_us)
    _set_desks(state, now_us)
    for waiting in list(state.waiting_for):
        if waiting in state.waiting_for:  # an earlier one may have ended it
            depends.evaluate(state, state.jobs[waiting], now_us)
    entering.begin(state, now_us)
    reserve_life.recover_all(state, now_us)
    gang.recover(state, now_us)
    reboot.recover(state, now_us)
    node_admin.recover(state)
    gpu_work.recover(state, now_us)
    gpu_care.recover(state, now_us)
    gpu_idle.recover(state, now_us)
    surround.recover(state)
    triggers.recover(state, now_us)
    node_events.recover(state, loaded.seen_at_us, now_us)
    state.reservations_touched = dict.fromkeys(state.reservations)
    reserve_spans.settle(state, now_us)
    state.flagged = {
        job.job_id: None
        for job in state.jobs.values()
        if job.state is JobState.PENDING and job.reason in PLANNER_REASONS and job.reason is not Reason.PRIORITY
    }
    if loaded.jobs:
        state.full_pass_not_before_us = now_us + SETTLE_US


def _load_jobs(state: ClusterState, loaded: Loaded) -> None:
    young = {key for key, _, _ in loaded.submit_keys}
    for row in loaded.jobs:
        job = job_from(row)
        if job.submit_key not in young:  # too old to come again: nothing asks for it any more
            job.submit_key = ""
        job.steps = NO_STEPS
        state.jobs[job.job_id] = job
        if job.state not in END_STATES:
            if job.request.het_job_id:
                state.hets[job.request.het_job_id] = None
            state.namesakes.enter(job)
            state.active_count += arrays.weight(job)
    for step_row in loaded.steps:
        step = step_from(step_row)
        owner = state.jobs.get(step.job_id)
        if owner is not None and owner.attempt == step.attempt:
            if owner.steps is NO_STEPS:
                owner.steps = {}
            owner.steps[step.step_id] = step


def _load_arrays(state: ClusterState, config: Config, loaded: Loaded) -> None:
    counts = {c.array_job_id: c for c in loaded.arrays}
    for job in state.jobs.values():
        if not job.array_job_id:
            continue
        record = state.arrays.get(job.array_job_id)
        if record is None:
            # By the widest limit: it was accepted under a MaxArraySize that may have been larger than today's.
            tasks, _ = parse_array(job.request.array, TASK_ID_MAX + 1)
            record = state.arrays[job.array_job_id] = arrays.blank(job.array_job_id, tasks)
            ended = counts.get(job.array_job_id)
            if ended is not None:
                record.ok, record.failed = ended.ok, ended.failed
                record.exit_code, record.exit_signal = ended.exit_code, ended.exit_signal
        if job.array_task_id is not None:
            record.members[job.array_task_id] = job.job_id
            if job.state is JobState.PENDING:
                record.waiting[job.job_id] = None
        else:
            record.holders[job.job_id] = None
        if job.state is JobState.PENDING:
            record.pending += arrays.weight(job)
        elif job.state in HOLDING_STATES:
            record.running += arrays.weight(job)
        record.began = record.began or bool(job.start_at_us or record.ok or record.failed)


def _load_nodes(state: ClusterState, config: Config, loaded: Loaded) -> None:
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
            state.dirty_gpus[gpu.node, gpu.uuid] = None  # its node has left the file while nobody looked


def _hold(state: ClusterState, config: Config, job: Job, name: str) -> None:
    """Book a running job's part on a node; a node that has left the file comes back for as long as the job holds it."""
    node = state.nodes.get(name)
    if node is None:
        entry = next((c for c in config.nodes if c.name == name), NodeConfig(name, name, name, 0, state="DOWN"))
        node = state.nodes[name] = new_node(entry)
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
    for job in state.jobs.values():
        if job.state is JobState.PENDING and job.dependency:
            dependency = parse_dependency(without_states(job.dependency))
            depends.wait_for(state, job, dependency.any_of, dependency.terms)


def _set_desks(state: ClusterState, now_us: int) -> None:
    """What jobs with steps of srun know of them, and who looks after jobs without a script."""
    for job in state.jobs.values():
        if job.state in END_STATES:
            continue
        if job.request.has_owner():
            allocations.watch(state, job, now_us)
        if job.state in HOLDING_STATES and any(isinstance(step, SpreadStep) for step in job.steps.values()):
            desk = state.desks[job.job_id] = StepDesk(job.steps.values())
            for step in list(desk.live.values()):
                if isinstance(step, SpreadStep):
                    set_limit_timers(state, step)
                    ports.give_step(state, step, step.ports)
    for job in state.jobs.values():  # after the steps, whose ports are known
        if job.state in HOLDING_STATES:
            ports.give_job(state, job)


def _set_timers(state: ClusterState, now_us: int) -> None:
    for job in state.jobs.values():
        if job.state in END_STATES:
            due_us = job.end_at_us + state.config.min_job_age_s * 1_000_000
            state.timers.set(due_us, Timer.PURGE, job.job_id, job.attempt)
        elif job.state is JobState.PENDING:
            # Ready since a time that has not come yet: the clock was set back meanwhile. It does not wait for that.
            # A crontab's job may well wait for a time to come.
            cron = job.request.cron
            latest_us = next_start_us(state, cron, now_us) if cron else now_us + again.delay_us(state, job)
            job.eligible_at_us = min(job.eligible_at_us, latest_us)
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
                state.preempting[other.job_id] = (*state.preempting.get(other.job_id, ()), job.job_id)
            if job.preempt_end_at_us:
                state.timers.set(job.preempt_end_at_us, Timer.PREEMPT_GRACE, job.job_id, job.attempt)
    for node in state.node_list:
        if node.flags & NodeFlag.NO_RESPOND and not node.flags & NodeFlag.DOWN:
            state.timers.set(now_us + state.config.slurmd_timeout_s * 1_000_000, Timer.NODE_TIMEOUT, node.name)
        elif node.flags & NodeFlag.DOWN and node.jobs:
            state.timers.set(now_us + state.config.slurmd_timeout_s * 1_000_000, Timer.FENCE, node.name)
