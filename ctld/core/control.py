"""scancel, and scontrol hold, release, requeue: one loop over targets, one small function for each action.

A request names several jobs; each has its own result, and one that cannot be done does not stop the others. Ids are
read and looked up first; what an action may refuse it refuses before it changes that job.
"""

from collections.abc import Callable, Iterable

from ctld.core import arrays, crontabs, depends, job_life, preempt, priority, step_life, suspend, top
from ctld.core.effects import Done, JobResult, NotifyStep, Refused, Results, SignalStep
from ctld.core.events import Actor, CancelJobs, ControlAction, ControlJobs, NotifyJob, Role
from ctld.core.model import Job
from ctld.core.plain import with_changes
from ctld.core.ready import refresh
from ctld.core.rights import may_touch, not_yours, require_role, sees_jobs_of_others
from ctld.core.select import Target, all_matching, matching, targets_of
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, Step, live_nodes
from ctld.core.watch import Meddling, meddles
from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP, format_step
from penstock.values.jobkind import JobKind
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, HOLDING_STATES, Hold, JobState, Reason, Suspend
from penstock.values.text import check_name

#: Most ids in one request: what fits a command line.
IDS_MAX = 100_000
SIGKILL, SIGNAL_MAX = 9, 64
#: Characters of a message of scontrol notify, and their bytes.
NOTICE_MAX = 1024
NOTICE_BYTES_MAX = 4 * NOTICE_MAX

Action = Callable[[ClusterState, int, Actor, Job], None]


def each_target(
    state: ClusterState, actor: Actor, ids: Iterable[str], act: Callable[[Target], None], meddling: Meddling
) -> list[JobResult]:
    """Do something to every record that the ids mean, splitting off parts of arrays; one result for each id.

    What is done to jobs of others is told to `meddling`, which the caller writes at the end.
    """
    results = []
    for text in ids:
        try:
            targets = targets_of(state, text)
            if not targets:
                raise Refused(Code.INVALID_JOB_ID)
            if not all(may_touch(state, actor, target.job) for target in targets):
                raise not_yours(state, actor, targets[0].job, Code.INVALID_JOB_ID)
            refusals: list[Refused] = []
            first = targets[0].job
            before = meddling.look(first) if meddles(actor, first) else None
            for target in targets:
                try:
                    act(target)
                except Refused as refused:  # one task of an array that has ended does not stop the others
                    refusals.append(refused)
            if refusals and len(refusals) == len(targets):
                raise refusals[0]
            if before is not None:
                meddling.saw(text, first, before)
            results.append(JobResult(text))
        except Refused as refused:
            results.append(JobResult(text, int(refused.code), refused.text))
        except BadValue as error:
            results.append(JobResult(text, int(Code.INVALID_JOB_ID), f"Invalid job id {text}: {error}"))
    return results


def part(state: ClusterState, target: Target) -> Job:
    """The record to act on: a subset of pending tasks is split off first."""
    return target.job if target.tasks is None else arrays.split(state, target.job, target.tasks)


def cancel_jobs(state: ClusterState, now_us: int, event: CancelJobs) -> None:
    """scancel. Raises Refused."""
    which, actor, meddling = event.which, event.actor, Meddling()
    if len(which.ids) > IDS_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(which.ids)} job ids, the limit is {IDS_MAX}")
    if not 0 <= event.signal_no <= SIGNAL_MAX:
        raise Refused(Code.INVALID_VALUE, f"signal {event.signal_no} is not between 1 and {SIGNAL_MAX}")

    def act(target: Target) -> None:
        if not matching([target.job], which):
            return
        if event.signal_no and not (event.signal_no == SIGKILL and not event.batch_only and not event.full):
            signal_job(state, target, event)
        else:
            cancel(state, now_us, actor, target, event.cron)

    if which.ids:
        results = each_target(state, actor, which.ids, act, meddling)
    else:
        unseen = not sees_jobs_of_others(state.config, actor)
        results = []
        for target in all_matching(state, which):
            mine = may_touch(state, actor, target.job)
            if mine and (not event.signal_no or target.job.state is JobState.RUNNING):
                results.append(_result(act, target, actor, meddling))
            elif which.uids and not unseen and not mine:  # others' that were meant: -u OTHER
                denied = Refused(Code.ACCESS_DENIED)
                results.append(JobResult(str(target.job.job_id), int(denied.code), denied.text))
    asked = {"signal": event.signal_no} if event.signal_no else {}
    meddling.write(state, now_us, actor, "signal job" if event.signal_no else "cancel job", asked)
    state.reply(event.reply_to, Results(tuple(results)))


