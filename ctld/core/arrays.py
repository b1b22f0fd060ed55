"""Job arrays: one record for all pending tasks, split when a task starts or is treated apart.

A record with `array_tasks` stands for those pending tasks. A task that starts is split off with a job id of its own;
the last pending task keeps the record and with it the array's base id (as Slurm does). A subset that is cancelled or
held apart is split off as one record too, so that cancelling 50,000 tasks is one row. `ArrayRecord` counts tasks by
fate, for dependencies, `%limit` and those who await the whole array.

Deliberately absent: a table of all tasks. Memory is the number of ranges plus the tasks that have started.
"""

from ctld.core.model import NO_STEPS, ArrayRecord, Job, job_from, job_row
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES, JobState
from penstock.values.taskset import TaskSet


def create(state: ClusterState, job: Job, tasks: TaskSet) -> None:
    """Make the counters of a new array whose record is `job`."""
    record = blank(job.job_id, tasks)
    record.pending = record.total
    record.holders[job.job_id] = None
    state.arrays[job.job_id] = record


def blank(array_job_id: int, tasks: TaskSet) -> ArrayRecord:
    """Counters at zero, and the facts of the array as submitted."""
    record = ArrayRecord()
    record.array_job_id, record.total = array_job_id, len(tasks)
    record.pending = record.running = record.ok = record.failed = record.exit_code = record.exit_signal = 0
    record.holders, record.members, record.waiting = {}, {}, {}
    record.began = False
    ranges = tasks.ranges
    record.facts = (len(tasks), ranges[0][0], max(r[1] for r in ranges), ranges[0][2] if len(ranges) == 1 else 1)
    return record


def facts(job: Job, state: ClusterState) -> tuple[int, int, int, int]:
    """(count, lowest id, highest id, step) for the SLURM_ARRAY_* variables; zeros for a job that is no array task."""
    return state.arrays[job.array_job_id].facts if job.array_job_id else (0, 0, 0, 0)


def weight(job: Job) -> int:
    """How many tasks the record stands for."""
    return len(job.array_tasks) if job.array_tasks is not None else 1


def count_move(state: ClusterState, job: Job, was: JobState, to: JobState) -> None:
    """Keep the array's counters when one of its records changes state."""
    if not job.array_job_id:
        return
    record = state.arrays[job.array_job_id]
    number = weight(job)
    if was in HOLDING_STATES:
        record.running -= number
    elif was is JobState.PENDING:
        record.pending -= number
        record.waiting.pop(job.job_id, None)
    if to in HOLDING_STATES:
        record.running += number
    elif to is JobState.PENDING:
        record.pending += number
        if job.array_task_id is not None:
            record.waiting[job.job_id] = None


def count_end(state: ClusterState, job: Job) -> None:
    """An array's record has reached its end state."""
    if not job.array_job_id:
        return
    record = state.arrays[job.array_job_id]
    if job.state is JobState.COMPLETED:
        record.ok += weight(job)
    else:
        record.failed += weight(job)
    if (job.exit_signal, job.exit_code) > (record.exit_signal, record.exit_code):
        record.exit_code, record.exit_signal = job.exit_code, job.exit_signal


def uncount_end(state: ClusterState, job: Job) -> None:
    """A record that had ended goes on. The highest exit stays what it was."""
    if not job.array_job_id:
        return
    record = state.arrays[job.array_job_id]
    if job.state is JobState.COMPLETED:
        record.ok -= weight(job)
    else:
        record.failed -= weight(job)


def startable(state: ClusterState, job: Job) -> int:
    """How many of the record's tasks may start now, as far as the array's limit goes."""
    if not job.array_job_id:
        return 1
    record = state.arrays[job.array_job_id]
    if not job.array_throttle:
        return weight(job)
    return max(0, min(weight(job), job.array_throttle - record.running))


def take_task(state: ClusterState, holder: Job) -> Job:
    """The record's first pending task as a job of its own, ready to start."""
    if holder.array_tasks is None:
        return holder
    taken, rest = holder.array_tasks.pop_first(1)
    return _split_off(state, holder, TaskSet.of(taken), rest)


def split(state: ClusterState, holder: Job, tasks: TaskSet) -> Job:
    """Split pending tasks off a record. All of them: the record itself. One task becomes a plain task record.

    The new record has the same attempt 0, request and times, and a new job id.
    """
    assert holder.array_tasks is not None
    return _split_off(state, holder, tasks, holder.array_tasks.minus(tasks))


def _split_off(state: ClusterState, holder: Job, tasks: TaskSet, rest: TaskSet) -> Job:
    assert holder.state is JobState.PENDING
    record = state.arrays[holder.array_job_id]
    if rest:
        job = _copy(state, holder)
        holder.array_tasks = rest
        state.touch(holder)
        state.add_job(job)
        record.holders[job.job_id] = None
    else:
        job = holder
    job.array_tasks = tasks
    if len(tasks) == 1:
        job.array_task_id, job.array_tasks = tasks.first(), None
        record.members[job.array_task_id] = job.job_id
        record.holders.pop(job.job_id, None)
        record.waiting[job.job_id] = None
    state.touch(job)
    return job


def _copy(state: ClusterState, holder: Job) -> Job:
    job = job_from(job_row(holder))
    job.job_id = state.new_job_id()
    job.submit_key = ""  # the key names the array, not each task
    job.steps = NO_STEPS
    waiting = state.waiting_for.get(holder.job_id)
    if waiting is not None:
        from ctld.core.depends import wait_for  # depends.py asks for readiness, which asks us

        wait_for(state, job, *waiting)
    return job


def refresh_throttle(state: ClusterState, job: Job) -> None:
    """A task of a limited array has got its allocation or left it: others of it may not start any more, or may again."""
    if not job.array_job_id or not job.array_throttle:
        return
    from ctld.core.ready import refresh  # ready.py asks `startable` of us

    record = state.arrays[job.array_job_id]
    for job_id in (*record.holders, *record.waiting):  # not all members: tasks that ended stay among them for MinJobAge
        member = state.jobs.get(job_id)
        if member is not None and member.state is JobState.PENDING:
            refresh(state, member, state.now_us)


def records_of(state: ClusterState, array_job_id: int) -> list[Job]:
    """All records of an array that are in memory, in the order of their job ids."""
    record = state.arrays[array_job_id]
    ids = sorted({*record.holders, *record.members.values()})
    return [state.jobs[job_id] for job_id in ids if job_id in state.jobs]


def is_over(record: ArrayRecord) -> bool:
    """True when no task is pending or running."""
    return record.pending == 0 and record.running == 0
