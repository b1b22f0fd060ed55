"""The scheduling pass of a seal, with its preparation and its follow-up.

Before: expired budgets, recalled loans, chosen preemption victims, pending reboots. After: jobs that wait for a limit,
division of GPUs, time slices. While the rows of a long queue are being rebuilt after a start, no pass runs.
"""

from ctld.core.lifecycle import budget_ends, limit_wake, restored, suspend
from ctld.core.nodes import layout, reboot
from ctld.core.passes import gang, mig_division, queue_recovery, reclaim, schedule, victims
from ctld.core.queue import preemption
from ctld.core.state.state import ClusterState


def run(state: ClusterState, now_us: int) -> int:
    """Runs the quick pass, or rebuilds the next slice of a restored queue. Returns the number of rows examined."""
    if state.layout.masks.is_full:
        layout.renew_queue(state, now_us)
    before = state.scheduling.rows_seen
    if state.pending.outside:
        queue_recovery.enter_slice(state, now_us)
    # A layout is completed before the next one, or nodes that register one after the other would have a long queue begun
    # again for each of them; and it comes before the pass, since no job may start on a node whose GPUs are not known yet.
    if state.gpus.relearn_due and not state.pending.outside:
        layout.relearn(state, now_us)
    if not state.pending.outside:
        state.layout.masks.complete()
    if not state.pending.outside and not restored.waits(state, now_us):
        _pass(state, now_us)
    return state.scheduling.rows_seen - before


def _pass(state: ClusterState, now_us: int) -> None:
    """Runs a quick pass with its preparation and follow-up."""
    changed = state.scheduling.quick_pass_due
    budgets = state.limits.budgets
    if budgets.books or budgets.stale:
        budget_ends.before_pass(state, now_us)
        changed = changed or state.scheduling.quick_pass_due
    if changed:
        if state.limits.lending.stale or state.limits.lending.was_on:
            reclaim.before_pass(state, now_us)
        victims.before_pass(state, now_us)
        preemption.before_pass(state)
    if state.rebooting or state.boots_for_jobs:
        reboot.issue(state, now_us)
    schedule.quick_pass(state, now_us)
    if limit_wake.after_pass(state, now_us):
        schedule.quick_pass(state, now_us)
    if state.boots_for_jobs:
        reboot.issue(state, now_us)  # for jobs that have just started
    if changed and state.gpus.divisible:
        mig_division.begin_divisions(state, now_us)
    if changed and state.preemption.suspended:
        if suspend.resume_suspended(state, now_us) and gang.is_on(state):
            gang.make_room(state, now_us)
        gang.fill(state, now_us)
