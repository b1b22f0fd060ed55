"""ClusterState: all tables and their indexes, and mutators for values that must change together.

State of a single policy is a sub-state (limits.py, scheduling.py, step_tables.py, ...); rows and effects for the next
seal are in outputs.py.

Rules
    - Policies read freely. The modules that may assign each attribute, here or in a record, are listed in
      tests/tidy/test_owners.py.
    - Code that changes a record marks it with `touch_*` directly afterwards.
    - Indexes are dicts used as ordered sets; nothing iterates a `set`.
    - Capacity is counted twice on purpose: in `Node` and, for the planner, in the columns. `invariants.py` compares them.
    - An allocation changes nodes, columns, shares and reservations together, for each job: these mutators stay in one
      class, without a call between them and the tables.
Deliberately absent: rules. When a job may start, end or be seen is decided elsewhere.
"""

from collections import OrderedDict

import numpy as np

from ctld.core.records.amended import Amended
from ctld.core.records.array import ArrayRecord
from ctld.core.records.audit import Trail
from ctld.core.records.effects import Effect, Reply, ReplyBody
from ctld.core.records.gap import Gap
from ctld.core.records.job import HistoryRow, Job, job_row
from ctld.core.records.node import Node, Partition
from ctld.core.records.periodic import Periodic
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.reservation import Reservation
from ctld.core.records.step import Step
from ctld.core.state import device_counts, hres, shares
from ctld.core.state.awaiting import Awaiting
from ctld.core.state.calls import Calls
from ctld.core.state.columns import I32, NodeColumns, RunningColumns
from ctld.core.state.dependencies import Dependencies
from ctld.core.state.fairshare import ShareTree
from ctld.core.state.forecast import Forecast
from ctld.core.state.gpu_state import GpuTables
from ctld.core.state.handling import Handling
from ctld.core.state.histories import Histories
from ctld.core.state.jobs_by_name import JobsByName
from ctld.core.state.known_jobs import KnownJobs
from ctld.core.state.layout import ClusterLayout
from ctld.core.state.leaves import LeafOwners, leaf_mates
from ctld.core.state.limits import LimitState
from ctld.core.state.open_intervals import OpenIntervals
from ctld.core.state.outputs import Outputs
from ctld.core.state.pending import PendingColumns
from ctld.core.state.personal_tokens import PersonalTokens
from ctld.core.state.preemption import Preemption
from ctld.core.state.priority_columns import Priorities
from ctld.core.state.registry import AccountingRegistry
from ctld.core.state.reserved import Reserved
from ctld.core.state.resizes import Resize
from ctld.core.state.revoked import RevokedTokens
from ctld.core.state.scheduling import Scheduling
from ctld.core.state.shown import Shown
from ctld.core.state.step_tables import StepTables
from ctld.core.state.submissions import Submissions
from ctld.core.state.timers import Timer, Timers
from penstock.values.config import Config
from penstock.values.licenses import parse_licenses
from penstock.values.reservations import ResvFlag
from penstock.values.states import CLOSED_FLAGS as CLOSED_FLAGS
from penstock.values.states import JobState, Reason, Suspend


