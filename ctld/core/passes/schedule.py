"""Schedules passes, and applies their answers.

The quick pass sees the first rows of the queue (policy.quick_depth), at most once a batch, so that its cost does not
depend on the length of the queue. It plans them into the future as the full pass does, so that what it starts delays
none of them. When more rows are ready than it saw, a full pass over all of them is started in a worker thread
(`StartPlan`); it works on copies and comes back as `PlanReady`. Each of its placements is verified against the present
state, which has changed meanwhile, and dropped when stale; the next pass plans it again.

What the planner must not know (job ids, names, device numbers) is added in queue/planning.py and here.
"""

from functools import partial

import numpy as np
import numpy.typing as npt

from ctld.core.demand import specialized
from ctld.core.demand.task_distribution import distribute_tasks
from ctld.core.gpus import counts as gpu_counts
from ctld.core.jobs import arrays, het
from ctld.core.jobs.expected_end import UNLIMITED_S
from ctld.core.jobs.sharing import gives_whole_nodes, units_in_use, units_taken
from ctld.core.lifecycle import depends, job_life
from ctld.core.lifecycle.ready import refresh, task_started
from ctld.core.lifecycle.reservation_life import enter
from ctld.core.lifecycle.waiting import wait_for_limit
from ctld.core.limits import borrow, budgets, checks, node_limits
from ctld.core.limits.rules import is_of_nodes
from ctld.core.passes import gang, partition_heads, victims
from ctld.core.passes.wait_reasons import apply_reasons
from ctld.core.queue import associations, hres
from ctld.core.queue.gpu_sharing import ExpectedUse, steer
from ctld.core.queue.mps_users import MPS, elsewhere, foreign_gpus, wants_mps
from ctld.core.queue.planning import Answer, PlacementRows, PlannedStart, Rows, ask, present, snapshot
from ctld.core.queue.priority import rank
from ctld.core.queue.terms import most_s
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import StartPlan
from ctld.core.records.events import PlanReady
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.reservations.view import crosses
from ctld.core.state.devices import all_devices, cpus_left, pick_cpus, pick_devices
from ctld.core.state.forecast import Forecast
from ctld.core.state.leaves import leaf_mates
from ctld.core.state.shares import GPU, pick_share, share_wanted
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import JobState

#: Starts of one quick pass: bounds a batch, so that an array of 100,000 does not make one commit of everything.
QUICK_STARTS_MAX = 512
#: Rounds of the quick pass in one seal, when every row that it saw could start.
QUICK_ROUNDS_MAX = 4
FULL_STARTS_MAX = 10_000
#: Jobs of a stale plan whose victims are planned again; a small plan each. The next pass plans the others.
PREEMPTORS_MAX = 64


def quick_pass(state: ClusterState, now_us: int) -> None:
    """Starts what fits, in order of rank."""
    if not state.scheduling.quick_pass_due:
        return
    state.scheduling.quick_pass_due = False
    pending, has_limits = state.pending, state.limits.ledger is not None
    depth = state.scheduling.policy.quick_depth
    for _ in range(QUICK_ROUNDS_MAX):
        if not pending.ready:
            break
        rows = pending.first(depth)
        if has_limits:
            node_limits.before_pass(state)
            rows = _above_limited(state, rows)
        if state.layout.hres_sets:
            hres.before_pass(state)
        if state.hets:
            rows = het.whole(state, rows)
        number = len(rows)
        if not number:
            break
        state.scheduling.rows_seen += number
        whole = number == len(pending.ready)
        answer = _ask_now(state, now_us, rows)
        seen = None if whole else pending.table.job[rows].tolist()
        started = apply_answer(state, now_us, answer, rows, seen)
        if answer.victims:
            victims.apply_victims(state, now_us, answer.victims)
        if state.dependencies.due:
            depends.settle(state, now_us)
        if whole:
            state.take_forecast(answer.forecast)
        if len(answer.starts) >= QUICK_STARTS_MAX:
            state.scheduling.quick_pass_due = True  # the rest is left to the next batch
        if started < number:
            break
    if len(pending.ready) > depth:
        want_full_pass(state, now_us)


