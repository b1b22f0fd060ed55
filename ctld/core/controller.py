"""The funnel: `step` takes every event, `seal` hands out what it led to.

    core = Core(config, loaded, now_us)
    core.step(now_us, event)      # as often as there are events
    batch = core.seal()           # when the last batch has committed; None = nothing to do

`seal` runs the quick scheduling pass first, once for all events since the last seal: under load batches grow and
passes do not. Time never goes backwards in here: a `now_us` below the last one is taken as the last one.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from ctld.core import (
    accounts,
    allocations,
    arrays,
    budgets,
    clock,
    control,
    crontabs,
    depends,
    entering,
    explain,
    gang,
    gpu_care,
    gpu_health,
    gpu_idle,
    gpu_work,
    het_life,
    het_submit,
    holders,
    job_life,
    layout,
    lease,
    ledger,
    limit_changes,
    limit_ends,
    limit_wake,
    mail,
    mig,
    node_admin,
    node_events,
    node_life,
    preempt,
    priority,
    ready,
    reboot,
    reclaim,
    reserve,
    reserve_life,
    reserve_spans,
    schedule,
    step_life,
    steps,
    suspend,
    triggers,
    update,
    victims,
    watch,
)
from ctld.core.effects import Batch, Ended, Refusal, Refused
from ctld.core.events import (
    AnyEvent,
    AwaitAllocation,
    AwaitJob,
    AwaitStep,
    CancelJobs,
    ChangeAccounts,
    ChangeMany,
    ChangeQos,
    ClearTriggers,
    ClockJumped,
    ControlJobs,
    CreateReservation,
    CreateStep,
    DeleteReservation,
    EndAllocation,
    GpuIdle,
    GpuReported,
    GpuWorkDone,
    LaunchRefused,
    LoadConfig,
    NodeDisconnected,
    NodeFenced,
    NodeNotice,
    NodeRegistered,
    NotifyJob,
    PlanReady,
    RecordAct,
    ScriptEnded,
    SetTrigger,
    StepExited,
    StepStarted,
    StopWaiting,
    SubmitJob,
    Tick,
    TriggerEnded,
    UpdateCrontab,
    UpdateJobs,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
)
from ctld.core.invariants import check
from ctld.core.model import PartitionRow, job_row, node_row, step_row
from ctld.core.recover import Loaded, recover
from ctld.core.rights import may_touch, not_yours
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.config import Config
from penstock.values.jobid import EXTERN_STEP
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState, Reason

#: Timers handled in one step; the rest comes with the next tick, so that no step is unbounded.
TIMERS_PER_STEP_MAX = 10_000

#: How much later an ended job is looked at again whose end has not been handed out to be committed.
PURGE_PAUSE_US = 1_000_000


def await_job(state: ClusterState, now_us: int, event: AwaitJob) -> None:
    """Answer now if the job has ended, else when it does. Raises Refused."""
    job, record = state.jobs.get(event.job_id), state.arrays.get(event.job_id)
    if job is None and record is None:
        raise Refused(Code.INVALID_JOB_ID, str(event.job_id))
    one = job
    if one is None and record is not None:
        one = next((state.jobs[i] for i in (*record.members.values(), *record.holders) if i in state.jobs), None)
    if one is not None and not may_touch(state, event.actor, one):
        raise not_yours(state, event.actor, one, Code.INVALID_JOB_ID, str(event.job_id))
    if job is not None and job.user_id == event.actor.uid:
        state.calls.enter(job.job_id, event.reply_to)
    if record is not None and arrays.is_over(record):
        ended = JobState.FAILED if record.failed else JobState.COMPLETED
        state.reply(event.reply_to, Ended(ended.name, record.exit_code, record.exit_signal))
    elif record is None and job is not None and job.state in END_STATES:
        state.calls.leave(event.reply_to, now_us)
        state.reply(event.reply_to, job_life.ended(job))
    else:
        state.awaiting.setdefault(event.job_id, {})[event.reply_to] = None


def stop_waiting(state: ClusterState, now_us: int, event: StopWaiting) -> None:
    """A caller who waits has gone, or has waited for long enough."""
    state.calls.stop(event.reply_to, now_us)
    steps.stop_wishing(state, now_us, event.reply_to)
    for job_id, callers in list(state.awaiting.items()):
        callers.pop(event.reply_to, None)
        if not callers:
            del state.awaiting[job_id]


def step_started(state: ClusterState, now_us: int, event: StepStarted) -> None:
    """A step runs, or a holder is up."""
    (holders if event.step_id == EXTERN_STEP else step_life).step_started(state, now_us, event)


def launch_refused(state: ClusterState, now_us: int, event: LaunchRefused) -> None:
    """A node does not take a step or a holder."""
    (holders if event.step_id == EXTERN_STEP else step_life).launch_refused(state, now_us, event)


def step_exited(state: ClusterState, now_us: int, event: StepExited) -> None:
    """A step has ended: the end of a job's, or of one that should have been gone from its node already."""
    (holders if event.step_id == EXTERN_STEP else step_life).step_exited(state, now_us, event)
    node_life.leftover_gone(state, event)