class ClusterState:
    """All state of the controller. The module's docstring has the rules for changing it."""

    def __init__(self) -> None:
        self.config = Config()
        self.epoch = 0
        self.gap = Gap()
        self.now_us = 0  # time of the event being handled
        self.handling = Handling()
        self.timers = Timers()
        # jobs
        self.next_job_id = 1
        self.next_request_id = 1
        self.jobs = KnownJobs()  # active, and ended less than MinJobAge ago
        self.active_count = 0  # jobs that have not ended, tasks of arrays counted one by one
        self.arrays: dict[int, ArrayRecord] = {}
        self.hets: dict[int, None] = {}  # heterogeneous jobs that have not ended, by their leader's id (jobs/het.py)
        self.hets_due: OrderedDict[int, None] = OrderedDict()  # those of which a component has ended or was requeued
        self.jobs_by_name = JobsByName()  # of active jobs
        self.calls = Calls()
        self.awaiting = Awaiting()
        self.dependencies = Dependencies()
        self.steps = StepTables()
        self.resizes: dict[int, Resize] = {}  # jobs that are releasing nodes, by job id
        self.submissions = Submissions()
        # nodes
        self.nodes: dict[str, Node] = {}
        self.node_list: list[Node] = []  # by column index
        self.partitions = dict[str, Partition]()
        self.partition_list = list[Partition]()
        self.rebooting: dict[str, None] = {}  # nodes that are to reboot (nodes/reboot.py)
        self.boots_for_jobs: dict[str, None] = {}  # nodes that are to be marked for that: jobs/node_boots.py
        self.gpus = GpuTables()
        self.layout = ClusterLayout()
        self.reservations: dict[str, Reservation] = {}  # in the order of creation
        self.reserved = Reserved()
        self.open_intervals = OpenIntervals()
        # the planner's view, built by nodes/layout.py
        self.node_columns = NodeColumns(0, 0)
        self.running = RunningColumns(0)
        self.pending = PendingColumns(0)
        self.free_licenses: I32 = np.zeros(0, np.int32)
        self.leaf_owners = LeafOwners()
        self.exclusive_users = 0  # jobs that keep other users, or other labels, from their nodes
        self.histories = Histories()  # queue/prediction.py
        self.scheduling = Scheduling()
        self.preemption = Preemption()
        # accounts
        self.shares = ShareTree()
        self.registry = AccountingRegistry()
        self.qos: dict[str, Qos] = {}
        self.limits = LimitState()
        self.priorities: Priorities | None = None  # None = priority/basic
        self.priority_generation = 0
        self.periodic = Periodic()  # crontabs and triggers
        self.amended = Amended()
        self.audit = Trail()
        self.revoked = RevokedTokens()
        self.personal_tokens = PersonalTokens()
        self.outputs = Outputs()
        self.shown = Shown()

    def applying(self) -> None:
        """Marks the boundary in a handler between the half that only reads, and may fail, and the half that may not."""
        self.handling.is_applied = True

    # ---- outputs -------------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        """Adds an effect to the next batch."""
        self.outputs.effects.append(effect)

    def reply(self, reply_to: int, body: ReplyBody) -> None:
        """Answers a caller, if there is one."""
        if reply_to:
            self.outputs.effects.append(Reply(reply_to, body))

    def record(self, now_us: int, job: Job, event: str, detail: str = "", attempt: int = -1) -> None:
        """Writes a line into the job's history, of the present attempt or another one."""
        outputs = self.outputs
        if outputs.is_stored:
            row = HistoryRow(now_us, job.job_id, job.attempt if attempt < 0 else attempt, event, detail)
            outputs.history.append(row)

    def touch(self, job: Job) -> None:
        """Marks the job's row to be written."""
        self.outputs.dirty_jobs[job.job_id] = None
        if job.alloc:
            self.shown.nodes += 1  # they are COMPLETING with it, and show whose it is
        if self.limits.ledger is not None:
            self.limits.due[job.job_id] = None

    def touch_reason(self, job: Job) -> None:
        """Marks the job's row to be written after a change that affects no limit: a reason."""
        self.outputs.dirty_jobs[job.job_id] = None

    def touch_step(self, step: Step) -> None:
        """Marks the step's row to be written."""
        self.outputs.dirty_steps[step.job_id, step.attempt, step.step_id] = step

    def touch_node(self, node: Node) -> None:
        """Marks the node's row to be written; its availability may have changed."""
        self.outputs.dirty_nodes[node.name] = self.open_intervals.nodes_touched[node.name] = None
        self.shown.nodes += 1
        self.node_columns.up[node.index] = 0 if node.flags & CLOSED_FLAGS else 1
        if self.reservations:
            self.check_reserved_nodes_later()
        self.changed()

    def touch_gpu(self, node: str, uuid: str) -> None:
        """Marks a GPU's row to be written, or to be removed."""
        self.outputs.dirty_gpus[node, uuid] = None
        self.shown.gpus += 1

    def touch_partition(self, partition: Partition) -> None:
        """Marks the partition's row to be written."""
        self.outputs.dirty_partitions[partition.name] = None
        self.shown.partitions += 1

    def set_weight(self, node: Node, weight: int) -> None:
        """Changes a node's position in the order of preference."""
        node.weight = weight
        self.order_nodes()

    def order_nodes(self) -> None:
        """Sorts the nodes by weight, ties in the order of the configuration."""
        ordered = sorted(self.node_list, key=lambda n: (n.weight, n.index))
        self.node_columns.order[:] = [n.index for n in ordered]
        self.changed()

    def changed(self) -> None:
        """Marks a change after which a scheduling pass could have a different result."""
        self.scheduling.changed()

    def is_dirty(self) -> bool:
        """Whether any row must be written."""
        return bool(
            self.outputs.is_dirty() or self.periodic.dirty or self.amended.dirty or self.audit.rows
            or self.revoked.dirty or self.personal_tokens.dirty or self.registry.is_dirty()
            or self.limits.budgets.dirty or self.limits.budgets.closed
        )  # fmt: skip

    def rules_changed(self) -> None:
        """Marks a change of an input of the checks of submissions."""
        self.submissions.accepted.clear()
        self.submissions.completed.clear()
        self.layout.shapes_known.clear()

    def take_forecast(self, forecast: "Forecast") -> None:
        """Stores the forecast of the last pass over the whole queue. No decision depends on it, so it is not part of a
        batch."""
        self.scheduling.forecast = forecast

    def user_number(self, uid: int) -> int:
        """Returns the user's number in the columns."""
        numbers = self.layout.user_numbers
        return numbers[uid] if uid in numbers else numbers.setdefault(uid, len(numbers))

    def sharing_number(self, job: Job) -> int:
        """Returns the number of those who may share nodes with a job that keeps others apart: its user, or its MCS
        label."""
        request = job.request
        if not request.apart_label:
            return self.user_number(job.user_id)
        numbers, key = self.layout.user_numbers, (request.apart_label, job.user_id if request.exclusive_user else -1)
        return numbers[key] if key in numbers else numbers.setdefault(key, len(numbers))

    def assoc_number(self, job: Job) -> int:
        """Returns the number of (user, account, partition), the key of bf_max_job_assoc."""
        return self.layout.assoc_numbers.setdefault(
            (job.user_id, job.request.account, job.partition), len(self.layout.assoc_numbers)
        )

    def start_new_batch(self) -> None:
        """Clears the changes that are in the batch."""
        self.outputs.start_new_batch()
        self.periodic.dirty = {}
        self.amended.dirty = {}
        self.audit.start_new_batch()
        self.revoked.start_new_batch()
        self.personal_tokens.start_new_batch()
        self.registry.start_new_batch()

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def add_job(self, job: Job, new_count: int) -> None:
        """Adds a new record to the tables; it has `new_count` jobs, or tasks, that have not ended."""
        self.jobs[job.job_id] = job
        self.active_count += new_count
        self.jobs_by_name.enter(job)
        self.touch(job)

    def purge_job(self, job: Job) -> None:
        """Removes an ended job from memory; the database keeps it."""
        del self.jobs[job.job_id]
        self.submissions.stored.leave(job)
        self.preemption.turns.last.pop(job.job_id, None)
        self.steps.by_job.pop(job.job_id, None)
        self.outputs.purged.append(job.job_id)
        record = self.arrays.get(job.array_job_id) if job.array_job_id else None
        if record is not None:
            if job.array_task_id is not None and record.members.get(job.array_task_id) == job.job_id:
                del record.members[job.array_task_id]
            record.unsplit.pop(job.job_id, None)
            if not record.members and not record.unsplit:
                del self.arrays[job.array_job_id]

    def end_attempt(self, job: Job, end_at_us: int, reason: Reason, state: JobState = JobState.REQUEUED) -> None:
        """Stores the attempt that ends now with that state; the record becomes the next one."""
        row = job_row(job)._replace(state=state, end_state=None, end_at_us=end_at_us, reason=reason)
        self.outputs.ended_attempts.append(row)

    def skip_job_ids(self, next_id: int) -> None:
        """Raises the next job id: lower ids are not assigned any more."""
        self.next_job_id = max(self.next_job_id, next_id)

    def new_job_id(self) -> int:
        """Returns the next job id. Ids are never reused: the counter is committed with the job."""
        self.next_job_id += 1
        return self.next_job_id - 1

    def new_request(self, request: JobRequest) -> int:
        """Stores a request under a new id."""
        self.next_request_id += 1
        self.outputs.new_requests.append((self.next_request_id - 1, request))
        return self.next_request_id - 1

    def replace_request(self, job: Job, request: JobRequest) -> None:
        """Gives the job another request, under a new id: the former one may be that of other jobs too."""
        job.request = request
        job.request_id = self.new_request(request)

    # ---- allocations ---------------------------------------------------------------------------------------------

    def allocate(self, job: Job, alloc: tuple[NodeAlloc, ...], units: int, end_s: int) -> None:
        """Gives the job the resources of `alloc`, `units` cpu units a cpu, until `end_s`. The caller has verified that
        they are free.
        """
        job.alloc = alloc
        self.add_running(job, units, end_s)
        self.book(job, alloc, units)
        self.enter_reservation(job)
        self.scheduling.outdate_plans()  # an allocation makes no other job fit, so no pass is due for it

    def book(self, job: Job, alloc: tuple[NodeAlloc, ...], units: int) -> None:
        """Counts the resources of `alloc` on the nodes, without giving them to the job."""
        self.shown.nodes += 1
        for part in alloc:
            node = self.nodes[part.node]
            for name, type_, mask in part.gres:
                held = node.gres_used.get((name, type_), 0)
                assert not held & mask, f"device given twice on {node.name}: job {job.job_id}"
                node.gres_used[name, type_] = held | mask
            self._count(node, part, -1, units, job.request.exclusive)
            self._count_for_partition(job, part, -1, units)
            for share in part.shares:
                shares.take(node.gpu_shares, share)
            node.jobs[job.job_id] = None

    def unbook(self, job: Job, alloc: tuple[NodeAlloc, ...], units: int) -> None:
        """Does the reverse of `book`."""
        self.shown.nodes += 1
        for part in alloc:
            node = self.nodes[part.node]
            if job.job_id not in node.jobs:
                continue
            del node.jobs[job.job_id]
            for name, type_, mask in part.gres:
                node.gres_used[name, type_] &= ~mask
            self._count(node, part, 1, units, job.request.exclusive)
            self._count_for_partition(job, part, 1, units)
            for share in part.shares:
                shares.give_back(node.gpu_shares, share)

    def add_running(self, job: Job, units: int, end_s: int) -> None:
        """Adds a job with its allocation to the running ones; units 0 = it is suspended and its cpus are free."""
        request = job.request
        exclusive = 1 if request.is_alone() else 2 if request.is_apart() else 0
        self.exclusive_users += exclusive == 2
        licenses = self.licenses_taken(job) if self.layout.license_kinds else ()
        if licenses:
            self.free_licenses -= licenses
        self.running.add(job.job_id, end_s, self.sharing_number(job), exclusive, licenses)
        for part in job.alloc:
            node = self.nodes[part.node]
            gres = self._by_column(device_counts.given_back(node, part)) if part.gres else []
            if part.shares:
                gres += [(self.layout.gres_kinds[share.name, share.type], share.units) for share in part.shares]
            if units and (column := self._partition_column(job)) >= 0:
                gres = [*gres, (column, part.cpus)]
            self.running.add_part(job.job_id, node.index, part.cpus * units, part.mem_mb, gres)
        if not units:
            self.running.keep_rest(job.job_id)
            self.running.remove(job.job_id)
        elif request.exclusive_topo:
            self._take_leaves(job)

    def _take_leaves(self, job: Job) -> None:
        own = [self.nodes[part.node].index for part in job.alloc]
        others = leaf_mates(self.node_columns, own)
        for index in others:
            self.running.add_part(job.job_id, index, 0, 0, ())
        self.leaf_owners.take(job.job_id, (*own, *others))
        self.node_columns.used_exclusively[[*own, *others]] = 1

    def _leave_leaves(self, job: Job) -> None:
        """Does the reverse, after the job's rows were removed."""
        for index in self.leaf_owners.leave(job.job_id) if job.request.exclusive_topo else ():
            others = (self.jobs[i] for i in self.node_list[index].jobs if i in self.running.row_of)
            is_used = index in self.leaf_owners.of_node or any(other.request.exclusive for other in others)
            self.node_columns.used_exclusively[index] = 1 if is_used else 0

    def _by_column(self, counts: device_counts.DeviceCounts) -> list[tuple[int, int]]:
        return [(self.layout.gres_kinds[kind], count) for kind, count in counts]

    def count_devices(self, node: Node, names: tuple[str, ...]) -> None:
        """Updates the columns with the free devices of these names."""
        row, columns = self.node_columns.free_gres[node.index], self.layout.gres_kinds
        for kind, count in device_counts.free(node, names):
            row[columns[kind]] = count

    def have_devices(self, node: Node, totals: dict[tuple[str, str], int]) -> None:
        """Sets how many devices of each kind the node has, allocated or not."""
        columns = self.node_columns
        before = columns.total_gres[node.index].tolist()
        for kind, count in totals.items():
            columns.total_gres[node.index, self.layout.gres_kinds[kind]] = count
        if columns.total_gres[node.index].tolist() != before:  # other shapes may fit the cluster now
            self.layout.feasible.clear()
            self.rules_changed()

    def recount_gpus(self, node: Node) -> None:
        """Recounts GPUs after a change of their availability: the free ones, and those that jobs release."""
        self.count_devices(node, (shares.GPU,))
        for job_id in node.jobs:
            for part in self.jobs[job_id].alloc:
                if part.node == node.name and part.gres:
                    given = self._by_column(device_counts.gpus_given_back(node, part))
                    self.running.set_part(job_id, node.index, given)
        if node.index in self.running.tracked:
            self.running.touched[node.index] = None
        self.changed()

    def settle_shares(self) -> None:
        """Recounts nodes with shared GPUs for the planner, where something has changed (shares.py)."""
        running, columns = self.running, self.node_columns
        if not running.touched:
            return
        for index in sorted(running.touched):
            node = self.node_list[index]
            parts = ((i, part) for i in node.jobs for part in self.jobs[i].alloc if part.node == node.name)
            now, gains = shares.growth_by_ends(node, ((running.end_of(job_id), job_id, part) for job_id, part in parts))
            for kind, count in now.items():
                columns.free_gres[index, self.layout.gres_kinds[kind]] = count
            if self.gpus.mix is not None:
                self.gpus.mix.update(node)
            for job_id, gain in gains:
                running.set_part(job_id, index, [(self.layout.gres_kinds[kind], count) for kind, count in gain.items()])
        running.touched.clear()

    def licenses_of(self, request: JobRequest) -> tuple[int, ...]:
        """Returns the requested amount of each kind of license."""
        if not self.layout.license_kinds:
            return ()
        wanted = dict(parse_licenses(request.licenses)) if request.licenses else {}
        return tuple(wanted.get(name, 0) for name in self.layout.license_kinds)

    def licenses_taken(self, job: Job) -> tuple[int, ...]:
        """Returns what an allocated job holds of each kind of license, and of each layer of hierarchical resources."""
        alloc = job.licenses_alloc
        return hres.taken(alloc, self.layout.license_kinds) if alloc else self.licenses_of(job.request)

    def release(self, job: Job, now_us: int, units: int) -> None:
        """Releases everything the job holds. `job.alloc` is kept, as the record of its allocation."""
        self.exclusive_users -= job.request.is_apart() and not job.request.is_alone()
        licenses = self.licenses_taken(job) if self.layout.license_kinds else ()
        if licenses:
            self.free_licenses += licenses
        self.running.remove(job.job_id)
        if -job.job_id in self.running.row_of:
            self.running.remove(-job.job_id)
        self._leave_leaves(job)
        for part in job.alloc:
            node = self.nodes[part.node]
            if job.job_id in node.jobs:
                node.last_busy_at_us = now_us
        self.unbook(job, job.alloc, units)
        if self.reserved.jobs:
            self._leave_reservation(job, now_us)
        self.changed()

    def shrink(self, job: Job, alloc: tuple[NodeAlloc, ...], now_us: int, units: int, end_s: int) -> None:
        """Releases the nodes of a job that are not in `alloc`; it keeps the others, and its licenses."""
        released = tuple(part for part in job.alloc if part not in alloc)
        for part in released:
            self.nodes[part.node].last_busy_at_us = now_us
        self.unbook(job, released, units)
        self.running.remove(job.job_id)
        if -job.job_id in self.running.row_of:
            self.running.remove(-job.job_id)
        self._leave_leaves(job)
        job.alloc = alloc
        self._replace_running(job, units, end_s)
        self.changed()

    def _replace_running(self, job: Job, units: int, end_s: int) -> None:
        """Makes new rows of a job whose rows have been removed, without counting it twice."""
        self.exclusive_users -= job.request.is_apart() and not job.request.is_alone()
        licenses = self.licenses_taken(job)
        if licenses:
            self.free_licenses += licenses
        self.add_running(job, units, end_s)

    def give_up_cpus(self, job: Job, units: int) -> None:
        """Frees the cpus of a suspended job and their numbers for other jobs. It keeps all else."""
        self.shown.nodes += 1
        for part in job.alloc:
            self._count_cpus(self.nodes[part.node], part, 1, units, job.request.exclusive)
            self._count_for_partition(job, part, 1, units)
        job.alloc = tuple(part._replace(cpu_ids=0) for part in job.alloc)
        self.running.keep_rest(job.job_id)
        self.running.remove(job.job_id)
        self._leave_leaves(job)

    def take_cpus(self, job: Job, units: int, end_s: int) -> None:
        """Does the reverse: the free amount may become negative; nothing starts there then until other jobs have ended."""
        self.shown.nodes += 1
        for part in job.alloc:
            self._count_cpus(self.nodes[part.node], part, -1, units, job.request.exclusive)
            self._count_for_partition(job, part, -1, units)
        self.running.remove(-job.job_id)
        self._replace_running(job, units, end_s)

    def number_cpus(self, job: Job, ids: list[int]) -> None:
        """Gives a job that is resumed its cpu numbers (masks), by node; 0 = none."""
        for part, mask in zip(job.alloc, ids, strict=True):
            self.nodes[part.node].cpus_used |= mask
        job.alloc = tuple(part._replace(cpu_ids=mask) for part, mask in zip(job.alloc, ids, strict=True))

    def note_suspended(self, job: Job) -> None:
        """Updates the list of suspended jobs that are resumed automatically."""
        if job.state is JobState.SUSPENDED and job.suspended_by is not Suspend.ADMIN:
            self.preemption.suspended[job.job_id] = None
        else:
            self.preemption.suspended.pop(job.job_id, None)

    def _count(self, node: Node, part: NodeAlloc, sign: int, units: int, exclusive: bool) -> None:
        """Books one node's part of an allocation: sign -1 takes, +1 releases."""
        if part.mem_mb:
            free_mem_mb, i = self.node_columns.free_mem_mb, node.index
            free_mem_mb[i] = free_mem_mb.item(i) + sign * part.mem_mb
            node.mem_alloc_mb -= sign * part.mem_mb
        if units:  # 0: it is suspended and has no cpus
            self._count_cpus(node, part, sign, units, exclusive)
        if part.gres:
            one = len(part.gres) == 1
            self.count_devices(node, (part.gres[0][0],) if one else tuple(dict.fromkeys(g[0] for g in part.gres)))

    def _count_cpus(self, node: Node, part: NodeAlloc, sign: int, units: int, exclusive: bool) -> None:
        free_cpus, i = self.node_columns.free_cpus, node.index
        free_cpus[i] = free_cpus.item(i) + sign * part.cpus * units
        if exclusive:
            is_used = sign < 0 or node.index in self.leaf_owners.of_node
            self.node_columns.used_exclusively[node.index] = 1 if is_used else 0
        if sign < 0:
            node.cpus_used |= part.cpu_ids
        else:
            node.cpus_used &= ~part.cpu_ids
        node.cpus_alloc -= sign * part.cpus

    def _partition_column(self, job: Job) -> int:
        """Returns the column that counts the job's CPUs for its partition's MaxCPUsPerNode; -1 = none does."""
        columns = self.layout.partition_cpus
        return columns.get(job.partition, -1) if columns and not job.request.exclusive else -1

    def _count_for_partition(self, job: Job, part: NodeAlloc, sign: int, units: int) -> None:
        column = self._partition_column(job)
        if column >= 0 and units:
            self.node_columns.free_gres[self.nodes[part.node].index, column] += sign * part.cpus

    # ---- reservations --------------------------------------------------------------------------------------------

    def put_reservation(self, reservation: Reservation) -> None:
        """Adds or replaces a reservation."""
        self.reservations[reservation.name] = reservation
        self.registry.note_reservation_id(reservation.resv_id)
        self._reservation_changed(reservation.name)

    def drop_reservation(self, name: str) -> None:
        """Removes a reservation."""
        del self.reservations[name]
        self._reservation_changed(name)

    def _reservation_changed(self, name: str) -> None:
        self.outputs.dirty_reservations[name] = self.open_intervals.reservations_touched[name] = None
        self.shown.reservations += 1
        self.reserved.view = None
        self.changed()
        self.reserved.revision = self.scheduling.revision

    def check_reserved_nodes_later(self) -> None:
        """Schedules the check whether a reserved node has to be replaced: soon, and once for many changes."""
        if not self.reserved.nodes_due:
            self.reserved.nodes_due = True
            self.timers.set(self.now_us, Timer.RESERVED_NODES)

    def enter_reservation(self, job: Job) -> None:
        """Records that the job has an allocation, possibly in a reservation."""
        name = job.request.reservation_run or job.request.reservation
        if name:
            self.reserved.jobs.setdefault(name, {})[job.job_id] = None
            self.reserved.view = None
            self.changed()
            reservation = self.reservations.get(name)
            if reservation is not None and reservation.flags & ResvFlag.REPLACE:
                self.check_reserved_nodes_later()

    def _leave_reservation(self, job: Job, now_us: int) -> None:
        name = job.request.reservation_run or job.request.reservation
        members = self.reserved.jobs.get(name)
        if members is None or job.job_id not in members:
            return
        del members[job.job_id]
        self.reserved.view = None
        if not members:
            del self.reserved.jobs[name]
            reservation = self.reservations.get(name)
            if reservation is not None:
                self.reservations[name] = reservation._replace(idle_since_us=now_us)
                self.outputs.dirty_reservations[name] = None
                self.timers.set(now_us, Timer.RESERVATION, name)
