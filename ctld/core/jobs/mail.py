"""--mail-type: decides which mails a job's life cycle triggers. Their text and delivery are in ctld/runtime/mail.py.

A mail is an effect: it is sent once, after the commit of its cause. It is not repeated after a restart, so a crash of
the controller may lose one; losing a mail is preferred to sending it twice.

Rules (sbatch(1)): FAIL means every end but COMPLETED and CANCELLED; END alone includes those too. An array has one
BEGIN with its first task and one END or FAIL with its last, unless ARRAY_TASKS requests those of each task. Percentages
of the time limit are timers of the jobs that requested them.
"""

from ctld.core.records.array import ArrayRecord
from ctld.core.records.effects import ArrayEnd, SendMail
from ctld.core.records.job import Job, job_row
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.mail import TIME_LIMITS
from penstock.values.states import ALLOCATED_STATES, JobState

#: End states that are no failure.
_WELL = frozenset((JobState.COMPLETED, JobState.CANCELLED))
_WORDS = tuple(TIME_LIMITS)
US = 1_000_000


def _send(state: ClusterState, job: Job, kind: str, array: ArrayEnd | None = None, whole: bool = False) -> None:
    state.emit(SendMail(job_row(job), kind, state.now_us, whole, array))


def _record_of(state: ClusterState, job: Job) -> ArrayRecord | None:
    """Returns the array, if the mail concerns it as a whole."""
    is_whole = bool(job.array_job_id) and "ARRAY_TASKS" not in job.request.mail_types
    return state.arrays[job.array_job_id] if is_whole else None


def began(state: ClusterState, job: Job) -> None:
    """Sends the mail of a job that has its nodes."""
    record = _record_of(state, job)
    if "BEGIN" in job.request.mail_types and (record is None or not record.began):
        _send(state, job, "BEGIN", whole=record is not None)
    if record is not None:
        record.began = True


def ended(state: ClusterState, job: Job) -> None:
    """Sends the mail of a job, or of the last task of its array, that has ended."""
    state.limits.mailed_limits.pop(job.job_id, None)
    record = _record_of(state, job)
    if record is not None and (record.pending or record.running):
        return
    failed = record.failed > 0 if record is not None else job.state not in _WELL
    kind = "FAIL" if failed and "FAIL" in job.request.mail_types else "END"
    if kind in job.request.mail_types:
        _send(state, job, kind, _array_end(record), record is not None)


def _array_end(record: ArrayRecord | None) -> ArrayEnd | None:
    if record is None:
        return None
    least = 0 if record.ok else record.exit_code
    return ArrayEnd(bool(record.ok and record.failed), least, record.exit_code, record.exit_signal)


def requeued(state: ClusterState, job: Job, ended_as: JobState) -> None:
    """Sends the mail of a requeue; called before the attempt's data are reset. `ended_as`: of a crontab's run, its end."""
    state.limits.mailed_limits.pop(job.job_id, None)
    types = job.request.mail_types
    if ended_as is not JobState.REQUEUED:
        kind = "FAIL" if ended_as not in _WELL and "FAIL" in types else "END"
        if kind in types:
            row = job_row(job)._replace(state=ended_as, end_state=None)
            state.emit(SendMail(row, kind, state.now_us))
    elif "REQUEUE" in types:
        _send(state, job, "REQUEUE")


def never_satisfied(state: ClusterState, job: Job) -> None:
    """Sends the mail of a dependency that can never be met."""
    if "INVALID_DEPEND" in job.request.mail_types:
        _send(state, job, "INVALID_DEPEND")


def set_timers(state: ClusterState, job: Job) -> None:
    """Sets a timer for each requested percentage of the time limit that lies ahead."""
    for number, word in enumerate(_WORDS):
        if word in job.request.mail_types:
            due_us = _share_us(job, word)
            if due_us > state.now_us:
                state.timers.set(due_us, Timer.MAIL_LIMIT, job.job_id, job.attempt * len(_WORDS) + number)


def _share_us(job: Job, word: str) -> int:
    return job.start_at_us + job.suspended_us + job.time_limit_s * US * TIME_LIMITS[word] // 100


def limit_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """Handles the timer of a percentage of the time limit, unless the limit was raised since, which has set another
    timer."""
    job = state.jobs.get(job_id)
    attempt, number = divmod(check, len(_WORDS))
    if job is None or job.attempt != attempt or job.state not in ALLOCATED_STATES or job.time_limit_s < 0:
        return
    if job.state is JobState.SUSPENDED or _share_us(job, _WORDS[number]) > now_us:
        return
    if number >= state.limits.mailed_limits.get(job_id, 0):
        state.limits.mailed_limits[job_id] = number + 1
        _send(state, job, _WORDS[number])
