"""When passes run, and what becomes of their answers.

The quick pass looks at the first rows of the queue (policy.quick_depth), at most once a batch, so that it costs the
same however many jobs wait. It plans them into the future as the full pass does, so that what it starts delays none of
them. When more rows are ready than it saw, a full pass over all of them is started in a worker thread (`StartPlan`); it
works on copies and comes back as `PlanReady`. Each of its placements is verified against the present state, since the
world went on meanwhile, and dropped when stale; the next pass sees what was dropped.

What the planner must not know - job ids, names, device numbers - is put on in planning.py and here.
"""

from functools import partial
from typing import Any

import numpy as np

from ctld.core import arrays, assocs, borrow, budgets, gang, het, job_life, limit_nodes, limits, victims
from ctld.core.devices import pick_cpus, pick_devices
from ctld.core.effects import StartPlan
from ctld.core.events import PlanReady
from ctld.core.expect import UNLIMITED_S
from ctld.core.explain import apply_reasons
from ctld.core.fractions import Holds, steer
from ctld.core.limit_rules import is_of_nodes
from ctld.core.model import Job, Node, NodeAlloc
from ctld.core.mps_users import MPS, elsewhere, foreign_gpus, wants_mps
from ctld.core.pending import RANK_MAX
from ctld.core.planning import Answer, Forecast, Placement, Rows, Start, ask, present, snapshot
from ctld.core.priority import rank
from ctld.core.ready import most_s, refresh, wait_for_limit
from ctld.core.reserve_life import enter
from ctld.core.reserve_view import crosses
from ctld.core.shares import GPU, pick_share, wish_of
from ctld.core.sharing import units_held, units_taken
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import JobState

#: Starts of one quick pass: bounds a batch, so that an array of 100,000 does not make one commit of everything.
QUICK_STARTS_MAX = 512
#: Rounds of the quick pass in one seal, when all that it saw could start.
QUICK_ROUNDS_MAX = 4
FULL_STARTS_MAX = 10_000
#: Jobs of a stale plan whose victims are planned anew; a small planning each. The others come with the next pass.
PREEMPTORS_MAX = 64


def quick_pass(state: ClusterState, now_us: int) -> None:
    """Start what fits, in order of rank."""
    if not state.quick_pass_due:
        return
    state.quick_pass_due = False
    depth = state.policy.quick_depth
    for _ in range(QUICK_ROUNDS_MAX):
        limit_nodes.before_pass(state)
        rows = _above_limited(state, state.pending.first(depth))
        if state.hets:
            rows = het.whole(state, rows)
        if not len(rows):
            break
        state.rows_seen += len(rows)
        whole = len(rows) == len(state.pending.ready)
        answer = _ask_now(state, now_us, rows)
        seen = None if whole else state.pending.table.job[rows].tolist()
        started = apply_answer(state, now_us, answer, seen)
        victims.apply_victims(state, now_us, answer.victims)
        if whole:
            state.take_forecast(answer.forecast)
        if len(answer.starts) >= QUICK_STARTS_MAX:
            state.quick_pass_due = True  # the rest with the next batch
        if started < len(rows):
            break
    if len(state.pending.ready) > depth:
        want_full_pass(state, now_us)


def _ask_now(state: ClusterState, now_us: int, rows: Rows) -> Answer:
    answer = ask(present(state, now_us, rows, QUICK_STARTS_MAX))
    if state.policy.strict:
        return _strictly(state, rows, answer)
    if state.policy.order != "priority" and len(rows) > 1:
        return _reordered(state, now_us, rows, answer)
    return answer


def _strictly(state: ClusterState, rows: Rows, answer: Answer) -> Answer:
    """FIFO: what stands behind the first row that waits does not start. Its start decided nothing for those before."""
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
    """Backfill candidates by shortest limit (EASY-SJBF) or prediction: those behind the first that waits are sorted anew."""
    started = {start.job_id for start in answer.starts}
    ids = state.pending.table.job[rows].tolist()
    head = next((i for i, job_id in enumerate(ids) if job_id not in started), len(ids))
    behind = rows[head + 1 :]
    if len(behind) < 2:
        return answer  # in any order it is this one
    order = np.argsort(state.pending.expected_s[behind], kind="stable")
    again = np.concatenate([rows[: head + 1], behind[order]])
    return ask(present(state, now_us, again, QUICK_STARTS_MAX))


