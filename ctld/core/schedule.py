"""From columns to starts: the quick pass at every seal, the full pass in a worker, and the check before anything is
applied.

The quick pass looks at the first QUICK_DEPTH ready rows, at most once a batch, so that it costs the same however many
jobs wait. When more rows are ready than it saw, a full pass over all of them is started in a worker thread
(`StartPlan`); it works on copies and comes back as `PlanReady`. Each of its placements is verified against the
present state, since the world went on meanwhile, and dropped when stale; the next pass sees what was dropped.

The planner is a function of its inputs (see _fastsched). What it must not know - job ids, names, device numbers - is
put on here.

The seam for backfill: `run_plan` gets release times and returns planned starts beside the starts of now.
"""

from typing import Any

import numpy as np

import _fastsched
from ctld.core import arrays, job_life
from ctld.core.effects import StartPlan
from ctld.core.events import PlanReady
from ctld.core.explain import apply_reasons
from ctld.core.model import Job, Node, NodeAlloc
from ctld.core.state import CLOSED_FLAGS, ClusterState
from ctld.core.timers import Timer
from penstock.values.states import JobState

#: Rows that the quick pass looks at. At 128 rows a pass on 1,000 nodes stays well under a millisecond.
QUICK_DEPTH = 128
#: Starts of one quick pass: bounds a batch, so that an array of 100,000 does not make one commit of everything.
QUICK_STARTS_MAX = 512
#: Rounds of the quick pass in one seal, when all that it saw could start.
QUICK_ROUNDS_MAX = 4
#: Least pause between full passes.
FULL_PASS_PAUSE_US = 1_000_000
FULL_STARTS_MAX = 10_000

#: What the planner says of rows that need no reason of their own.
UNSAID = (_fastsched.STARTED, _fastsched.NOT_TESTED, _fastsched.PRIORITY)

Placement = tuple[tuple[int, int, int, int], ...]  # (node index, cpus, tasks, MB) for each node


def quick_pass(state: ClusterState, now_us: int) -> None:
    """Start what fits, in order of rank."""
    if not state.quick_pass_due:
        return
    state.quick_pass_due = False
    for _ in range(QUICK_ROUNDS_MAX):
        rows = state.pending.first(QUICK_DEPTH)
        if not len(rows):
            return
        inputs = (*state.node_columns.views(), state.masks.array(), *state.pending.take(rows), QUICK_STARTS_MAX)
        ids = state.pending.columns["job_id"][rows]
        parts = state.pending.columns["partition"][rows]
        starts, reasons = decode(_fastsched.plan(*inputs), ids, parts)
        started = apply_starts(state, now_us, starts)
        apply_reasons(state, now_us, reasons, ids.tolist())
        if started < len(rows):
            break
    if len(state.pending.ready) > QUICK_DEPTH:
        want_full_pass(state, now_us)


def decode(result: Any, ids: Any, parts: Any) -> tuple[list[tuple[int, int, Placement]], list[tuple[int, int]]]:
    """The planner's arrays as starts (job id, partition index, placement) and as (job id, reason) of other rows.

    Rows that are merely behind others, as most of a long queue are, are dropped while they are numbers in an array.
    """
    first, node = result.node_first.tolist(), result.node.tolist()
    cells = list(zip(node, result.cpus.tolist(), result.tasks.tolist(), result.mem_mb.tolist(), strict=True))
    starts = [
        (int(ids[row]), int(parts[row]), tuple(cells[first[i] : first[i + 1]]))
        for i, row in enumerate(result.job.tolist())
    ]
    kept = np.flatnonzero(~np.isin(result.reason, UNSAID))
    return starts, list(zip(ids[kept].tolist(), result.reason[kept].tolist(), strict=True))


def apply_starts(state: ClusterState, now_us: int, starts: list[tuple[int, int, Placement]]) -> int:
    """Start each placement that still holds. Returns how many did."""
    done = 0
    for job_id, partition, placement in starts:
        holder = state.jobs.get(job_id)
        if holder is None or not is_startable(state, holder) or partition >= len(state.partition_list):
            continue
        alloc = verify(state, holder, placement)
        if alloc is None:
            state.changed()
            continue
        job = arrays.take_task(state, holder)
        job_life.start(state, job, state.partition_list[partition].name, alloc, now_us)
        if holder is not job:
            _recount(state, holder)
        done += 1
    return done


