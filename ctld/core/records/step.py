"""Records of steps: slotted classes without logic.

Every job has a `Step` for its batch script; there are hundreds of them a second, so it has only the fields of a script
on one node. srun starts a `SpreadStep`, which has a request and a part for each of its nodes. `step.parts is None`
distinguishes them. A `StepRow` is the frozen image of either; for a batch step the columns from `request` on are
constants.

`StepRequest` is kept as JSON in the database, so a field is only ever added, with a default.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec

from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState

Kinds = tuple[tuple[str, str, int], ...]  # (name, type, count)


class Unfit(Exception):
    """The step cannot be placed. `code` is the error shown to the user when it never can be."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class UsedResources(NamedTuple):
    """The resources of the job's other steps on one node."""

    cpus: int = 0
    cpu_ids: int = 0
    mem_mb: int = 0
    gres: tuple[tuple[str, str, int], ...] = ()


class RankCommand(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """--multi-prog: the program of some ranks."""

    ranks: str
    argv: tuple[bytes, ...] = ()


class StepRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The request of a step. Field names and meanings are those of the wire's StepSpec; None = not given."""

    name: str = ""
    nodes_min: int = 0
    nodes_max: int = 0
    ntasks: int = 0
    cpus_per_task: int = 0
    ntasks_per_node: int = 0
    mem_per_node_mb: int | None = None
    mem_per_cpu_mb: int | None = None
    gres_per_node: Kinds = ()
    gres_per_step: Kinds = ()
    gres_per_task: Kinds = ()
    no_gres: bool = False
    nodes_required: tuple[str, ...] = ()  # as written: a name may come several times (--distribution=arbitrary)
    nodes_excluded: tuple[str, ...] = ()
    relative: int | None = None
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    distribution: str = ""
    time_limit_s: int | None = None
    resv_ports: int = 0
    immediate_s: int | None = None
    ntasks_per_core: int = 0
    ntasks_per_socket: int = 0
    ntasks_per_gpu: int = 0
    threads_per_core: int = 0
    whole: bool = False
    interactive: bool = False
    no_kill: bool = False
    work_dir: bytes = b""
    std_out: bytes = b""
    std_err: bytes = b""
    std_in: bytes = b""
    open_append: bool = False
    cpu_bind: str = ""
    mem_bind: str = ""
    hint: str = ""
    mpi: str = ""
    pty: bool = False
    rows: int = 0
    columns: int = 0
    kill_on_bad_exit: bool = False
    task_prolog: bytes = b""
    task_epilog: bytes = b""
    umask: int | None = None
    rlimits: tuple[tuple[str, int], ...] = ()
    propagate_asked: bool = False  # --propagate was given
    preserve_env: bool = False
    export_env: str = ""
    submit_line: str = ""
    multi_prog: tuple[RankCommand, ...] = ()
    signal: str = ""
    submit_host: str = ""
    gpu_bind: str = ""
    unbuffered: bool = False
    stdin_to: int = 0
    stdin_task: int = 0
    line_buffered: bool = False
    het_group: int = 0
    het_groups: tuple[str, ...] = ()
    launch_node: bytes = b""
    #: of a step over several components of a heterogeneous job: its place among the others (jobs/het.py)
    rank_offset: int = 0
    het_ntasks: int = 0
    node_offset: int = 0
    het_nodes: int = 0
    gpu_freq: str = ""
    gres_per_socket: Kinds = ()
    het_step: int | None = None  # the requested step id
    #: of srun in a batch script: the files that it writes itself, as patterns, and the node
    client_out: bytes = b""
    client_err: bytes = b""
    client_node: str = ""

    def asks_memory(self) -> bool:
        """Whether other steps may not use the step's memory."""
        return bool(self.mem_per_node_mb or self.mem_per_cpu_mb)

    def shares_everything(self) -> bool:
        """Whether the step shares everything with all others."""
        return self.overlap or self.interactive


class GpuShare(NamedTuple):
    """A part of one GPU: `units` of the `of` shares (GRES shard or mps) that it was divided into."""

    name: str
    type: str
    gpu: int
    units: int
    of: int


class StepPart(NamedTuple):
    """A step on one node. It is never changed, only replaced. `gres`: (name, type, bit mask of device indices)."""

    node: str
    cpus: int
    mem_mb: int  # its memory limit; see StepRequest.asks_memory
    gres: tuple[tuple[str, str, int], ...] = ()
    shares: tuple[GpuShare, ...] = ()
    cpu_ids: int = 0  # bit mask of cpu numbers; 0 = not pinned
    ranks: tuple[int, ...] = ()  # of its tasks, ascending
    state: JobState = JobState.CONFIGURING
    start_at_us: int = 0
    end_at_us: int = 0
    exit_code: int = 0
    exit_signal: int = 0
    failure: str = ""  # why it could not be started, or why it was lost
    out_of_memory: bool = False


class StepFields:
    """The stored fields of every step."""

    # made by tools/records: attributes of step
    __slots__ = (
        "attempt", "disk_read_bytes", "disk_write_bytes", "end_at_us", "epoch", "exit_code", "exit_signal", "job_id",
        "max_rss_kb", "max_vmsize_kb", "name", "node", "start_at_us", "state", "step_id", "system_cpu_us", "tasks", "usage",
        "user_cpu_us",
    )  # fmt: skip

    job_id: int
    attempt: int
    step_id: int
    name: str
    state: JobState
    node: str  # the node that runs it, or the first of them
    epoch: int  # leadership term in which it was launched
    tasks: int
    start_at_us: int
    end_at_us: int
    exit_code: int
    exit_signal: int
    user_cpu_us: int
    system_cpu_us: int
    max_rss_kb: int
    max_vmsize_kb: int
    disk_read_bytes: int
    disk_write_bytes: int
    usage: str  # JSON of what was sampled (steps/usage.py); "" = nothing
    # end of what is made


class Step(StepFields):
    """One step of a job; this class itself is that of a batch script on its node."""

    __slots__ = ("dead_after_s",)

    dead_after_s: int  # seconds after the loss of its node when it has stopped itself; 0 = unknown

    @property
    def parts(self) -> tuple[StepPart, ...] | None:
        """The part on each node; None = a step on one node, which is the step itself."""
        return None


class SpreadStepFields(Step):
    """The further stored fields of a step with parts."""

    # made by tools/records: attributes of spread step
    __slots__ = (
        "all_parts", "cancelled_by_uid", "cpus", "node_list", "nodes", "note", "ports", "request", "spec_hash", "step_key",
        "submit_at_us", "task_ends", "time_limit_s", "tres_alloc",
    )  # fmt: skip

    request: StepRequest | None
    all_parts: tuple[StepPart, ...]  # in the order of the job's nodes
    spec_hash: bytes  # arguments and environment of its tasks
    step_key: str  # the same key is the same step
    node_list: str  # "" = `node` alone
    nodes: int
    cpus: int  # 0 = all that the job has there
    tres_alloc: str
    submit_at_us: int
    time_limit_s: int  # -1 = none of its own
    cancelled_by_uid: int  # -1 = no user
    note: str  # the cause of its end: "TIME LIMIT", "CANCELLED", ...
    ports: tuple[int, ...]  # --resv-ports
    task_ends: str  # how its tasks ended (steps/task_ends.py); "" = all with 0
    # end of what is made


class SpreadStep(SpreadStepFields):
    """A step with parts: of srun, or the extern step of a job (which has no request)."""

    __slots__ = ("live",)

    live: int  # parts that have not ended

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """The part on each node."""
        return self.all_parts


class ProfileRow(NamedTuple):
    """What a node has recorded of a step. All but `profile` is the primary key."""

    # made by tools/records: row of step_profile
    job_id: int
    attempt: int
    step_id: int
    node: str
    profile: bytes  # penstock.values.profile
    # end of what is made


class StepRow(NamedTuple):
    """The committed image of a step. Primary key (job_id, attempt, step_id)."""

    # made by tools/records: row of step
    job_id: int
    attempt: int
    step_id: int
    name: str
    state: JobState
    node: str
    epoch: int
    tasks: int
    start_at_us: int = 0
    end_at_us: int = 0
    exit_code: int = 0
    exit_signal: int = 0
    user_cpu_us: int = 0
    system_cpu_us: int = 0
    max_rss_kb: int = 0
    max_vmsize_kb: int = 0
    disk_read_bytes: int = 0
    disk_write_bytes: int = 0
    request: StepRequest | None = None
    parts: tuple[StepPart, ...] | None = None
    spec_hash: bytes = b""
    step_key: str = ""
    node_list: str = ""
    nodes: int = 1
    cpus: int = 0
    tres_alloc: str = ""
    submit_at_us: int = 0
    time_limit_s: int = -1
    cancelled_by_uid: int = -1
    usage: str = ""
    note: str = ""
    ports: tuple[int, ...] = ()
    task_ends: str = ""
    # end of what is made


AnyStep = TypeVar("AnyStep", Step, SpreadStep)

_FIELDS = StepRow._fields
#: Columns of every step.
PLAIN_COLUMNS = _FIELDS.index("request")
#: The others, in a step that has none of them.
PLAIN_REST: tuple[object, ...] = tuple(StepRow._field_defaults[name] for name in _FIELDS[PLAIN_COLUMNS:])

_plain_values: Callable[[Step], tuple[object, ...]] = attrgetter(*_FIELDS[:PLAIN_COLUMNS])
_spread_values: Callable[[Step], tuple[object, ...]] = attrgetter(*_FIELDS)


def step_row(step: Step) -> StepRow:
    """Freezes a step."""
    if step.parts is not None:
        return tuple.__new__(StepRow, _spread_values(step))
    row: StepRow = tuple.__new__(StepRow, _plain_values(step) + PLAIN_REST)
    return row._replace(usage=step.usage) if step.usage else row


def blank_step(job_id: int, attempt: int, step_id: int, name: str, node: str, epoch: int, tasks: int) -> Step:
    """Returns a batch step with the defaults."""
    return _begin(Step(), job_id, attempt, step_id, name, node, epoch, tasks)


def blank_spread_step(
    job_id: int, attempt: int, step_id: int, name: str, node: str, epoch: int, tasks: int
) -> SpreadStep:
    """Returns the same for a step with parts, which are the caller's to set."""
    step = _begin(SpreadStep(), job_id, attempt, step_id, name, node, epoch, tasks)
    # made by tools/records: a new spread step
    step.request = None
    step.spec_hash = b""
    step.step_key = ""
    step.node_list = ""
    step.nodes = 1
    step.cpus = 0
    step.tres_alloc = ""
    step.submit_at_us = 0
    step.time_limit_s = -1
    step.cancelled_by_uid = -1
    step.note = ""
    step.ports = ()
    step.task_ends = ""
    # end of what is made
    return step


def _begin(
    step: AnyStep, job_id: int, attempt: int, step_id: int, name: str, node: str, epoch: int, tasks: int
) -> AnyStep:
    step.job_id = job_id
    step.attempt = attempt
    step.step_id = step_id
    step.name = name
    step.node = node
    step.epoch = epoch
    step.tasks = tasks
    step.dead_after_s = 0
    # made by tools/records: a new step
    step.state = JobState.CONFIGURING
    step.start_at_us = 0
    step.end_at_us = 0
    step.exit_code = 0
    step.exit_signal = 0
    step.user_cpu_us = 0
    step.system_cpu_us = 0
    step.max_rss_kb = 0
    step.max_vmsize_kb = 0
    step.disk_read_bytes = 0
    step.disk_write_bytes = 0
    step.usage = ""
    # end of what is made
    return step


def step_from(row: StepRow) -> Step:
    """The reverse of `step_row`."""
    step = Step() if row.parts is None else SpreadStep()
    step.dead_after_s = 0
    step.usage = row.usage
    for name, value in zip(_FIELDS[:PLAIN_COLUMNS], row, strict=False):
        setattr(step, name, value)
    if isinstance(step, SpreadStep):
        for name in _FIELDS[PLAIN_COLUMNS:]:
            setattr(step, "all_parts" if name == "parts" else name, getattr(row, name))
        step.live = sum(part.state not in END_STATES for part in step.all_parts)
    return step


def live_nodes(step: Step) -> tuple[str, ...]:
    """Returns the nodes on which it has not ended yet."""
    if step.parts is None:
        return (step.node,) if step.state not in END_STATES else ()
    return tuple(part.node for part in step.parts if part.state not in END_STATES)


def part_on(step: Step, node: str) -> int:
    """Returns the position of a node's part, -1 = it has none there."""
    return next((i for i, part in enumerate(step.parts or ()) if part.node == node), -1)


def is_live_on(step: Step, node: str) -> bool:
    """Whether the step runs on that node or is being launched there."""
    if step.parts is None:
        return step.node == node and step.state not in END_STATES
    at = part_on(step, node)
    return at >= 0 and step.parts[at].state not in END_STATES