def apply_answer(state: ClusterState, now_us: int, answer: Answer | PlanReady, seen: list[int] | None) -> int:
    """Starts and reasons. Returns how many started."""
    done = apply_starts(state, now_us, answer.starts, answer.forecast)
    apply_reasons(state, now_us, answer.reasons, seen)
    return done


def apply_starts(state: ClusterState, now_us: int, starts: tuple[Start, ...], forecast: Forecast | None = None) -> int:
    """Start each placement that still holds, parts of GPUs where fractions.py says. Returns how many did."""
    done, holds = 0, Holds(forecast, len(state.node_list))
    by_id = {start.job_id: start for start in starts} if state.hets else {}
    for start in starts:
        holder = state.jobs.get(start.job_id)
        if holder is None or not is_startable(state, holder) or start.partition >= len(state.partition_list):
            continue
        if holder.request.het_job_id:
            done += _start_together(state, now_us, holder, by_id)
            continue
        partition = state.partition_list[start.partition].name
        if state.ledger is not None:
            block = limits.before_start(state, holder, partition)
            if block is not None:
                _wait_for(state, now_us, holder, block)
                continue
        moved, gpus = steer(state, now_us, holder, start, holds)
        alloc = _allocation(state, now_us, holder, partition, moved, gpus)
        if alloc is None and moved is not start:
            alloc = _allocation(state, now_us, holder, partition, start)
        if alloc is None and wants_mps(holder):
            alloc = elsewhere(
                state, now_us, holder, start, holds, partial(_allocation, state, now_us, holder, partition)
            )
            if alloc is None:
                continue  # it waits until something ends, and no pass before that knows better
        if alloc is None:
            state.changed()
            continue
        if state.ledger is not None:
            kept = _within_limits(state, now_us, holder, start, alloc, holds)
            if kept is None:
                continue
            start, alloc = kept
        if state.budgets.books and not budgets.can_pay(
            state, now_us, [(holder, holder, partition, alloc, start.limit_s)]
        ):
            _recount(state, holder)  # it waits for the budget
            continue
        job = arrays.take_task(state, holder)
        _start(state, now_us, job, start, alloc)
        if holder is not job:
            _recount(state, holder)
        done += 1
    return done


def _within_limits(
    state: ClusterState, now_us: int, job: Job, start: Start, alloc: tuple[NodeAlloc, ...], holds: Holds
) -> tuple[Start, tuple[NodeAlloc, ...]] | None:
    """The start, or another one, that exceeds no limit with what has started before it in this pass. If there is none it
    waits, and another pass follows."""
    partition = state.partition_list[start.partition].name
    limit_s = min(start.limit_s, most_s(job.request, now_us))
    block = limits.at_start(state, job, partition, alloc, limit_s)
    if block is not None and is_of_nodes(block.check):
        moved = limit_nodes.elsewhere(state, now_us, job, start, holds)
        found = _allocation(state, now_us, job, partition, moved) if moved is not None else None
        if moved is not None and found is not None:
            start, alloc, block = moved, found, limits.at_start(state, job, partition, found, limit_s)
        elif limit_nodes.is_fenced(state, job):
            state.changed()
            return None  # it looks for a place among its group's nodes in the next pass
    if block is None:
        return start, alloc
    _wait_for(state, now_us, job, block)
    return None


def _wait_for(state: ClusterState, now_us: int, job: Job, block: limits.Block) -> None:
    """A limit was reached by what started before it; another pass follows."""
    if len(job.request.partitions) > 1:
        refresh(state, job, now_us)
    if is_startable(state, job):
        wait_for_limit(state, job, block)
    state.changed()


def _start(state: ClusterState, now_us: int, job: Job, start: Start, alloc: tuple[NodeAlloc, ...]) -> None:
    partition = state.partition_list[start.partition].name
    limit_s = min(start.limit_s, most_s(job.request, now_us))
    if limit_s < job.time_limit_s or (job.time_limit_s < 0 and limit_s < UNLIMITED_S):
        job.time_limit_s = limit_s
    if state.reservations:
        enter(state, job, start.reservation)
    runs = gang.has_room(state, job, partition, alloc)
    if state.lending.is_on:
        borrow.mark(state, job, assocs.allocated_in(alloc), now_us)
    job_life.start(state, job, partition, alloc, now_us, launch=runs)
    gang.begin(state, job, runs, now_us)


