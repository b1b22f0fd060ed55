"""scancel, and scontrol hold, release, requeue: one loop over targets, one small function for each action.

A request names several jobs; each has its own result, and a failed one does not affect the others. Ids are parsed and
looked up first; an action raises its refusals before it changes the job.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ctld.core.accounts.audit_diff import OthersJobChanges, affects_other_user
from ctld.core.jobs import arrays, holds, outcome
from ctld.core.jobs.select import JobTarget, all_matching, matching, targets_of
from ctld.core.jobs.waiters import check_split
from ctld.core.lifecycle import depends, job_life, step_orders, suspend
from ctld.core.lifecycle.ready import refresh
from ctld.core.lifecycle.unexpected_errors import refuse_unexpected
from ctld.core.queue import preemption, priority
from ctld.core.queue.rights import may_touch, not_yours, require_role, sees_jobs_of_others
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Done, JobResult, NotifyStep, Refused, Results
from ctld.core.records.events import Actor, CancelJobs, ControlAction, ControlJobs, NotifyJob, Role
from ctld.core.records.job import Job
from ctld.core.records.step import SpreadStep, Step, live_nodes
from ctld.core.requests import crontabs, top
from ctld.core.requests.task_results import TaskOutcome, results_by_task
from ctld.core.state.state import ClusterState
from ctld.core.steps import life as step_life
from penstock.values.dependency import parse_dependency, without_states
from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP, format_step
from penstock.values.jobkind import JobKind
from penstock.values.refusals import Code
from penstock.values.states import ALLOCATED_STATES, END_STATES, Hold, JobState, Reason, Suspend
from penstock.values.taskset import TaskSet
from penstock.values.text import check_name

#: Maximum number of ids in one request: what fits a command line.
IDS_MAX = 100_000
SIGKILL = 9
SIGCONT = 18
SIGSTOP = 19
SIGNAL_MAX = 64
#: Maximum length of a message of scontrol notify, in characters and in bytes.
NOTICE_MAX = 1024
NOTICE_BYTES_MAX = 4 * NOTICE_MAX

_Action = Callable[[ClusterState, int, Actor, Job], None]


def each_target(
    state: ClusterState,
    actor: Actor,
    ids: Iterable[str],
    act: Callable[[JobTarget], None],
    others: OthersJobChanges,
    takes_steps: bool = False,
    tasks: TaskSet | None = None,
    found: Mapping[str, JobTarget] | None = None,
    is_last_first: bool = False,
    only: tuple[int, ...] = (),
    by_task: bool = False,
) -> list[JobResult]:
    """Applies an action to every record that the ids select, splitting off parts of arrays; one result for each id.
    `by_task`: for each group of equal results of an array's tasks, if some of them are refusals.
    Without `takes_steps`, ids of steps are refused. `tasks`: only these of the array. `found`: the record of each id, where
    a filter has found it: an array's first id selects one record then, and not all. `is_last_first`: the records of an
    array in reverse. `only`: of the records that the ids select, those with these job ids.

    Actions on other users' jobs are recorded in `others`, which the caller writes at the end.
    """
    results = []
    for text in ids:
        try:
            if found is not None:
                targets = [found[text]]
            else:
                targets = targets_of(state, text, tasks) if takes_steps or "." not in text else []
            targets = [target for target in targets if not only or target.job.job_id in only]
            check_rights(state, actor, [target.job for target in targets])
            refusals: list[Refused] = []
            outcomes: list[TaskOutcome] = []
            first = targets[0].job
            before = others.image_of(first) if affects_other_user(actor, first) else None
            for target in reversed(targets) if is_last_first else targets:
                refusal: Refused | None = None
                whose = target.tasks or target.job.array_tasks  # of before: `act` splits
                try:
                    act(target)
                except Refused as error:  # an ended task of an array does not prevent the others
                    refusal = error
                except Exception as error:  # noqa: BLE001 (refuse_unexpected decides)
                    refusal = refuse_unexpected(state, error)
                refusals += [refusal] if refusal is not None else []
                outcomes.append(TaskOutcome(target.job, whose, refusal))
                state.handling.next_target()
            of_tasks = results_by_task(state, text, outcomes, tasks) if by_task and first.array_job_id else []
            if refusals and len(refusals) == len(targets) and not of_tasks:
                raise refusals[0]
            if before is not None and len(refusals) < len(targets):
                others.note(text, first, before)
            results += of_tasks or [JobResult(text)]
        except Refused as refused:
            results.append(JobResult(text, int(refused.code), refused.text))
        except BadValue as error:
            results.append(JobResult(text, int(Code.INVALID_JOB_ID), f"Invalid job id {text}: {error}"))
    return results


def check_rights(state: ClusterState, actor: Actor, jobs: Sequence[Job]) -> None:
    """Raises Refused unless an id selects records, and the actor may touch all of them."""
    if not jobs:
        raise Refused(Code.INVALID_JOB_ID)
    if not all(may_touch(state, actor, job) for job in jobs):
        raise not_yours(state, actor, jobs[0], Code.INVALID_JOB_ID)


def part(state: ClusterState, target: JobTarget) -> Job:
    """Returns the record to act on: a subset of pending tasks is split off first."""
    return target.job if target.tasks is None else arrays.split(state, target.job, target.tasks)


def cancel_jobs(state: ClusterState, now_us: int, event: CancelJobs) -> None:
    """Handles scancel. Raises Refused."""
    which = event.which
    actor = event.actor
    others = OthersJobChanges()
    if len(which.ids) > IDS_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(which.ids)} job ids, the limit is {IDS_MAX}")
    if not 0 <= event.signal_no <= SIGNAL_MAX:
        raise Refused(Code.INVALID_VALUE, f"signal {event.signal_no} is not between 1 and {SIGNAL_MAX}")

    def act(target: JobTarget) -> None:
        if not matching([target.job], which):
            return
        if event.signal_no and not (event.signal_no == SIGKILL and not event.batch_only and not event.full):
            signal_job(state, target, event)
        else:
            cancel(state, now_us, actor, target, event.cron)

    if which.ids:
        results = each_target(state, actor, which.ids, act, others, takes_steps=True, tasks=event.tasks)
    else:
        unseen = not sees_jobs_of_others(state.config, actor)
        results = []
        for target in all_matching(state, which, event.chosen):
            mine = may_touch(state, actor, target.job)
            if mine and (not event.signal_no or target.job.state is JobState.RUNNING):
                results.append(_result(state, act, target, actor, others))
            elif which.uids and not unseen and not mine:  # other users' jobs were requested: -u OTHER
                denied = Refused(Code.ACCESS_DENIED)
                results.append(JobResult(str(target.job.job_id), int(denied.code), denied.text))
    asked = {"signal": event.signal_no} if event.signal_no else {}
    others.write(state, now_us, actor, "signal job" if event.signal_no else "cancel job", asked)
    state.reply(event.reply_to, Results(tuple(results)))


def _result(
    state: ClusterState, act: Callable[[JobTarget], None], target: JobTarget, actor: Actor, others: OthersJobChanges
) -> JobResult:
    """Cancels a job that a filter has found, and returns the result."""
    text, before = (
        str(target.job.job_id),
        others.image_of(target.job) if affects_other_user(actor, target.job) else None,
    )
    try:
        act(target)
    except Refused as refused:  # a crontab's job, which must be requested explicitly
        return JobResult(text, int(refused.code), refused.text)
    except Exception as error:  # noqa: BLE001 (refuse_unexpected decides)
        spared = refuse_unexpected(state, error)
        return JobResult(text, int(spared.code), spared.text)
    state.handling.next_target()
    if before is not None:
        others.note(text, target.job, before)
    return JobResult(text)


def cancel(state: ClusterState, now_us: int, actor: Actor, target: JobTarget, cron: bool) -> None:
    """Ends a job on a user's request. `cron`: the request includes jobs of crontabs."""
    if target.job.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    step = step_of(target)
    if not isinstance(step, SpreadStep):
        crontabs.check_cancel(state, target.job, cron)
    state.applying()
    if isinstance(step, SpreadStep):
        step_life.end_step(state, target.job, step, "CANCELLED", actor.uid)
        return
    job = part(state, target)
    crontabs.disable(state, job)
    reason = job.reason if job.state is JobState.PENDING else Reason.NONE  # its unmet dependency remains visible
    job_life.terminate(state, job, JobState.CANCELLED, reason, now_us, "CANCELLED", actor.uid)