def _ask_now(state: ClusterState, now_us: int, rows: Rows) -> Answer:
    answer, policy = ask(present(state, now_us, rows, QUICK_STARTS_MAX)), state.scheduling.policy
    if policy.strict:
        return _strictly(state, rows, answer)
    if policy.order != "priority" and len(rows) > 1:
        return _reordered(state, now_us, rows, answer)
    return answer


def _strictly(state: ClusterState, rows: Rows, answer: Answer) -> Answer:
    """FIFO: starts nothing behind the first row that waits. Such a start did not affect those before."""
    copies: dict[int, int] = {}
    for start in answer.starts:
        copies[start.job_id] = copies.get(start.job_id, 0) + 1
    allowed: dict[int, None] = {}
    for job_id, count in zip(
        state.pending.table.job[rows].tolist(), state.pending.table.count[rows].tolist(), strict=True
    ):
        if job_id in copies:
            allowed[job_id] = None
        if copies.get(job_id, 0) < count:
            break
    return answer._replace(starts=tuple(start for start in answer.starts if start.job_id in allowed))


def _reordered(state: ClusterState, now_us: int, rows: Rows, answer: Answer) -> Answer:
    """Backfill candidates by shortest limit (EASY-SJBF) or prediction: sorts the rows behind the first that waits."""
    started = {start.job_id for start in answer.starts}
    ids = state.pending.table.job[rows].tolist()
    head = next((i for i, job_id in enumerate(ids) if job_id not in started), len(ids))
    behind = rows[head + 1 :]
    if len(behind) < 2:
        return answer  # the order does not matter
    order = np.argsort(state.pending.expected_s[behind], kind="stable")
    again = np.concatenate([rows[: head + 1], behind[order]])
    return ask(present(state, now_us, again, QUICK_STARTS_MAX))


def apply_answer(
    state: ClusterState, now_us: int, answer: Answer | PlanReady, rows: Rows | None, seen: list[int] | None
) -> int:
    """Applies starts and reasons; `rows`, and `seen` as job ids: what the pass saw, None = all. Returns how many started."""
    done = apply_starts(state, now_us, answer.starts, answer.forecast) if answer.starts else 0
    behind = partition_heads.NONE
    if len(state.partition_list) > 1:
        if rows is None:
            rows = state.pending.first(len(state.pending.ready))
        behind = partition_heads.find_left_out(state, rows, answer.reasons)
    apply_reasons(state, now_us, answer.reasons, seen, behind)
    return done


def apply_starts(
    state: ClusterState, now_us: int, starts: tuple[PlannedStart, ...], forecast: Forecast | None = None
) -> int:
    """Starts each placement that is still valid, fractions of GPUs where queue/gpu_sharing.py chooses. Returns how many
    did."""
    done, holds = 0, ExpectedUse(forecast, len(state.node_list))
    by_id = {start.job_id: start for start in starts} if state.hets else {}
    is_shared = state.gpus.mix is not None  # gpu_sharing.py chooses nodes
    for start in starts:
        queued = state.jobs.get(start.job_id)
        if queued is None or not is_startable(state, queued) or start.partition >= len(state.partition_list):
            continue
        if queued.request.het_job_id:
            done += _start_together(state, now_us, queued, by_id)
            continue
        partition = state.partition_list[start.partition].name
        if state.limits.ledger is not None:
            block = checks.before_start(state, queued, partition)
            if block is not None:
                _wait_for(state, now_us, queued, block)
                continue
        moved, gpus = steer(state, now_us, queued, start, holds) if is_shared else (start, -1)
        alloc = _allocation(state, now_us, queued, partition, moved, gpus)
        if alloc is None and moved is not start:
            alloc = _allocation(state, now_us, queued, partition, start)
        if alloc is None and wants_mps(queued):
            alloc = elsewhere(
                state, now_us, queued, start, holds, partial(_allocation, state, now_us, queued, partition)
            )
            if alloc is None:
                continue  # it waits until a job ends; an earlier pass would decide the same
        if alloc is None:
            state.changed()
            continue
        if state.limits.ledger is not None:
            kept = _within_limits(state, now_us, queued, start, alloc, holds)
            if kept is None:
                continue
            start, alloc = kept
        if state.limits.budgets.books and not budgets.can_pay(
            state, now_us, [(queued, queued, partition, alloc, start.limit_s)]
        ):
            _recount(state, queued)  # it waits for the budget
            continue
        if state.layout.hres and hres.take(state, queued.request, alloc, state.free_licenses.copy()) is None:
            state.changed()  # one before it in this pass has it
            continue
        job = arrays.take_task(state, queued)
        _start(state, now_us, job, start, alloc)
        if queued is not job:
            task_started(state, queued, state.now_us)
        done += 1
    return done


