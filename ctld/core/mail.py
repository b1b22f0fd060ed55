"""--mail-type: which mails a job's life calls for. What they say and how they are sent is ctld/runtime/mail.py's.

A mail is an effect: it leaves after the commit that holds its cause, once. It is not repeated after a restart, so one
that was due while the controller died is lost; a mail is a courtesy, and two of them are worse than none.

Rules (sbatch(1)): FAIL is of every end but COMPLETED and CANCELLED; who asked for END alone hears of those too. Of an
array there is one BEGIN with its first task and one END or FAIL with its last, unless ARRAY_TASKS asks for each task's.
Shares of the time limit are timers of those jobs that asked for them.
"""

from ctld.core.effects import ArrayEnd, SendMail
from ctld.core.model import ArrayRecord, Job, job_row
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.mail import TIME_LIMITS
from penstock.values.states import HOLDING_STATES, JobState

#: Ends that are no failure.
_WELL = frozenset((JobState.COMPLETED, JobState.CANCELLED))
_WORDS = tuple(TIME_LIMITS)
US = 1_000_000


def _send(state: ClusterState, job: Job, kind: str, array: ArrayEnd | None = None, whole: bool = False) -> None:
    state.emit(SendMail(job_row(job), kind, state.now_us, whole, array))


def _record_of(state: ClusterState, job: Job) -> ArrayRecord | None:
    """The array, where mail is of it as a whole."""
    is_whole = bool(job.array_job_id) and "ARRAY_TASKS" not in job.request.mail_types
    return state.arrays[job.array_job_id] if is_whole else None


def began(state: ClusterState, job: Job) -> None:
    """The job has its nodes."""
    record = _record_of(state, job)
    if "BEGIN" in job.request.mail_types and (record is None or not record.began):
        _send(state, job, "BEGIN", whole=record is not None)
    if record is not None:
        record.began = True


def ended(state: ClusterState, job: Job) -> None:
    """The job, or the last task of its array, has ended."""
    state.mailed_limits.pop(job.job_id, None)
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
    """The job goes back to the queue. What it was is not forgotten yet. `ended_as`: of a crontab's run, its end."""
    state.mailed_limits.pop(job.job_id, None)
    types = job.request.mail_types
    if ended_as is not JobState.REQUEUED:
        kind = "FAIL" if ended_as not in _WELL and "FAIL" in types else "END"
        if kind in types:
            row = job_row(job)._replace(state=ended_as, end_state=None)
            state.emit(SendMail(row, kind, state.now_us))
    elif "REQUEUE" in types:
        _send(state, job, "REQUEUE")


def never_satisfied(state: ClusterState, job: Job) -> None:
    """What the job waits for can never come."""
    if "INVALID_DEPEND" in job.request.mail_types:
        _send(state, job, "INVALID_DEPEND")


def set_timers(state: ClusterState, job: Job) -> None:
    """One for each share of the time limit that is asked for and lies ahead."""
    for number, word in enumerate(_WORDS):
        if word in job.request.mail_types:
            due_us = _share_us(job, word)
            if due_us > state.now_us:
                state.timers.set(due_us, Timer.MAIL_LIMIT, job.job_id, job.attempt * len(_WORDS) + number)


def _share_us(job: Job, word: str) -> int:
    return job.start_at_us + job.suspended_us + job.time_limit_s * US * TIME_LIMITS[word] // 100


def limit_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """So much of the time limit is over, unless it was raised since: then there is another timer."""
    job = state.jobs.get(job_id)
    attempt, number = divmod(check, len(_WORDS))
    if job is None or job.attempt != attempt or job.state not in HOLDING_STATES or job.time_limit_s < 0:
        return
    if job.state is JobState.SUSPENDED or _share_us(job, _WORDS[number]) > now_us:
        return
    if number >= state.mailed_limits.get(job_id, 0):
        state.mailed_limits[job_id] = number + 1
        _send(state, job, _WORDS[number])