def _result(act: Callable[[Target], None], target: Target, actor: Actor, meddling: Meddling) -> JobResult:
    """Do it to a job that a filter has found."""
    text, before = str(target.job.job_id), meddling.look(target.job) if meddles(actor, target.job) else None
    try:
        act(target)
    except Refused as refused:  # a crontab's job, that wants to be meant
        return JobResult(text, int(refused.code), refused.text)
    if before is not None:
        meddling.saw(text, target.job, before)
    return JobResult(text)


def cancel(state: ClusterState, now_us: int, actor: Actor, target: Target, cron: bool) -> None:
    """End a job by its owner's wish. `cron`: he knows that it is one of a crontab."""
    if target.job.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    step = step_of(target)
    if not isinstance(step, SpreadStep):
        crontabs.check_cancel(state, target.job, cron)
    # -- apply
    if isinstance(step, SpreadStep):
        step_life.end_step(state, target.job, step, "CANCELLED", actor.uid)
        return
    job = part(state, target)
    crontabs.disable(state, job)
    reason = job.reason if job.state is JobState.PENDING else Reason.NONE  # what it has waited for stays to be seen
    job_life.terminate(state, job, JobState.CANCELLED, reason, now_us, "CANCELLED", actor.uid)


def step_of(target: Target) -> Step | None:
    """The step that was meant, None = the whole job. Raises Refused for one that is not there or has ended."""
    if target.step_id is None:
        return None
    step = target.job.steps.get(target.step_id)
    if step is None or target.step_id == EXTERN_STEP:  # the holder of a job goes with the job
        raise Refused(Code.INVALID_JOB_ID, f"step {format_step(target.step_id)}")
    if step.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    return step


def signal_job(state: ClusterState, target: Target, event: CancelJobs) -> None:
    """Send a signal to a running job's steps, or to one of them."""
    job = target.job
    if job.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    if job.state is JobState.PENDING:
        raise Refused(Code.JOB_PENDING)
    if job.state is JobState.SUSPENDED:
        raise Refused(Code.JOB_SUSPENDED)
    one = step_of(target)
    live = job_life.live_steps(state, job) if one is None else [one]
    # As Slurm: with steps of srun, only they are signalled, and the script that waits for them is not (--batch, --full)
    has_steps = any(step.step_id >= 0 for step in live)
    spares_script = has_steps and one is None and not (event.batch_only or event.full)
    # -- apply
    for step in live:
        if event.batch_only and step.step_id != BATCH_STEP:
            continue
        if spares_script and step.step_id == BATCH_STEP:
            continue
        if step.step_id == EXTERN_STEP and one is None:
            continue
        for node in live_nodes(step):
            state.emit(
                SignalStep(node, job.job_id, job.attempt, step.step_id, event.signal_no, event.batch_only, event.full)
            )


def notify_job(state: ClusterState, now_us: int, event: NotifyJob) -> None:
    """scontrol notify: to the error output of the job's script, or of its steps when it has none. Raises Refused."""
    if not 0 < len(event.text) <= NOTICE_MAX or "\0" in event.text:
        raise Refused(Code.INVALID_VALUE, f"a message has 1 to {NOTICE_MAX} characters")
    try:
        for line in event.text.replace("\t", " ").split("\n"):  # it is shown on somebody's terminal
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
    if all(target.job.state not in HOLDING_STATES for target in targets):
        raise Refused(Code.JOB_NOT_RUNNING)
    # -- apply
    for target in targets:
        job = target.job
        steps = [step for step in job_life.live_steps(state, job) if step.step_id != EXTERN_STEP]
        if target.step_id is not None:
            steps = [step for step in steps if step.step_id == target.step_id]
        elif any(step.step_id == BATCH_STEP for step in steps):
            steps = [step for step in steps if step.step_id == BATCH_STEP]
        for step in steps:
            state.emit(NotifyStep(live_nodes(step)[0], job.job_id, job.attempt, step.step_id, event.text))
    meddling = Meddling()
    if meddles(event.actor, targets[0].job):
        meddling.saw(event.id, targets[0].job, meddling.look(targets[0].job))
    meddling.write(state, now_us, event.actor, "notify job", {"text": event.text})
    state.reply(event.reply_to, Done())