def step_of(target: JobTarget) -> Step | None:
    """Returns the requested step, None = the whole job. Raises Refused for one that does not exist or has ended."""
    if target.step_id is None:
        return None
    step = target.job.steps.get(target.step_id)
    if step is None or target.step_id == EXTERN_STEP:  # a job's extern step is signalled with the job
        raise Refused(Code.INVALID_JOB_ID, f"step {format_step(target.step_id)}")
    if step.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    return step


def signal_job(state: ClusterState, target: JobTarget, event: CancelJobs) -> None:
    """Sends a signal to a running job's steps, or to one of them."""
    job = target.job
    if job.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    if job.state is JobState.PENDING:
        raise Refused(Code.JOB_PENDING)
    if job.state is JobState.SUSPENDED:
        raise Refused(Code.JOB_SUSPENDED)
    one = step_of(target)
    live = step_orders.live_steps(state, job) if one is None else [one]
    # As in Slurm, a job's steps are signalled without its script; --batch and --full include the script
    spares_script = one is None and not (event.batch_only or event.full)
    state.applying()
    reached = False
    for step in live:
        if event.batch_only and step.step_id != BATCH_STEP:
            continue
        if spares_script and step.step_id == BATCH_STEP:
            continue
        if step.step_id == EXTERN_STEP and one is None:
            continue
        step_orders.emit_signal(state, job, step, event.signal_no, batch_only=event.batch_only, full=event.full)
        reached = True
    if reached and event.signal_no in (SIGSTOP, SIGCONT):  # as in Slurm, also where one step was signalled
        job.stopped = int(event.signal_no == SIGSTOP)
        state.touch(job)