def _within_limits(
    state: ClusterState, now_us: int, job: Job, start: PlannedStart, alloc: tuple[NodeAlloc, ...], holds: ExpectedUse
) -> tuple[PlannedStart, tuple[NodeAlloc, ...]] | None:
    """Returns the start, or another one, that exceeds no limit together with those before it in this pass. If there is
    none the job waits, and another pass follows."""
    partition = state.partition_list[start.partition].name
    limit_s = min(start.limit_s, most_s(job.request, now_us))
    block = checks.at_start(state, job, partition, alloc, limit_s)
    if block is not None and is_of_nodes(block.check):
        moved = node_limits.elsewhere(state, now_us, job, start, holds)
        found = _allocation(state, now_us, job, partition, moved) if moved is not None else None
        if moved is not None and found is not None:
            start = moved
            alloc = found
            block = checks.at_start(state, job, partition, found, limit_s)
        elif node_limits.is_fenced(state, job):
            state.changed()
            return None  # the next pass looks for room among its group's nodes
    if block is None:
        return start, alloc
    _wait_for(state, now_us, job, block)
    return None


def _wait_for(state: ClusterState, now_us: int, job: Job, block: checks.LimitBlock) -> None:
    """Makes a job wait for a limit that those before it have reached; another pass follows."""
    if len(job.request.partitions) > 1:
        refresh(state, job, now_us)
    if is_startable(state, job):
        wait_for_limit(state, job, block)
    state.changed()


def _start(state: ClusterState, now_us: int, job: Job, start: PlannedStart, alloc: tuple[NodeAlloc, ...]) -> None:
    partition = state.partition_list[start.partition].name
    request = _request_in(state, job, partition)
    if request is not job.request:
        state.replace_request(job, request)
    limit_s = min(start.limit_s, most_s(job.request, now_us))
    if limit_s < job.time_limit_s or (job.time_limit_s < 0 and limit_s < UNLIMITED_S):
        job.time_limit_s = limit_s
    if state.reservations:
        enter(state, job, start.reservation)
    takes_turns = gang.is_on(state)
    runs = not takes_turns or gang.has_room(state, job, partition, alloc)
    if state.limits.lending.is_on:
        borrow.mark(state, job, associations.allocated_in(alloc), now_us)
    job_life.start(state, job, partition, alloc, now_us, launch=runs)
    if takes_turns:
        gang.begin(state, job, runs, now_us)


