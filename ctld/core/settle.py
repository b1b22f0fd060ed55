"""Drains the due-queues after an event: the follow-up work that handlers have queued for other policies.

Policies do not call each other upwards. One whose change concerns another enters a key into a queue of the state
(`dependencies.due`, `hets_due`, `steps.due`, `limits.due`, `open_intervals.nodes_touched`, ...), and the queues are
drained here, in a fixed order, after each event and after each scheduling pass.
"""

from ctld.core.lifecycle import depends, het_life, limit_changes, limit_ends, limit_wake, triggers
from ctld.core.limits import ledger
from ctld.core.nodes import history
from ctld.core.reservations import spans as reserve_spans
from ctld.core.state.state import ClusterState
from ctld.core.steps import creation


def after_event(state: ClusterState, now_us: int) -> None:
    """Does all follow-up work of an event or a timer."""
    drain_queues(state, now_us)
    if state.outputs.dirty_nodes and state.periodic.triggers:
        triggers.nodes_changed(state, now_us)
    if state.open_intervals.nodes_touched:
        history.settle(state, now_us)
    if state.open_intervals.reservations_touched:
        reserve_spans.settle(state, now_us)


def drain_queues(state: ClusterState, now_us: int) -> None:
    """Drains the due-queues in their fixed order."""
    if state.dependencies.due:
        depends.settle(state, now_us)
    if state.hets_due:
        het_life.settle(state, now_us)
    if state.steps.due:
        creation.serve_due(state, now_us)
    if state.limits.ledger is not None:
        _keep_limits(state, now_us)


def _keep_limits(state: ClusterState, now_us: int) -> None:
    """Updates the limits, and wakes the jobs that wait for one."""
    if state.registry.entities_changed:
        limit_changes.follow(state, now_us)
    if state.limits.ledger is not None and state.limits.ledger.sums_due:
        ledger.sum_again(state, state.limits.ledger)
    limit_wake.wake(state, now_us)
    if state.limits.ledger is not None and state.limits.ledger.started:
        limit_ends.keep(state, state.limits.ledger, now_us)