def notify_job(state: ClusterState, now_us: int, event: NotifyJob) -> None:
    """Handles scontrol notify: writes to the error output of the job's script, or of its steps when it has none. Raises
    Refused.
    """
    if not 0 < len(event.text) <= NOTICE_MAX or "\0" in event.text:
        raise Refused(Code.INVALID_VALUE, f"a message has 1 to {NOTICE_MAX} characters")
    try:
        for line in event.text.replace("\t", " ").split("\n"):  # it is shown on a user's terminal
            check_name(line, "message", NOTICE_BYTES_MAX)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    try:
        targets = targets_of(state, event.id)
    except BadValue as error:
        raise Refused(Code.INVALID_JOB_ID, str(error)) from None
    if not targets:
        raise Refused(Code.INVALID_JOB_ID, event.id)
    if not all(may_touch(state, event.actor, target.job) for target in targets):
        raise not_yours(state, event.actor, targets[0].job, Code.INVALID_JOB_ID, event.id)
    if all(target.job.state not in ALLOCATED_STATES for target in targets):
        raise Refused(Code.JOB_NOT_RUNNING)
    state.applying()
    for target in targets:
        job = target.job
        steps = [step for step in step_orders.live_steps(state, job) if step.step_id != EXTERN_STEP]
        if target.step_id is not None:
            steps = [step for step in steps if step.step_id == target.step_id]
        elif any(step.step_id == BATCH_STEP for step in steps):
            steps = [step for step in steps if step.step_id == BATCH_STEP]
        for step in steps:
            state.emit(NotifyStep(live_nodes(step)[0], job.job_id, job.attempt, step.step_id, event.text))
    others = OthersJobChanges()
    if affects_other_user(event.actor, targets[0].job):
        others.note(event.id, targets[0].job, others.image_of(targets[0].job))
    others.write(state, now_us, event.actor, "notify job", {"text": event.text})
    state.reply(event.reply_to, Done())