def is_startable(state: ClusterState, job: Job) -> bool:
    """Pending, and among the ready rows."""
    return job.state is JobState.PENDING and state.pending.is_ready(job.job_id)


def _recount(state: ClusterState, holder: Job) -> None:
    from ctld.core.ready import refresh

    refresh(state, holder, state.now_us)


def verify(state: ClusterState, job: Job, placement: Placement) -> tuple[NodeAlloc, ...] | None:
    """The allocation that a placement means now, with device numbers; None when something is no longer free."""
    columns, found = state.node_columns, []
    for index, cpus, tasks, mem_mb in placement:
        if index >= len(state.node_list):
            return None
        node = state.node_list[index]
        if node.flags & CLOSED_FLAGS or columns.held_exclusive[index] or (job.request.exclusive and node.jobs):
            return None
        if cpus > columns.free_cpus[index] or mem_mb > columns.free_mem_mb[index]:
            return None
        gres = pick_devices(node, job.request.gres_per_node)
        if gres is None:
            return None
        found.append(NodeAlloc(node.name, cpus, mem_mb, tasks, gres))
    return tuple(found)


def pick_devices(node: Node, wanted: tuple[tuple[str, str, int], ...]) -> tuple[tuple[str, str, int], ...] | None:
    """Device masks for each kind: the lowest free indices; a request without a type takes what is free of any type."""
    picked: dict[tuple[str, str], int] = {}
    for name, type_, count in sorted(wanted, key=lambda w: w[1] == ""):  # typed requests first
        for (have_name, have_type), devices in device_masks(node).items():
            if have_name != name or (type_ and have_type != type_):
                continue
            key = (have_name, have_type)
            free = devices & ~node.gres_used.get(key, 0) & ~picked.get(key, 0)
            while free and count:
                lowest = free & -free
                picked[key] = picked.get(key, 0) | lowest
                free ^= lowest
                count -= 1
        if count:
            return None
    return tuple((name, type_, mask) for (name, type_), mask in picked.items())


def device_masks(node: Node) -> dict[tuple[str, str], int]:
    """All devices of a node by kind. Indices count through the types of one name in the order of the configuration."""
    masks: dict[tuple[str, str], int] = {}
    next_index: dict[str, int] = {}
    for gres in node.config.gres:
        low = next_index.get(gres.name, 0)
        next_index[gres.name] = low + gres.count
        key = (gres.name, gres.type)
        masks[key] = masks.get(key, 0) | (((1 << gres.count) - 1) << low)
    return masks


# ---- the full pass -----------------------------------------------------------------------------------------------


def want_full_pass(state: ClusterState, now_us: int) -> None:
    """Start a full pass, or see to it that one starts later: one at a time, with a pause between."""
    if state.full_pass_in_flight or state.full_pass_revision == state.revision:
        return
    if now_us < state.full_pass_not_before_us:
        state.timers.set(state.full_pass_not_before_us, Timer.FULL_PASS)
        return
    state.full_pass_in_flight = True
    state.full_pass_revision = state.revision
    rows = state.pending.first(len(state.pending.ready))
    columns = state.pending.columns
    inputs = (
        (*state.node_columns.copies(), state.masks.array(), *state.pending.take(rows), FULL_STARTS_MAX),
        columns["job_id"][rows],
        columns["partition"][rows],
    )
    state.emit(StartPlan(state.revision, inputs))


def run_plan(revision: int, inputs: Any) -> PlanReady:
    """The worker's part: a function of the copies it got. Releases the GIL while it plans."""
    arrays_in, ids, parts = inputs
    starts, reasons = decode(_fastsched.plan(*arrays_in), ids, parts)
    return PlanReady(revision, tuple(starts), tuple(reasons))


def plan_ready(state: ClusterState, now_us: int, event: PlanReady) -> None:
    """A full pass is back: apply what still holds."""
    state.full_pass_in_flight = False
    state.full_pass_not_before_us = now_us + FULL_PASS_PAUSE_US
    if event.revision < state.layout_revision:  # nodes were renumbered since
        state.changed()
        return
    apply_starts(state, now_us, list(event.starts))
    apply_reasons(state, now_us, event.reasons, None)
    if state.full_pass_revision != state.revision:
        state.quick_pass_due = True