def control_jobs(state: ClusterState, now_us: int, event: ControlJobs) -> None:
    """scontrol hold, uhold, release, requeue, requeuehold. Raises Refused."""
    if len(event.ids) > IDS_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(event.ids)} job ids, the limit is {IDS_MAX}")
    check, apply = ACTIONS[event.action]

    def act(target: Target) -> None:
        check(state, now_us, event.actor, target.job)
        # -- apply
        apply(state, now_us, event.actor, part(state, target))

    ids, meddling = event.ids[::-1] if event.action is ControlAction.TOP else event.ids, Meddling()
    results = each_target(state, event.actor, ids, act, meddling)
    meddling.write(state, now_us, event.actor, f"{event.action.name.lower().replace('_', ' ')} job", {})
    state.reply(event.reply_to, Results(tuple(results)))


def _check_hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Of a job that has its nodes it says what becomes of it when it is queued again."""
    if job.state in END_STATES or job.state is JobState.COMPLETING:
        raise Refused(Code.JOB_FINISHED)


def _check_release(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    _check_hold(state, now_us, actor, job)
    if job.hold is Hold.ADMIN and actor.role < Role.OPERATOR and not job.reason_detail:
        raise Refused(Code.ACCESS_DENIED, "an administrator holds the job")


def _check_requeue(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    if job.state is JobState.PENDING:
        raise Refused(Code.JOB_PENDING)
    if job.state is JobState.COMPLETING:
        raise Refused(Code.DISABLED_STATE, "the job is completing, try again later")
    if job.state in END_STATES and job.request.het_job_id:
        raise Refused(Code.ALREADY_DONE, "a heterogeneous job that has ended is not run again")
    if job.request.kind in (JobKind.SALLOC, JobKind.SRUN):
        raise Refused(Code.DISABLED_STATE, "a job without a script is not run again")
    if not job.request.requeue:
        raise Refused(Code.DISABLED_STATE, "the job was submitted with --no-requeue")


def hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Hold as whoever asks: an operator's hold, of his own job too, only operators release."""
    _hold_as(state, now_us, job, Hold.ADMIN if actor.role >= Role.OPERATOR else Hold.USER)


def _user_hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    _hold_as(state, now_us, job, Hold.USER)


def _hold_as(state: ClusterState, now_us: int, job: Job, who: Hold) -> None:
    job.hold = max(job.hold, who)
    if job.state is JobState.PENDING:
        job.reason_detail = ""
    state.touch(job)
    state.record(now_us, job, "hold", who.name)
    refresh(state, job, now_us)


def release(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Let a held job go. A priority of 0, which holds too, becomes what it was at submit."""
    job.hold = Hold.NO
    if job.state is JobState.PENDING:
        job.reason_detail = ""
    if job.request.priority == 0:
        job.request = with_changes(job.request, priority=None)
        job.request_id = state.new_request(job.request)
        priority.renew(state, job)
    state.touch(job)
    state.record(now_us, job, "release", f"uid {actor.uid}")
    if job.job_id in state.waiting_for:  # the hold's reason hid that what it waits for may never come
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
    """It goes on as soon as its cpus are free: at the end of this step, if nobody has been given them."""
    state.record(now_us, job, "resume asked", f"uid {actor.uid}")
    suspend.claim(state, job, now_us)
    preempt.tell_running(state, job)


def _requeue(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    state.record(now_us, job, "requeue asked", f"uid {actor.uid}")
    if job.state is JobState.SUSPENDED and job.suspended_by is Suspend.ADMIN:
        job.hold = Hold.ADMIN  # as Slurm does: who suspended it does not want it to run
    if job.state in END_STATES:
        job_life.requeue_ended(state, job, now_us)
    else:
        job_life.terminate(state, job, JobState.REQUEUED, Reason.NONE, now_us, "REQUEUE")


def _requeue_hold(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    job.hold = Hold.ADMIN if actor.role >= Role.OPERATOR and actor.uid != job.user_id else Hold.USER
    _requeue(state, now_us, actor, job)


ACTIONS: dict[ControlAction, tuple[Action, Action]] = {
    ControlAction.HOLD: (_check_hold, hold),
    ControlAction.USER_HOLD: (_check_hold, _user_hold),
    ControlAction.RELEASE: (_check_release, release),
    ControlAction.REQUEUE: (_check_requeue, _requeue),
    ControlAction.REQUEUE_HOLD: (_check_requeue, _requeue_hold),
    ControlAction.SUSPEND: (_check_suspend, _suspend),
    ControlAction.RESUME: (_check_resume, _resume),
    ControlAction.TOP: (top.check_top, top.top),
}
