"""What goes out: data, addressed and idempotent, released only after the batch that holds its cause has committed."""

from typing import Any, NamedTuple

import msgspec

from ctld.core.audit import AuditRow, TxnRow
from ctld.core.budget_book import BudgetRow
from ctld.core.fairshare import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.gpu_model import Gpu
from ctld.core.model import (
    HistoryRow,
    JobRequest,
    JobRow,
    JobSpan,
    NodeAlloc,
    NodeEvent,
    NodeRow,
    PartitionRow,
    Qos,
    Reservation,
    ReservationSpan,
    SpecRow,
    StepRow,
)
from ctld.core.periodic import Crontab, Trigger
from penstock.values.amendment import Amendment
from penstock.values.refusals import TEXT, Code


class Refused(Exception):
    """Raised by the read-only half of a handler: the request cannot be done, and nothing has changed."""

    def __init__(self, code: Code, detail: str = "") -> None:
        super().__init__(TEXT[code] + (f": {detail}" if detail else ""))
        self.code, self.detail = code, detail
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


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Answer to AwaitJob: the highest exit of the job's tasks."""

    state: str
    exit_code: int
    exit_signal: int
    cause: str = ""  # what has failed it, in words


class Allocation(msgspec.Struct, frozen=True, gc=False):
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
    """What became of a request for one id. code 0 = done."""

    id: str
    code: int = 0
    text: str = ""


class Results(msgspec.Struct, frozen=True, gc=False):
    """Answer to CancelJobs, ControlJobs, UpdateJobs."""

    results: tuple[JobResult, ...]


class Done(msgspec.Struct, frozen=True, gc=False):
    """Answer where there is nothing to say."""

    warnings: tuple[str, ...] = ()


class Changed(msgspec.Struct, frozen=True, gc=False):
    """Answer to ChangeAccounts: what entities, and associations as (account, user, parent, partition)."""

    names: tuple[str, ...]
    assocs: tuple[tuple[str, str, str, str], ...]


class ChangedMany(msgspec.Struct, frozen=True, gc=False):
    """Answer to ChangeMany: one for each change."""

    changes: tuple[Changed, ...]


class Created(msgspec.Struct, frozen=True, gc=False):
    """Answer to CreateReservation."""

    name: str


class CrontabUpdated(msgspec.Struct, frozen=True, gc=False):
    """Answer to UpdateCrontab: the jobs of its entries; or the lines that were refused, and then nothing has changed."""

    job_ids: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    failed_lines: tuple[int, int] = (0, 0)
    code: int = 0
    text: str = ""


class TriggersChanged(msgspec.Struct, frozen=True, gc=False):
    """Answer to SetTrigger and ClearTriggers: which."""

    trigger_ids: tuple[int, ...]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The whole request was refused."""

    code: int
    text: str


class Reply(Effect, frozen=True):
    """Answer the caller `reply_to`. Exactly one Reply for each event that has a `reply_to`."""

    reply_to: int
    body: (
        Submitted | Ended | Results | Done | Changed | Created | Refusal | Allocation | StepCreated | StepSeen
        | CrontabUpdated | TriggersChanged
    )  # fmt: skip


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
    lease_s: int = 0  # it stops itself after so long without contact; 0 = never
    lease_grace_s: int = 0
    step: StepRow | None = None  # of srun, with a part on this node
    master_port: int = 0  # that the job has for itself on its nodes; 0 = none
    components: tuple[JobRow, ...] = ()  # of a heterogeneous job: all
    gpu_slots: tuple[str, ...] = ()  # who the node's GPUs are, by place


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
    """SIGTERM now, SIGKILL after the grace; a step that never arrived there never starts."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    grace_ms: int
    note: str = ""


class SuspendStep(Effect, frozen=True):
    """Stop all processes of a step (SIGTSTP, after the grace SIGSTOP), or let them go on (SIGCONT)."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    suspended: bool
    grace_ms: int = 0


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
    """All reports of that spool through `sequence` are committed."""

    node: str
    link_id: int
    spool_id: str
    sequence: int


class AdmitNode(Effect, frozen=True):
    """Answer a registration on stream `link_id`: refusal "" = welcome."""

    node: str
    link_id: int
    refusal: str = ""


class RunScript(Effect, frozen=True):
    """Run the site's programs on the controller's machine. `context`: prolog_slurmctld is answered by ScriptEnded."""

    job: JobRow
    context: str
    patterns: tuple[str, ...]
    timeout_s: int  # of each program; 0 = none


class ArrayEnd(NamedTuple):
    """How the tasks of an array have ended."""

    mixed: bool  # some well, some not
    code_min: int
    code_max: int
    signal_max: int


class SendMail(Effect, frozen=True):
    """Tell the job's user. `kind`: a word of --mail-type; `array`: the end of all its tasks; `whole`: not of one task."""

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

    Setting its `stop` after `seconds_max` ends the pass with what it has.
    """

    revision: int
    question: Any
    seconds_max: int


class GpuWork(Effect, frozen=True):
    """Do something to an idle GPU. Once for each work id."""

    node: str
    work_id: str
    kind: int  # GpuWork.Kind of the wire
    uuid: str
    timeout_s: int
    layout: tuple[str, ...] = ()  # of DIVIDE: profiles; () = whole


class ClearGpu(Effect, frozen=True):
    """An administrator has seen to a GPU: the node forgets what it held against it."""

    node: str
    uuid: str


class ReturnGpus(Effect, frozen=True):
    """A job goes on without these GPUs."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    uuids: tuple[str, ...]


class Batch(msgspec.Struct):
    """One commit's worth of changes. Rows are frozen; a row replaces the one with the same primary key."""

    sequence: int  # rises by one with every batch of this leadership
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
    purged: list[int]  # job ids that left the controller's memory (snapshot only; the database keeps them)
    assocs: list[AssocRow] = []
    usage: list[UsageRow] = []
    accounts: list[AccountRow] = []
    users: list[UserRow] = []
    reservations: list[Reservation] = []
    reservations_gone: list[str] = []
    qos: list[Qos] = []
    qos_gone: list[str] = []  # names of those that were deleted
    gpus: list[Gpu] = []
    gpus_gone: list[tuple[str, str]] = []
    crontabs: list[Crontab] = []
    crontabs_gone: list[int] = []  # uids
    triggers: list[Trigger] = []
    triggers_gone: list[int] = []
    amendments: list[tuple[int, Amendment]] = []  # with their places in the order
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
    counters: list[tuple[str, int]] = []  # the last number of a kind; never alone

    def is_durable(self) -> bool:
        """True when there is something to write (effects alone, such as an answer to a question, need no commit)."""
        return bool(
            self.jobs
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
            or self.audit
            or self.wckeys
            or self.resources
            or self.tres
            or self.qos_usage
            or self.budgets
            or self.node_events
            or self.job_spans
            or self.reservation_spans
        )


__all__ = [
    "AckReports", "AdmitNode", "Allocation", "Batch", "Changed", "Created", "Done", "Effect", "Ended", "ForgetStep",
    "JobResult", "LaunchStep", "NodeAlloc", "NotifyStep", "RebootNode", "Refusal", "Refused", "Reply", "Results",
    "RunScript", "SignalStep", "StartPlan", "StepCreated", "StepSeen", "Submitted", "SuspendStep", "TerminateStep",
]  # fmt: skip
