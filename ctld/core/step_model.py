"""Records of steps: slotted classes without logic.

Every job has a `Step` for its batch script; there are hundreds of them a second, so it holds no more than a script on one
node needs. What srun starts is a `SpreadStep`: it has a request and a part for each of its nodes. `step.parts is None`
tells them apart. A `StepRow` is the frozen image of either; of a batch step the columns from `request` on are constants.

`StepRequest` is kept as JSON in the database, so a field is only ever added, with a default.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from penstock.values.states import END_STATES, JobState

Kinds = tuple[tuple[str, str, int], ...]  # (name, type, count)


class RankCommand(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """--multi-prog: what some ranks run."""

    ranks: str
    argv: tuple[bytes, ...] = ()


class StepRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a user asks of a step. Field names and meanings are those of the wire's StepSpec; None = not said."""

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
    propagate_asked: bool = False  # --propagate was said
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
    #: of a step over several components of a heterogeneous job: its place among the others (het.py)
    rank_offset: int = 0
    het_ntasks: int = 0
    node_offset: int = 0
    het_nodes: int = 0
    gpu_freq: str = ""
    gres_per_socket: Kinds = ()
    het_step: int | None = None  # the number that it is to have

    def asks_memory(self) -> bool:
        """True when the step keeps memory from other steps."""
        return bool(self.mem_per_node_mb or self.mem_per_cpu_mb)

    def holds_nothing(self) -> bool:
        """True for a step that shares everything with all others."""
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
    mem_mb: int  # its limit; see StepRequest.asks_memory
    gres: tuple[tuple[str, str, int], ...] = ()
    shares: tuple[GpuShare, ...] = ()
    cpu_ids: int = 0  # bit mask of cpu numbers; 0 = not pinned
    ranks: tuple[int, ...] = ()  # of its tasks, rising
    state: JobState = JobState.CONFIGURING
    start_at_us: int = 0
    end_at_us: int = 0
    exit_code: int = 0
    exit_signal: int = 0
    failure: str = ""  # why it could not be started or was lost
    out_of_memory: bool = False


class Step:
    """One step of a job. As it stands, a batch script on its node."""

    __slots__ = (
        "attempt", "dead_after_s", "disk_read_bytes", "disk_write_bytes", "end_at_us", "epoch", "exit_code",
        "exit_signal", "job_id", "max_rss_kb", "max_vmsize_kb", "name", "node", "start_at_us", "state", "step_id",
        "system_cpu_us", "tasks", "usage", "user_cpu_us",
    )  # fmt: skip

    job_id: int
    attempt: int
    step_id: int
    name: str
    state: JobState
    node: str  # the node that runs it, or the first of them
    dead_after_s: int  # so long after its node was lost it has stopped itself; 0 = not known. Not in the database
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
    usage: str  # JSON of what was sampled (step_usage.py); "" = nothing

    @property
    def parts(self) -> tuple[StepPart, ...] | None:
        """One for each node; None = of a step on one node, which is the step itself."""
        return None


class SpreadStep(Step):
    """A step with parts: of srun, or the holder of a job on its nodes (which has no request)."""

    __slots__ = (
        "all_parts", "cancelled_by_uid", "cpus", "live", "node_list", "nodes", "note", "ports", "request", "spec_hash",
        "step_key", "submit_at_us", "time_limit_s", "tres_alloc",
    )  # fmt: skip

    all_parts: tuple[StepPart, ...]  # in the order of the job's nodes
    live: int  # parts that have not ended
    request: StepRequest | None
    spec_hash: bytes  # arguments and environment of its tasks
    step_key: str  # the same key is the same step
    node_list: str
    nodes: int
    cpus: int
    tres_alloc: str
    submit_at_us: int
    time_limit_s: int  # -1 = none of its own
    cancelled_by_uid: int  # -1 = nobody
    note: str  # what ends it: "TIME LIMIT", "CANCELLED", ...
    ports: tuple[int, ...]  # --resv-ports

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """One for each node."""
        return self.all_parts


class StepRow(NamedTuple):
    """The committed image of a step. Primary key (job_id, attempt, step_id)."""

    job_id: int
    attempt: int
    step_id: int
    name: str
    state: JobState
    node: str
    epoch: int
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
    request: StepRequest | None = None
    parts: tuple[StepPart, ...] | None = None
    spec_hash: bytes = b""
    step_key: str = ""
    node_list: str = ""  # "" = `node` alone
    nodes: int = 1
    cpus: int = 0  # 0 = all that the job has there
    tres_alloc: str = ""
    submit_at_us: int = 0
    time_limit_s: int = -1
    cancelled_by_uid: int = -1
    usage: str = ""
    note: str = ""
    ports: tuple[int, ...] = ()


_FIELDS = StepRow._fields
#: Columns that every step has.
PLAIN_COLUMNS = _FIELDS.index("request")
#: The others, of a step that has none of them.
PLAIN_REST: tuple[Any, ...] = tuple(StepRow._field_defaults[name] for name in _FIELDS[PLAIN_COLUMNS:])

_plain_values: Callable[[Step], tuple[Any, ...]] = attrgetter(*_FIELDS[:PLAIN_COLUMNS])
_spread_values: Callable[[Step], tuple[Any, ...]] = attrgetter(*_FIELDS)


def step_row(step: Step) -> StepRow:
    """Freeze a step."""
    if step.parts is not None:
        return tuple.__new__(StepRow, _spread_values(step))
    row: StepRow = tuple.__new__(StepRow, _plain_values(step) + PLAIN_REST)
    return row._replace(usage=step.usage) if step.usage else row


def step_from(row: StepRow) -> Step:
    """The reverse of `step_row`."""
    step = Step() if row.parts is None else SpreadStep()
    step.dead_after_s, step.usage = 0, row.usage
    for name, value in zip(_FIELDS[:PLAIN_COLUMNS], row, strict=False):
        setattr(step, name, value)
    if isinstance(step, SpreadStep):
        for name in _FIELDS[PLAIN_COLUMNS:]:
            setattr(step, "all_parts" if name == "parts" else name, getattr(row, name))
        step.live = sum(part.state not in END_STATES for part in step.all_parts)
    return step


def live_nodes(step: Step) -> tuple[str, ...]:
    """Where it has not ended yet."""
    if step.parts is None:
        return (step.node,) if step.state not in END_STATES else ()
    return tuple(part.node for part in step.parts if part.state not in END_STATES)


def part_on(step: Step, node: str) -> int:
    """The place of a node's part, -1 = it has none there."""
    return next((i for i, part in enumerate(step.parts or ()) if part.node == node), -1)


def is_live_on(step: Step, node: str) -> bool:
    """True when the step runs on that node or is on its way there."""
    if step.parts is None:
        return step.node == node and step.state not in END_STATES
    at = part_on(step, node)
    return at >= 0 and step.parts[at].state not in END_STATES
