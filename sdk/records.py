"""What is told about jobs and nodes, as immutable records. Times are aware and UTC, memory is in MB (1,048,576 bytes),
a count that is not known is 0, a time that has not come is None.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.v1.watch_pb2 import ChangedObject
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.states import ENDED
from penstock.values.tres import parse_tres

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.v1.accounting_pb2 import JobRecord as AccountedJob
    from penstock.v1.controller_pb2 import JobInfo, NodeInfo, SubmitJobReply
    from penstock.v1.explain_pb2 import WhyJobReply
    from penstock.v1.governance_pb2 import ReportRow
    from penstock.v1.watch_pb2 import WatchReply

_MICROSECONDS: Final = 1_000_000
UNLIMITED: Final = -1
GPUS: Final = "gres/gpu"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job or an array's task. `gpus`, `cpus` and `memory_mb` are what it has, or, while it waits, what it asks for; of an
    array's waiting tasks one record tells, with their numbers in `array_tasks`.
    """

    job_id: int
    shown_id: str
    array_job_id: int
    array_task_id: int | None
    array_tasks: str
    name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    reason: str
    exit_code: int
    signal: int
    nodes: tuple[str, ...]
    node_count: int
    tasks: int
    cpus: int
    gpus: int
    memory_mb: int
    priority: int
    restarts: int
    submit_time: datetime | None
    eligible_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    time_limit: timedelta | None
    work_dir: str
    stdout_path: str
    stderr_path: str
    comment: str

    @property
    def has_ended(self) -> bool:
        """Whether it holds nothing and will not change any more."""
        return self.state in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether it ended as COMPLETED."""
        return self.state == "COMPLETED"

    @property
    def elapsed(self) -> timedelta | None:
        """How long it ran; None while it has not ended: `end_time` is then the expected one."""
        if not self.has_ended or self.start_time is None or self.end_time is None:
            return None
        return self.end_time - self.start_time


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node. `flags` beside the state: DRAIN, NO_RESPOND, ..."""

    name: str
    state: str
    flags: tuple[str, ...]
    reason: str
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    cpus: int
    cpus_allocated: int
    memory_mb: int
    memory_allocated_mb: int
    gpus: int
    gpus_allocated: int


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """What an object is after a change. `kind`: JOB, NODE, GPU, RESERVATION or LIMIT; `id` is a job's as commands show it, a
    name, a GPU's UUID, or whose limits they are ("account=lab user=ann", "qos=long"). With `missed` it is none: changes
    before it are not known any more, so ask for everything again.
    """

    sequence: int
    time: datetime | None
    kind: str
    id: str
    state: str
    reason: str
    is_gone: bool
    nodes: tuple[str, ...]
    user: str
    account: str
    partition: str
    name: str
    exit_code: int
    flags: tuple[str, ...]
    missed: bool = False


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What was used in a period. `group`: whose usage it is, by the words of `group_by` ({"account": "lab", "user": "ann"});
    `tres_s`: seconds times the number of this TRES that jobs had: 2 GPUs for a minute are 120.
    """

    group: dict[str, str]
    tres: str
    tres_s: int


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When and where the planner would start a job; `start_time` None: it does not know. `messages`: lines of the site's
    submit filter.
    """

    start_time: datetime | None
    nodes: tuple[str, ...]
    partition: str
    cpus: int = 0
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitReasons:
    """Why a job waits: every obstacle in words, the planned start, and options with which it would start sooner."""

    job_id: int
    state: str
    reason: str
    obstacles: tuple[str, ...]
    planned: ExpectedStart | None
    hints: tuple[str, ...]


def time_of(at_us: int) -> datetime | None:
    """A time of the wire; 0 is none."""
    return datetime.fromtimestamp(at_us / _MICROSECONDS, UTC) if at_us > 0 else None


