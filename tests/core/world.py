"""A core with the least around it: committed rows in dicts, node daemons as sets of steps, time as a number.

Every command goes step -> seal -> check -> commit, like the runtime's loop, and returns what left the core as text.
`restart` builds a new core from the committed rows alone. The same world serves the text scenarios and the property
tests.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ctld.core.controller import Core
from ctld.core.queue.planning import run_plan
from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.records.audit import GENESIS, AuditHead, AuditRow, TxnRow, chained
from ctld.core.records.budget_book import BudgetRow
from ctld.core.records.effects import (
    AckReports,
    AdmitNode,
    AllocationState,
    Batch,
    Changed,
    ChangedMany,
    ClearGpu,
    Created,
    CrontabUpdated,
    Done,
    FenceNode,
    ForgetStep,
    GpuWork,
    JobEnded,
    LaunchStep,
    NotifyStep,
    RebootNode,
    Refusal,
    Reply,
    Results,
    ReturnGpus,
    RunTrigger,
    SendMail,
    SignalStep,
    StartPlan,
    StepCreated,
    StepSeen,
    Submitted,
    SuspendStep,
    TerminateStep,
    TriggersChanged,
    Warn,
)
from ctld.core.records.events import (
    Actor,
    Event,
    GpuReported,
    HeldStep,
    JobSubmission,
    LoadConfig,
    NodeDisconnected,
    NodeFenced,
    NodeNotice,
    NodeRegistered,
    Role,
    StepExited,
    StepStarted,
    SubmitJob,
    Tick,
)
from ctld.core.records.gpu import Gpu, GpuFacts, GpuOpinion, WorkKind
from ctld.core.records.job import HistoryRow, JobRow, JobSpan, SpecRow
from ctld.core.records.node import Node, NodeRow, PartitionRow
from ctld.core.records.periodic import Crontab, Trigger
from ctld.core.records.personal_token import PersonalToken
from ctld.core.records.qos import Qos
from ctld.core.records.reservation import Reservation, ReservationSpan
from ctld.core.records.revocation import TokenRevocation
from ctld.core.records.step import StepRow
from ctld.core.recover import ArrayCounts, LoadedState, SubmitKey
from ctld.core.state.fairshare import LoadedShares
from ctld.runtime.mail import address, subject
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from penstock.values.states import ACTIVE_STATES, END_STATES, JobState
from penstock.values.taskset import TaskSet

US = 1_000_000
START_US = 1_000_000 * US
BATCH = -5
USERS = {"root": 0, "ann": 1001, "bob": 1002, "opa": 1003}
SPEC = SpecRow(b"spec", b"#!/bin/sh\n", (), ())


def make_config(
    nodes: int = 2, cpus: int = 4, mem_mb: int = 4000, gpus: int = 0, shards: int = 0, mps: int = 0, **extra: object
) -> Config:
    """Nodes n1..nN in one partition `debug`."""
    names = tuple(f"n{i}" for i in range(1, nodes + 1))
    counts = (("gpu", "a100", gpus), ("shard", "", shards), ("mps", "", mps))
    gres = tuple(Gres(name, type_, count) for name, type_, count in counts if count)
    entries = tuple(
        NodeConfig(
            name, name, "127.0.0.1", cpus, real_memory_mb=mem_mb, gres=gres, features=("fast",) if i == 0 else ()
        )
        for i, name in enumerate(names)
    )
    partitions = (PartitionConfig("debug", names, is_default=True),)
    settings: dict[str, object] = {"nodes": entries, "partitions": partitions, "def_mem_per_cpu_mb": 100, **extra}
    return Config(gres_types=("gpu", "shard", "mps") if shards or mps else ("gpu",), **settings)  # type: ignore[arg-type]  # keywords of many types


def uuids_of(node: Node, slots: Iterable[int]) -> tuple[str, ...]:
    """GPUs by place; "" where nobody knows."""
    return tuple(node.gpu_slots[slot] if slot < len(node.gpu_slots) else "" for slot in slots)


class World:
    """One cluster. `nodes[name]` holds the steps that run there: (job id, attempt) -> epoch."""

    #: Also check what an event has left before a pass goes over it: each script does so once (test_scripts.py).
    is_checked_before_passes = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self.now_us = START_US
        self.jobs: dict[tuple[int, int], JobRow] = {}
        self.steps: dict[tuple[int, int, int], StepRow] = {}
        self.node_rows: dict[str, NodeRow] = {}
        self.partition_rows: dict[str, PartitionRow] = {}
        self.assoc_rows: dict[int, AssocRow] = {}
        self.usage_rows: dict[int, UsageRow] = {}
        self.qos_usage: dict[str, str] = {}
        self.account_rows: dict[str, AccountRow] = {}
        self.user_rows: dict[str, UserRow] = {}
        self.wckey_rows: dict[int, WckeyRow] = {}
        self.resource_rows: dict[str, ResourceRow] = {}
        self.tres_rows: dict[int, TresRow] = {}
        self.budget_rows: dict[tuple[int, str, str, int], BudgetRow] = {}
        self.reservations: dict[str, Reservation] = {}
        self.job_spans: list[JobSpan] = []
        self.reservation_spans: dict[tuple[int, int], ReservationSpan] = {}
        self.last_numbers: dict[str, int] = {}
        self.counters = (config.first_job_id, 1)
        self.epoch = 0
        self.sequence = 0
        self.links: dict[str, int] = {}
        self.streams = 0
        self.boots: dict[str, str] = {n.name: "boot1" for n in config.nodes}
        self.running: dict[str, dict[tuple[int, int], int]] = {n.name: {} for n in config.nodes}
        self.ended: dict[str, dict[tuple[int, int], int]] = {n.name: {} for n in config.nodes}  # unseen, and when
        self.tombstones: dict[str, dict[tuple[int, int], None]] = {n.name: {} for n in config.nodes}
        self.srun: dict[str, dict[tuple[int, int, int], bool]] = {
            n.name: {} for n in config.nodes
        }  # steps: launched, runs
        self.srun_gone: dict[str, dict[tuple[int, int, int], None]] = {n.name: {} for n in config.nodes}
        self.step_launches: dict[tuple[str, int, int, int], None] = {}
        self.bound: dict[tuple[str, int, int, int], int] = {}  # the CPUs that a node has bound a step to
        self.stopped: dict[str, dict[tuple[int, int], None]] = {n.name: {} for n in config.nodes}
        self.leases: dict[tuple[int, int], tuple[int, int]] = {}  # of steps that were launched with one
        self.qos: dict[str, Qos] = {}
        self.gpus: dict[tuple[str, str], Gpu] = {}
        self.crontabs: dict[int, Crontab] = {}
        self.token_revocations: dict[str, TokenRevocation] = {}
        self.personal_tokens: dict[str, PersonalToken] = {}
        self.triggers: dict[int, Trigger] = {}
        self.found: dict[str, tuple[GpuFacts, ...]] = {}  # GPUs that nodes name when they register
        self.works: dict[str, tuple[str, str]] = {}  # w1, w2, ...: works that were ordered: (node, UUID),
        self.work_ids: dict[str, str] = {}  # and their ids
        self.history: list[HistoryRow] = []
        self.audit: list[AuditRow] = []
        self.txns: list[TxnRow] = []
        self.launches: list[tuple[int, int]] = []  # every start on any node, in order
        self.launched_with: dict[tuple[int, int], LaunchStep] = {}
        self.acknowledged: dict[int, None] = {}
        self.replies: dict[int, Any] = {}
        self.next_reply = 1
        self.busy = False  # a commit is in flight: what is stepped is not sealed
        self.restart()

    # ---- the loop ------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """A controller that knows only what was committed."""
        self.epoch += 1
        self.core = self.started_anew(self.config)
        self.links.clear()

    def started_anew(self, config: Config) -> Core:
        """The core of another controller, which starts with that file from what is committed now."""
        last: dict[int, JobRow] = {}
        for (job_id, _), row in sorted(self.jobs.items()):
            last[job_id] = row
        kept = [
            r
            for r in last.values()
            if r.state in ACTIVE_STATES or r.end_at_us > self.now_us - self.config.min_job_age_s * US
        ]
        arrays = {r.array_job_id for r in kept if r.array_job_id}
        counts = [self._counts(array_id, last) for array_id in sorted(arrays)]
        keys = [SubmitKey(r.user_id, r.submit_key, r.job_id, r.submit_at_us) for r in last.values() if r.submit_key]
        loaded = LoadedState(
            self.epoch, *self.counters, kept, list(self.steps.values()), list(self.node_rows.values()),
            list(self.partition_rows.values()), counts, keys, self._shares(),
            tuple(sorted(self.reservations.values(), key=lambda r: r.resv_id)), list(self.qos.values()),
            sorted(self.gpus.values(), key=lambda gpu: (gpu.node, gpu.slot, gpu.uuid)),
            [self.crontabs[uid] for uid in sorted(self.crontabs)], [self.triggers[i] for i in sorted(self.triggers)],
            audit=AuditHead(len(self.audit), self.audit[-1].hash if self.audit else GENESIS, len(self.txns)),
            qos_usage=sorted(self.qos_usage.items()),
            budgets=tuple(self.budget_rows.values()),
            reservation_spans=self._last_reservation_spans(),
            reservation_id=self.last_numbers.get("reservation", 0),
            token_revocations=tuple(self.token_revocations.values()),
            personal_tokens=tuple(self.personal_tokens.values()),
        )  # fmt: skip
        core = Core(config, loaded, self.now_us)
        core.check()
        return core

    def _last_reservation_spans(self) -> tuple[ReservationSpan, ...]:
        """As ctld/store/loader.py has them."""
        here = {r.resv_id for r in self.reservations.values()}
        rows = [self.reservation_spans[key] for key in sorted(self.reservation_spans)]
        last = {row.resv_id: row for row in rows if row.resv_id in here and row.end_at_us > row.start_at_us}
        return tuple(last.values())

    def _shares(self) -> LoadedShares:
        return LoadedShares(
            tuple(row for row in self.assoc_rows.values() if not row.deleted),
            tuple(self.usage_rows.values()), tuple(self.account_rows.values()), tuple(self.user_rows.values()),
            max(self.assoc_rows, default=1) + 1, tuple(row for row in self.assoc_rows.values() if row.deleted),
            tuple(self.wckey_rows.values()), tuple(self.resource_rows.values()), tuple(self.tres_rows.values()),
        )  # fmt: skip

    @staticmethod
    def _counts(array_id: int, last: dict[int, JobRow]) -> ArrayCounts:
        ended = [r for r in last.values() if r.array_job_id == array_id and r.state in END_STATES]
        weigh = lambda r: len(r.array_tasks) if r.array_tasks is not None else 1  # noqa: E731
        worst = max(((r.exit_signal, r.exit_code) for r in ended), default=(0, 0))
        ok = sum(weigh(r) for r in ended if r.state is JobState.COMPLETED)
        return ArrayCounts(array_id, ok, sum(map(weigh, ended)) - ok, worst[1], worst[0])

    def do(self, event: Event) -> list[str]:
        """One event through the whole loop; what came out, as lines."""
        self.core.step(self.now_us, event)
        return self.settle()

    def settle(self) -> list[str]:
        """Seal and commit until nothing is left; the core is checked as it is committed, and when it rests."""
        lines: list[str] = []
        if self.busy:
            return lines
        if self.is_checked_before_passes:
            self.core.check()
        for number in range(100):
            batch = self.core.seal()
            if batch is not None or number == 0:  # else nothing has changed
                self.core.check()
            if batch is None:
                return lines
            self._commit(batch)
            for effect in batch.effects:
                lines += self._deliver(effect)
        raise AssertionError("the core does not come to rest")

    def _commit(self, batch: Batch) -> None:
        assert batch.next_job_id >= self.counters[0], "job ids go back"
        for row in batch.jobs:
            before = self.jobs.get((row.job_id, row.attempt))
            again = (before.state, JobState.REQUEUED) if before is not None else ()  # requeued after its end
            assert before is None or before.state not in END_STATES or row.state in (before.state, *again), (
                f"{row.job_id} left its end"
            )
            self.jobs[row.job_id, row.attempt] = row
        for step in batch.steps:
            self.steps[step.job_id, step.attempt, step.step_id] = step
        self.history += batch.history
        self.job_spans += batch.job_spans
        self.reservation_spans.update({(row.resv_id, row.start_at_us): row for row in batch.reservation_spans})
        for entry in batch.audit:
            last = self.audit[-1].hash if self.audit else GENESIS
            assert entry.audit_id == len(self.audit) + 1 and entry.hash == chained(last, entry.record), (
                "a gap in the chain"
            )
            self.audit.append(entry)
        self.txns += batch.txns
        self.node_rows.update({n.name: n for n in batch.nodes})
        self.qos.update({record.name: record for record in batch.qos})
        for name in batch.qos_gone:
            del self.qos[name]
        self.gpus.update({(gpu.node, gpu.uuid): gpu for gpu in batch.gpus})
        for key in batch.gpus_gone:
            self.gpus.pop(key, None)
        self.partition_rows.update({p.name: p for p in batch.partitions})
        self.assoc_rows.update({a.assoc_id: a for a in batch.assocs})
        self.usage_rows.update({u.assoc_id: u for u in batch.usage})
        self.qos_usage.update({row.name: row.tres for row in batch.qos_usage})
        self.account_rows.update({a.name: a for a in batch.accounts})
        self.user_rows.update({u.name: u for u in batch.users})
        self.wckey_rows.update({row.wckey_id: row for row in batch.wckeys})
        self.resource_rows.update({row.key: row for row in batch.resources})
        self.tres_rows.update({row.tres_id: row for row in batch.tres})
        self.budget_rows.update({row[:4]: row for row in batch.budgets})
        self.last_numbers.update(batch.counters)
        self.reservations.update({r.name: r for r in batch.reservations})
        for name in batch.reservations_gone:
            self.reservations.pop(name, None)
        self.token_revocations.update({row.user_name: row for row in batch.token_revocations})
        self.personal_tokens.update({row.token_id: row for row in batch.personal_tokens})
        for token_id in batch.personal_tokens_gone:
            self.personal_tokens.pop(token_id, None)
        self.crontabs.update({crontab.uid: crontab for crontab in batch.crontabs})
        for uid in batch.crontabs_gone:
            del self.crontabs[uid]
        self.triggers.update({trigger.trigger_id: trigger for trigger in batch.triggers})
        for trigger_id in batch.triggers_gone:
            self.triggers.pop(trigger_id, None)
        self.counters = (batch.next_job_id, batch.next_request_id)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _deliver(self, effect: object) -> list[str]:
        if isinstance(effect, Reply):
            self.replies[effect.reply_to] = effect.body
            return [self._reply_text(effect)]
        if isinstance(effect, StartPlan):
            self.core.step(self.now_us, run_plan(effect.revision, effect.question))
            self.core.check()
            return ["full pass"]
        if isinstance(effect, RunTrigger):
            return [f"trigger {effect.trigger_id}: {effect.program} {effect.argument} as {effect.user_name}"]
        if isinstance(effect, RebootNode):
            return [f"reboot {effect.node} ({effect.reason})"]
        if isinstance(effect, AckReports | ForgetStep | AdmitNode):
            return (
                [f"refuse {effect.node}: {effect.refusal}"] if isinstance(effect, AdmitNode) and effect.refusal else []
            )
        if isinstance(effect, FenceNode):
            return [f"fence {effect.node}"]
        if isinstance(effect, Warn):
            return [f"warning: {effect.text}"]
        if isinstance(effect, SendMail):
            return [f"mail to {address(effect.job, self.config.mail_domain)}: {subject(effect)}"]
        if isinstance(effect, GpuWork | ClearGpu | ReturnGpus):
            return [self._gpu_order(effect)]
        assert isinstance(effect, LaunchStep | NotifyStep | SignalStep | SuspendStep | TerminateStep)
        if effect.node not in self.links:
            return [f"lost on the way to {effect.node}: {type(effect).__name__} {effect.job_id}"]
        key = (effect.job_id, effect.attempt)
        if effect.step_id != BATCH:
            return self._deliver_step(effect)
        if isinstance(effect, NotifyStep):
            return [f"notify {effect.job_id} on {effect.node}: {effect.text}"]
        if isinstance(effect, LaunchStep):
            return self._launch(effect)
        if isinstance(effect, SignalStep):
            return [f"signal {effect.job_id} on {effect.node}: {effect.signal_no}"]
        if isinstance(effect, SuspendStep):
            if key not in self.running[effect.node]:
                return [f"suspend {effect.job_id} on {effect.node}: not known there"]
            self.stopped[effect.node].pop(key, None)
            if effect.suspended:
                self.stopped[effect.node][key] = None
            return [
                f"{'suspend' if effect.suspended else 'resume'} {effect.job_id} on {effect.node}{self._moved(effect)}"
            ]
        if key not in self.running[effect.node]:
            self.tombstones[effect.node][key] = None
        return [f"terminate {effect.job_id} on {effect.node}" + (f" ({effect.note})" if effect.note else "")]

    def _moved(self, effect: SuspendStep) -> str:
        """Where a step continues, if that is not where it was."""
        key = (effect.node, effect.job_id, effect.attempt, effect.step_id)
        if not effect.cpu_ids or not self.bound.get(key) or self.bound[key] == effect.cpu_ids:
            return ""
        self.bound[key] = effect.cpu_ids
        return f", cpus {TaskSet.of(i for i in range(effect.cpu_ids.bit_length()) if effect.cpu_ids >> i & 1).format()}"

    def _gpu_order(self, effect: GpuWork | ClearGpu | ReturnGpus) -> str:
        lost = "" if effect.node in self.links else "lost on the way: "
        if isinstance(effect, ClearGpu):
            return f"{lost}clear {effect.uuid}"
        if isinstance(effect, ReturnGpus):
            return f"{lost}return {effect.job_id} {','.join(effect.uuids)}"
        known = [name for name, work_id in self.work_ids.items() if work_id == effect.work_id]
        name = known[0] if known else f"w{len(self.works) + 1}"
        self.works[name], self.work_ids[name] = (effect.node, effect.uuid), effect.work_id
        layout = f" into {','.join(effect.layout) or 'whole'}" if effect.kind == WorkKind.DIVIDE else ""
        return f"{lost}{name}: {WorkKind(effect.kind).name} {effect.uuid}{layout}, {effect.timeout_s} s"

    def _deliver_step(self, effect: Any) -> list[str]:
        """What a node does with orders about steps of srun."""
        node, name = effect.node, f"{effect.job_id}.{effect.step_id}"
        key = (effect.job_id, effect.attempt, effect.step_id)
        known = self.srun[node]
        if isinstance(effect, LaunchStep):
            part = next(p for p in effect.step.parts if p.node == node)
            gres = "".join(f"/{n}:{bin(m)}" for n, _, m in part.gres)
            ranks = TaskSet.of(part.ranks).format() if part.ranks else ""
            text = f"launch {name} on {node} [{part.cpus}cpu/{part.mem_mb}MB{gres} ranks {ranks}]"
            if key in known or key in self.srun_gone[node]:
                return [text + " (known there)"]
            assert (node, *key) not in self.step_launches, f"{name} started twice on {node}"
            self.step_launches[node, *key] = None
            known[key] = False
            self.bound[node, *key] = part.cpu_ids
            return [text]
        if isinstance(effect, SignalStep):
            return [f"signal {name} on {node}: {effect.signal_no}"]
        if isinstance(effect, SuspendStep):
            return [f"{'suspend' if effect.suspended else 'resume'} {name} on {node}{self._moved(effect)}"]
        if isinstance(effect, NotifyStep):
            return [f"notify {name} on {node}: {effect.text}"]
        if key not in known:
            self.srun_gone[node][key] = None
        return [f"terminate {name} on {node}" + (f" ({effect.note})" if effect.note else "")]

    def step_started(self, job_id: int, step_id: int, *only: str) -> list[str]:
        """Nodes say that the step runs there."""
        lines = []
        for node, key in self._places(job_id, step_id, only):
            self.srun[node][key] = True
            self.sequence += 1
            lines += self.do(
                StepStarted(node, *key, self.now_us, f"spool-{node}", self.sequence, self.links.get(node, 0))
            )
        return lines

    def step_exited(self, job_id: int, step_id: int, *only: str, **more: Any) -> list[str]:
        """Nodes say that the step has ended there."""
        lines = []
        for node, key in self._places(job_id, step_id, only):
            del self.srun[node][key]
            lines += self.report_step_exit(node, key, **more)
        return lines

    def report_step_exit(
        self, node: str, key: tuple[int, int, int], code: int = 0, signal: int = 0, failure: str = "", **more: Any
    ) -> list[str]:
        """The node reports the end of a step, whatever it knows of it."""
        self.sequence += 1
        start_us = 0 if failure else self.now_us
        return self.do(
            StepExited(
                node, *key, f"spool-{node}", self.sequence, self.links.get(node, 0), start_us, self.now_us, code,
                signal, failure, **more,
            )
        )  # fmt: skip

    def _places(self, job_id: int, step_id: int, only: tuple[str, ...]) -> list[tuple[str, tuple[int, int, int]]]:
        return [
            (node, key)
            for node, steps in self.srun.items()
            for key in list(steps)
            if key[0] == job_id and key[2] == step_id and (not only or node in only)
        ]

    def _launch(self, effect: LaunchStep) -> list[str]:
        key = (effect.job_id, effect.attempt)
        row = effect.job
        alloc = " ".join(
            f"{p.node}:{p.cpus}cpu/{p.tasks}task"
            + "".join(f"/{n}:{bin(m)}" for n, _, m in p.gres)
            + "".join(f"/{g.name}:{g.units}of{g.of}@{g.gpu}" for g in p.shares)
            for p in row.alloc
        )
        text = f"launch {effect.job_id}.{effect.attempt} on {effect.node} [{alloc}]"
        if row.array_task_id is not None:
            text += f" task {row.array_job_id}_{row.array_task_id}"
        if key in self.running[effect.node] or key in self.tombstones[effect.node]:
            return [text + " (known there)"]
        assert key not in self.launches, f"{key} started twice"
        self.launches.append(key)
        self.launched_with[key] = effect
        self.bound[effect.node, *key, BATCH] = next(p.cpu_ids for p in row.alloc if p.node == effect.node)
        if effect.lease_s:
            self.leases[key] = (effect.lease_s, effect.lease_grace_s)
        self.running[effect.node][key] = effect.epoch
        return [text]

    def _reply_text(self, effect: Reply) -> str:
        body = effect.body
        if isinstance(body, Submitted):
            self.acknowledged[body.job_id] = None
            return f"submitted {body.job_id}" + "".join(f"; warning: {w}" for w in body.warnings)
        if isinstance(body, Refusal):
            return f"refused: {body.text}"
        if isinstance(body, JobEnded):
            return f"ended: {body.state} {body.exit_code}:{body.exit_signal}"
        if isinstance(body, Results):
            return "; ".join(f"{r.id}: {r.text or 'ok'}" for r in body.results) or "nothing matched"
        if isinstance(body, Created):
            return f"created {body.name}"
        if isinstance(body, AllocationState):
            nodes = ",".join(part.node for part in body.job.alloc)
            return f"allocation {body.job.job_id}: {body.job.state.name} {nodes}".rstrip()
        if isinstance(body, StepCreated):
            step = body.step
            text = f"step {step.job_id}.{step.step_id} {step.name}: {step.tasks} tasks on {step.node_list}"
            return text + "".join(f"; warning: {w}" for w in body.warnings)
        if isinstance(body, StepSeen):
            step, note = body.step, f" ({body.step.note})" if body.step.note else ""
            return f"step {step.job_id}.{step.step_id}: {step.state.name} {step.exit_code}:{step.exit_signal}{note}"
        if isinstance(body, CrontabUpdated):
            if body.code:
                return f"lines {body.failed_lines[0]}-{body.failed_lines[1]}: {body.text}"
            return f"crontab: jobs {','.join(map(str, body.job_ids)) or 'none'}"
        if isinstance(body, TriggersChanged):
            return f"triggers {','.join(map(str, body.trigger_ids))}"
        assert isinstance(body, Done | Changed | ChangedMany)
        return "done"

    # ---- what people and nodes do --------------------------------------------------------------------------------

    def reply_to(self) -> int:
        """A fresh caller."""
        self.next_reply += 1
        return self.next_reply

    @staticmethod
    def actor(name: str) -> Actor:
        """root administers, opa operates, the others are users."""
        uid = USERS[name]
        role = Role.ADMINISTRATOR if uid == 0 else Role.OPERATOR if name == "opa" else Role.USER
        return Actor(uid, uid, name, name, (name,), role)

    def submit(self, wanted: JobSubmission, user: str = "ann", key: str = "", test_only: bool = False) -> list[str]:
        """sbatch."""
        name = key or f"{self.next_reply:032x}"
        return self.do(SubmitJob(self.actor(user), name, self.now_us, wanted, SPEC, test_only, self.reply_to()))

    def register(self, name: str, **changes: object) -> list[str]:
        """The node daemon connects and says what it holds."""
        self.streams += 1
        self.links[name] = self.streams + 1000 * self.epoch
        held = tuple(
            HeldStep(
                job_id,
                attempt,
                BATCH,
                "RUNNING",
                epoch,
                (job_id, attempt) in self.stopped[name],
                *self.leases.get((job_id, attempt), (0, 0)),
            )
            for (job_id, attempt), epoch in self.running[name].items()
        ) + tuple(HeldStep(job_id, attempt, BATCH, "TOMBSTONE", 0) for job_id, attempt in self.tombstones[name])
        held += tuple(HeldStep(job_id, attempt, BATCH, "EXITED", 0) for job_id, attempt in self.ended[name])
        held += tuple(HeldStep(*key, "RUNNING" if runs else "ACCEPTED", 1) for key, runs in self.srun[name].items())
        held += tuple(HeldStep(*key, "TOMBSTONE", 0) for key in self.srun_gone[name])
        node = next(n for n in self.config.nodes if n.name == name)
        gres = tuple((g.name, g.type, g.count) for g in node.gres)
        fields: dict[str, object] = {
            "node": name, "link_id": self.links[name], "boot_id": self.boots[name], "spool_id": f"spool-{name}",
            "version": "1",
            "cpus": node.cpus, "sockets": 1, "cores_per_socket": node.cpus, "threads_per_core": 1,
            "real_memory_mb": node.real_memory_mb, "tmp_disk_mb": 0, "gres": gres, "held": held,
            "gpus": self.found.get(name, ()), **changes,
        }  # fmt: skip
        return self.do(NodeRegistered(**fields))  # type: ignore[arg-type]  # keywords of many types

    def report_gpus(self, name: str, *opinions: GpuOpinion, gpus: tuple[GpuFacts, ...] | None = None) -> list[str]:
        """The node says something of its GPUs."""
        self.sequence += 1
        head = (name, f"spool-{name}", self.sequence, self.links.get(name, 0), self.now_us)
        return self.do(GpuReported(*head, opinions, gpus=gpus))

    def reboot(self, name: str) -> None:
        """The node loses power: what ran there is gone."""
        self.running[name].clear()
        self.srun[name].clear()
        self.srun_gone[name].clear()
        self.stopped[name].clear()
        self.tombstones[name].clear()
        self.boots[name] += "+"

    def disconnect(self, name: str) -> list[str]:
        """The stream breaks."""
        return self.do(NodeDisconnected(name, self.links.pop(name)))

    def fenced(self, name: str, off: bool, text: str) -> list[str]:
        """The fencing program has ended."""
        if off:
            self.running[name].clear()
        return self.do(NodeFenced(name, self.core.state.nodes[name].lost_link_id, off, text))

    def take_ended(self, ids: list[str]) -> list[tuple[str, int, int, int]]:
        """Steps that ended unseen: (node, job id, attempt, when)."""
        found = [
            (node, job_id, attempt, at_us)
            for node, steps in self.ended.items()
            for (job_id, attempt), at_us in steps.items()
            if str(job_id) in ids
        ]
        for node, job_id, attempt, _ in found:
            del self.ended[node][job_id, attempt]
        return found

    def reload(self, names: list[str]) -> list[str]:
        """scontrol reconfigure with these of the nodes."""
        nodes = tuple(node for node in self.config.nodes if node.name in names)
        partitions = tuple(replace(p, nodes=tuple(names)) for p in self.config.partitions)
        return self.do(LoadConfig(replace(self.config, nodes=nodes, partitions=partitions), self.reply_to()))

    def where(self, job_id: int) -> tuple[str, int]:
        """(node, attempt) of the job's running step."""
        return next((n, a) for n, steps in self.running.items() for j, a in steps if j == job_id)

    def started(self, job_id: int) -> list[str]:
        """The node says that the job's task runs."""
        node, attempt = self.where(job_id)
        self.sequence += 1
        link = self.links[node]
        return self.do(StepStarted(node, job_id, attempt, BATCH, self.now_us, f"spool-{node}", self.sequence, link))

    def exited(
        self, job_id: int, code: int = 0, signal: int = 0, failure: str = "", oom: bool = False, **more: Any
    ) -> list[str]:
        """The node says that the job's step has ended."""
        node, attempt = self.where(job_id)
        del self.running[node][job_id, attempt]
        self.stopped[node].pop((job_id, attempt), None)
        return self.report_exit(node, job_id, attempt, code, signal, failure, oom, **more)

    def notice(self, node: str, reason: str, job_id: int = 0, **flags: bool) -> list[str]:
        """What a node says of itself, with the job's present attempt."""
        self.sequence += 1
        attempt = self.core.state.jobs[job_id].attempt if job_id else 0
        link = self.links[node]
        return self.do(
            NodeNotice(
                node, f"spool-{node}", self.sequence, link, self.now_us, reason, job_id=job_id, attempt=attempt,
                step_id=BATCH if job_id else 0, **flags,
            )
        )  # fmt: skip

    def report_exit(
        self, node: str, job_id: int, attempt: int, code: int = 0, signal: int = 0, failure: str = "", oom: bool = False,
        ago_s: int = 0, **more: Any,
    ) -> list[str]:  # fmt: skip
        """An exit report, possibly a repeated or false one, of something that happened `ago_s` seconds ago."""
        self.sequence += 1
        end_us = self.now_us - ago_s * US
        start_us = 0 if failure else end_us
        return self.do(
            StepExited(
                node, job_id, attempt, BATCH, f"spool-{node}", self.sequence, self.links[node], start_us, end_us,
                code, signal, failure, oom, **more,
            )
        )  # fmt: skip

    def advance(self, seconds: float) -> list[str]:
        """Let time go by, stopping at every deadline on the way."""
        end_us, lines = self.now_us + int(seconds * US), []
        for _ in range(10_000):
            due = self.core.next_deadline()
            if due is None or due > end_us:
                break
            self.now_us = max(self.now_us, due)
            lines += self.do(Tick())
        self.now_us = end_us
        return lines + self.do(Tick())