def _start_together(state: ClusterState, now_us: int, first: Job, starts: dict[int, PlannedStart]) -> int:
    """Starts the components of a heterogeneous job, all of them or none. Returns how many started.

    Each placement is verified beside those before it, which are booked for that and released before the jobs themselves
    take them.
    """
    jobs = het.active(state, first)
    placed = [starts.get(job.job_id) for job in jobs]
    if any(start is None or start.partition >= len(state.partition_list) for start in placed):
        return 0
    booked: list[tuple[Job, PlannedStart, tuple[NodeAlloc, ...], int]] = []
    free = state.free_licenses.copy() if state.layout.hres else state.free_licenses
    for job, start in zip(jobs, placed, strict=True):
        assert start is not None
        partition = state.partition_list[start.partition].name
        alloc = _allocation(state, now_us, job, partition, start) if is_startable(state, job) else None
        if alloc is None or (state.layout.hres and hres.take(state, job.request, alloc, free) is None):
            break
        units = units_taken(state, job.request, partition)
        state.book(job, alloc, units)
        booked.append((job, start, alloc, units))
    for job, _, alloc, units in reversed(booked):
        state.unbook(job, alloc, units)
    if len(booked) < len(jobs):
        if not any(wants_mps(job) for job in jobs):
            state.changed()
        return 0
    if state.limits.ledger is not None and _are_over_limit(state, now_us, booked):
        return 0
    if state.limits.budgets.books:
        asked = [(j, j, state.partition_list[s.partition].name, a, s.limit_s) for j, s, a, _ in booked]
        if not budgets.can_pay(state, now_us, asked):
            for job in jobs:
                _recount(state, job)
            return 0
    for job, start, alloc, _ in booked:
        _start(state, now_us, job, start, alloc)
    return len(jobs)


def _are_over_limit(
    state: ClusterState, now_us: int, booked: list[tuple[Job, PlannedStart, tuple[NodeAlloc, ...], int]]
) -> bool:
    """Whether one of several jobs that start together would exceed a limit; then all of them wait."""
    block = checks.together(
        state,
        [
            (job, state.partition_list[start.partition].name, alloc, min(start.limit_s, most_s(job.request, now_us)))
            for job, start, alloc, _ in booked
        ],
    )
    if block is not None:
        wait_for_limit(state, booked[0][0], block)
        state.changed()
    return block is not None


def _allocation(
    state: ClusterState, now_us: int, job: Job, partition: str, start: PlannedStart, gpus: int = -1
) -> tuple[NodeAlloc, ...] | None:
    if state.reservations:
        nodes = [index for index, _, _, _ in start.placement]
        if crosses(state, now_us, nodes, start.limit_s, start.reservation):
            return None
    return verify(state, job, partition, start.placement, gpus, start.gpus)


def is_startable(state: ClusterState, job: Job) -> bool:
    """Whether the job is pending, and among the ready rows."""
    return job.state is JobState.PENDING and state.pending.is_ready(job.job_id)


def _recount(state: ClusterState, queued: Job) -> None:
    refresh(state, queued, state.now_us)


def _request_in(state: ClusterState, job: Job, partition: str) -> JobRequest:
    """Returns the job's request in that partition: all of its nodes' resources, where the partition allocates whole
    nodes."""
    if job.request.exclusive or not gives_whole_nodes(state.partitions[partition]):
        return job.request
    return with_changes(job.request, exclusive=True)


