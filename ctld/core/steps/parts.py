"""The parts of a step on several nodes: how a node's report changes its part, and how the parts combine to the step's
state.

A part goes CONFIGURING -> RUNNING -> an end state, or from CONFIGURING to an end state, like a step on one node. The
step runs with its first part and ends with its last. Its exit is the highest of its parts', where a signal counts as
128 plus its number; its state depends on the cause of its end (`note`), then on the worst of its parts.
"""

from ctld.core.records.events import StepExited
from ctld.core.records.step import SpreadStep, StepPart, part_on
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from ctld.core.steps import task_ends
from ctld.core.steps.usage import add_usage
from penstock.values.numbers import within_int64
from penstock.values.signals import parse_end_warning
from penstock.values.states import JobState

S = JobState
US = 1_000_000
#: As for a batch step that could not be started: 0:53.
NOT_LAUNCHED_SIGNAL = 53
#: The state of a step that was ended, by its note; for other notes the parts determine it.
ENDED_BY: dict[str, JobState] = {
    "CANCELLED": S.CANCELLED,
    "TIME LIMIT": S.TIMEOUT,
    "PREEMPTION": S.CANCELLED,
    "REQUEUE": S.CANCELLED,
    "NODE FAILURE": S.NODE_FAIL,
}
#: Its job was over: the step may have ended by itself meanwhile, so only one that a signal ended counts as cancelled.
JOB_OVER = ("SCRIPT END", "JOB END")
_WORST = (S.NODE_FAIL, S.OUT_OF_MEMORY, S.FAILED, S.CANCELLED, S.COMPLETED)
_STEP_BITS = 32


def weight(code: int, signal: int) -> int:
    """Orders exits by severity."""
    return 128 + signal if signal else code


def put(state: ClusterState, step: SpreadStep, at: int, part: StepPart) -> None:
    """Replaces a part; when it has ended, its resources are free for other steps of the job."""
    old = step.all_parts[at]
    step.all_parts = (*step.all_parts[:at], part, *step.all_parts[at + 1 :])
    state.touch_step(step)
    if part.state >= S.COMPLETED and old.state < S.COMPLETED:
        step.live -= 1
        table = state.steps.by_job.get(step.job_id)
        if table is not None:
            table.give_back(step, part)


def started(state: ClusterState, step: SpreadStep, node: str, start_us: int) -> bool:
    """Handles the start of tasks on the node. Returns whether they are the step's first."""
    at = part_on(step, node)
    part = step.all_parts[at]
    if part.state is not S.CONFIGURING:
        return False
    put(state, step, at, part._replace(state=S.RUNNING, start_at_us=start_us))
    return step.state is S.CONFIGURING


def set_limit_timers(state: ClusterState, step: SpreadStep) -> None:
    """Sets the timers of a running step's time limit and of the warning before it."""
    if step.time_limit_s < 0 or not step.start_at_us:
        return
    check = limit_check(step.attempt, step.step_id)
    due_us = step.start_at_us + step.time_limit_s * US
    state.timers.set(due_us, Timer.STEP_LIMIT, step.job_id, check)
    if step.request is not None and step.request.signal:
        before_us = parse_end_warning(step.request.signal).before_end_s * US
        state.timers.set(max(step.start_at_us, due_us - before_us), Timer.STEP_WARNING, step.job_id, check)


def ended(state: ClusterState, step: SpreadStep, event: StepExited) -> StepPart:
    """Handles the end of the node's tasks, or their failed start."""
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
    step.user_cpu_us = within_int64(step.user_cpu_us + event.user_cpu_us)
    step.system_cpu_us = within_int64(step.system_cpu_us + event.system_cpu_us)
    step.max_rss_kb = max(step.max_rss_kb, event.max_rss_kb)
    step.max_vmsize_kb = max(step.max_vmsize_kb, event.max_vmsize_kb)
    step.disk_read_bytes = within_int64(step.disk_read_bytes + event.disk_read_bytes)
    step.disk_write_bytes = within_int64(step.disk_write_bytes + event.disk_write_bytes)
    if event.metrics:
        step.usage = add_usage(step.usage, event.node, event.metrics)
    step.task_ends = task_ends.with_part(step, part, event)
    put(state, step, at, part)
    return part


def refused(state: ClusterState, step: SpreadStep, node: str, now_us: int, why: str) -> None:
    """Handles the node's refusal of its part."""
    at = part_on(step, node)
    part = step.all_parts[at]._replace(state=S.FAILED, end_at_us=now_us, exit_signal=NOT_LAUNCHED_SIGNAL, failure=why)
    step.task_ends = task_ends.with_part(step, part)
    put(state, step, at, part)


def lost(state: ClusterState, step: SpreadStep, node: str, now_us: int, why: str) -> None:
    """Ends a part that is known to be dead without an exit of its own."""
    at = part_on(step, node)
    part = step.all_parts[at]
    part = part._replace(state=S.NODE_FAIL, end_at_us=max(now_us, part.start_at_us), failure=why)
    step.task_ends = task_ends.with_part(step, part)
    put(state, step, at, part)


def conclude(step: SpreadStep, now_us: int) -> JobState:
    """Combines the results of all parts, which have ended. Returns the state that the step ends in."""
    parts = step.all_parts
    worst = max(parts, key=lambda part: weight(part.exit_code, part.exit_signal))
    step.exit_code = worst.exit_code
    step.exit_signal = worst.exit_signal
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
    """Encodes a step of a job as a timer's check value."""
    return attempt << _STEP_BITS | (step_id & (1 << _STEP_BITS) - 1)


def limit_step(check: int) -> tuple[int, int]:
    """Returns (attempt, step id): the reverse."""
    step_id = check & (1 << _STEP_BITS) - 1
    return check >> _STEP_BITS, step_id - (1 << _STEP_BITS) if step_id >> (_STEP_BITS - 1) else step_id
