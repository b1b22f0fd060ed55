"""Decides which jobs are requeued automatically, and when they may start then. The requeue itself is job_life's.

RequeueExit: a script that ended with such a status is requeued; RequeueExitHold: it is also held, SPECIAL_EXIT, until
it is released (slurm.conf(5)). Neither applies to a job with --no-requeue.

MaxBatchRequeue: a job is held when so many of its attempts, and one more, were ended by their node or could not be
launched. A preemption, a requeue by a user, RequeueExit and the next run of a crontab's job are not counted. The count
restarts when the job is released.

A requeued job waits for requeue_delay (SchedulerParameters), by default one second, so that a failing node or script
does not cause a busy loop. Slurm waits for two minutes to be sure that the old run is over; here the node has confirmed
that. With --requeue=expedite a job whose node failed precedes all others and starts without delay.
"""

from collections.abc import Iterable

from ctld.core.jobs import holds
from ctld.core.queue import priority
from ctld.core.records.compact_request import with_changes
from ctld.core.records.job import Job
from ctld.core.reservations.access import names_asked
from ctld.core.state.priority_columns import PRIORITY_MAX
from ctld.core.state.state import ClusterState
from penstock.values.jobkind import JobKind
from penstock.values.states import Hold, Reason

US = 1_000_000


def should_requeue(state: ClusterState, job: Job) -> bool:
    """Whether a script's exit status requires a requeue. Holds the job where RequeueExitHold applies."""
    config = state.config
    if not (config.requeue_exit or config.requeue_exit_hold) or job.request.kind is not JobKind.BATCH:
        return False
    if not job.request.requeue or job.request.het_job_id:
        return False
    if job.exit_code in config.requeue_exit_hold and job.exit_code not in config.requeue_exit:
        holds.hold_after_exit(job)
        return True
    return job.exit_code in config.requeue_exit


def delay_us(state: ClusterState, job: Job) -> int:
    """Returns the least time that a requeued job waits."""
    return 0 if _is_first(job) else state.scheduling.policy.requeue_delay_s * US


def expedite(state: ClusterState, job: Job) -> None:
    """Handles --requeue=expedite: puts the job before all others from now on."""
    if not _is_first(job):
        state.replace_request(job, with_changes(job.request, priority=PRIORITY_MAX))
        priority.renew(state, job)


def leave_reservations(state: ClusterState, job: Job, gone: Iterable[str], now_us: int, hold: bool = True) -> None:
    """Removes deleted reservations from the request of a job that waits. It is held when it named no other one."""
    gone, asked = tuple(gone), names_asked(job)
    left = ",".join(name for name in asked if name not in gone)
    if len(left) == len(job.request.reservation):
        return
    state.replace_request(job, with_changes(job.request, reservation=left))
    state.touch(job)
    if not left and hold:
        if job.hold is Hold.NO:
            holds.hold_for(job, Reason.RESERVATION_DELETED.value)
        state.record(now_us, job, "hold", f"Reservation {','.join(gone)} was deleted")


def _is_first(job: Job) -> bool:
    return job.request.expedite and job.request.priority == PRIORITY_MAX