def verify(
    state: ClusterState, job: Job, partition: str, placement: PlacementRows, gpus: int = -1, each: int = 0
) -> tuple[NodeAlloc, ...] | None:
    """Returns the allocation of a placement, with device numbers; None when something is no longer free.

    `gpus`: those that shares may be taken of, as a mask. `each`: how many GPUs the planner has found on each node.
    """
    columns, found = state.node_columns, []
    request = _request_in(state, job, partition)
    units = units_taken(state, request, partition)
    part_wanted = share_wanted(request.gres_per_node) if request.gres_per_node else None
    if request.ntasks_over:  # their GPUs follow the tasks, of which the planner knows one a node
        placement = distribute_tasks(request, placement)
    placement, asked = gpu_counts.by_node(state, request, placement, each)
    if not request.ntasks_over:
        placement = distribute_tasks(request, placement)
    by_socket = state.partitions[partition].config.max_cpus_per_socket > 0 and not request.exclusive
    is_specialized = specialized.is_on(request)
    up = columns.up.item
    free_cpus = columns.free_cpus.item
    free_mem_mb = columns.free_mem_mb.item
    for (index, cpus, tasks, mem_mb), wanted in zip(placement, asked, strict=True):
        if index >= len(state.node_list):
            return None
        node = state.node_list[index]
        if not up(index) or _is_closed_to(state, node, job, request):
            return None
        if cpus > node.cpus or cpus * units > free_cpus(index) or mem_mb > free_mem_mb(index):
            return None
        gres = pick_devices(node, wanted, request.gpu_mem_mb) if wanted else ()
        if gres is None:
            return None
        if request.exclusive and part_wanted is None:
            gres = all_devices(node)
        among = gpus if part_wanted is None or part_wanted[0] != MPS else gpus & ~foreign_gpus(state, node, job.user_id)
        share = pick_share(node, part_wanted, among) if part_wanted is not None else None
        if part_wanted is not None and share is None:
            return None
        near = gres if share is None else ((GPU, "", 1 << share.gpu),)
        within = _preferred_cpus(state, node, partition) if by_socket else -1
        if is_specialized:
            cpu_ids = specialized.left_mask(state.config, node.config, request)
        else:
            cpu_ids = pick_cpus(node, cpus, near, within) if units == state.layout.units_per_cpu else 0
        shares = () if share is None else (share,)
        found.append(NodeAlloc(node.name, cpus, mem_mb, tasks, gres, cpu_ids, shares))
    return tuple(found)


def _preferred_cpus(state: ClusterState, node: Node, partition: str) -> int:
    """Returns the cpus of a node with which no socket has more than MaxCPUsPerSocket of that partition's jobs."""
    used = 0
    for other in map(state.jobs.__getitem__, node.jobs):
        if other.partition == partition and not other.request.exclusive:
            used |= next((part.cpu_ids for part in other.alloc if part.node == node.name), 0)
    return cpus_left(node, used, state.partitions[partition].config.max_cpus_per_socket)


def _is_closed_to(state: ClusterState, node: Node, job: Job, wants: JobRequest) -> bool:
    """Whether a job there, or this one, wants the node exclusively or for its user."""
    if state.node_columns.used_exclusively[node.index]:
        return True
    if wants.exclusive_topo and _leaf_is_used(state, node):
        return True
    if not (wants.is_alone() or wants.is_apart() or state.exclusive_users):
        return False  # checked before the jobs there, of which a large node has thousands
    here = [other for job_id in node.jobs if units_in_use(state, other := state.jobs[job_id])]
    if wants.is_alone():
        return bool(here)
    number = state.sharing_number(job)
    return any((wants.is_apart() or o.request.is_apart()) and state.sharing_number(o) != number for o in here)


def _leaf_is_used(state: ClusterState, node: Node) -> bool:
    """Whether a job is on another node of the leaf switch."""
    others = (state.node_list[index] for index in leaf_mates(state.node_columns, [node.index]))
    return any(units_in_use(state, state.jobs[job_id]) for other in others for job_id in other.jobs)


# ---- the full pass -----------------------------------------------------------------------------------------------


def want_full_pass(state: ClusterState, now_us: int) -> None:
    """Starts a full pass, or arranges that one starts later: one at a time, with a pause between."""
    if (
        state.scheduling.full_pass_in_flight
        or state.scheduling.full_pass_revision == state.scheduling.revision
        or state.pending.outside
    ):
        return
    if now_us < state.scheduling.full_pass_not_before_us:
        due_us = state.scheduling.full_pass_not_before_us
        if state.scheduling.full_pass_timer_us != due_us:  # one timer, however many requests
            state.scheduling.full_pass_timer_us = due_us
            state.timers.set(due_us, Timer.FULL_PASS)
        return
    state.scheduling.full_pass_in_flight = True
    state.scheduling.full_pass_revision = state.scheduling.revision
    node_limits.before_pass(state)
    if state.layout.hres_sets:
        hres.before_pass(state)
    rows = _limited(state, _above_limited(state, state.pending.first(len(state.pending.ready))))
    question = snapshot(state, now_us, rows, FULL_STARTS_MAX)
    age_s = state.scheduling.policy.min_age_reserve_s
    if age_s:
        question.given.jobs.reserve[:] &= state.pending.eligible_s <= now_us // 1_000_000 - age_s
    state.emit(StartPlan(state.scheduling.revision, question, state.scheduling.policy.pass_s_max))