def load_config(state: ClusterState, now_us: int, event: LoadConfig) -> None:
    """A configuration takes force. Raises Refused."""
    layout.load_config(state, now_us, event)
    triggers.reconfigured(state, now_us)
    watch.config_loaded(state, now_us, event)


_HANDLERS: dict[type, Callable[[ClusterState, int, Any], None]] = {
    SubmitJob: het_submit.submit_job,
    AwaitJob: await_job,
    AwaitAllocation: allocations.await_allocation,
    EndAllocation: allocations.end_allocation,
    CreateStep: steps.create_step,
    AwaitStep: steps.await_step,
    NotifyJob: control.notify_job,
    StopWaiting: stop_waiting,
    CancelJobs: control.cancel_jobs,
    ControlJobs: control.control_jobs,
    UpdateJobs: update.update_jobs,
    ChangeAccounts: accounts.change_accounts,
    ChangeMany: accounts.change_many,
    UpdateNodes: node_admin.update_nodes,
    UpdatePartition: node_admin.update_partition,
    CreateReservation: reserve.create_reservation,
    UpdateReservation: reserve.update_reservation,
    DeleteReservation: reserve.delete_reservation,
    ChangeQos: accounts.change_qos,
    NodeRegistered: node_life.node_registered,
    NodeDisconnected: node_life.node_disconnected,
    NodeNotice: node_life.node_noticed,
    GpuReported: gpu_health.reported,
    GpuWorkDone: gpu_health.work_done,
    GpuIdle: gpu_idle.reported,
    StepStarted: step_started,
    ScriptEnded: holders.script_ended,
    StepExited: step_exited,
    LaunchRefused: launch_refused,
    NodeFenced: node_life.node_fenced,
    ClockJumped: clock.clock_jumped,
    PlanReady: schedule.plan_ready,
    LoadConfig: load_config,
    UpdateCrontab: crontabs.update_crontab,
    SetTrigger: triggers.set_trigger,
    ClearTriggers: triggers.clear_triggers,
    TriggerEnded: triggers.trigger_ended,
    Tick: lambda state, now_us, event: None,
    RecordAct: watch.record_act,
}
HANDLERS = watch.watched(_HANDLERS)


def _purge(state: ClusterState, now_us: int, key: Any, attempt: int) -> None:
    job = state.jobs.get(key)
    if job is None or job.attempt != attempt or job.state not in END_STATES:
        return
    if key in state.dirty_jobs:  # it ended long ago, on a node that was out of reach, and its end is not written yet
        state.timers.set(now_us + PURGE_PAUSE_US, Timer.PURGE, key, attempt)
    else:
        state.purge_job(job)


def _look_again(state: ClusterState, now_us: int, key: Any, attempt: int) -> None:
    job = state.jobs.get(key)
    if job is None:
        return
    ready.refresh(state, job, now_us)
    if job.preemptor_id and job.state is JobState.PENDING and not state.pending.is_ready(job.job_id):
        state.timers.set(now_us + job_life.PREEMPTOR_PAUSE_US, Timer.BEGIN_TIME, job.job_id)


def _deadline(state: ClusterState, now_us: int, key: Any, attempt: int) -> None:
    job = state.jobs.get(key)
    if job is None or job.state is not JobState.PENDING or not job.request.deadline_at_us:
        return
    if ready.latest_start_s(job) * 1_000_000 <= now_us:
        job_life.terminate(state, job, JobState.DEADLINE, Reason.DEADLINE, now_us)


def _switch_wait(state: ClusterState, now_us: int, key: Any, attempt: int) -> None:
    job = state.jobs.get(key)
    if job is not None and job.state is JobState.PENDING:
        state.pending.remove(job.job_id)
        ready.refresh(state, job, now_us)


def _depend_again(state: ClusterState, now_us: int, key: Any, attempt: int) -> None:
    if key in state.waiting_for:
        depends.evaluate(state, state.jobs[key], now_us)


