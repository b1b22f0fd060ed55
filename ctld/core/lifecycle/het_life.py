"""Life cycle of a heterogeneous job's components when one of them ends or is requeued.

    the leader ends or is ended       the others are ended, with its end state and exit code (as in Slurm)
    one is requeued                   all that hold nodes are requeued too: they only start together
    one ends before it has started    the other pending ones end with the same state
    one fails before the script began the whole job ends with that state; if it was cancelled, the script begins without it
    another one ends while it runs    the others continue without it, also after a requeue

`settle` processes the jobs with changed components after each event and pass, so that the code that ends a job needs no
knowledge of components.
"""

from ctld.core.jobs import het, outcome, prolog_state
from ctld.core.lifecycle import job_life
from ctld.core.records.job import Job
from ctld.core.records.violation import need
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState, Reason

S = JobState
_HOLDS = ALLOCATED_STATES - {S.COMPLETING}
#: The end states that a pending job may get; anything else becomes CANCELLED.
_ENDS_OF_PENDING = (S.CANCELLED, S.FAILED, S.DEADLINE)
#: The note in the orders that end the steps of the others.
_NOTES = {S.CANCELLED: "CANCELLED", S.TIMEOUT: "TIME LIMIT", S.NODE_FAIL: "NODE FAILURE", S.PREEMPTED: "PREEMPTION"}


def settle(state: ClusterState, now_us: int) -> None:
    """Processes every heterogeneous job of which a component has ended or was requeued."""
    while state.hets_due:
        het_id, _ = state.hets_due.popitem(last=False)
        jobs = het.of(state, het_id)
        active = [job for job in jobs if job.state not in END_STATES]
        if not active:
            state.hets.pop(het_id, None)
        elif not _follow_leader(state, jobs[0], active, now_us):
            _go_back_together(state, active, now_us)
            _end_waiting(state, jobs, active, now_us)
            _begin_without(state, jobs, now_us)


def _follow_leader(state: ClusterState, leader: Job, active: list[Job], now_us: int) -> bool:
    """Ends the remaining components when the leader ends. Returns whether it has ended."""
    end_state = leader.end_state if leader.state is S.COMPLETING else leader.state
    if leader.request.het_offset or end_state is None or end_state not in END_STATES or end_state is S.REQUEUED:
        return False
    for job in active:
        if job is leader:
            continue
        if job.state is S.PENDING:
            _end_pending(state, job, end_state, leader, now_us)
            continue
        if job.state is not S.COMPLETING:
            outcome.set_exit(job, leader.exit_code, leader.exit_signal)
        note = _NOTES.get(end_state, "SCRIPT END")
        job_life.terminate(state, job, end_state, leader.reason, now_us, note, leader.cancelled_by_uid)
    return True


def _end_pending(state: ClusterState, job: Job, end_state: JobState, cause: Job, now_us: int) -> None:
    fitting = end_state if end_state in _ENDS_OF_PENDING else S.CANCELLED
    job_life.terminate(state, job, fitting, cause.reason, now_us, "CANCELLED", cause.cancelled_by_uid)


def _go_back_together(state: ClusterState, active: list[Job], now_us: int) -> None:
    back = [job for job in active if job.state is S.PENDING or job.end_state is S.REQUEUED]
    for job in active if back else ():
        if job.state in _HOLDS:
            reason = Reason.PREEMPTED if any(one.reason is Reason.PREEMPTED for one in back) else Reason.NONE
            job_life.terminate(state, job, S.REQUEUED, reason, now_us, "REQUEUE")


def _end_waiting(state: ClusterState, jobs: list[Job], active: list[Job], now_us: int) -> None:
    cause = next((job for job in jobs if job.state in END_STATES and not job.start_at_us), None)
    for job in active if cause is not None else ():
        if job.state is S.PENDING:
            assert cause is not None
            _end_pending(state, job, cause.state, cause, now_us)


def _begin_without(state: ClusterState, jobs: list[Job], now_us: int) -> None:
    """Begins the script of a job one of whose components has ended in this attempt before the script began; no other
    event would."""
    leader = jobs[0]
    if leader.request.het_offset or leader.request.kind or leader.state is not S.CONFIGURING:
        return
    ended = [
        (job, job.end_state or job.state)
        for job in jobs[1:]
        if job.attempt == leader.attempt and (job.state is S.COMPLETING or job.state in END_STATES)
    ]
    failed = [(job, how) for job, how in ended if how not in (S.CANCELLED, S.REQUEUED)]
    if failed:
        job, how = failed[0]
        outcome.explain(leader, job.reason_detail)
        job_life.terminate(state, leader, how, job.reason, now_us, _NOTES.get(how, "CANCELLED"))
    elif ended and prolog_state.is_done(state, leader):
        job_life.launch(state, leader)


def check(state: ClusterState) -> None:
    """Raises Violation when some components of a job are ready or started and others are not."""
    found = {job.request.het_job_id: None for job in state.jobs.records() if job.state not in END_STATES}
    found.pop(0, None)
    need(sorted(found) == sorted(state.hets), f"heterogeneous jobs {sorted(found)}, known {sorted(state.hets)}")
    for het_id in found:
        active = [job for job in het.of(state, het_id) if job.state not in END_STATES]
        waiting = [job for job in active if job.state is S.PENDING]
        need(
            not waiting or all(job.state not in _HOLDS for job in active),
            f"job {het_id}: some components have started and others have not",
        )
        ranks = {state.pending.rank_of_row(row) for job in waiting for row in state.pending.rows_of(job.job_id)}
        need(len(ranks) <= 1, f"job {het_id}: its components are ready apart from each other")