def _start_together(state: ClusterState, now_us: int, first: Job, starts: dict[int, Start]) -> int:
    """The components of a heterogeneous job, all of them or none. Returns how many started.

    Each placement is verified with what those before it take; it is taken back before the jobs themselves take it.
    """
    jobs = het.active(state, first)
    placed = [starts.get(job.job_id) for job in jobs]
    if any(start is None or start.partition >= len(state.partition_list) for start in placed):
        return 0
    booked: list[tuple[Job, Start, tuple[NodeAlloc, ...], int]] = []
    for job, start in zip(jobs, placed, strict=True):
        assert start is not None
        partition = state.partition_list[start.partition].name
        alloc = _allocation(state, now_us, job, partition, start) if is_startable(state, job) else None
        if alloc is None:
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
    if state.ledger is not None and _are_over_limit(state, now_us, booked):
        return 0
    if state.budgets.books:
        asked = [(j, j, state.partition_list[s.partition].name, a, s.limit_s) for j, s, a, _ in booked]
        if not budgets.can_pay(state, now_us, asked):
            for job in jobs:
                _recount(state, job)
            return 0
    for job, start, alloc, _ in booked:
        _start(state, now_us, job, start, alloc)
    return len(jobs)


def _are_over_limit(
    state: ClusterState, now_us: int, booked: list[tuple[Job, Start, tuple[NodeAlloc, ...], int]]
) -> bool:
    """Of jobs that start together one would exceed a limit: all of them wait."""
    block = limits.together(
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
    state: ClusterState, now_us: int, job: Job, partition: str, start: Start, gpus: int = -1
) -> tuple[NodeAlloc, ...] | None:
    if state.reservations:
        nodes = [index for index, _, _, _ in start.placement]
        if crosses(state, now_us, nodes, start.limit_s, start.reservation):
            return None
    return verify(state, job, partition, start.placement, gpus)


def is_startable(state: ClusterState, job: Job) -> bool:
    """Pending, and among the ready rows."""
    return job.state is JobState.PENDING and state.pending.is_ready(job.job_id)


def _recount(state: ClusterState, holder: Job) -> None:
    refresh(state, holder, state.now_us)


def verify(
    state: ClusterState, job: Job, partition: str, placement: Placement, gpus: int = -1
) -> tuple[NodeAlloc, ...] | None:
    """The allocation that a placement means now, with device numbers; None when something is no longer free.

    `gpus`: those that shares may be taken of, as a mask.
    """
    columns, found = state.node_columns, []
    units = units_taken(state, job.request, partition)
    wish = wish_of(job.request.gres_per_node)
    for index, cpus, tasks, mem_mb in placement:
        if index >= len(state.node_list):
            return None
        node = state.node_list[index]
        if not columns.up[index] or _is_closed_to(state, node, job):
            return None
        if cpus > node.cpus or cpus * units > columns.free_cpus[index] or mem_mb > columns.free_mem_mb[index]:
            return None
        gres = pick_devices(node, job.request.gres_per_node, job.request.gpu_mem_mb)
        if gres is None:
            return None
        among = gpus if wish is None or wish[0] != MPS else gpus & ~foreign_gpus(state, node, job.user_id)
        share = pick_share(node, wish, among) if wish is not None else None
        if wish is not None and share is None:
            return None
        near = gres if share is None else ((GPU, "", 1 << share.gpu),)
        cpu_ids = pick_cpus(node, cpus, near) if units == state.units_per_cpu else 0
        shares = () if share is None else (share,)
        found.append(NodeAlloc(node.name, cpus, mem_mb, tasks, gres, cpu_ids, shares))
    return tuple(found)


