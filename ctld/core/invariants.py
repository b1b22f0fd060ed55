"""Invariants of the state: checked after every step in tests, every few seconds in production.

`check()` recomputes every count and compares. It never repairs; a violation is a bug, and the process that finds one
ends.
"""

import numpy as np

from ctld.core.demand import specialized
from ctld.core.gpus.invariants import check_gpus
from ctld.core.jobs import arrays
from ctld.core.jobs.sharing import units_in_use
from ctld.core.lifecycle import het_life
from ctld.core.limits import ledger
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.request import NodeAlloc
from ctld.core.records.violation import Violation as Violation
from ctld.core.records.violation import need as _need
from ctld.core.reservations.access import names_asked, running_in
from ctld.core.reservations.view import view_of
from ctld.core.state import shares
from ctld.core.state.devices import device_masks
from ctld.core.state.leaves import leaf_mates
from ctld.core.state.state import CLOSED_FLAGS, ClusterState
from ctld.core.steps.invariants import check_ports, check_steps
from penstock.values.states import ACTIVE_STATES, ALLOCATED_STATES, END_STATES, JobState, Suspend


def check(state: ClusterState) -> None:
    """Raises Violation at the first inconsistency."""
    last_id = 0
    for job in state.jobs.records():
        job_id = job.job_id
        _need(last_id < job_id < state.next_job_id, f"job {job_id}: id, after {last_id}")
        last_id = job_id
        _check_job(state, job)
        if job_id in state.steps.by_job or any(step.parts is not None for step in job.steps.values()):
            check_steps(state, job)
    check_ports(state)
    in_table = _running_in_table(state)
    for node in state.node_list:
        _check_node(state, node, in_table[node.index])
    _check_arrays(state)
    _check_partition_cpus(state)
    _check_leaves(state)
    het_life.check(state)
    _check_licenses(state)
    _check_shares(state)
    _check_budgets(state)
    ledger.check(state)
    _check_reservations(state)
    _check_crontabs(state)
    active = sum(arrays.weight(job) for job in state.jobs.records() if job.state in ACTIVE_STATES)
    _need(
        state.submissions.stored.references() == state.submissions.stored.recount(state.jobs.records()),
        "stored contents: who holds what",
    )
    resumed = {
        job.job_id
        for job in state.jobs.records()
        if job.state is JobState.SUSPENDED and job.suspended_by is not Suspend.ADMIN
    }
    _need(state.preemption.suspended.keys() == resumed, "jobs that are resumed automatically")
    _need(active == state.active_count, f"{state.active_count} active jobs counted, {active} there")
    ready = {int(state.pending.table.job[row]) for row in state.pending.first(len(state.pending.ready)).tolist()}
    for job_id in sorted(ready):
        _need(state.jobs[job_id].state is JobState.PENDING, f"job {job_id} is ready and not pending")


def _check_crontabs(state: ClusterState) -> None:
    """Checks that each recurring job is an entry of its owner's crontab, and of one only."""
    entries = [(entry.job_id, tab.uid) for tab in state.periodic.crontabs.values() for entry in tab.jobs]
    owners = dict(entries)
    _need(len(owners) == len(entries), "a job is two entries of crontabs")
    for job in state.jobs.records():
        if job.request.cron and job.state in ACTIVE_STATES:
            _need(
                owners.get(job.job_id) == job.user_id,
                f"job {job.job_id} comes again, and is in no crontab of its owner",
            )


def _check_licenses(state: ClusterState) -> None:
    """Checks that the free count of each licence is the total less what jobs hold."""
    held = [0] * len(state.layout.license_kinds)
    for job in state.jobs.records():
        if job.state in ALLOCATED_STATES:
            held = [a + b for a, b in zip(held, state.licenses_taken(job), strict=True)]
    for name, kind in state.layout.license_kinds.items():
        free = state.layout.license_totals[name] - held[kind]
        _need(int(state.free_licenses[kind]) == free, f"license {name}: {state.free_licenses[kind]} free, not {free}")


