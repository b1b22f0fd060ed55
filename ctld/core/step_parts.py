"""The parts of a step on several nodes: what a node's word changes of its part, and what the parts come to.

A part goes CONFIGURING -> RUNNING -> an end state, or from CONFIGURING to an end state, like a step on one node. The step
runs with its first part and ends with its last. Its exit is the highest of its parts', where a signal counts as 128 and
its number; its state is decided by what ended it (`note`), then by the worst of its parts.
"""

from ctld.core.events import StepExited, StepStarted
from ctld.core.model import Job
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, StepPart, part_on
from ctld.core.step_usage import add_usage
from ctld.core.timers import Timer
from penstock.values.signals import parse_end_warning
from penstock.values.states import JobState

S = JobState
US = 1_000_000
#: As of a batch step that could not be started: 0:53.
NOT_LAUNCHED_SIGNAL = 53
#: What a step is when something ended it; a note that is not here leaves that to the parts.
ENDED_BY: dict[str, JobState] = {
    "CANCELLED": S.CANCELLED,
    "TIME LIMIT": S.TIMEOUT,
    "PREEMPTION": S.CANCELLED,
    "REQUEUE": S.CANCELLED,
    "NODE FAILURE": S.NODE_FAIL,
}
#: Its job was over: the news of the step's own end may have been on its way, so only what a signal ended was cancelled.
JOB_OVER = ("SCRIPT END", "JOB END")
_WORST = (S.NODE_FAIL, S.OUT_OF_MEMORY, S.FAILED, S.CANCELLED, S.COMPLETED)
_STEP_BITS = 32


def weight(code: int, signal: int) -> int:
    """How high an exit is."""
    return 128 + signal if signal else code


def put(state: ClusterState, step: SpreadStep, at: int, part: StepPart) -> None:
    """Replace a part; when it has ended, what it held is free for other steps of the job."""
    old = step.all_parts[at]
    step.all_parts = (*step.all_parts[:at], part, *step.all_parts[at + 1 :])
    state.touch_step(step)
    if part.state >= S.COMPLETED and old.state < S.COMPLETED:
        step.live -= 1
        desk = state.desks.get(step.job_id)
        if desk is not None:
            desk.give_back(step, part)


def started(state: ClusterState, job: Job, step: SpreadStep, event: StepStarted) -> None:
    """Tasks run on the node."""
    at = part_on(step, event.node)
    part = step.all_parts[at]
    if part.state is not S.CONFIGURING:
        return
    put(state, step, at, part._replace(state=S.RUNNING, start_at_us=event.at_us))
    if step.state is S.CONFIGURING:
        step.state, step.start_at_us = S.RUNNING, event.at_us
        set_limit_timers(state, step)


def set_limit_timers(state: ClusterState, step: SpreadStep) -> None:
    """Keep the time limit of a step that has one and runs, and the warning before it."""
    if step.time_limit_s < 0 or not step.start_at_us:
        return
    check = limit_check(step.attempt, step.step_id)
    due_us = step.start_at_us + step.time_limit_s * US
    state.timers.set(due_us, Timer.STEP_LIMIT, step.job_id, check)
    if step.request is not None and step.request.signal:
        before_us = parse_end_warning(step.request.signal).before_end_s * US
        state.timers.set(max(step.start_at_us, due_us - before_us), Timer.STEP_WARNING, step.job_id, check)


def ended(state: ClusterState, step: SpreadStep, event: StepExited) -> StepPart:
    """The node's tasks have ended, or could not be started."""
    at = part_on(step, event.node)
    part = step.all_parts[at]
    failed = bool(event.exit_code or event.exit_signal or event.failure)
    to = S.OUT_OF_MEMORY if event.out_of_memory else S.FAILED if failed else S.COMPLETED
    start_us = event.start_at_us or part.start_at_us
    signal = event.exit_signal
    if event.failure and not event.exit_code and not signal:
        signal = NOT_LAUNCHED_SIGNAL
    part = part._replace(
        state=to, start_at_us=start_us, end_at_us=max(event.end_at_us, start_us), exit_code=event.exit_code,
        exit_signal=signal, failure=event.failure, out_of_memory=event.out_of_memory,
    )  # fmt: skip
    step.user_cpu_us += event.user_cpu_us
    step.system_cpu_us += event.system_cpu_us
    step.max_rss_kb = max(step.max_rss_kb, event.max_rss_kb)
    step.max_vmsize_kb = max(step.max_vmsize_kb, event.max_vmsize_kb)
    step.disk_read_bytes += event.disk_read_bytes
    step.disk_write_bytes += event.disk_write_bytes
    if event.metrics:
        step.usage = add_usage(step.usage, event.node, event.metrics)
    put(state, step, at, part)
    return part


def refused(state: ClusterState, step: SpreadStep, node: str, now_us: int, why: str) -> None:
    """The node will not start its part."""
    at = part_on(step, node)
    part = step.all_parts[at]._replace(state=S.FAILED, end_at_us=now_us, exit_signal=NOT_LAUNCHED_SIGNAL, failure=why)
    put(state, step, at, part)


def lost(state: ClusterState, step: SpreadStep, node: str, now_us: int, why: str) -> None:
    """The part is known to be dead without an exit of its own."""
    at = part_on(step, node)
    part = step.all_parts[at]
    put(state, step, at, part._replace(state=S.NODE_FAIL, end_at_us=max(now_us, part.start_at_us), failure=why))


def conclude(step: SpreadStep, now_us: int) -> JobState:
    """All parts have ended: fill in what they come to. Returns the state that the step ends in."""
    parts = step.all_parts
    worst = max(parts, key=lambda part: weight(part.exit_code, part.exit_signal))
    step.exit_code, step.exit_signal = worst.exit_code, worst.exit_signal
    starts = [part.start_at_us for part in parts if part.start_at_us]
    step.start_at_us = min(starts, default=0)
    step.end_at_us = max(max(part.end_at_us for part in parts), step.start_at_us)
    by_note = ENDED_BY.get(step.note)
    if by_note is not None:
        return by_note
    found = {part.state for part in parts}
    by_parts = next(state for state in _WORST if state in found)
    if by_parts is S.FAILED and step.note in JOB_OVER and step.exit_signal not in (0, NOT_LAUNCHED_SIGNAL):
        return S.CANCELLED
    return by_parts


def limit_check(attempt: int, step_id: int) -> int:
    """A step of a job as a timer's check value."""
    return attempt << _STEP_BITS | (step_id & (1 << _STEP_BITS) - 1)


def limit_step(check: int) -> tuple[int, int]:
    """(attempt, step id): the reverse."""
    step_id = check & (1 << _STEP_BITS) - 1
    return check >> _STEP_BITS, step_id - (1 << _STEP_BITS) if step_id >> (_STEP_BITS - 1) else step_id
