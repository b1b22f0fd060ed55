"""scontrol update StepId=: changes the time limit of a running step of srun, or of all of a job's.

The limit may be above the job's, which ends the step anyway. As in Slurm, a step that is not there is an invalid id,
and a job without steps is no error.
"""

from ctld.core.jobs.select import JobTarget
from ctld.core.records.effects import Refused
from ctld.core.records.step import SpreadStep
from ctld.core.requests.update_keys import changed_limit_s
from ctld.core.state.state import ClusterState
from ctld.core.steps import parts
from penstock.values.refusals import Code
from penstock.values.states import END_STATES

#: The only key of such an update; it goes with ids of steps.
KEY = "steptimelimit"


def steps_of(target: JobTarget) -> list[SpreadStep]:
    """Returns the live steps that the id names. Raises Refused."""
    steps = [step for step in target.job.steps.values() if isinstance(step, SpreadStep) and step.request is not None]
    if target.step_id is not None:
        steps = [step for step in steps if step.step_id == target.step_id]
        if not steps:
            raise Refused(Code.INVALID_JOB_ID)
    return [step for step in steps if step.state not in END_STATES]


def update(state: ClusterState, now_us: int, target: JobTarget, value: int) -> None:
    """Changes the limits of the steps that the id names. Raises Refused."""
    steps = steps_of(target)
    limits = [changed_limit_s(step.time_limit_s, value, "step") for step in steps]
    state.applying()
    for step, limit_s in zip(steps, limits, strict=True):
        step.time_limit_s = limit_s
        parts.set_limit_timers(state, step)
        state.touch_step(step)
        state.record(now_us, target.job, "update", f"step {step.step_id} timelimit")