def control_jobs(state: ClusterState, now_us: int, event: ControlJobs) -> None:
    """Handles scontrol hold, uhold, release, requeue, requeuehold. Raises Refused."""
    if len(event.ids) > IDS_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(event.ids)} job ids, the limit is {IDS_MAX}")
    if event.action is ControlAction.TOP:
        state.handling.unfinished = _move_to_top(state, now_us, event)
        return
    check, apply = ACTIONS[event.action]

    def act(target: JobTarget) -> None:
        check(state, now_us, event.actor, target.job)
        if target.tasks is not None:
            check_split(state, target.job)
        state.applying()
        apply(state, now_us, event.actor, part(state, target))

    others = OthersJobChanges()
    results = each_target(state, event.actor, event.ids, act, others, tasks=event.tasks, by_task=True)
    others.write(state, now_us, event.actor, f"{event.action.name.lower().replace('_', ' ')} job", {})
    state.reply(event.reply_to, Results(tuple(results)))


def _move_to_top(state: ClusterState, now_us: int, event: ControlJobs) -> Iterator[None]:
    """Handles scontrol top, in slices: the last job first, so that each comes before those that were moved already."""
    moves, others = top.Moves(), OthersJobChanges()
    yield from moves.look(state)

    def act(target: JobTarget) -> None:
        moves.check(state, event.actor, target.job)
        state.applying()
        moves.move(state, now_us, event.actor, part(state, target))

    ids = event.ids[::-1]
    results = each_target(state, event.actor, ids, act, others, tasks=event.tasks, is_last_first=True)
    state.applying()
    yield from moves.pay(state, now_us)
    others.write(state, now_us, event.actor, "top job", {})
    state.reply(event.reply_to, Results(tuple(results)))


def _check_hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Checks whether the job can be held. For a job with nodes the hold applies after a requeue."""
    if job.state in END_STATES or job.state is JobState.COMPLETING:
        raise Refused(Code.JOB_FINISHED)


def _check_release(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    _check_hold(state, now_us, actor, job)
    if actor.role < Role.OPERATOR and holds.is_administrators(job):
        raise Refused(Code.ACCESS_DENIED, "an administrator holds the job")


def _check_requeue(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    if not job.request.requeue and job.request.kind not in (JobKind.SALLOC, JobKind.SRUN):
        raise Refused(Code.DISABLED_STATE, "the job was submitted with --no-requeue")
    if job.state is JobState.PENDING:
        raise Refused(Code.JOB_PENDING)
    if job.state is JobState.COMPLETING:
        raise Refused(Code.DISABLED_STATE, "the job is completing, try again later")
    if job.state in END_STATES and job.request.het_job_id:
        raise Refused(Code.ALREADY_DONE, "a heterogeneous job that has ended is not run again")
    if job.request.kind in (JobKind.SALLOC, JobKind.SRUN):
        raise Refused(Code.DISABLED_STATE, "a job without a script is not run again")
    # A partition may leave the configuration when all of its jobs have ended
    if gone := [name for name in job.request.partitions if name not in state.partitions]:
        raise Refused(Code.INVALID_PARTITION, ",".join(gone))


def hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Sets a hold according to the caller's role: an operator's hold, even of their own job, can only be released by
    operators."""
    _hold_as(state, now_us, job, Hold.ADMIN if actor.role >= Role.OPERATOR else Hold.USER)