TIMERS: dict[Timer, Callable[[ClusterState, int, Any, int], None]] = {
    Timer.MAIL_LIMIT: mail.limit_due,
    Timer.BEGIN_TIME: _look_again,
    Timer.DEPENDENCY_DELAY: _depend_again,
    Timer.TIME_LIMIT: step_life.time_limit,
    Timer.END_WARNING: step_life.end_warning,
    Timer.DEADLINE: _deadline,
    Timer.OWNER: allocations.owner_due,
    Timer.STEP_LIMIT: steps.limit_due,
    Timer.STEP_WARNING: steps.warning_due,
    Timer.IMMEDIATE: allocations.immediate_due,
    Timer.SWITCH_WAIT: _switch_wait,
    Timer.PREEMPT_EXEMPT: preempt.exempt_ends,
    Timer.PREEMPT_GRACE: victims.grace_ends,
    Timer.TIME_SLICE: lambda state, now_us, key, check: gang.next_slot(state, now_us),
    Timer.PURGE: _purge,
    Timer.NODE_TIMEOUT: node_life.node_timeout,
    Timer.LEASE: node_life.lease_due,
    Timer.FENCE: lease.fence_due,
    Timer.REBOOT: reboot.timed_out,
    Timer.RESUME_AFTER: node_admin.resume_due,
    Timer.PRIORITY: priority.calculate,
    Timer.RESERVATION: lambda state, now_us, key, check: reserve_life.due(state, now_us, key),
    Timer.RESERVED_NODES: lambda state, now_us, key, check: reserve_life.replace_nodes(state, now_us),
    Timer.RESERVATION_OVERRUN: reserve_life.overrun,
    Timer.ENTER: lambda state, now_us, key, check: None,  # the seal that follows does it
    Timer.TELLING: explain.ask_again,
    Timer.TRIGGERS: lambda state, now_us, key, check: triggers.due(state, now_us),
    Timer.MIG: mig.rested,
    Timer.GPU_WORK: gpu_work.timed_out,
    Timer.GPU_CARE: gpu_care.due,
    Timer.GPU_IDLE: gpu_idle.due,
    Timer.LIMIT_END: limit_ends.due,
    Timer.LIMITS: lambda state, now_us, key, check: limit_wake.due(state, now_us, key),
    Timer.BUDGET: lambda state, now_us, key, check: budgets.due(state, now_us, key),
    Timer.FULL_PASS: lambda state, now_us, key, check: schedule.want_full_pass(state, now_us),
}


def _keep_limits(state: ClusterState, now_us: int) -> None:
    """What has happened counts against limits, and may wake who waits for one."""
    if state.entities_changed:
        limit_changes.follow(state, now_us)
    if state.ledger is not None and state.ledger.sums_due:
        ledger.sum_again(state, state.ledger)
    limit_wake.wake(state, now_us)
    if state.ledger is not None and state.ledger.started:
        limit_ends.keep(state, state.ledger, now_us)


def _add_rare_rows(state: ClusterState, batch: Batch) -> None:
    """Rows of what mostly has not changed."""
    if state.dirty_nodes:
        batch.nodes = [node_row(state.nodes[name]) for name in state.dirty_nodes if name in state.nodes]
    if state.dirty_partitions:
        known = state.partitions
        batch.partitions = [PartitionRow(n, known[n].state) for n in state.dirty_partitions if n in known]
    if state.amended.dirty:
        batch.amendments, batch.amendments_gone = state.amended.rows()
    if state.dirty_gpus:
        of = {name: state.nodes[name].gpus for name, _ in state.dirty_gpus if name in state.nodes}
        batch.gpus = [of[name][uuid] for name, uuid in state.dirty_gpus if uuid in of.get(name, ())]
        batch.gpus_gone = [(name, uuid) for name, uuid in state.dirty_gpus if uuid not in of.get(name, ())]
    if state.dirty_qos:
        batch.qos = [state.qos.get(name) or state.registry.qos_deleted[name] for name in state.dirty_qos]
    if state.dirty_usage:
        tree = state.shares.by_id
        batch.usage = [tree[i].usage_row() for i in state.dirty_usage if i in tree]
    if state.dirty_qos_usage:
        batch.qos_usage = [ledger.qos_usage_row(state, name) for name in state.dirty_qos_usage]
    if state.dirty_reservations:
        there, names = state.reservations, state.dirty_reservations
        batch.reservations = [there[n] for n in names if n in there]
        batch.reservations_gone = [n for n in names if n not in there]
        batch.counters = [("reservation", state.registry.reservation_id)]
    if state.budgets.dirty or state.budgets.closed:
        batch.budgets = state.budgets.take_rows()
    if state.periodic.dirty:
        _add_periodic(state, batch)
    if state.audit.rows:
        batch.audit, batch.txns = state.audit.rows, state.audit.txns
    if state.dirty_events or state.job_spans or state.dirty_reservation_spans:
        batch.node_events, batch.job_spans = list(state.dirty_events.values()), list(state.job_spans.values())
        batch.reservation_spans = list(state.dirty_reservation_spans.values())
    if state.dirty_assocs or state.dirty_accounts or state.dirty_users:
        batch.assocs = list(state.dirty_assocs.values())
        batch.accounts, batch.users = list(state.dirty_accounts.values()), list(state.dirty_users.values())
    if state.registry.dirty_wckeys or state.registry.dirty_resources or state.registry.dirty_tres:
        batch.wckeys, batch.resources = (
            list(state.registry.dirty_wckeys.values()),
            list(state.registry.dirty_resources.values()),
        )
        batch.tres = list(state.registry.dirty_tres.values())