def _is_closed_to(state: ClusterState, node: Node, job: Job) -> bool:
    """A job there, or this one, wants the node for itself or for its user."""
    if state.node_columns.held_exclusive[node.index]:
        return True
    wants = job.request
    if not (wants.exclusive or wants.exclusive_user or state.exclusive_users):
        return False  # before the jobs there are looked at, of which a large node has thousands
    here = [other for job_id in node.jobs if units_held(state, other := state.jobs[job_id])]
    if wants.exclusive:
        return bool(here)
    return any((wants.exclusive_user or o.request.exclusive_user) and o.user_id != job.user_id for o in here)


# ---- the full pass -----------------------------------------------------------------------------------------------


def want_full_pass(state: ClusterState, now_us: int) -> None:
    """Start a full pass, or see to it that one starts later: one at a time, with a pause between."""
    if state.full_pass_in_flight or state.full_pass_revision == state.revision or state.pending.outside:
        return
    if now_us < state.full_pass_not_before_us:
        if state.full_pass_timer_us != state.full_pass_not_before_us:  # one timer, however often somebody asks
            state.full_pass_timer_us = state.full_pass_not_before_us
            state.timers.set(state.full_pass_timer_us, Timer.FULL_PASS)
        return
    state.full_pass_in_flight = True
    state.full_pass_revision = state.revision
    limit_nodes.before_pass(state)
    rows = _limited(state, _above_limited(state, state.pending.first(len(state.pending.ready))))
    question = snapshot(state, now_us, rows, FULL_STARTS_MAX)
    age_s = state.policy.min_age_reserve_s
    if age_s:
        question.given.jobs.reserve[:] &= state.pending.eligible_s <= now_us // 1_000_000 - age_s
    state.emit(StartPlan(state.revision, question, state.policy.pass_s_max))


def _above_limited(state: ClusterState, rows: Rows) -> Rows:
    """assoc_limit_stop: without the rows that rank below a job of the same partition which a limit holds back."""
    if not state.policy.limit_stop or state.ledger is None or not state.ledger.waiting:
        return rows
    highest: dict[int, int] = {}
    for job_id in state.ledger.waiting:
        job = state.jobs[job_id]
        for name in job.request.partitions:
            partition = state.partitions[name]
            index = state.partition_list.index(partition)
            highest[index] = max(highest.get(index, 0), rank(state, job, partition))
    partitions = state.pending.partition[rows].tolist()
    keys = [RANK_MAX - (state.pending.key_of(row) >> 64) for row in rows.tolist()]
    kept = [highest.get(part, 0) <= own for part, own in zip(partitions, keys, strict=True)]
    return rows[np.array(kept, np.bool_)] if kept else rows


def _limited(state: ClusterState, rows: Rows) -> Rows:
    """The rows that bf_max_job_test, _user, _part and _assoc let the pass see, in the same order."""
    policy, pending = state.policy, state.pending
    for most, column in (
        (policy.user_max, pending.table.user), (policy.partition_max, pending.partition), (policy.assoc_max, pending.assoc),
    ):  # fmt: skip
        if len(rows) > most:
            rows = rows[_occurrence(column[rows]) < most]
    rows = rows[: policy.rows_max]
    return het.whole(state, rows) if state.hets else rows


def _occurrence(values: Any) -> Rows:
    """How often each value came before in the array."""
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    begins = np.concatenate(([True], sorted_values[1:] != sorted_values[:-1]))
    at = np.arange(len(values))
    found = np.empty(len(values), np.int64)
    found[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    return found


def plan_ready(state: ClusterState, now_us: int, event: PlanReady) -> None:
    """A full pass is back: apply what still holds."""
    state.full_pass_in_flight = False
    state.full_pass_not_before_us = now_us + state.policy.interval_us
    # Nodes were renumbered since, or what is reserved has changed.
    if event.revision < max(state.layout_revision, state.reservation_revision):
        state.changed()
        return
    stale = event.revision != state.revision
    apply_answer(state, now_us, event, None)
    pairs = _victims_now(state, now_us, event.victims) if stale else event.victims
    victims.apply_victims(state, now_us, pairs)
    if event.forecast is not None:
        state.take_forecast(event.forecast)
    if state.full_pass_revision != state.revision:
        state.quick_pass_due = True


def _victims_now(state: ClusterState, now_us: int, pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The world went on while the pass ran: each job that wanted victims is asked about again, alone.

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