def _user_hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    _hold_as(state, now_us, job, Hold.USER)


def _hold_as(state: ClusterState, now_us: int, job: Job, who: Hold) -> None:
    holds.hold_as(job, who)
    state.touch(job)
    state.record(now_us, job, "hold", who.name)
    refresh(state, job, now_us)


def release(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Releases a held job. A priority of 0, which holds too, is reset to its value at submission."""
    holds.release(job)
    if job.failed_attempts > state.config.max_batch_requeue:
        outcome.reset_failures(job)
    if job.request.priority == 0:
        state.replace_request(job, with_changes(job.request, priority=None))
        priority.renew(state, job)
    state.touch(job)
    state.record(now_us, job, "release", f"uid {actor.uid}")
    if job.job_id in state.dependencies.waiting_for:  # the hold's reason hid that the dependency can never be met
        depends.evaluate(state, job, now_us)
    else:
        refresh(state, job, now_us)


def _check_suspend(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    require_role(actor, Role.OPERATOR, "suspending and resuming a job")
    if job.state is JobState.PENDING:
        raise Refused(Code.JOB_PENDING)
    if job.state in END_STATES or job.state is JobState.COMPLETING:
        raise Refused(Code.ALREADY_DONE)
    if job.state is JobState.CONFIGURING:
        raise Refused(Code.DISABLED_STATE, "the job is being started, try again later")


def _check_resume(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    _check_suspend(state, now_us, actor, job)
    if job.state is not JobState.SUSPENDED:
        raise Refused(Code.JOB_NOT_SUSPENDED)


def _suspend(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    suspend.suspend(state, job, Suspend.ADMIN, now_us, f"uid {actor.uid}")


def _resume(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Makes the job wait for its cpus: it is resumed as soon as they are free, at the earliest at the end of this step."""
    state.record(now_us, job, "resume asked", f"uid {actor.uid}")
    suspend.claim(state, job, now_us)
    preemption.update_running_class(state, job)


def _requeue(state: ClusterState, now_us: int, actor: Actor, job: Job, reason: Reason = Reason.NONE) -> None:
    state.record(now_us, job, "requeue asked", f"uid {actor.uid}")
    if job.state is JobState.SUSPENDED and job.suspended_by is Suspend.ADMIN:
        holds.hold_as(job, Hold.ADMIN)  # as in Slurm: a job that was suspended manually is not to run at once
    if job.state in END_STATES:
        unmet = job.dependency  # of a job that was cancelled while it waited: it waits again, as in Slurm
        job_life.requeue_ended(state, job, now_us, reason)
        if unmet:
            depends.attach(state, job, parse_dependency(without_states(unmet)), now_us)
    else:
        job_life.terminate(state, job, JobState.REQUEUED, reason, now_us, "REQUEUE")


def _requeue_hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    holds.hold_as(job, Hold.ADMIN if actor.role >= Role.OPERATOR and actor.uid != job.user_id else Hold.USER)
    _requeue(state, now_us, actor, job, Reason.JOB_REQUEUED_HELD)


def _requeue_special(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Requeues a job and holds it as SPECIAL_EXIT, as RequeueExitHold does."""
    holds.hold_after_exit(job)
    _requeue(state, now_us, actor, job)


ACTIONS: dict[ControlAction, tuple[_Action, _Action]] = {
    ControlAction.HOLD: (_check_hold, hold),
    ControlAction.USER_HOLD: (_check_hold, _user_hold),
    ControlAction.RELEASE: (_check_release, release),
    ControlAction.REQUEUE: (_check_requeue, _requeue),
    ControlAction.REQUEUE_HOLD: (_check_requeue, _requeue_hold),
    ControlAction.REQUEUE_SPECIAL: (_check_requeue, _requeue_special),
    ControlAction.SUSPEND: (_check_suspend, _suspend),
    ControlAction.RESUME: (_check_resume, _resume),
}