def _check_shares(state: ClusterState) -> None:
    """Checks that the current charges are those of the jobs that are charged, and that under multifactor every running
    job is charged."""
    rates: dict[int, int] = {}
    for job_id, (assoc_id, rate) in state.limits.charged.items():
        _need(
            job_id in state.jobs and state.jobs[job_id].state in ALLOCATED_STATES,
            f"job {job_id}: charged, holds nothing",
        )
        rates[assoc_id] = rates.get(assoc_id, 0) + rate
    for assoc in state.shares.by_id.values():
        _need(assoc.rate == rates.get(assoc.assoc_id, 0), f"association {assoc.assoc_id}: rate {assoc.rate}")
        _need(assoc.usage >= 0, f"association {assoc.assoc_id}: usage {assoc.usage}")
    if state.priorities is not None:
        for job in state.jobs.records():
            _need(
                job.state not in ALLOCATED_STATES or job.job_id in state.limits.charged,
                f"job {job.job_id}: not charged",
            )


def _check_budgets(state: ClusterState) -> None:
    """Checks that the sums of each budget are those of its jobs, and that each of these jobs counts for something."""
    for book in state.limits.budgets.books.values():
        _need(book.sums() == book.counted(), f"budget {book.key}: {book.sums()}, not {book.counted()}")
        _need(book.used >= 0, f"budget {book.key}: {book.used} used")
        for job_id in book.parts:
            holds = job_id in state.jobs and state.jobs[job_id].state in ALLOCATED_STATES
            _need(holds, f"budget {book.key}: job {job_id} holds nothing")
            _need(
                book in state.limits.budgets.of_job.get(job_id, ()),
                f"budget {book.key}: job {job_id} does not know of it",
            )


def _check_job(state: ClusterState, job: Job) -> None:
    name = f"job {job.job_id}"
    if job.state is JobState.PENDING:
        _need(not job.alloc and not job.steps, f"{name}: pending with an allocation")
        has_rows = bool(state.pending.rows_of(job.job_id)) or job.job_id in state.pending.outside
        _need(has_rows, f"{name}: pending without rows")
    else:
        _need(not state.pending.rows_of(job.job_id), f"{name}: not pending, with rows")
        _need(job.job_id not in state.dependencies.waiting_for, f"{name}: not pending, with a dependency")
    if job.state in ALLOCATED_STATES:
        has_steps = bool(job.steps) or bool(job.request.kind)
        _need(bool(job.alloc) and has_steps, f"{name}: holds nothing in {job.state.name}")
        _need(all(job.job_id in state.nodes[p.node].jobs for p in job.alloc), f"{name}: not known on its nodes")
    else:
        _need(
            all(job.job_id not in state.nodes[p.node].jobs for p in job.alloc if p.node in state.nodes),
            f"{name}: still on nodes",
        )
    suspended = job.suspended_by is not Suspend.NO
    _need(suspended >= (job.state is JobState.SUSPENDED), f"{name}: suspended for no reason")
    _need(
        not suspended or job.state in ALLOCATED_STATES - {JobState.RUNNING}, f"{name}: {job.suspended_by.name} and runs"
    )
    _need((job.end_state is not None) <= (job.state is JobState.COMPLETING), f"{name}: end state in {job.state.name}")
    if job.state in END_STATES:
        _need(job.end_at_us >= job.start_at_us, f"{name}: ends before it starts")
        _need(all(s.state in END_STATES for s in job.steps.values()), f"{name}: ended with a step that has not")


def _running_in_table(state: ClusterState) -> list[tuple[int, int]]:
    """CPUs and memory of running jobs as the planner counts them, by node."""
    table = state.running.table
    rows = np.flatnonzero(table.part_run >= 0)
    cpus, mem_mb = (np.zeros(len(state.node_list), np.int64) for _ in range(2))
    if rows.size:
        np.add.at(cpus, table.part_node[rows], table.part_cpus[rows])
        np.add.at(mem_mb, table.part_node[rows], table.part_mem_mb[rows])
    return list(zip(cpus.tolist(), mem_mb.tolist(), strict=True))


