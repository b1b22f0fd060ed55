"""Effects on a job when its prolog, its extern steps or its epilog begin, end or fail. The sequence is in
jobs/prolog_state.py.

Rules
    - A failed prolog: the node is drained ("Prolog error"), the job is requeued and held; not held with NoHold or
      nohold_on_prolog_fail. Where nodes are not drained for it (PenstockPrologFailDrains=NO) the job is held after its
      third. A job that may not be requeued (ForceRequeueOnFail apart) ends as FAILED, one without a script as
      CANCELLED.
    - A failed epilog: the node is drained ("Epilog error"), the job's end is not affected.
    - The node's reason names a program that was killed at its deadline.
    - An extern step that disappeared without an exit (its supervisor was killed) has run no epilog: the node is drained
      too, and the job ends, since its private folders are lost.
    - A failed PrologSlurmctld requeues and holds the job, as a failed prolog does; no node is at fault.
"""

import msgspec

from ctld.core.jobs import outcome, prolog_state
from ctld.core.lifecycle import gpu_jobs, job_life
from ctld.core.nodes import life as node_life
from ctld.core.records.effects import ForgetStep
from ctld.core.records.events import LaunchRefused, ScriptEnded, StepExited, StepStarted
from ctld.core.records.job import Job
from ctld.core.records.step import SpreadStep, StepPart, is_live_on
from ctld.core.state.state import ClusterState
from ctld.core.steps import life as step_life
from ctld.core.steps import parts as parts
from penstock.values.states import END_STATES, JobState, Reason

S = JobState
PROLOG_ERROR = "Prolog error"
EPILOG_ERROR = "Epilog error"
KILL_FAILED = "Kill task failed"
#: Failed prologs of a job before it is held, where its nodes are not drained for them.
PROLOG_FAILURES_MAX = 3


def script_ended(state: ClusterState, now_us: int, event: ScriptEnded) -> None:
    """Handles the end of PrologSlurmctld."""
    if state.steps.prologs.get(event.job_id) != (event.attempt, False):
        return
    job = state.jobs.get(event.job_id)
    if job is None or job.attempt != event.attempt or job.state is not S.CONFIGURING:
        del state.steps.prologs[event.job_id]
        return
    state.steps.prologs[event.job_id] = (event.attempt, True)
    if event.failure:
        state.record(now_us, job, "prolog_slurmctld failed", event.failure)
        _back_to_queue(state, job, now_us, event.failure)
    else:
        job_life.start_extern_step(state, job)


def step_started(state: ClusterState, now_us: int, event: StepStarted) -> None:
    """Handles the end of a node's prolog: with the last of them the job begins."""
    step_life.step_started(state, now_us, event)
    found = step_life.find(state, event.job_id, event.attempt, event.step_id)
    if found is not None and found[0].state is S.CONFIGURING and not prolog_state.awaits_prolog(state, found[0]):
        job_life.launch(state, found[0])


def step_exited(state: ClusterState, now_us: int, event: StepExited) -> None:
    """Handles the end of an extern step on a node: as ordered, or by a failure."""
    found = step_life.find(state, event.job_id, event.attempt, event.step_id)
    if event.rebooted or found is None or not is_live_on(found[1], event.node):
        step_life.step_exited(state, now_us, event)
        return
    job, step = found
    assert isinstance(step, SpreadStep)
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    state.emit(ForgetStep(event.node, event.job_id, event.attempt, event.step_id))
    ended = msgspec.structs.replace(event, exit_code=0, exit_signal=0)  # its exit code tells at which stage it failed
    part = parts.ended(state, step, ended)
    if event.failure:
        state.record(now_us, job, f"{event.holder_stage or 'holder'} failed", f"{event.node}: {event.failure}")
        _drain(state, now_us, event, part)
        if job.state not in END_STATES and job.state is not S.COMPLETING:
            _end_for(state, job, now_us, event)
    step_life.part_done(state, job, step, now_us)


def _end_for(state: ClusterState, job: Job, now_us: int, event: StepExited) -> None:
    if event.lease_lapsed:
        outcome.failed_on(job, event.node)
        job_life.terminate(state, job, job_life.after_node_loss(job), Reason.NODE_DOWN, now_us, "NODE FAILURE")
    elif event.holder_stage == "prolog" or (event.untried and job.state is S.CONFIGURING):
        free = gpu_jobs.blame(state, job, event.node, event.failure) or event.untried
        _back_to_queue(state, job, now_us, event.failure, free)
    else:
        outcome.explain(job, event.failure)
        job_life.terminate(state, job, S.FAILED, Reason.SYSTEM_FAILURE, now_us)


def _drain(state: ClusterState, now_us: int, event: StepExited, part: StepPart) -> None:
    node, stage = state.nodes.get(event.node), event.holder_stage
    if node is None or (stage == "prolog" and not state.config.prolog_fail_drains):
        return
    if not stage and not part.start_at_us:
        return  # it never began, and neither did its prolog
    reason = {"prolog": PROLOG_ERROR, "kill": KILL_FAILED}.get(stage, EPILOG_ERROR)
    if event.exit_signal or not stage:  # killed at its deadline; or the extern step itself disappeared
        reason = f"{reason}: {event.failure}"
    node_life.drain(node, reason, now_us)
    state.touch_node(node)


def launch_refused(state: ClusterState, now_us: int, event: LaunchRefused) -> None:
    """Handles a node's refusal of an extern step: the job is requeued, and held unless a GPU caused it."""
    found = step_life.find(state, event.job_id, event.attempt, event.step_id)
    step_life.launch_refused(state, now_us, event)
    if found is not None and event.never:
        step_life.give_up(state, now_us, found[0], event.why)
    elif found is not None and found[0].state is S.CONFIGURING:
        free = gpu_jobs.blame(state, found[0], event.node, event.why)
        _back_to_queue(state, found[0], now_us, event.why, free)


def _back_to_queue(state: ClusterState, job: Job, now_us: int, why: str, untried: bool = False) -> None:
    config = state.config
    if job.request.has_owner():
        outcome.explain(job, why)
        job_life.terminate(state, job, S.CANCELLED, Reason.JOB_LAUNCH_FAILURE, now_us)
        return
    if not (untried or job.request.requeue or config.has_prolog_flag("ForceRequeueOnFail")):
        outcome.explain(job, why)
        job_life.terminate(state, job, S.FAILED, Reason.JOB_LAUNCH_FAILURE, now_us)
        return
    goes_free = untried or config.has_prolog_flag("NoHold") or _has_no_hold(state)
    if not config.prolog_fail_drains and job.failed_attempts + 1 < PROLOG_FAILURES_MAX:
        goes_free = True
    reason = Reason.NONE if goes_free else Reason.LAUNCH_FAILED_REQUEUED_HELD
    if goes_free and not gpu_jobs.is_hit(job):  # the others are counted by their cause
        outcome.count_failure(job)
    job_life.terminate(state, job, S.REQUEUED, reason, now_us, "PROLOG")


def _has_no_hold(state: ClusterState) -> bool:
    return state.config.has_word("scheduler_parameters", "nohold_on_prolog_fail")
