"""Effects: data that leaves the core, addressed and idempotent, released only after the batch that holds its cause has
committed.
"""

# Any: fields of rooms above this one, whose types may not be imported here
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.records.audit import AuditRow, TxnRow
from ctld.core.records.budget_book import BudgetRow
from ctld.core.records.gpu import Gpu
from ctld.core.records.job import HistoryRow, JobRow, JobSpan, SpecRow
from ctld.core.records.node import NodeEvent, NodeRow, PartitionRow
from ctld.core.records.periodic import Crontab, Trigger
from ctld.core.records.personal_token import PersonalToken
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.reservation import Reservation, ReservationSpan
from ctld.core.records.revocation import TokenRevocation
from ctld.core.records.step import ProfileRow, StepRow
from penstock.values.amendment import Amendment
from penstock.values.refusals import TEXT, Code


class Refused(Exception):
    """Raised by the read-only half of a handler: the request cannot be done, and nothing has changed."""

    def __init__(self, code: Code, detail: str = "") -> None:
        super().__init__(TEXT[code] + (f": {detail}" if detail else ""))
        self.code = code
        self.detail = detail
        self.text = str(self)


class Effect(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of all effects."""


class Submitted(msgspec.Struct, frozen=True, gc=False):
    """Answer to SubmitJob. `start_at_us` and the rest only for test_only."""

    job_id: int
    warnings: tuple[str, ...] = ()
    start_at_us: int = 0
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    partition: str = ""


class JobEnded(msgspec.Struct, frozen=True, gc=False):
    """Answer to AwaitJob: the highest exit of the job's tasks."""

    state: str
    exit_code: int
    exit_signal: int
    cause: str = ""  # the cause of its failure, as text


class AllocationState(msgspec.Struct, frozen=True, gc=False):
    """Answer to AwaitAllocation."""

    job: JobRow
    components: tuple[JobRow, ...] = ()  # of a heterogeneous job: the others


class StepCreated(msgspec.Struct, frozen=True, gc=False):
    """Answer to CreateStep."""

    job: JobRow
    step: StepRow
    warnings: tuple[str, ...] = ()


class StepSeen(msgspec.Struct, frozen=True, gc=False):
    """Answer to AwaitStep."""

    step: StepRow
    job_state: str


class JobResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a request for one id. code 0 = done."""

    id: str
    code: int = 0
    text: str = ""


class Results(msgspec.Struct, frozen=True, gc=False):
    """Answer to CancelJobs, ControlJobs, UpdateJobs."""

    results: tuple[JobResult, ...]


class Done(msgspec.Struct, frozen=True, gc=False):
    """Answer without a content."""

    warnings: tuple[str, ...] = ()


class Changed(msgspec.Struct, frozen=True, gc=False):
    """Answer to ChangeAccounts: the entities, and associations as (account, user, parent, partition)."""

    names: tuple[str, ...]
    assocs: tuple[tuple[str, str, str, str], ...]


class ChangedMany(msgspec.Struct, frozen=True, gc=False):
    """Answer to ChangeMany: one for each change."""

    changes: tuple[Changed, ...]


class Created(msgspec.Struct, frozen=True, gc=False):
    """Answer to CreateReservation."""

    name: str


class CrontabUpdated(msgspec.Struct, frozen=True, gc=False):
    """Answer to UpdateCrontab: the jobs of its entries; or the refused lines, and then nothing has changed."""

    job_ids: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    failed_lines: tuple[int, int] = (0, 0)
    code: int = 0
    text: str = ""


class TriggersChanged(msgspec.Struct, frozen=True, gc=False):
    """Answer to SetTrigger and ClearTriggers: the triggers' ids."""

    trigger_ids: tuple[int, ...]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The whole request was refused."""

    code: int
    text: str


ReplyBody: TypeAlias = (
    Submitted | JobEnded | Results | Done | Changed | Created | Refusal | AllocationState | StepCreated | StepSeen
    | CrontabUpdated | TriggersChanged | ChangedMany
)  # fmt: skip
"""What a caller gets."""


class Reply(Effect, frozen=True):
    """Answer the caller `reply_to`. Exactly one Reply for each event that has a `reply_to`."""

    reply_to: int
    body: ReplyBody


class LaunchStep(Effect, frozen=True):
    """Start a step on a node. The runtime fetches the spec by its hash. Key: (job_id, attempt, step_id)."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    epoch: int
    job: JobRow  # the job as committed in this batch
    array_count: int = 0
    array_min: int = 0
    array_max: int = 0
    array_step: int = 0
    lease_s: int = 0  # it stops itself after so many seconds without contact; 0 = never
    lease_grace_s: int = 0
    step: StepRow | None = None  # of an srun step, with a part on this node
    master_port: int = 0  # its reserved port on its nodes; 0 = none
    components: tuple[JobRow, ...] = ()  # of a heterogeneous job: all
    gpu_slots: tuple[str, ...] = ()  # UUIDs of the node's GPUs, by place
    cpus_used: tuple[int, ...] = ()  # by node of the job; () = the whole allocation


class FenceNode(Effect, frozen=True):
    """Run the fencing program for a silent node. Its answer is NodeFenced with the same `lost_link_id`."""

    node: str
    lost_link_id: int


class SignalStep(Effect, frozen=True):
    """Send a signal to a step."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    signal_no: int
    batch_only: bool
    full: bool


class TerminateStep(Effect, frozen=True):
    """SIGTERM now, SIGKILL after the grace; a step that has not arrived there will never start."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    grace_ms: int
    note: str = ""


class SuspendStep(Effect, frozen=True):
    """Stop all processes of a step (SIGTSTP, after the grace SIGSTOP), or resume them (SIGCONT).

    `cpu_ids`, `job_cpu_ids`: masks of the CPUs on which the step and its job continue; 0 = where they were.
    """

    node: str
    job_id: int
    attempt: int
    step_id: int
    suspended: bool
    grace_ms: int = 0
    cpu_ids: int = 0
    job_cpu_ids: int = 0


class NotifyStep(Effect, frozen=True):
    """Write a line to a step's error output."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    text: str


class ForgetStep(Effect, frozen=True):
    """The step's end is committed: the node may sweep its spool."""

    node: str
    job_id: int
    attempt: int
    step_id: int


class AckReports(Effect, frozen=True):
    """All reports of that spool up to `sequence` are committed."""

    node: str
    link_id: int
    spool_id: str
    sequence: int


class AdmitNode(Effect, frozen=True):
    """Answer a registration on stream `link_id`: refusal "" = admitted."""

    node: str
    link_id: int
    refusal: str = ""


class RunScript(Effect, frozen=True):
    """Run the site's programs on the controller's machine. `context`: prolog_slurmctld is answered by ScriptEnded."""

    job: JobRow
    context: str
    patterns: tuple[str, ...]
    timeout_s: int  # timeout of each program; 0 = none


class ArrayEnd(NamedTuple):
    """The outcome of the tasks of an array."""

    mixed: bool  # some succeeded, some did not
    code_min: int
    code_max: int
    signal_max: int


class SendMail(Effect, frozen=True):
    """Send mail to the job's user. `kind`: a keyword of --mail-type; `array`: the end of all its tasks; `whole`: not of
    one task."""

    job: JobRow
    kind: str
    at_us: int
    whole: bool = False
    array: ArrayEnd | None = None


class RunTrigger(Effect, frozen=True):
    """Run a trigger's program on the controller's machine, as the user who set it. Answered by TriggerEnded."""

    trigger_id: int
    uid: int
    gid: int
    user_name: str
    program: str
    argument: str  # a hostlist or a job id


class RebootNode(Effect, frozen=True):
    """Run RebootProgram there."""

    node: str
    reason: str


class StartPlan(Effect, frozen=True):
    """Run a full scheduling pass in a worker; `question` (planning.Question) holds private copies of the columns.

    Setting its `stop` after `seconds_max` ends the pass with the results so far.
    """

    revision: int
    question: Any
    seconds_max: int


class GpuWork(Effect, frozen=True):
    """Do maintenance work on an idle GPU. Once for each work id."""

    node: str
    work_id: str
    kind: int  # GpuWork.Kind of the wire
    uuid: str
    timeout_s: int
    layout: tuple[str, ...] = ()  # of DIVIDE: profiles; () = whole


class ClearGpu(Effect, frozen=True):
    """An administrator's order to clear a GPU's health record on its node."""

    node: str
    uuid: str


class ReturnGpus(Effect, frozen=True):
    """Release these GPUs of a running job."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    uuids: tuple[str, ...]


class Warn(Effect, frozen=True):
    """A line for the controller's log that needs an administrator's attention."""

    text: str


class OutboxRow(NamedTuple):
    """An event for deliveries."""

    sequence: int
    at_us: int
    kind: str
    body: bytes  # JSON


class Batch(msgspec.Struct):
    """One commit's worth of changes. Rows are frozen; a row replaces the one with the same primary key."""

    sequence: int  # incremented with every batch of this leadership
    jobs: list[JobRow]
    requests: list[tuple[int, JobRequest]]  # (request_id, request): new ones
    specs: list[SpecRow]  # new ones; insert or ignore
    steps: list[StepRow]
    nodes: list[NodeRow]
    partitions: list[PartitionRow]
    history: list[HistoryRow]
    next_job_id: int
    next_request_id: int
    effects: list[Effect]
    purged: list[int]  # job ids purged from the controller's memory (snapshot only; the database keeps them)
    assocs: list[AssocRow] = []
    usage: list[UsageRow] = []
    accounts: list[AccountRow] = []
    users: list[UserRow] = []
    reservations: list[Reservation] = []
    reservations_gone: list[str] = []
    qos: list[Qos] = []
    qos_gone: list[str] = []  # names of deleted ones
    gpus: list[Gpu] = []
    gpus_gone: list[tuple[str, str]] = []
    crontabs: list[Crontab] = []
    crontabs_gone: list[int] = []  # uids
    triggers: list[Trigger] = []
    triggers_gone: list[int] = []
    amendments: list[tuple[int, Amendment]] = []  # with their positions in the order
    amendments_gone: list[tuple[str, str]] = []  # (kind, name)
    audit: list[AuditRow] = []
    txns: list[TxnRow] = []
    wckeys: list[WckeyRow] = []
    resources: list[ResourceRow] = []
    tres: list[TresRow] = []
    qos_usage: list[Any] = []  # ledger.QosUsageRow
    budgets: list[BudgetRow] = []
    node_events: list[NodeEvent] = []
    job_spans: list[JobSpan] = []
    reservation_spans: list[ReservationSpan] = []
    profiles: list[ProfileRow] = []
    counters: list[tuple[str, int]] = []  # the last number of a kind
    token_revocations: list[TokenRevocation] = []
    personal_tokens: list[PersonalToken] = []
    personal_tokens_gone: list[str] = []  # their ids
    outbox: list[OutboxRow] = []  # added before the commit by ctld/delivery: no decision depends on it
    epoch: int = 0  # the leadership's epoch from here on; 0 = unchanged

    def is_durable(self) -> bool:
        """Whether there is anything to write (effects alone, such as the answer to a query, need no commit)."""
        return bool(
            self.epoch
            or self.jobs
            or self.steps
            or self.nodes
            or self.partitions
            or self.history
            or self.specs
            or self.requests
            or self.assocs
            or self.usage
            or self.accounts
            or self.users
            or self.gpus
            or self.gpus_gone
            or self.reservations
            or self.reservations_gone
            or self.qos
            or self.qos_gone
            or self.crontabs
            or self.crontabs_gone
            or self.triggers
            or self.triggers_gone
            or self.amendments
            or self.amendments_gone
            or self.token_revocations
            or self.personal_tokens
            or self.personal_tokens_gone
            or self.audit
            or self.wckeys
            or self.resources
            or self.tres
            or self.qos_usage
            or self.budgets
            or self.node_events
            or self.job_spans
            or self.reservation_spans
            or self.profiles
            or self.counters
        )


__all__ = [
    "AckReports",
    "AdmitNode",
    "AllocationState",
    "Batch",
    "Changed",
    "Created",
    "Done",
    "Effect",
    "ForgetStep",
    "JobEnded",
    "JobResult",
    "LaunchStep",
    "NodeAlloc",
    "NotifyStep",
    "RebootNode",
    "Refusal",
    "Refused",
    "Reply",
    "Results",
    "RunScript",
    "SignalStep",
    "StartPlan",
    "StepCreated",
    "StepSeen",
    "Submitted",
    "SuspendStep",
    "TerminateStep",
    "Warn",
]  # fmt: skip