def _add_periodic(state: ClusterState, batch: Batch) -> None:
    """Crontabs and triggers."""
    tabs, known = state.periodic.crontabs, state.periodic.triggers
    keys = {what: [key for kind, key in state.periodic.dirty if kind == what] for what in ("crontab", "trigger")}
    batch.crontabs = [tabs[uid] for uid in keys["crontab"] if uid in tabs]
    batch.crontabs_gone = [uid for uid in keys["crontab"] if uid not in tabs]
    batch.triggers = [known[i] for i in keys["trigger"] if i in known]
    batch.triggers_gone = [i for i in keys["trigger"] if i not in known]


def _pass(state: ClusterState, now_us: int) -> None:
    """A quick pass with what comes before and after it."""
    changed = state.quick_pass_due
    if state.budgets.books or state.budgets.stale:
        budgets.before_pass(state, now_us)
        changed = changed or state.quick_pass_due
    if changed:
        if state.lending.stale or state.lending.was_on:
            reclaim.before_pass(state, now_us)
        victims.before_pass(state, now_us)
        preempt.before_pass(state)
    if state.rebooting:
        reboot.issue(state, now_us)
    schedule.quick_pass(state, now_us)
    if limit_wake.after_pass(state, now_us):
        schedule.quick_pass(state, now_us)
    if changed and state.divisible:
        mig.look(state, now_us)
    if changed and state.suspended:
        if suspend.go_on(state, now_us) and gang.is_on(state):
            gang.make_room(state, now_us)
        gang.fill(state, now_us)