def job_record(job: "JobInfo | AccountedJob") -> JobRecord:
    """A job as the queue or the accounting database has it; most fields have the same names in both."""
    request = job.request
    tres = _amounts(job.tres_alloc or job.tres_req)
    task = job.array_task_id if job.HasField("array_task_id") else None
    return JobRecord(
        job_id=job.job_id,
        shown_id=_shown_id(job, task),
        array_job_id=job.array_job_id,
        array_task_id=task,
        array_tasks=job.array_tasks,
        name=request.name,
        user=job.user_name,
        account=getattr(job, "account", "") or request.account,
        partition=job.partition,
        qos=request.qos,
        state=job.state,
        reason=job.reason,
        exit_code=job.exit.code,
        signal=job.exit.signal,
        nodes=nodes_of(job.node_list),
        node_count=tres.get("node", 0),
        tasks=job.tasks,
        cpus=tres.get("cpu", 0),
        gpus=tres.get(GPUS, 0),
        memory_mb=tres.get("mem", 0),
        priority=job.priority,
        restarts=job.attempt,
        submit_time=time_of(job.submit_at_us),
        eligible_time=time_of(job.eligible_at_us),
        start_time=time_of(job.start_at_us),
        end_time=time_of(job.end_at_us),
        time_limit=None if job.time_limit_s == UNLIMITED else timedelta(seconds=job.time_limit_s),
        work_dir=_path(request.work_dir),
        stdout_path=_path(job.std_out),
        stderr_path=_path(job.std_err),
        comment=request.comment,
    )


def node_record(node: "NodeInfo") -> NodeRecord:
    """A node as the controller knows it."""
    return NodeRecord(
        name=node.name,
        state=node.base_state,
        flags=tuple(node.flags),
        reason=node.reason,
        partitions=tuple(node.partitions),
        features=tuple(node.features),
        cpus=node.cpus,
        cpus_allocated=node.cpus_alloc,
        memory_mb=node.real_memory_mb,
        memory_allocated_mb=node.mem_alloc_mb,
        gpus=sum(gres.count for gres in node.gres if gres.name == "gpu"),
        gpus_allocated=sum(len(gres.index) for gres in node.gres_used if gres.name == "gpu"),
    )


def usage_records(rows: "Iterable[ReportRow]", group_by: "Sequence[str]") -> list[UsageRecord]:
    """Rows of a report, whose keys are in the order of `group_by`."""
    return [UsageRecord(dict(zip(group_by, row.keys, strict=True)), row.tres, row.values[0]) for row in rows]


def planned_start(reply: "SubmitJobReply") -> ExpectedStart:
    """The answer to a submission that only asks."""
    nodes, said = nodes_of(reply.node_list), tuple(reply.user_messages)
    return ExpectedStart(time_of(reply.start_at_us), nodes, reply.partition, reply.cpus, said)


def why(reply: "WhyJobReply") -> WaitReasons:
    """The controller's explanation."""
    planned = reply.planned if reply.HasField("planned") else None
    return WaitReasons(
        job_id=reply.job_id,
        state=reply.state,
        reason=reply.reason,
        obstacles=tuple(obstacle.text for obstacle in reply.obstacles),
        planned=None
        if planned is None
        else ExpectedStart(time_of(planned.start_at_us), nodes_of(planned.node_list), planned.partition),
        hints=tuple(" ".join(hint.options) for hint in reply.hints),
    )


def changes(reply: "WatchReply") -> list[ChangeRecord]:
    """The changes of a reply; what was missed is said first."""
    found = [change_record(ChangedObject(sequence=reply.last), missed=True)] if reply.missed else []
    return found + [change_record(change) for change in reply.changes]


def change_record(change: "ChangedObject", missed: bool = False) -> ChangeRecord:
    """One change."""
    return ChangeRecord(
        sequence=change.sequence,
        time=time_of(change.at_us),
        kind=change.kind,
        id=change.id,
        state=change.state,
        reason=change.reason,
        is_gone=change.is_gone,
        nodes=nodes_of(change.node_list),
        user=change.user_name,
        account=change.account,
        partition=change.partition,
        name=change.name,
        exit_code=change.exit.code,
        flags=tuple(change.flags),
        missed=missed,
    )


def nodes_of(hostlist: str) -> tuple[str, ...]:
    """The names of a host list that the controller wrote; none for words such as "None assigned"."""
    try:
        return tuple(expand(hostlist)) if hostlist else ()
    except BadValue:
        return ()


def _shown_id(job: "JobInfo | AccountedJob", task: int | None) -> str:
    if task is not None:
        return f"{job.array_job_id}_{task}"
    if job.array_tasks:
        return f"{job.array_job_id}_[{job.array_tasks}]"
    return f"{job.het_job_id}+{job.het_offset}" if job.het_job_id else str(job.job_id)


def _amounts(tres: str) -> dict[str, int]:
    return parse_tres(tres) if tres else {}


def _path(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
