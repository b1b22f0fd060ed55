"""Corrects the start times of running work when the wall clock is set forward, so that elapsed times stay true
(reliability 21).

Limits, grace times and a node's silence are measured in time that really passes. The core has one clock, which follows
the wall clock at once, since users give begin times and reservations in wall clock time. The runtime therefore
announces by how much the clock will jump, and all start points of measured intervals are moved by that amount: a job
that has run for ten minutes then started ten minutes before the new time.

A clock that is set back needs nothing here: time runs at half speed until the two agree (runtime/clock.py).
"""

from ctld.core.lifecycle import job_life
from ctld.core.records.events import ClockJumped
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES


def clock_jumped(state: ClusterState, now_us: int, event: ClockJumped) -> None:
    """Handles a jump of the clock. The event carries the time before the jump."""
    state.applying()
    jump_us = event.jump_us
    for node in state.node_list:
        if not node.connected and node.lost_at_us:
            node.lost_at_us += jump_us
    for job in list(state.jobs.records()):  # this event is rare
        if job.state not in ALLOCATED_STATES:
            continue
        job.start_at_us += jump_us
        job.suspended_at_us += jump_us if job.suspended_at_us else 0
        job.completing_at_us += jump_us if job.completing_at_us else 0
        job.preempt_at_us += jump_us if job.preempt_at_us else 0
        job.preempt_end_at_us += jump_us if job.preempt_end_at_us else 0
        state.touch(job)
        job_life.set_end_timers(state, job)
