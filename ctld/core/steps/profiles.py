"""Profiles of steps: a node's time lines of a step become a row, and are not kept here.

A node reports them before the end of the step, so that of a step that does not run there is no other's business: it is
acknowledged and dropped. The same report again replaces the row. Profiles are the largest rows by far: what a batch has
of them is bounded (PENDING_BYTES_MAX), since a database that takes no writes must not fill the memory with them.
"""

from ctld.core.records.events import StepProfiled
from ctld.core.records.step import ProfileRow, is_live_on
from ctld.core.state.state import ClusterState
from ctld.core.steps.life import find

#: Bytes of a profile: penstock.values.profile.BYTES_MAX, which the node keeps.
PROFILE_BYTES_MAX = 63 * 1024
#: Bytes of profiles in one batch; what comes on top is dropped. Some thousand steps.
PENDING_BYTES_MAX = 16 * 1024 * 1024


def step_profiled(state: ClusterState, now_us: int, event: StepProfiled) -> None:
    """Handles the profile of a step on one of its nodes."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    found = find(state, event.job_id, event.attempt, event.step_id)
    if found is None or not is_live_on(found[1], event.node) or not 0 < len(event.profile) <= PROFILE_BYTES_MAX:
        return
    state.outputs.profile_bytes += len(event.profile)
    if state.outputs.profile_bytes <= PENDING_BYTES_MAX:
        key = (event.job_id, event.attempt, event.step_id, event.node)
        state.outputs.profiles[key] = ProfileRow(*key, event.profile)
