"""Access to reservations: who may use one, which jobs request it and which run in it. Reads only; changes are in
requests/reservations.py and lifecycle/reservation_life.py."""

from ctld.core.records.job import Job
from ctld.core.records.reservation import Reservation
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES

#: The least time that a job without a time limit must get of its reservation: a minute, the unit of time limits.
LEAST_S = 60


def permits(
    reservation: Reservation,
    uid: int,
    group_name: str,
    account: str | None = None,
    qos: str = "",
    partitions: tuple[str, ...] = (),
) -> bool:
    """Whether such a job may use it, in at least one of its partitions; without an account only the user is checked."""
    if reservation.users or reservation.groups:
        listed = uid in reservation.uids or group_name in reservation.groups
        if listed == reservation.users_denied:
            return False
    if account is None:
        return True
    allowed = reservation.ask.allowed_partitions
    if allowed and not any(name in allowed for name in partitions):
        return False
    if reservation.qos and (qos in reservation.qos) == reservation.qos_denied:
        return False
    return not reservation.accounts or (account in reservation.accounts) != reservation.accounts_denied


def may_use(reservation: Reservation, job: Job) -> bool:
    """Whether the reservation is for such a job."""
    request = job.request
    return permits(reservation, job.user_id, job.group_name, request.account, request.qos, request.partitions)


def least_s(job: Job) -> int:
    """Returns the shortest time that the job may be granted; 0 = its limit.

    A job without a time limit that requests a reservation accepts the rest of it: otherwise it would never fit.
    """
    if job.time_limit_s < 0 and job.request.reservation:
        return job.request.time_min_s or LEAST_S
    return job.request.time_min_s


def is_active(reservation: Reservation, now_us: int) -> bool:
    """Whether it has begun and is not over. One with a floating start never begins."""
    return reservation.float_us <= 0 and reservation.start_at_us <= now_us < reservation.end_at_us


def names_asked(job: Job) -> tuple[str, ...]:
    """Returns the reservations that a job requests."""
    return tuple(job.request.reservation.split(",")) if job.request.reservation else ()


def running_in(job: Job) -> str:
    """Returns the reservation that an allocated job runs in, "" = none."""
    return job.request.reservation_run or job.request.reservation


def allocated_jobs(state: ClusterState, name: str) -> list[Job]:
    """Returns the jobs with an allocation in a reservation."""
    jobs = (state.jobs[job_id] for job_id in state.reserved.jobs.get(name, ()))
    return [job for job in jobs if job.state in ALLOCATED_STATES]