def _above_limited(state: ClusterState, rows: Rows) -> Rows:
    """assoc_limit_stop: drops the rows that rank below a job of the same partition that a limit blocks."""
    if not state.scheduling.policy.limit_stop or state.limits.ledger is None or not state.limits.ledger.waiting:
        return rows
    highest: dict[int, int] = {}
    for job_id in state.limits.ledger.waiting:
        job = state.jobs[job_id]
        for name in job.request.partitions:
            partition = state.partitions[name]
            index = state.partition_list.index(partition)
            highest[index] = max(highest.get(index, 0), rank(state, job, partition))
    partitions = state.pending.partition[rows].tolist()
    ranks = state.pending.ranks_of(rows)
    kept = [highest.get(part, 0) <= own for part, own in zip(partitions, ranks, strict=True)]
    return rows[np.array(kept, np.bool_)] if kept else rows


def _limited(state: ClusterState, rows: Rows) -> Rows:
    """Returns the rows within bf_max_job_test, _user, _part and _assoc, in the same order."""
    policy, pending = state.scheduling.policy, state.pending
    for most, column in (
        (policy.user_max, pending.table.user), (policy.partition_max, pending.partition), (policy.assoc_max, pending.assoc),
    ):  # fmt: skip
        if len(rows) > most:
            rows = rows[_occurrence(column[rows]) < most]
    rows = rows[: policy.rows_max]
    return het.whole(state, rows) if state.hets else rows


def _occurrence(values: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> Rows:
    """Counts how often each value occurred before in the array."""
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    begins = np.concatenate(([True], sorted_values[1:] != sorted_values[:-1]))
    at = np.arange(len(values))
    found = np.empty(len(values), np.int64)
    found[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    return found


def plan_ready(state: ClusterState, now_us: int, event: PlanReady) -> None:
    """Handles the result of a full pass: applies what is still valid."""
    state.scheduling.full_pass_in_flight = False
    state.scheduling.full_pass_not_before_us = now_us + state.scheduling.policy.interval_us
    # Nodes were renumbered since, or reservations have changed, or it has to be decided again whether jobs may start.
    if state.pending.outside or event.revision < max(state.scheduling.layout_revision, state.reserved.revision):
        state.changed()
        return
    stale = event.revision != state.scheduling.revision
    apply_answer(state, now_us, event, None, None)
    pairs = _victims_now(state, now_us, event.victims) if stale else event.victims
    victims.apply_victims(state, now_us, pairs)
    if event.forecast is not None:
        state.take_forecast(event.forecast)
    if state.scheduling.full_pass_revision != state.scheduling.revision:
        state.scheduling.quick_pass_due = True


def _victims_now(state: ClusterState, now_us: int, pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Plans each job that wanted victims again, alone, since the state has changed while the pass ran.

    One that could start now needs none; the next quick pass starts it.
    """
    found: list[tuple[int, int]] = []
    for job_id in list(dict.fromkeys(pending_id for pending_id, _ in pairs))[:PREEMPTORS_MAX]:
        rows = state.pending.ready_rows(job_id)
        answer = ask(present(state, now_us, np.array(rows, np.int64), 1)) if rows else None
        if answer is not None:
            found += answer.victims
            if answer.starts:
                state.changed()
    return tuple(found)
