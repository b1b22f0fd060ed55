"""Who may use a reservation, which jobs ask for it and which are in it. Questions only; all else is in reserve*.py."""

from ctld.core.model import Job, Reservation
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES

#: What a job without a time limit must at least be granted of its reservation: a minute, the unit of time limits.
LEAST_S = 60


def permits(reservation: Reservation, uid: int, group_name: str, account: str | None = None, qos: str = "") -> bool:
    """True when such a job may use it; without an account only the user is judged."""
    if reservation.users or reservation.groups:
        listed = uid in reservation.uids or group_name in reservation.groups
        if listed == reservation.users_denied:
            return False
    if account is None:
        return True
    if reservation.qos and (qos in reservation.qos) == reservation.qos_denied:
        return False
    return not reservation.accounts or (account in reservation.accounts) != reservation.accounts_denied


def may_use(reservation: Reservation, job: Job) -> bool:
    """True when the reservation is for such a job."""
    return permits(reservation, job.user_id, job.group_name, job.request.account, job.request.qos)


def least_s(job: Job) -> int:
    """The shortest time that the job may be granted; 0 = its limit.

    A job without a time limit that asks for a reservation is content with what is left of it: it would never fit.
    """
    if job.time_limit_s < 0 and job.request.reservation:
        return job.request.time_min_s or LEAST_S
    return job.request.time_min_s


def is_active(reservation: Reservation, now_us: int) -> bool:
    """It has begun and is not over. One that floats ahead never begins."""
    return reservation.float_us <= 0 and reservation.start_at_us <= now_us < reservation.end_at_us


def names_asked(job: Job) -> tuple[str, ...]:
    """The reservations that a job asks for."""
    return tuple(job.request.reservation.split(",")) if job.request.reservation else ()


def running_in(job: Job) -> str:
    """The reservation that a job which holds resources runs in, "" = none."""
    return job.request.reservation_run or job.request.reservation


def holders(state: ClusterState, name: str) -> list[Job]:
    """The jobs that hold resources in a reservation."""
    jobs = (state.jobs[job_id] for job_id in state.reserved_jobs.get(name, ()))
    return [job for job in jobs if job.state in HOLDING_STATES]
