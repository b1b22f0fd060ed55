"""ClusterState: all tables, their indexes and what has changed since the last seal. The only mutator.

Rules
    - Policies read freely, but change records only through the methods here (or mark them with `touch_*` right after).
    - Indexes are dicts used as ordered sets; nothing iterates a `set`.
    - Capacity is counted twice on purpose: in `Node` (what is held, by whom, which device) and in the columns (what is
      free, for the planner). `invariants.py` compares them.
Deliberately absent: rules. When a job may start, end or be seen is decided elsewhere.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ctld.core import device_counts, shares
from ctld.core.amended import Amended
from ctld.core.audit import Trail
from ctld.core.budget_book import Budgets
from ctld.core.callers import Calls
from ctld.core.columns import MaskTable, NodeColumns, RunningColumns
from ctld.core.effects import AckReports, Effect, Reply
from ctld.core.fairshare import AccountRow, AssocRow, ShareTree, UserRow
from ctld.core.histories import Histories
from ctld.core.lending import Lending
from ctld.core.model import (
    ArrayRecord,
    HistoryRow,
    Job,
    JobRequest,
    JobRow,
    JobSpan,
    Node,
    NodeAlloc,
    NodeEvent,
    Partition,
    Qos,
    Reservation,
    ReservationSpan,
    SpecRow,
    Step,
    Turns,
    job_row,
)  # fmt: skip
from ctld.core.namesakes import Namesakes
from ctld.core.pending import KnownShapes, PendingColumns, Shape
from ctld.core.periodic import Periodic
from ctld.core.policy import BackfillPolicy
from ctld.core.registry import Registry
from ctld.core.stepdesk import StepDesk
from ctld.core.timers import Timer, Timers
from penstock.values.config import Config
from penstock.values.dependency import Term
from penstock.values.licenses import parse_licenses
from penstock.values.reservations import ResvFlag
from penstock.values.states import CLOSED_FLAGS as CLOSED_FLAGS
from penstock.values.states import JobState, Reason, Suspend

if TYPE_CHECKING:
    from ctld.core.explain import Telling
    from ctld.core.fractions import Mix
    from ctld.core.gpu_kinds import Extra
    from ctld.core.ledger import Ledger
    from ctld.core.planning import Forecast
    from ctld.core.priority import Priorities


#: Values kept for sharing; beyond it the table starts anew (what is shared stays shared).
SHARED_MAX = 50_000


class ClusterState:
    """Everything the controller knows. See the module text for who may change what."""

    def __init__(self) -> None:
        self.config = Config()
        self.epoch = 0
        self.now_us = 0  # time of the event being handled
        self.unfinished: Iterator[None] | None = None  # what is left of handling it (Core.begin)
        self.next_job_id = self.next_request_id = 1
        self.jobs: dict[int, Job] = {}  # active, and ended less than MinJobAge ago
        self.active_count = 0  # jobs that have not ended, tasks of arrays counted one by one
        self.arrays: dict[int, ArrayRecord] = {}
        self.nodes: dict[str, Node] = {}
        self.node_list: list[Node] = []  # by column index
        self.partitions: dict[str, Partition] = {}
        self.partition_list: list[Partition] = []
        self.amended, self.audit = Amended(), Trail()
        self.gres_kinds: dict[tuple[str, str], int] = {}  # (name, type) -> planner column; (name, "") = any type of it
        self.timers = Timers()
        self._open_columns()
        # dependencies
        self.waiting_for: dict[int, tuple[bool, tuple[Term, ...]]] = {}  # job id -> (any, terms left)
        self.dependents: dict[int, dict[int, None]] = {}  # job or array id -> jobs that wait for it
        self.namesakes, self.calls = Namesakes(), Calls()  # of active jobs
        self.singletons: dict[tuple[int, str], dict[int, None]] = {}  # (uid, name) -> jobs that wait to be the only one
        self.awaiting: dict[int, dict[int, None]] = {}  # job id -> reply_to of AwaitJob
        self.desks: dict[int, StepDesk] = {}  # of jobs that have started steps, by job id
        self.ports: dict[str, dict[int, None]] = {}  # ports.py: taken, by node
        self.master_ports: dict[int, int] = {}  # by job id
        self.port_waiters: dict[int, None] = {}  # jobs with steps that wait for ports, which any job may free
        self.steps_due: dict[int, None] = {}  # jobs whose waiting calls may be answered now
        self.hets: dict[int, None] = {}  # heterogeneous jobs that have not ended, by their leader's id (het.py)
        self.hets_due: dict[int, None] = {}  # those of which something has ended or gone back to the queue
        self.wish_calls: dict[int, tuple[int, str]] = {}  # reply_to of a CreateStep that waits -> (job id, step key)
        self.accepted: dict[Any, Any] = {}  # submit.py: what was found of submissions, by what they said and who
        self.shapes_known = KnownShapes()
        self.shared: dict[Any, Any] = {}  # equal values of many jobs, kept once
        self.submit_keys, self.submit_key_times = dict[str, int](), deque[tuple[int, str]]()
        self._open_books()
        self._open_reservations()
        self._open_times()
        # what has changed since the last seal
        self.dirty_jobs: dict[int, None] = {}
        self.dirty_steps: dict[tuple[int, int, int], Step] = {}
        self.dirty_nodes: dict[str, None] = {}
        self.dirty_gpus: dict[tuple[str, str], None] = {}  # (node, UUID)
        self.dirty_partitions, self.dirty_reservations = dict[str, None](), dict[str, None]()  # those that are gone too
        self.ended_attempts: list[JobRow] = []
        self.new_requests: list[tuple[int, JobRequest]] = []
        self.new_specs: list[SpecRow] = []
        self.history, self.effects = list[HistoryRow](), list[Effect]()
        self.acks: dict[tuple[str, int, str], int] = {}
        self.purged: list[int] = []
        self._open_scheduling()

    def _open_columns(self) -> None:
        """What the planner sees of the cluster, and how it is numbered; built by layout.py."""
        self.license_kinds: dict[str, int] = {}
        self.license_totals: dict[str, int] = {}  # in the order of the kinds
        self.node_names: tuple[str, ...] = ()  # by column index
        self.node_columns = NodeColumns(0, 0)
        self.running = RunningColumns(0)
        self.pending = PendingColumns(0)
        self.free_licenses: Any = np.zeros(0, np.int32)
        self.units_per_cpu = 1  # sharing.py
        self.gpu_sizes: tuple[int, ...] = ()  # memory that GPUs of the cluster have, in MB (gpu_kinds.py)
        self.gpu_pairs: dict[tuple[str, int], None] = {}  # (type, memory) that some GPU has
        self.gpu_extras: dict[tuple[str, str], Extra] = {}  # kinds of GPUs that are counted apart
        self.gpus_due: dict[str, None] = {}  # nodes whose GPUs call for another layout (layout.relearn)
        self.mix: Mix | None = None  # fractions.py
        self.share_units: dict[str, int] = {}  # GRES name -> most shares of one GPU
        self.qos: dict[str, Qos] = {}
        self.dirty_qos: dict[str, None] = {}
        self.periodic = Periodic()  # crontabs and triggers
        self.preempt_classes: dict[object, int] = {}  # PriorityTier or name of a QOS -> the planner's class
        self.preempting: dict[int, tuple[int, ...]] = {}  # pending job id -> the jobs that were made to go for it
        self.within: dict[str, int] = {}  # QOS with PreemptMode=WITHIN -> priority of the first job of it that waits
        self.within_heads: tuple[int, ...] = ()  # those jobs
        self.turns = Turns()
        self.suspended: dict[int, None] = {}  # jobs that are suspended for others, or out of turn
        self.prologs: dict[int, tuple[int, bool]] = {}  # job id -> (attempt, PrologSlurmctld is done) (surround.py)
        self.rebooting: dict[str, None] = {}  # nodes that are to reboot (reboot.py)
        self.exclusive_users = 0  # jobs that hold nodes for their user alone
        self.assoc_numbers: dict[tuple[int, str, str], int] = {}
        self.user_numbers: dict[int, int] = {}  # uid -> a number that fits into a column
        self.histories = Histories()  # predict.py
        self.masks = MaskTable(0)
        self.placements: dict[tuple[Any, ...], list[Any]] = {}  # shapes.placements
        self.switches_above: dict[str, tuple[str, ...]] = {}  # by node: values/topology.py
        self.feasible: dict[Shape, bool] = {}  # could a shape ever run; valid for this configuration

    def _open_reservations(self) -> None:
        """ctld/core/reserve.py."""
        self.reservations: dict[str, Reservation] = {}  # in the order of creation
        self.reserved_jobs: dict[str, dict[int, None]] = {}  # name -> jobs that hold resources in it
        self.reserved_view: Any = None  # what the planner was told last; None = something has changed since
        self.had_magnetic = False  # pending jobs may have rows for reservations that they do not ask for
        self.reserved_nodes_due = False  # a node has changed since they were looked at
        self.reservation_revision = 0  # plans older than this do not know what is reserved

    def _open_times(self) -> None:
        """What accounting wants to know of the past: node_events.py, spans.py, reserve_spans.py."""
        self.node_events: dict[str, NodeEvent] = {}  # those that go on, by node; "" = the cluster
        self.reservation_spans: dict[str, ReservationSpan] = {}  # of the present or next occurrence, by name
        self.nodes_touched, self.reservations_touched = dict[str, None](), dict[str, None]()  # since the last look
        self.dirty_events: dict[tuple[str, int], NodeEvent] = {}
        self.dirty_reservation_spans: dict[tuple[int, int], ReservationSpan] = {}
        self.job_spans: dict[tuple[int, int, int, int], JobSpan] = {}  # new ones

    def _open_scheduling(self) -> None:
        """ctld/core/schedule.py."""
        self.policy = BackfillPolicy()
        self.forecast: Forecast | None = None  # of the last pass that saw the whole queue
        self.revision = 0  # rises whenever a pass could come out differently
        self.layout_revision = 0  # plans older than this speak of other node numbers
        self.flagged: dict[int, None] = {}  # ready jobs whose reason is not Priority
        self.telling: Telling | None = None  # what the last pass over the whole queue said and has not been told yet
        self.telling_timer = False  # one is set
        self.gpu_care_timer = False  # one is set (gpu_care.py)
        self.gpu_works: dict[str, None] = {}  # nodes on which something is done to a GPU
        self.quick_pass_due = False
        self.rows_seen = 0  # by all quick passes: for sdiag
        self.divisible: tuple[str, ...] = ()  # nodes with GPUs that may be divided anew (mig.py)
        self.mig_waits: dict[int, str] = {}  # job id -> the division that it waits for, in words
        self.mig_due_us = 0  # for when the last timer was set
        self.full_pass_in_flight, self.full_pass_revision, self.full_pass_not_before_us = False, -1, 0
        self.full_pass_timer_us = 0  # for when the last timer was set

    def _open_books(self) -> None:
        """Accounts, shares and usage, and what has changed of them since the last seal."""
        self.mailed_limits: dict[int, int] = {}  # job id -> shares of its time limit that mail has told of (mail.py)
        self.shares = ShareTree()
        self.ledger: Ledger | None = None  # what counts against limits; None = nobody enforces them
        self.limits_due: dict[int, None] = {}  # jobs that have changed since the ledger was settled
        self.charged: dict[int, tuple[int, int]] = {}  # job id -> (association id, rate) of jobs that hold something
        self.own_accounts = 0  # accounts that nobody has added
        self.budgets, self.lending = Budgets(), Lending()
        self.priorities: Priorities | None = None  # None = priority/basic
        self.priority_generation = 0
        self.dirty_assocs: dict[int, AssocRow] = {}
        self.entities_changed = False  # associations or QOS, since limit_changes.py looked
        self.dirty_usage, self.dirty_qos_usage = dict[int, None](), dict[str, None]()
        self.dirty_accounts: dict[str, AccountRow] = {}
        self.dirty_users: dict[str, UserRow] = {}
        self.registry = Registry()

    # ---- outputs -------------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        """Add an effect to the next batch."""
        self.effects.append(effect)

    def reply(self, reply_to: int, body: Any) -> None:
        """Answer a caller, if there is one."""
        if reply_to:
            self.effects.append(Reply(reply_to, body))

    def record(self, now_us: int, job: Job, event: str, detail: str = "", attempt: int = -1) -> None:
        """Write a line into the job's story, of the present attempt or another one."""
        self.history.append(HistoryRow(now_us, job.job_id, job.attempt if attempt < 0 else attempt, event, detail))

    def acknowledge(self, node: str, link_id: int, spool_id: str, sequence: int) -> None:
        """All reports of this spool up to `sequence` are in the next batch."""
        if sequence > self.acks.get(key := (node, link_id, spool_id), 0):
            self.acks[key] = sequence

    def take_acks(self) -> list[Effect]:
        """One acknowledgement for each stream that reported since the last seal."""
        taken, self.acks = self.acks, {}
        return [AckReports(n, link, spool, seq) for (n, link, spool), seq in taken.items()]

    def touch(self, job: Job) -> None:
        """The job's row must be written."""
        self.dirty_jobs[job.job_id] = None
        if self.ledger is not None:
            self.limits_due[job.job_id] = None

    def touch_words(self, job: Job) -> None:
        """The same, after a change of what counts against no limit: a reason."""
        self.dirty_jobs[job.job_id] = None

    def touch_step(self, step: Step) -> None:
        """The step's row must be written."""
        self.dirty_steps[step.job_id, step.attempt, step.step_id] = step

    def touch_node(self, node: Node) -> None:
        """The node's row must be written; whether it takes jobs may have changed."""
        self.dirty_nodes[node.name] = self.nodes_touched[node.name] = None
        self.node_columns.up[node.index] = 0 if node.flags & CLOSED_FLAGS else 1
        if self.reservations:
            self.look_at_reserved_nodes()
        self.changed()

    def set_weight(self, node: Node, weight: int) -> None:
        """Change a node's place in the order of preference."""
        node.weight = weight
        self.order_nodes()

    def order_nodes(self) -> None:
        """Sort the nodes by weight, ties in the order of the configuration."""
        ordered = sorted(self.node_list, key=lambda n: (n.weight, n.index))
        self.node_columns.order[:] = [n.index for n in ordered]
        self.changed()

    def changed(self) -> None:
        """A scheduling pass could come out differently now."""
        self.revision += 1
        self.quick_pass_due = True

    def is_dirty(self) -> bool:
        """Some row must be written."""
        return bool(
            self.dirty_jobs or self.dirty_steps or self.dirty_nodes or self.dirty_partitions or self.ended_attempts
            or self.new_requests or self.new_specs or self.dirty_assocs or self.dirty_usage or self.dirty_accounts
            or self.dirty_users or self.dirty_reservations or self.dirty_gpus or self.periodic.dirty or self.amended.dirty
            or self.audit.rows or self.dirty_qos or self.registry.is_dirty() or self.budgets.dirty or self.budgets.closed
            or self.dirty_events or self.job_spans or self.dirty_reservation_spans
        )  # fmt: skip

    def rules_changed(self) -> None:
        """Something has changed that submissions are checked against."""
        self.accepted.clear()
        self.shapes_known.clear()

    def take_forecast(self, forecast: "Forecast") -> None:
        """What the last pass over the whole queue expects. Nothing is decided by it, so it is not part of a batch."""
        self.forecast = forecast

    def user_number(self, uid: int) -> int:
        """A number for the columns."""
        return self.user_numbers.setdefault(uid, len(self.user_numbers))

    def assoc_number(self, job: Job) -> int:
        """A number for (user, account, partition), which bf_max_job_assoc counts by."""
        numbers = self.assoc_numbers
        return numbers.setdefault((job.user_id, job.request.account, job.partition), len(numbers))

    def start_new_batch(self) -> None:
        """What has been handed out is no longer new."""
        self.dirty_jobs, self.dirty_steps, self.dirty_nodes, self.dirty_partitions = {}, {}, {}, {}
        self.dirty_qos, self.dirty_gpus, self.periodic.dirty, self.amended.dirty = {}, {}, {}, {}
        self.ended_attempts, self.new_requests, self.new_specs = [], [], []
        self.history, self.effects, self.purged = [], [], []
        self.audit.start_new_batch()
        self.dirty_assocs, self.dirty_usage, self.dirty_accounts, self.dirty_users = {}, {}, {}, {}
        self.dirty_reservations, self.dirty_qos_usage = {}, {}
        self.registry.start_new_batch()
        self.dirty_events, self.dirty_reservation_spans, self.job_spans = {}, {}, {}

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def add_job(self, job: Job) -> None:
        """Take a new record into the tables."""
        self.jobs[job.job_id] = job
        self.namesakes.enter(job)
        self.touch(job)

    def share(self, value: Any) -> Any:
        """An equal value that other jobs hold already: 100,000 jobs of one user have one folder and one set of limits."""
        if len(self.shared) >= SHARED_MAX:
            self.shared.clear()
        return self.shared.setdefault(value, value)

    def purge_job(self, job: Job) -> None:
        """Forget an ended job; the database keeps it."""
        del self.jobs[job.job_id]
        self.turns.last.pop(job.job_id, None)
        self.desks.pop(job.job_id, None)
        self.purged.append(job.job_id)
        record = self.arrays.get(job.array_job_id) if job.array_job_id else None
        if record is not None:
            if job.array_task_id is not None and record.members.get(job.array_task_id) == job.job_id:
                del record.members[job.array_task_id]
            record.holders.pop(job.job_id, None)
            if not record.members and not record.holders:
                del self.arrays[job.array_job_id]

    def end_attempt(self, job: Job, end_at_us: int, reason: Reason, state: JobState = JobState.REQUEUED) -> None:
        """Freeze the attempt that ends now with that state; the record goes on as the next one."""
        ended = job_row(job)._replace(state=state, end_state=None, end_at_us=end_at_us, reason=reason)
        self.ended_attempts.append(ended)

    def new_job_id(self) -> int:
        """The next job id. Ids are never given twice: the counter is committed with the job."""
        job_id = self.next_job_id
        self.next_job_id += 1
        return job_id

    def new_request(self, request: JobRequest) -> int:
        """Store a request under a new id."""
        request_id = self.next_request_id
        self.next_request_id += 1
        self.new_requests.append((request_id, request))
        return request_id

    # ---- allocations ---------------------------------------------------------------------------------------------

    def allocate(self, job: Job, alloc: tuple[NodeAlloc, ...], units: int, end_s: int) -> None:
        """Give the job what `alloc` says, `units` cpu units a cpu, until `end_s`. The caller has verified that it is free."""
        job.alloc = alloc
        self.hold(job, units, end_s)
        self.book(job, alloc, units)
        self.enter_reservation(job)
        self.revision += 1  # what is taken makes no other job fit, so no pass is due for it

    def book(self, job: Job, alloc: tuple[NodeAlloc, ...], units: int) -> None:
        """Count on the nodes what `alloc` says, without giving it to the job."""
        for part in alloc:
            node = self.nodes[part.node]
            for name, type_, mask in part.gres:
                held = node.gres_used.get((name, type_), 0)
                assert not held & mask, f"device given twice on {node.name}: job {job.job_id}"
                node.gres_used[name, type_] = held | mask
            self._count(node, part, -1, units, job.request.exclusive)
            for share in part.shares:
                shares.take(node.gpu_shares, share)
            node.jobs[job.job_id] = None

    def unbook(self, job: Job, alloc: tuple[NodeAlloc, ...], units: int) -> None:
        """The reverse."""
        for part in alloc:
            node = self.nodes[part.node]
            if job.job_id not in node.jobs:
                continue
            del node.jobs[job.job_id]
            for name, type_, mask in part.gres:
                node.gres_used[name, type_] &= ~mask
            self._count(node, part, 1, units, job.request.exclusive)
            for share in part.shares:
                shares.give_back(node.gpu_shares, share)

    def hold(self, job: Job, units: int, end_s: int) -> None:
        """Enter a job with its allocation among the running ones; units 0 = it is suspended and its cpus are free."""
        request = job.request
        exclusive = 1 if request.exclusive else 2 if request.exclusive_user else 0
        self.exclusive_users += exclusive == 2
        licenses = self.licenses_of(request)
        if licenses:
            self.free_licenses -= licenses
        self.running.add(job.job_id, end_s, self.user_number(job.user_id), exclusive, licenses)
        for part in job.alloc:
            gres = self._by_column(device_counts.given_back(self.nodes[part.node], part)) if part.gres else []
            gres += [(self.gres_kinds[share.name, share.type], share.units) for share in part.shares]
            self.running.add_part(job.job_id, self.nodes[part.node].index, part.cpus * units, part.mem_mb, gres)
        if not units:
            self.running.keep_rest(job.job_id)
            self.running.remove(job.job_id)

    def _by_column(self, counts: device_counts.Counts) -> list[tuple[int, int]]:
        return [(self.gres_kinds[kind], count) for kind, count in counts]

    def count_devices(self, node: Node, names: tuple[str, ...]) -> None:
        """Tell the columns what is free of devices of these names."""
        row, columns = self.node_columns.free_gres[node.index], self.gres_kinds
        for kind, count in device_counts.free(node, names):
            row[columns[kind]] = count

    def have_devices(self, node: Node, totals: dict[tuple[str, str], int]) -> None:
        """What the node has of each kind, if nobody had anything."""
        columns = self.node_columns
        before = columns.total_gres[node.index].tolist()
        for kind, count in totals.items():
            columns.total_gres[node.index, self.gres_kinds[kind]] = count
        if columns.total_gres[node.index].tolist() != before:  # what could ever run may be another thing now
            self.feasible.clear()
            self.rules_changed()

    def recount_gpus(self, node: Node) -> None:
        """Which of its GPUs may be given has changed: what is free, and what its jobs give back."""
        self.count_devices(node, (shares.GPU,))
        for job_id in node.jobs:
            for part in self.jobs[job_id].alloc:
                if part.node == node.name and part.gres:
                    given = self._by_column(device_counts.gpus_given_back(node, part))
                    self.running.set_part(job_id, node.index, given)
        if node.index in self.running.watched:
            self.running.touched[node.index] = None
        self.changed()

    def settle_shares(self) -> None:
        """Count anew what the planner must know of nodes with shared GPUs, where something has changed (shares.py)."""
        running, columns = self.running, self.node_columns
        for index in sorted(running.touched):
            node = self.node_list[index]
            parts = ((i, part) for i in node.jobs for part in self.jobs[i].alloc if part.node == node.name)
            now, gains = shares.outlook(node, ((running.end_of(job_id), job_id, part) for job_id, part in parts))
            for kind, count in now.items():
                columns.free_gres[index, self.gres_kinds[kind]] = count
            if self.mix is not None:
                self.mix.look_at(node)
            for job_id, gain in gains:
                running.set_part(job_id, index, [(self.gres_kinds[kind], count) for kind, count in gain.items()])
        running.touched.clear()

    def licenses_of(self, request: JobRequest) -> tuple[int, ...]:
        """What is asked for of each kind of license."""
        if not self.license_kinds:
            return ()
        wanted = dict(parse_licenses(request.licenses)) if request.licenses else {}
        return tuple(wanted.get(name, 0) for name in self.license_kinds)

    def release(self, job: Job, now_us: int, units: int) -> None:
        """Take back everything the job holds. `job.alloc` stays, as the record of what it had."""
        self.exclusive_users -= job.request.exclusive_user and not job.request.exclusive
        licenses = self.licenses_of(job.request)
        if licenses:
            self.free_licenses += licenses
        self.running.remove(job.job_id)
        self.running.remove(-job.job_id)
        for part in job.alloc:
            node = self.nodes[part.node]
            if job.job_id in node.jobs:
                node.last_busy_at_us = now_us
        self.unbook(job, job.alloc, units)
        self._leave_reservation(job, now_us)
        self.changed()

    def give_up_cpus(self, job: Job, units: int) -> None:
        """The job is suspended and keeps all but its cpus, which lose their numbers: others get them."""
        for part in job.alloc:
            self._count_cpus(self.nodes[part.node], part, 1, units, job.request.exclusive)
        job.alloc = tuple(part._replace(cpu_ids=0) for part in job.alloc)
        self.running.keep_rest(job.job_id)
        self.running.remove(job.job_id)

    def take_cpus(self, job: Job, units: int, end_s: int) -> None:
        """The reverse: what is free may fall below 0, then nothing starts there until others have left."""
        for part in job.alloc:
            self._count_cpus(self.nodes[part.node], part, -1, units, job.request.exclusive)
        self.running.remove(-job.job_id)
        self.exclusive_users -= job.request.exclusive_user and not job.request.exclusive  # hold() counts these again
        licenses = self.licenses_of(job.request)
        if licenses:
            self.free_licenses += licenses
        self.hold(job, units, end_s)

    def number_cpus(self, job: Job, ids: list[int]) -> None:
        """Cpu numbers (masks) for a job that goes on, by node; 0 = none."""
        for part, mask in zip(job.alloc, ids, strict=True):
            self.nodes[part.node].cpus_used |= mask
        job.alloc = tuple(part._replace(cpu_ids=mask) for part, mask in zip(job.alloc, ids, strict=True))

    def note_suspended(self, job: Job) -> None:
        """Keep the list of suspended jobs that go on by themselves."""
        if job.state is JobState.SUSPENDED and job.suspended_by is not Suspend.ADMIN:
            self.suspended[job.job_id] = None
        else:
            self.suspended.pop(job.job_id, None)

    def _count(self, node: Node, part: NodeAlloc, sign: int, units: int, exclusive: bool) -> None:
        """Book one node's part of an allocation: sign -1 takes, +1 gives back."""
        i = node.index
        columns = self.node_columns
        if part.mem_mb:
            columns.free_mem_mb[i] += sign * part.mem_mb
        if units:  # 0: it has no cpus, being suspended
            self._count_cpus(node, part, sign, units, exclusive)
        if part.gres:
            one = len(part.gres) == 1
            self.count_devices(node, (part.gres[0][0],) if one else tuple(dict.fromkeys(g[0] for g in part.gres)))
        node.mem_alloc_mb -= sign * part.mem_mb

    def _count_cpus(self, node: Node, part: NodeAlloc, sign: int, units: int, exclusive: bool) -> None:
        self.node_columns.free_cpus[node.index] += sign * part.cpus * units
        if exclusive:
            self.node_columns.held_exclusive[node.index] = 1 if sign < 0 else 0
        if sign < 0:
            node.cpus_used |= part.cpu_ids
        else:
            node.cpus_used &= ~part.cpu_ids
        node.cpus_alloc -= sign * part.cpus

    # ---- reservations --------------------------------------------------------------------------------------------

    def put_reservation(self, reservation: Reservation) -> None:
        """Add or replace a reservation."""
        self.reservations[reservation.name] = reservation
        self.registry.saw_reservation(reservation.resv_id)
        self._reservation_changed(reservation.name)

    def drop_reservation(self, name: str) -> None:
        """Forget a reservation."""
        del self.reservations[name]
        self._reservation_changed(name)

    def _reservation_changed(self, name: str) -> None:
        self.dirty_reservations[name] = self.reservations_touched[name] = None
        self.reserved_view = None
        self.changed()
        self.reservation_revision = self.revision

    def look_at_reserved_nodes(self) -> None:
        """A node that is reserved may have to be replaced by another: soon, and once for many changes."""
        if not self.reserved_nodes_due:
            self.reserved_nodes_due = True
            self.timers.set(self.now_us, Timer.RESERVED_NODES)

    def enter_reservation(self, job: Job) -> None:
        """The job holds resources, in a reservation perhaps."""
        name = job.request.reservation_run or job.request.reservation
        if name:
            self.reserved_jobs.setdefault(name, {})[job.job_id] = None
            self.reserved_view = None
            self.changed()
            reservation = self.reservations.get(name)
            if reservation is not None and reservation.flags & ResvFlag.REPLACE:
                self.look_at_reserved_nodes()

    def _leave_reservation(self, job: Job, now_us: int) -> None:
        name = job.request.reservation_run or job.request.reservation
        members = self.reserved_jobs.get(name)
        if members is None or job.job_id not in members:
            return
        del members[job.job_id]
        self.reserved_view = None
        if not members:
            del self.reserved_jobs[name]
            reservation = self.reservations.get(name)
            if reservation is not None:
                self.reservations[name] = reservation._replace(idle_since_us=now_us)
                self.dirty_reservations[name] = None
                self.timers.set(now_us, Timer.RESERVATION, name)