class Core:
    """The controller without I/O. One thread calls it."""

    def __init__(self, config: Config, loaded: Loaded, now_us: int) -> None:
        self.state = ClusterState()
        self._sequence = 0
        self._now_us = now_us
        self._scheduled = False  # nothing has happened since the last pass
        self._event: AnyEvent | None = None  # that is being handled
        recover(self.state, config, loaded, now_us)

    def step(self, now_us: int, event: AnyEvent) -> None:
        """Handle one event. A refusal becomes its reply; any other exception is a bug and leaves the state unusable."""
        self.begin(now_us, event)
        while self._event is not None:
            self.go_on()

    @property
    def is_amid(self) -> bool:
        """An event has begun to be handled and is not done. Nothing but `go_on` may be called, and nothing shown."""
        return self._event is not None

    def begin(self, now_us: int, event: AnyEvent) -> None:
        """Handle one event, or begin to: of one that takes long the rest is left to `go_on`."""
        state = self.state
        self._scheduled = False
        self._now_us = state.now_us = now_us = max(now_us, self._now_us)
        self._run_timers(now_us)
        self._event = event
        try:
            HANDLERS[type(event)](state, now_us, event)
        except Refused as refused:
            state.reply(getattr(event, "reply_to", 0), Refusal(int(refused.code), refused.text))
        if state.unfinished is None:
            self._end_step(now_us)

    def go_on(self) -> None:
        """Some milliseconds more of an event."""
        state = self.state
        assert state.unfinished is not None
        try:
            next(state.unfinished)
            return
        except StopIteration:
            pass
        except Refused as refused:
            state.reply(getattr(self._event, "reply_to", 0), Refusal(int(refused.code), refused.text))
        state.unfinished = None
        self._end_step(state.now_us)

    def _end_step(self, now_us: int) -> None:
        """What every event may have led to."""
        state = self.state
        self._event = None
        if state.hets_due:
            het_life.settle(state, now_us)
        if state.steps_due:
            steps.serve_due(state, now_us)
        if state.ledger is not None:
            _keep_limits(state, now_us)
        if state.dirty_nodes and state.periodic.triggers:
            triggers.nodes_changed(state, now_us)
        if state.nodes_touched:
            node_events.settle(state, now_us)
        if state.reservations_touched:
            reserve_spans.settle(state, now_us)

    def _run_timers(self, now_us: int) -> None:
        pop_due = self.state.timers.pop_due
        for _ in range(TIMERS_PER_STEP_MAX):
            due = pop_due(now_us)
            if due is None:
                return
            kind, key, check_value = due
            TIMERS[kind](self.state, now_us, key, check_value)

    def next_deadline(self) -> int | None:
        """When a `Tick` is due at the latest, microseconds; None = never."""
        return self.state.timers.next_us()

    def schedule(self) -> int:
        """The scheduling pass of the next `seal`, for who wants to know what it costs. Returns how many rows it looked at."""
        state, now_us = self.state, self._now_us
        if state.gpus_due:
            layout.relearn(state, now_us)
        before = state.rows_seen
        if state.pending.outside:
            entering.go_on(state, now_us)
        if not state.pending.outside:
            _pass(state, now_us)
        if state.hets_due:
            het_life.settle(state, now_us)
        if state.steps_due:
            steps.serve_due(state, now_us)
        if state.ledger is not None:
            _keep_limits(state, now_us)
        self._scheduled = True
        return state.rows_seen - before

    def seal(self) -> Batch | None:
        """Everything since the last seal, after one scheduling pass. None = nothing."""
        state = self.state
        if not self._scheduled:
            self.schedule()
        self._scheduled = False
        explain.tell_more(state, self._now_us)
        if state.budgets.books:
            budgets.settle(state, self._now_us)
        if not (state.history or state.effects or state.acks or state.purged or state.is_dirty()):
            return None
        jobs = state.ended_attempts
        jobs += [job_row(state.jobs[i]) for i in state.dirty_jobs if i in state.jobs]
        effects = state.effects
        if state.acks:
            effects += state.take_acks()
        batch = Batch(
            sequence=self._sequence + 1,
            jobs=jobs,
            requests=state.new_requests,
            specs=state.new_specs,
            steps=[step_row(step) for step in state.dirty_steps.values()] if state.dirty_steps else [],
            nodes=[],
            partitions=[],
            history=state.history,
            next_job_id=state.next_job_id,
            next_request_id=state.next_request_id,
            effects=effects,
            purged=state.purged,
        )
        _add_rare_rows(state, batch)
        if not (batch.is_durable() or batch.effects or batch.purged):
            return None
        self._sequence += 1
        state.start_new_batch()
        return batch

    def check(self) -> None:
        """Raise Violation when an invariant does not hold."""
        check(self.state)

    def digest(self) -> str:
        """A hash of everything that decides: equal histories have equal digests."""
        state, h = self.state, hashlib.sha256()
        encode = msgspec.msgpack.Encoder(enc_hook=str).encode
        for job_id in sorted(state.jobs):
            h.update(encode(job_row(state.jobs[job_id])))
            for step in state.jobs[job_id].steps.values():
                h.update(encode(step_row(step)))
        for _, assoc in sorted(state.shares.by_id.items()):
            h.update(encode((assoc.row(), assoc.usage_row(), assoc.rate)))
        if state.ledger is not None:
            h.update(encode([(key, book.counts()) for key, book in state.ledger.books.items() if not book.is_empty()]))
        for node in state.node_list:
            h.update(encode((node_row(node), node.cpus_alloc, node.mem_alloc_mb, sorted(node.jobs))))
        for reservation in state.reservations.values():
            h.update(encode(reservation))
        h.update(encode((list(state.periodic.crontabs.values()), list(state.periodic.triggers.values()))))
        h.update(
            encode(
                (state.next_job_id, state.next_request_id, state.epoch, sorted(state.waiting_for), len(state.timers))
            )
        )
        h.update(
            encode([(i, desk.next_id, list(desk.wishes), sorted(desk.held.items())) for i, desk in state.desks.items()])
        )
        h.update(encode([(i, o.seen_at_us, list(o.calls)) for i, o in state.calls.owners.items()]))
        return h.hexdigest()


__all__ = ["Core"]
