"""Which jobs are queued again by themselves, and when they may start then. That they are is job_life's.

RequeueExit: a script that ended with such a status is queued again; RequeueExitHold: and held, SPECIAL_EXIT, until somebody
releases it (slurm.conf(5)). Neither is done to a job with --no-requeue, nor more often than MaxBatchRequeue.

A requeued job waits for requeue_delay (SchedulerParameters), a second if that is not said, so that a failing node or
script does not spin; Slurm waits for two minutes, since it must be sure that the old run is gone, which here the node has
said. With --requeue=expedite a job whose node failed goes before all others, and at once.
"""

from ctld.core import priority
from ctld.core.model import Job
from ctld.core.plain import with_changes
from ctld.core.state import ClusterState
from penstock.values.jobkind import JobKind
from penstock.values.states import Hold

US = 1_000_000


def wants_another(state: ClusterState, job: Job) -> bool:
    """The script has ended: whether its exit status asks for another run. Holds the job where it does so."""
    config = state.config
    if not (config.requeue_exit or config.requeue_exit_hold) or job.request.kind is not JobKind.BATCH:
        return False
    if not job.request.requeue or job.request.het_job_id:
        return False
    if job.exit_code in config.requeue_exit_hold and job.exit_code not in config.requeue_exit:
        job.hold = max(job.hold, Hold.SPECIAL_EXIT)
        return True
    return job.exit_code in config.requeue_exit


def delay_us(state: ClusterState, job: Job) -> int:
    """How long a requeued job waits at least."""
    return 0 if _is_first(job) else state.policy.requeue_delay_s * US


def go_first(state: ClusterState, job: Job) -> None:
    """--requeue=expedite: before all others from now on."""
    if not _is_first(job):
        job.request = with_changes(job.request, priority=priority.PRIORITY_MAX)
        job.request_id = state.new_request(job.request)
        priority.renew(state, job)


def _is_first(job: Job) -> bool:
    return job.request.expedite and job.request.priority == priority.PRIORITY_MAX
