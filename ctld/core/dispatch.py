"""Two dispatch tables: the handler of each event, and of each timer.

A handler is `handle(state, now_us, event)`; it may raise `Refused` until it calls `state.applying()`. A timer's
function is `due(state, now_us, key, check)`, where `check` is the number that the timer was set with (an attempt, a
link id). Handlers of audited events are wrapped by accounts/audit_diff.py.
"""

from collections.abc import Callable

# Any: the table holds handlers of all kinds of events; each is called only with events of its own kind
from typing import Any, TypeAlias, TypeVar

from ctld.core import clock
from ctld.core.accounts import audit_diff, requests
from ctld.core.gpus import care as gpu_care
from ctld.core.gpus import work as gpu_work
from ctld.core.jobs import mail
from ctld.core.lifecycle import (
    allocations,
    budget_ends,
    job_timers,
    lease,
    limit_changes,
    limit_ends,
    limit_wake,
    reservation_life,
    triggers,
    unexpected_errors,
)
from ctld.core.nodes import admin as node_admin
from ctld.core.nodes import clocks, extern_steps, gpu_health, step_reports
from ctld.core.nodes import life as node_life
from ctld.core.passes import gang, gpu_idle, mig_division, schedule, victims, wait_reasons
from ctld.core.queue import preemption
from ctld.core.records.event_base import Event
from ctld.core.records.events import (
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
    CreatePersonalToken,
    CreateReservation,
    CreateStep,
    DeleteReservation,
    EndAllocation,
    GpuIdle,
    GpuReported,
    GpuWorkDone,
    LaunchRefused,
    LoadConfig,
    NodeClockSeen,
    NodeDisconnected,
    NodeFenced,
    NodeNotice,
    NodeRegistered,
    NotifyJob,
    PersonalTokenUsed,
    PlanReady,
    Quarantine,
    RecordAct,
    RevokePersonalToken,
    RevokeTokens,
    ScriptEnded,
    SetTrigger,
    StepExited,
    StepProfiled,
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
from ctld.core.requests import configuration, control, crontabs, het_submit, reservations, tokens, update, waiting
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from ctld.core.steps import creation, profiles
from ctld.core.steps import life as step_life

E = TypeVar("E", bound=Event)
#: A handler of one kind of event.
EventHandler: TypeAlias = Callable[[ClusterState, int, E], None]


def _on(kind: type[E], handler: EventHandler[E]) -> tuple[type, EventHandler[Any]]:
    """Builds a row of the table; this is the one place where a handler's type is checked against its event."""
    return kind, handler


_HANDLERS: dict[type, EventHandler[Any]] = dict(
    (
        _on(SubmitJob, het_submit.submit_job),
        _on(AwaitJob, waiting.await_job),
        _on(AwaitAllocation, allocations.await_allocation),
        _on(EndAllocation, allocations.end_allocation),
        _on(CreateStep, creation.create_step),
        _on(AwaitStep, creation.await_step),
        _on(NotifyJob, control.notify_job),
        _on(StopWaiting, waiting.stop_waiting),
        _on(CancelJobs, control.cancel_jobs),
        _on(ControlJobs, control.control_jobs),
        _on(UpdateJobs, update.update_jobs),
        _on(ChangeAccounts, requests.change_accounts),
        _on(ChangeMany, requests.change_many),
        _on(UpdateNodes, node_admin.update_nodes),
        _on(UpdatePartition, node_admin.update_partition),
        _on(CreateReservation, reservations.create_reservation),
        _on(UpdateReservation, reservations.update_reservation),
        _on(DeleteReservation, reservations.delete_reservation),
        _on(ChangeQos, requests.change_qos),
        _on(NodeRegistered, node_life.node_registered),
        _on(NodeDisconnected, node_life.node_disconnected),
        _on(NodeNotice, node_life.node_noticed),
        _on(NodeClockSeen, clocks.clock_seen),
        _on(GpuReported, gpu_health.reported),
        _on(GpuWorkDone, gpu_health.work_done),
        _on(GpuIdle, gpu_idle.reported),
        _on(StepStarted, step_reports.step_started),
        _on(ScriptEnded, extern_steps.script_ended),
        _on(StepProfiled, profiles.step_profiled),
        _on(StepExited, step_reports.step_exited),
        _on(LaunchRefused, step_reports.launch_refused),
        _on(NodeFenced, node_life.node_fenced),
        _on(ClockJumped, clock.clock_jumped),
        _on(Quarantine, unexpected_errors.quarantine),
        _on(PlanReady, schedule.plan_ready),
        _on(LoadConfig, configuration.load_config),
        _on(UpdateCrontab, crontabs.update_crontab),
        _on(SetTrigger, triggers.set_trigger),
        _on(ClearTriggers, triggers.clear_triggers),
        _on(TriggerEnded, triggers.trigger_ended),
        _on(RevokeTokens, tokens.revoke_tokens),
        _on(CreatePersonalToken, tokens.create_personal_token),
        _on(RevokePersonalToken, tokens.revoke_personal_token),
        _on(PersonalTokenUsed, tokens.note_use),
        _on(Tick, lambda state, now_us, event: None),
        _on(RecordAct, audit_diff.record_act),
    )
)


HANDLERS = audit_diff.audited(_HANDLERS)


# Any: each kind of timer has keys of one type, a number or a name, which its handler expects
TIMERS: dict[Timer, Callable[[ClusterState, int, Any, int], None]] = {
    Timer.MAIL_LIMIT: mail.limit_due,
    Timer.BEGIN_TIME: job_timers.begin_time,
    Timer.DEPENDENCY_DELAY: job_timers.depend_again,
    Timer.DEPENDENTS: job_timers.depend_on,
    Timer.TIME_LIMIT: step_life.time_limit,
    Timer.END_WARNING: step_life.end_warning,
    Timer.DEADLINE: job_timers.deadline,
    Timer.OWNER: allocations.owner_due,
    Timer.STEP_LIMIT: creation.limit_due,
    Timer.STEP_WARNING: creation.warning_due,
    Timer.IMMEDIATE: allocations.immediate_due,
    Timer.SWITCH_WAIT: job_timers.switch_wait,
    Timer.PREEMPT_EXEMPT: preemption.exempt_ends,
    Timer.PREEMPT_GRACE: victims.grace_ends,
    Timer.TIME_SLICE: lambda state, now_us, key, check: gang.next_slot(state, now_us),
    Timer.PURGE: job_timers.purge,
    Timer.NODE_TIMEOUT: node_life.node_timeout,
    Timer.LEASE: node_life.lease_due,
    Timer.FENCE: lease.fence_due,
    Timer.REBOOT: node_life.reboot_timed_out,
    Timer.RESUME_AFTER: node_admin.resume_due,
    Timer.PRIORITY: limit_changes.calculate_priorities,
    Timer.RESERVATION: lambda state, now_us, key, check: reservation_life.due(state, now_us, key),
    Timer.RESERVED_NODES: lambda state, now_us, key, check: reservation_life.replace_nodes(state, now_us),
    Timer.RESERVATION_OVERRUN: reservation_life.overrun,
    Timer.QUEUE_RECOVERY: lambda state, now_us, key, check: None,  # the seal that follows does the work
    Timer.REASONS: wait_reasons.ask_again,
    Timer.TRIGGERS: lambda state, now_us, key, check: triggers.due(state, now_us),
    Timer.MIG: mig_division.rested,
    Timer.GPU_WORK: gpu_work.timed_out,
    Timer.GPU_CARE: gpu_care.due,
    Timer.GPU_IDLE: gpu_idle.due,
    Timer.LIMIT_END: limit_ends.due,
    Timer.LIMITS: lambda state, now_us, key, check: limit_wake.due(state, now_us, key),
    Timer.BUDGET: lambda state, now_us, key, check: budget_ends.due(state, now_us, key),
    Timer.FULL_PASS: lambda state, now_us, key, check: schedule.want_full_pass(state, now_us),
}
