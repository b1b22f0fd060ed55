"""What surrounds a job, as far as a job's life must know of it: the controller's own prolog, and holders.

    start -> PrologSlurmctld -> holders launched -> all have said Started (their prologs are done) -> the job begins
    its other steps have ended -> holders are told to end -> all have exited (their epilogs are done) -> the job ends

A holder is the extern step (-4), a part on each of the job's nodes. A job has one where the configuration asks for it:
PrologFlags=Alloc or Contain, a Prolog, an Epilog, private folders. A default configuration has none, and such a job costs
nothing here. A Prolog without PrologFlags=Alloc runs on all nodes at the start, too: Slurm runs it where and when the
first step comes, and what a site sees of that is only that it runs earlier.

A holder is the last step of its job to be told to end, whoever ends the job, so that epilogs find none of its processes.

`state.prologs` says of which jobs PrologSlurmctld runs or has run: job id -> (attempt, done). It is not stored: after a
restart one that was under way is run again, since nobody knows how far it was.

Deliberately absent: what failures lead to (holders.py).
"""

from collections.abc import Iterable

from ctld.core import het
from ctld.core.effects import RunScript
from ctld.core.model import Job, job_row
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, Step, StepPart
from penstock.values.config import Config
from penstock.values.hostlist import compress
from penstock.values.jobid import EXTERN_STEP
from penstock.values.states import JobState

S = JobState
#: What ends a holder, as its step's note.
HOLDER_END = "HOLDER END"


def wants_holders(config: Config) -> bool:
    """Whether jobs have holders."""
    return bool(config.prolog_flags or config.prolog or config.epilog or config.private_tmp)


def prolog_comes_first(state: ClusterState, job: Job) -> bool:
    """Run PrologSlurmctld, if there is one that has not run for this attempt; True = wait for it."""
    config = state.config
    if not config.prolog_slurmctld:
        return False
    known = state.prologs.get(job.job_id)
    if known is not None and known[0] == job.attempt:
        return not known[1]
    state.prologs[job.job_id] = (job.attempt, False)
    state.emit(RunScript(job_row(job), "prolog_slurmctld", config.prolog_slurmctld, config.prolog_epilog_timeout_s))
    return True


def holder_of(state: ClusterState, job: Job) -> SpreadStep | None:
    """The job's holder, made now if it is to have one."""
    step = job.steps.get(EXTERN_STEP)
    if step is None and wants_holders(state.config):
        step = job.steps[EXTERN_STEP] = _new_holder(state, job)
        state.touch_step(step)
        desk = state.desks.get(job.job_id)
        if desk is not None:
            desk.add(step)
    assert step is None or isinstance(step, SpreadStep)
    return step


def _new_holder(state: ClusterState, job: Job) -> SpreadStep:
    step = SpreadStep()
    step.job_id, step.attempt, step.step_id, step.name = job.job_id, job.attempt, EXTERN_STEP, "extern"
    step.state, step.node, step.epoch, step.tasks = S.CONFIGURING, job.batch_node, state.epoch, 0
    step.dead_after_s = 0
    step.start_at_us = step.end_at_us = step.exit_code = step.exit_signal = 0
    step.user_cpu_us = step.system_cpu_us = step.max_rss_kb = step.max_vmsize_kb = 0
    step.disk_read_bytes = step.disk_write_bytes = 0
    step.all_parts = tuple(StepPart(part.node, 0, 0) for part in job.alloc)
    step.live = len(step.all_parts)
    step.request, step.spec_hash, step.step_key = None, b"", ""
    step.node_list, step.nodes = compress(part.node for part in job.alloc), len(job.alloc)
    step.cpus, step.tres_alloc = 0, ""
    step.submit_at_us, step.time_limit_s, step.cancelled_by_uid = job.start_at_us, -1, -1
    step.usage, step.note, step.ports = "", "", ()
    return step


def is_up(step: SpreadStep) -> bool:
    """True when each holder has begun, or has ended."""
    return all(part.state is not S.CONFIGURING for part in step.all_parts)


def is_held_back(state: ClusterState, job: Job) -> bool:
    """True while nothing of the job itself may be launched, because what comes before it is not done."""
    if state.prologs.get(job.job_id) == (job.attempt, False):
        return True
    if job.request.het_job_id and not job.request.kind and not het.others_are_up(state, job):
        return True
    step = job.steps.get(EXTERN_STEP)
    return isinstance(step, SpreadStep) and not is_up(step)


def is_done(state: ClusterState, job: Job) -> bool:
    """True when all that comes before the job's own steps has been."""
    step = job.steps.get(EXTERN_STEP)
    if isinstance(step, SpreadStep):
        return is_up(step)
    known = state.prologs.get(job.job_id) == (job.attempt, True) or not state.config.prolog_slurmctld
    return known and not wants_holders(state.config)


def are_alone(steps: Iterable[Step]) -> bool:
    """True when nothing lives but holders."""
    return all(step.step_id == EXTERN_STEP for step in steps)


def are_to_go(steps: list[Step]) -> bool:
    """True when only holders live, and have not been told to end yet."""
    return are_alone(steps) and isinstance(steps[0], SpreadStep) and not steps[0].note


def ending_note(job: Job) -> str:
    """What an order to end tells a holder of the job's end, for its epilog."""
    code = job.exit_code << 8 | job.exit_signal
    return (
        f"SLURM_JOB_EXIT_CODE={code} SLURM_JOB_EXIT_CODE2={job.exit_code}:{job.exit_signal} "
        f"SLURM_JOB_DERIVED_EC={job.derived_code}:{job.derived_signal}"
    )


def attempt_ended(state: ClusterState, job: Job) -> None:
    """The job, or an attempt of it, has given its nodes back: EpilogSlurmctld. Nothing waits for it."""
    state.prologs.pop(job.job_id, None)
    config = state.config
    if config.epilog_slurmctld:
        script = ("epilog_slurmctld", config.epilog_slurmctld, config.prolog_epilog_timeout_s)
        state.emit(RunScript(job_row(job), *script))


def recover(state: ClusterState) -> None:
    """After a restart: run again what was under way."""
    if state.config.prolog_slurmctld:
        for job in state.jobs.values():
            if job.state is S.CONFIGURING and EXTERN_STEP not in job.steps:
                prolog_comes_first(state, job)
