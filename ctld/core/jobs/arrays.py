"""Job arrays: one record for all pending tasks, split when a task starts or is changed separately.

A record with `array_tasks` represents those pending tasks. A task that starts is split off with a job id of its own;
the last pending task keeps the record and with it the array's base id (as in Slurm). A subset that is cancelled or held
separately is split off as one record too, so that cancelling 50,000 tasks is one row. `ArrayRecord` counts tasks by
outcome, for dependencies, `%limit` and clients that wait for the whole array.

Deliberately absent: a table of all tasks. Memory is proportional to the number of ranges plus the tasks that have
started.
"""

from ctld.core.jobs.waiters import wait_for
from ctld.core.records.array import ArrayRecord, ids_with
from ctld.core.records.job import NO_STEPS, Job, job_from, job_row
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES, JobState
from penstock.values.taskset import TaskSet


def create(state: ClusterState, job: Job, tasks: TaskSet) -> None:
    """Creates the counters of a new array whose record is `job`."""
    record = blank(job.job_id, tasks)
    record.pending = record.total
    record.unsplit[job.job_id] = None
    state.arrays[job.job_id] = record


def blank(array_job_id: int, tasks: TaskSet) -> ArrayRecord:
    """Returns counters at zero, and the facts of the array as submitted."""
    record = ArrayRecord()
    record.array_job_id = array_job_id
    record.total = len(tasks)
    record.pending = 0
    record.running = 0
    record.ok = 0
    record.failed = 0
    record.exit_code = 0
    record.exit_signal = 0
    record.unsplit = {}
    record.members = {}
    record.waiting = {}
    record.began = False
    ranges = tasks.ranges
    record.facts = (len(tasks), ranges[0][0], max(r[1] for r in ranges), ranges[0][2] if len(ranges) == 1 else 1)
    return record


def facts(job: Job, state: ClusterState) -> tuple[int, int, int, int]:
    """Returns (count, lowest id, highest id, step) for the SLURM_ARRAY_* variables; zeros for a job that is no array
    task."""
    return state.arrays[job.array_job_id].facts if job.array_job_id else (0, 0, 0, 0)


def weight(job: Job) -> int:
    """Returns the number of tasks that the record represents."""
    return len(job.array_tasks) if job.array_tasks is not None else 1


def count_move(state: ClusterState, job: Job, was: JobState, to: JobState) -> None:
    """Updates the array's counters when one of its records changes state."""
    if not job.array_job_id:
        return
    record = state.arrays[job.array_job_id]
    number = weight(job)
    if was in ALLOCATED_STATES:
        record.running -= number
    elif was is JobState.PENDING:
        record.pending -= number
        record.waiting.pop(job.job_id, None)
    if to in ALLOCATED_STATES:
        record.running += number
    elif to is JobState.PENDING:
        record.pending += number
        if job.array_task_id is not None:
            record.waiting[job.job_id] = None


def count_end(state: ClusterState, job: Job) -> None:
    """Counts the end of an array's record."""
    if not job.array_job_id:
        return
    record = state.arrays[job.array_job_id]
    if job.state is JobState.COMPLETED:
        record.ok += weight(job)
    else:
        record.failed += weight(job)
    if (job.exit_signal, job.exit_code) > (record.exit_signal, record.exit_code):
        record.exit_code = job.exit_code
        record.exit_signal = job.exit_signal


def uncount_end(state: ClusterState, job: Job) -> None:
    """Undoes `count_end` for a record that continues. The highest exit code is kept."""
    if not job.array_job_id:
        return
    record = state.arrays[job.array_job_id]
    if job.state is JobState.COMPLETED:
        record.ok -= weight(job)
    else:
        record.failed -= weight(job)


def startable(state: ClusterState, job: Job) -> int:
    """Returns how many of the record's tasks the array's %limit allows to start now."""
    if not job.array_job_id:
        return 1
    record = state.arrays[job.array_job_id]
    if not job.array_throttle:
        return weight(job)
    return max(0, min(weight(job), job.array_throttle - record.running))


def take_task(state: ClusterState, queued: Job) -> Job:
    """Splits off the record's first pending task as a job of its own, ready to start."""
    if queued.array_tasks is None:
        return queued
    taken, rest = queued.array_tasks.pop_first(1)
    return _split_off(state, queued, TaskSet.of(taken), rest)


def split(state: ClusterState, queued: Job, tasks: TaskSet) -> Job:
    """Splits pending tasks off a record. If they are all of them, returns the record itself. One task becomes a plain
    task record.

    The new record has the same attempt 0, request and times, and a new job id.
    """
    assert queued.array_tasks is not None
    return _split_off(state, queued, tasks, queued.array_tasks.minus(tasks))


def _split_off(state: ClusterState, queued: Job, tasks: TaskSet, rest: TaskSet) -> Job:
    assert queued.state is JobState.PENDING
    record = state.arrays[queued.array_job_id]
    if rest:
        job = _copy(state, queued)
        queued.array_tasks = rest
        state.touch(queued)
        state.add_job(job, 0)
        state.submissions.stored.enter_part(job)
        record.unsplit[job.job_id] = None
    else:
        job = queued
    job.array_tasks = tasks
    if len(tasks) == 1:
        job.array_task_id = tasks.first()
        job.array_tasks = None
        record.members[job.array_task_id] = job.job_id
        record.unsplit.pop(job.job_id, None)
        record.waiting[job.job_id] = None
    state.touch(job)
    return job


def _copy(state: ClusterState, queued: Job) -> Job:
    job = job_from(job_row(queued))
    job.job_id = state.new_job_id()
    job.submit_key = ""  # the key names the array, not each task
    job.steps = NO_STEPS
    waiting = state.dependencies.waiting_for.get(queued.job_id)
    if waiting is not None:
        wait_for(state, job, *waiting)
    return job


def records_of(state: ClusterState, array_job_id: int) -> list[Job]:
    """Returns all records of an array that are in memory, in the order of their job ids."""
    record = state.arrays[array_job_id]
    ids = sorted({*record.unsplit, *record.members.values()})
    return [state.jobs[job_id] for job_id in ids if job_id in state.jobs]


def records_with(state: ClusterState, record: ArrayRecord, wanted: TaskSet) -> list[Job]:
    """Returns the records in memory that may have some of the tasks, in the order of their job ids."""
    return [state.jobs[job_id] for job_id in ids_with(record.members, record.unsplit, wanted) if job_id in state.jobs]


def is_over(record: ArrayRecord) -> bool:
    """True when no task is pending or running."""
    return record.pending == 0 and record.running == 0
