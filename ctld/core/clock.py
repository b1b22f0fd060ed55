"""The wall clock was set forward: what runs has not run longer for that (reliability 21).

Limits, grace times, and how long a node has been silent count time that has really passed. The core has one clock, and
that follows the wall clock at once, since begin times and reservations mean what people read from theirs. So the runtime
says beforehand by how much it will jump, and everything that counts from a past moment is moved along: a job that has run
for ten minutes has then begun ten minutes before the new time, and its elapsed time stays true.

A clock that is set back needs nothing: time goes on at half speed until the two meet (runtime/clock.py).
"""

from ctld.core import job_life
from ctld.core.events import ClockJumped
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES


def clock_jumped(state: ClusterState, now_us: int, event: ClockJumped) -> None:
    """Comes with the time before the jump."""
    # -- apply
    jump_us = event.jump_us
    for node in state.node_list:
        if not node.connected and node.lost_at_us:
            node.lost_at_us += jump_us
    for job in list(state.jobs.values()):  # a rare event
        if job.state not in HOLDING_STATES:
            continue
        job.start_at_us += jump_us
        job.suspended_at_us += jump_us if job.suspended_at_us else 0
        job.preempt_at_us += jump_us if job.preempt_at_us else 0
        job.preempt_end_at_us += jump_us if job.preempt_end_at_us else 0
        state.touch(job)
        job_life.set_end_timers(state, job)
