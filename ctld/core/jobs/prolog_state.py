"""Prolog and epilog state of a job, as far as its life cycle depends on it: the controller's own prolog, and extern
steps.

    start -> PrologSlurmctld -> extern steps launched -> all report Started (prologs are done) -> the job begins
    its other steps have ended -> extern steps terminated -> all have exited (epilogs are done) -> the job ends

An extern step (-4) has a part on each of the job's nodes. A job has one where the configuration asks for it:
PrologFlags=Alloc or Contain, a Prolog, an Epilog, private folders. A default configuration has none, and its jobs have
no overhead. A Prolog without PrologFlags=Alloc also runs on all nodes at the start: Slurm runs it on a node before the
job's first step there, so it runs earlier here.

An extern step is always the last step of its job to be terminated, so that epilogs find none of the job's processes.

`state.steps.prologs` lists the jobs whose PrologSlurmctld runs or has run: job id -> (attempt, done). It is not stored:
after a restart an interrupted one is run again, since its progress is unknown.

Deliberately absent: consequences of failures (nodes/extern_steps.py).
"""

from collections.abc import Iterable

from ctld.core.jobs import het, node_boots
from ctld.core.records.effects import RunScript
from ctld.core.records.job import Job, job_row
from ctld.core.records.step import SpreadStep, Step, StepPart, blank_spread_step
from ctld.core.state.state import ClusterState
from penstock.values.config import Config
from penstock.values.hostlist import compress
from penstock.values.jobid import EXTERN_STEP
from penstock.values.states import JobState

S = JobState
#: The note with which an extern step is terminated.
EXTERN_END = "HOLDER END"


def wants_extern_steps(config: Config) -> bool:
    """Whether jobs have extern steps."""
    return bool(config.prolog_flags or config.prolog or config.epilog or config.private_tmp)


def prolog_comes_first(state: ClusterState, job: Job) -> bool:
    """Runs PrologSlurmctld, if there is one that has not run for this attempt; True = wait for it."""
    config = state.config
    if not config.prolog_slurmctld:
        return False
    known = state.steps.prologs.get(job.job_id)
    if known is not None and known[0] == job.attempt:
        return not known[1]
    state.steps.prologs[job.job_id] = (job.attempt, False)
    state.emit(RunScript(job_row(job), "prolog_slurmctld", config.prolog_slurmctld, config.prolog_epilog_timeout_s))
    return True


def extern_step_of(state: ClusterState, job: Job) -> SpreadStep | None:
    """Returns the job's extern step, creating it if it is to have one."""
    step = job.steps.get(EXTERN_STEP)
    if step is None and wants_extern_steps(state.config):
        step = job.steps[EXTERN_STEP] = _new_extern_step(state, job)
        state.touch_step(step)
        table = state.steps.by_job.get(job.job_id)
        if table is not None:
            table.add(step)
    assert step is None or isinstance(step, SpreadStep)
    return step


def _new_extern_step(state: ClusterState, job: Job) -> SpreadStep:
    step = blank_spread_step(job.job_id, job.attempt, EXTERN_STEP, "extern", job.batch_node, state.epoch, 0)
    step.all_parts = tuple(StepPart(part.node, 0, 0) for part in job.alloc)
    step.live = len(step.all_parts)
    step.node_list = compress(part.node for part in job.alloc)
    step.nodes = len(job.alloc)
    step.submit_at_us = job.start_at_us
    return step


def is_up(step: SpreadStep) -> bool:
    """Whether the step has started or ended on each node."""
    return all(part.state is not S.CONFIGURING for part in step.all_parts)


def awaits_prolog(state: ClusterState, job: Job) -> bool:
    """Whether the job's own steps must not be launched yet, because a prolog has not finished or a node reboots."""
    if node_boots.are_awaited(state, job):
        return True
    if state.steps.prologs.get(job.job_id) == (job.attempt, False):
        return True
    if job.request.het_job_id and not job.request.kind and not het.others_are_up(state, job):
        return True
    step = job.steps.get(EXTERN_STEP)
    return isinstance(step, SpreadStep) and not is_up(step)


def is_done(state: ClusterState, job: Job) -> bool:
    """Whether all prologs of the job have finished, and no node of it reboots."""
    if node_boots.are_awaited(state, job):
        return False
    step = job.steps.get(EXTERN_STEP)
    if isinstance(step, SpreadStep):
        return is_up(step)
    known = state.steps.prologs.get(job.job_id) == (job.attempt, True) or not state.config.prolog_slurmctld
    return known and not wants_extern_steps(state.config)


def are_alone(steps: Iterable[Step]) -> bool:
    """Whether only the extern step is alive."""
    return all(step.step_id == EXTERN_STEP for step in steps)


def are_to_go(steps: list[Step]) -> bool:
    """Whether only the extern step is alive, and it has not been terminated yet."""
    return are_alone(steps) and isinstance(steps[0], SpreadStep) and not steps[0].note


def ending_note(job: Job) -> str:
    """Returns the note about the job's end in an order to end its extern step, for the epilog."""
    code = job.exit_code << 8 | job.exit_signal
    return (
        f"SLURM_JOB_EXIT_CODE={code} SLURM_JOB_EXIT_CODE2={job.exit_code}:{job.exit_signal} "
        f"SLURM_JOB_DERIVED_EC={job.derived_code}:{job.derived_signal}"
    )


def attempt_ended(state: ClusterState, job: Job) -> None:
    """Runs EpilogSlurmctld for a job, or an attempt of it, that has released its nodes. Nothing waits for it."""
    state.steps.prologs.pop(job.job_id, None)
    config = state.config
    if config.epilog_slurmctld:
        script = ("epilog_slurmctld", config.epilog_slurmctld, config.prolog_epilog_timeout_s)
        state.emit(RunScript(job_row(job), *script))


def recover(state: ClusterState) -> None:
    """Repeats after a restart what was in progress."""
    if state.config.prolog_slurmctld:
        for job in state.jobs.records():
            if job.state is S.CONFIGURING and EXTERN_STEP not in job.steps:
                prolog_comes_first(state, job)