def _check_node(state: ClusterState, node: Node, in_table: tuple[int, int]) -> None:
    columns, i = state.node_columns, node.index
    held = [(p, state.jobs[job_id]) for job_id in node.jobs for p in state.jobs[job_id].alloc if p.node == node.name]
    parts = [part for part, _ in held]
    mem_mb = sum(p.mem_mb for p in parts)
    in_use = [p.cpus * units_in_use(state, job) for p, job in held]
    cpus = sum(p.cpus for p, used in zip(parts, in_use, strict=True) if used)
    units = sum(in_use)
    sure = sum(used for (_, job), used in zip(held, in_use, strict=True) if job.suspended_by is not Suspend.RESUMING)
    _need(cpus == node.cpus_alloc and columns.free_cpus[i] == columns.total_cpus[i] - units, f"{node.name}: cpus")
    _need(
        mem_mb == node.mem_alloc_mb and columns.free_mem_mb[i] == node.real_memory_mb - mem_mb, f"{node.name}: memory"
    )
    _need(in_table == (units, mem_mb), f"{node.name}: CPUs and memory of running jobs: {in_table}, not {units, mem_mb}")
    _need(bool(columns.up[i]) == (not node.flags & CLOSED_FLAGS), f"{node.name}: up")
    used = 0
    for part in parts:
        _need(not used & part.cpu_ids, f"{node.name}: a cpu given twice")
        used |= part.cpu_ids
    _need(used == node.cpus_used, f"{node.name}: cpus used")
    is_own = any(specialized.is_on(job.request) for _, job in held)
    _need(is_own or not used & ~node.inside.usable, f"{node.name}: a specialized cpu is given")
    fits = sure <= node.cpus * state.layout.units_per_cpu and mem_mb <= node.real_memory_mb
    _need(fits, f"{node.name}: more given than there is")
    _check_slot(state, node)
    devices: dict[tuple[str, str], int] = {}
    for part in parts:
        for name, type_, mask in part.gres:
            _need(not devices.get((name, type_), 0) & mask, f"{node.name}: {name} given twice")
            devices[name, type_] = devices.get((name, type_), 0) | mask
    _check_shares_of_gpus(state, node, parts)
    for kind in {**devices, **node.gres_used}:
        _need(devices.get(kind, 0) == node.gres_used.get(kind, 0), f"{node.name}: {kind} held")
        _need(not devices.get(kind, 0) & ~device_masks(node).get(kind, 0), f"{node.name}: {kind} does not exist")
    check_gpus(state, node)


def _check_slot(state: ClusterState, node: Node) -> None:
    """Checks that under time slicing no CPU has two running jobs."""
    if "GANG" not in state.config.preempt_mode:
        return
    cpus = 0
    for job_id in node.jobs:
        job = state.jobs[job_id]
        if job.state in (JobState.CONFIGURING, JobState.RUNNING):
            cpus += sum(part.cpus for part in job.alloc if part.node == node.name)
    _need(cpus <= node.cpus, f"{node.name}: {cpus} cpus run at once, it has {node.cpus}")


def _check_shares_of_gpus(state: ClusterState, node: Node, parts: list[NodeAlloc]) -> None:
    """Checks that no GPU has more shares in use than it is divided into, nor any while it is allocated whole, and that
    the columns agree."""
    held: shares.SharesInUse = {}
    for part in parts:
        for share in part.shares:
            _need(held.get(share.gpu, (share.name, 0))[0] == share.name, f"{node.name}: GPU {share.gpu} shared by two")
            shares.take(held, share)
            units = node.inside.shares.get((share.name, share.type), ())
            most = units[share.gpu] if share.gpu < len(units) else 0
            _need(
                held[share.gpu][1] <= most, f"{node.name}: GPU {share.gpu} has {most} of {share.name}, more are given"
            )
            _need(
                not shares.whole_gpus(node) >> share.gpu & 1, f"{node.name}: GPU {share.gpu} is given whole and shared"
            )
    _need(held == node.gpu_shares, f"{node.name}: shares of GPUs in use")
    if node.index in state.running.tracked and node.index not in state.running.touched:
        for kind, count in shares.room(node.inside, shares.whole_gpus(node), held, node.gpu_closed).items():
            free = state.node_columns.free_gres[node.index, state.layout.gres_kinds[kind]]
            _need(free == count, f"{node.name}: {kind} free")


def _check_leaves(state: ClusterState) -> None:
    """Checks who has leaf switches for itself alone, and that nobody starts there."""
    held: dict[int, dict[int, None]] = {}
    for job_id in dict.fromkeys(job_id for node in state.node_list for job_id in node.jobs):
        job = state.jobs[job_id]
        if job.request.exclusive_topo and units_in_use(state, job):
            own = [state.nodes[part.node].index for part in job.alloc]
            for index in (*own, *leaf_mates(state.node_columns, own)):
                held.setdefault(index, {})[job_id] = None
    _need(held == state.leaf_owners.of_node, "leaf switches that jobs have for themselves alone")
    _need(all(state.node_columns.used_exclusively[index] for index in held), "nodes of such leaf switches are closed")


def _check_partition_cpus(state: ClusterState) -> None:
    """Checks what the planner counts for MaxCPUsPerNode."""
    for partition, column in state.layout.partition_cpus.items():
        for node in state.node_list:
            jobs = (state.jobs[job_id] for job_id in node.jobs)
            counted = [
                j for j in jobs if j.partition == partition and not j.request.exclusive and units_in_use(state, j)
            ]
            cpus = sum(part.cpus for job in counted for part in job.alloc if part.node == node.name)
            free = int(state.node_columns.free_gres[node.index, column])
            most = state.partitions[partition].config.cpus_within(node.config)
            _need(
                free == most - cpus,
                f"{node.name}: {free} CPUs are left for partition {partition}, counted {most - cpus}",
            )


def _check_arrays(state: ClusterState) -> None:
    pending: dict[int, int] = {}
    running: dict[int, int] = {}
    for job in state.jobs.records():
        if job.array_job_id:
            _need(job.array_job_id in state.arrays, f"job {job.job_id}: array without counters")
            counts = pending if job.state is JobState.PENDING else running if job.state in ALLOCATED_STATES else None
            if counts is not None:
                counts[job.array_job_id] = counts.get(job.array_job_id, 0) + arrays.weight(job)
            waits = job.state is JobState.PENDING and job.array_task_id is not None
            known = job.job_id in state.arrays[job.array_job_id].waiting
            _need(waits == known, f"job {job.job_id}: among its array's waiting tasks: {known}")
    for array_job_id, record in state.arrays.items():
        found = (pending.get(array_job_id, 0), running.get(array_job_id, 0))
        _need(found == (record.pending, record.running), f"array {array_job_id}: {found} counted")
        _need(
            record.pending + record.running + record.ok + record.failed == record.total, f"array {array_job_id}: total"
        )


def _check_reservations(state: ClusterState) -> None:
    found: dict[str, list[int]] = {}
    for job in state.jobs.records():
        name = running_in(job)
        if name and job.state in ALLOCATED_STATES:
            found.setdefault(name, []).append(job.job_id)
    known = {name: sorted(jobs) for name, jobs in state.reserved.jobs.items()}
    _need({name: sorted(jobs) for name, jobs in found.items()} == known, f"jobs in reservations: {found}, {known}")
    for name, reservation in state.reservations.items():
        _need(
            name == reservation.name and reservation.start_at_us < reservation.end_at_us, f"reservation {name}: times"
        )
        nodes = [part.node for part in reservation.parts]
        _need(len(nodes) == len(set(nodes)), f"reservation {name}: a node twice")
    for job in state.jobs.records():
        if job.state is JobState.PENDING:
            gone = [name for name in names_asked(job) if name not in state.reservations]
            _need(not gone, f"job {job.job_id}: asks for {gone}, which is no reservation")
    _check_rows(state)


def _check_rows(state: ClusterState) -> None:
    """Checks that the columns of pending jobs name the reservations that the jobs may use, and no others."""
    if not state.reservations:
        return
    view = view_of(state, state.now_us)
    resv = state.pending.table.resv
    for row in state.pending.first(len(state.pending.ready)).tolist():
        job = state.jobs[int(state.pending.table.job[row])]
        name = view.names[resv[row]] if resv[row] >= 0 else ""
        _need(name in (names_asked(job) or ("", *view.magnetic)), f"job {job.job_id}: has a row for {name!r}")
