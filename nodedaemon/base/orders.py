"""Local protocol between noded, launcher and stepd on one machine.

- noded to launcher: a stream of orders; length, key, LaunchOrder.
- launcher and stepds to noded: packets on one socket. BEGAN and TROUBLE from a stepd, STEPDS_ENDED from the launcher
  that reaped it. For a step with streams also READY (clients may connect) and ENDED (its exit record is in place,
  its clients may still be reading); ENDED also for a batch script whose output a client follows.
- noded to stepd: datagrams to the address in the step's claim; signals, or a client's connection.

An order contains everything a stepd needs. Keys travel as text, "JOB.ATTEMPT.STEP". A running stepd
is older than the noded that is started after an upgrade: the messages it understands must keep their
meaning.
"""

import struct

from nodedaemon.base.framing import dump, load, pack, pack_values, unpack

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    # Any: a received order is accessed by field name, and decodes a field at its first access
    from typing import Any

    from penstock.values.packing import PackedValue

#: Frame of an order on the stream to the launcher: length of the key, length of the rest.
ORDER_HEAD = struct.Struct("<II")
#: One packet from launcher or stepd; STEPDS_ENDED is split to stay below.
PACKET_BYTES_MAX = 64 * 1024
STEPDS_ENDED_PER_PACKET_MAX = 500
BEGAN = b"began"
STEPDS_ENDED = b"gone"
TROUBLE = b"trouble"
READY = b"ready"
ENDED = b"ended"
SCRIPT_MESSAGE = b"said"
SUSPECTED = b"suspected"
HANG_SIGNALLED = b"hang-signalled"
#: Begins the key of an order to move a step to other CPUs.
_MOVE = "move "
#: Recipients of a signal: the task's first process, or every process of the step. Numbers as in core.machine.
SCOPE_BATCH, SCOPE_ALL = 0, 1


#: Fields that are no part of the order's table: two that are sent apart, and two that are for the daemon alone.
NOT_SENT = ("key", "environment", "account", "partition")


class TaskOrder:
    """One task of a step of srun on this node. An empty path: that stream goes through the client."""

    __slots__ = (
        "argv", "bind_notes", "cpus", "environment", "mem_mode", "mem_nodes", "rank", "std_err", "std_in", "std_out",
    )  # fmt: skip

    def __init__(self, rank: int, **known: object) -> None:
        self.rank = rank  # within the whole step
        self.argv: list[bytes] = []  # empty: the order's own arguments
        self.environment: dict[bytes, bytes] = {}  # added to the order's own
        self.cpus: list[int] = []  # cores it is bound to, by the kernel's numbers; empty = not bound
        self.mem_nodes: list[int] = []  # NUMA nodes that its memory comes from; empty = not bound
        self.mem_mode = 0  # how: see binding.MEM_*
        self.bind_notes: list[str] = []  # lines about the binding for its error output; `{pid}` is the task's
        self.std_in = b""
        self.std_out = b""
        self.std_err = b""
        for name, value in known.items():
            setattr(self, name, value)


class LaunchOrder:
    """The order to start a step. Paths have their patterns expanded; relative ones are in `work_dir`.

    The fields below the line are for steps of srun; a batch script has one task and none of them.
    """

    key: str
    user_id: int
    group_id: int
    user_name: str
    script: bytes
    argv: list[bytes]  # of a batch script: its arguments; else the program and its arguments
    environment: dict[bytes, bytes]
    work_dir: bytes
    std_out: bytes
    std_err: bytes = b""  # empty: with std_out
    std_in: bytes = b""  # empty: nothing to read
    open_append: bool = False
    make_folders: bool = False  # of the output files: their names contain the job id, so the user cannot
    rlimits: dict[str, int]  # soft limits, -1 = unlimited
    umask: int = 0o022
    memory_limit_mb: int = 0  # of the step; 0 = not limited
    # --
    kind: str = "batch"  # batch, step, extern
    tasks: list[TaskOrder]  # of a step of srun
    io_key: bytes = b""  # a client that shows it may attach; empty: none may
    asking_key: bytes = b""  # a client that shows this one may ask questions, and nothing else
    pty_rows: int = 0  # of task 0's pseudo terminal; 0 = none
    pty_columns: int = 0
    stdin_to: int = 0  # 0 first task of the step, 1 all, 2 none, 3 the task `stdin_task`
    stdin_task: int = 0
    node_name: str = ""
    node_index: int = 0  # in the step
    nodes: int = 1
    ntasks: int = 1  # of the step, over all nodes
    kill_on_bad_exit: bool = False
    line_buffered: bool = False
    kill_wait_s: int = 30  # between SIGTERM and SIGKILL, when a task that failed ends the others
    mpi: str = "none"
    mpi_facts: dict[str, str]  # values that its exchange needs: tasks_per_node, node_list, ...
    task_prolog: list[bytes]  # programs run as the user before each task, the site's first
    task_epilog: list[bytes]
    cpu_ids: list[int]  # that the step may use on this node, by the kernel's numbers; empty = all
    job_cpu_ids: list[int]  # that a control group confines its job to; empty = none does
    job_memory_limit_mb: int = 0
    swap_limit_mb: int = -1  # in addition to the memory; -1 = not limited
    login_environment: bool = False  # the variables of the user's login shell are added below `environment`
    oom_group: bool = True  # a step that is out of memory dies as a whole
    pids_max: int = 0
    gpus: list[str]  # UUIDs of the GPUs that the step was given, or shares of
    gpu_shares: list[list[int]]  # for each of them: how many shares of how many; empty = whole
    #: Devices of the node that the step may not open. Files, or numbers as devices.entry writes them.
    denied_devices: list[str]
    job_denied_devices: list[str]
    mps_gpu: str = ""  # UUID of the GPU of which it has a share by MPS: its control daemon starts before the step
    fence_devices: bool = False  # its job is in groups to which further devices can be denied later
    no_groups: bool = False  # CgroupPlugin=disabled
    count_by_group: bool = False  # each task in a group of its own, which measures its usage
    no_new_privs: bool = True
    use_pam: bool = False
    sample_every_s: int = 0  # 0 = usage is measured at the end only
    profile_every_s: int = 0  # interval of its profile; 0 = none is kept
    hang_after_s: int = 0  # it is said to hang when it has for so long; 0 = never
    hang_signal: int = 0  # it is sent this one when it goes on to hang; 0 = none
    hang_grace_s: int = 0  # for so long after it was said to
    lease_s: int = 0  # stops itself after this long without contact; 0 = never
    lease_grace_s: int = 0  # between SIGTERM and SIGKILL when the lease expires
    private_tmp: str = ""  # the job's own folder in place of the folders below
    private_folders: list[str]
    prolog: list[str]  # of an extern step
    epilog: list[str]
    script_environment: dict[str, str]  # of prolog and epilog
    script_timeout_s: int = 0  # of each of them; 0 = none
    script_flags: list[str]  # RUNINJOB, SERIAL
    account: str = ""  # of the job, as the partition: for metrics, and not sent to the launcher
    partition: str = ""
    message: str = ""  # to write to the error output before the program runs

    def __init__(self, **known: object) -> None:
        if not LaunchOrder.__annotations__.keys() >= known.keys():
            raise TypeError(f"a launch order has no {known.keys() - LaunchOrder.__annotations__.keys()}")
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> "Any":
        """Lists and dictionaries that are not set are created at their first access."""
        make = _FRESH.get(name)
        if make is None:
            raise AttributeError(name)
        value = self.__dict__[name] = make()
        return value

    def encode(self) -> bytes:
        """Encodes the order, framed for the launcher's stream. Fields with their default are left out."""
        known = {
            name: _plain(value)
            for name, value in vars(self).items()
            if name not in NOT_SENT and (value or name not in _FRESH) and value != _DEFAULTS.get(name)
        }
        key = self.key.encode()
        body = pack([dump(known), pack([*self.environment, *self.environment.values()])])
        return ORDER_HEAD.pack(len(key), len(body)) + key + body


#: Fields that every order needs an own object for.
_FRESH: dict[str, type] = {
    "argv": list, "environment": dict, "rlimits": dict, "tasks": list, "mpi_facts": dict, "task_prolog": list,
    "task_epilog": list, "cpu_ids": list, "job_cpu_ids": list, "denied_devices": list,
    "job_denied_devices": list, "gpus": list, "gpu_shares": list, "private_folders": list,
    "prolog": list, "epilog": list, "script_flags": list, "script_environment": dict,
}  # fmt: skip


_DEFAULTS = {name: vars(LaunchOrder)[name] for name in LaunchOrder.__annotations__ if name in vars(LaunchOrder)}


def _plain(value: "Any") -> "PackedValue":
    """Returns the value as `dump` can encode it: tasks and byte-named dictionaries become lists."""
    if isinstance(value, TaskOrder):
        return [_plain(getattr(value, name)) for name in TaskOrder.__slots__]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and any(isinstance(name, bytes) for name in value):
        return [part for item in value.items() for part in item]
    return int(value) if isinstance(value, bool) else value


def decode_launch(key: str, body: bytes) -> LaunchOrder:
    """Decodes an order. Fields of a newer noded that this stepd does not know are left out."""
    known, environment = unpack(body)
    fields: Any = load(known)
    tasks = fields.pop("tasks", ())
    for name in fields.keys() - LaunchOrder.__annotations__.keys():
        del fields[name]
    words = unpack(environment)  # all names, then all values
    half = len(words) // 2
    order = LaunchOrder(key=key, environment=dict(zip(words[:half], words[half:], strict=True)), **fields)
    for values in tasks:
        task = TaskOrder(**dict(zip(TaskOrder.__slots__, values, strict=True)))
        pairs: Any = task.environment
        task.environment = dict(zip(pairs[::2], pairs[1::2], strict=True)) if pairs else {}
        order.tasks.append(task)
    return order


def key_of(data: bytes) -> str:
    """The step that a datagram to a stepd is for."""
    return unpack(data)[0].decode()


def encode_connection(key: str) -> bytes:
    """Encodes the datagram that carries a client's connection."""
    return pack_values(key)


def encode_signals(key: str, signals: tuple[int, ...], scope: int, note: str) -> bytes:
    """Encodes an order to send these signals; `note` is a line for the error file, "" = none."""
    return pack_values(key, " ".join(map(str, signals)), scope, note)


def encode_move(key: str, cpus: str, job_cpus: str) -> bytes:
    """Encodes an order to move the step to these CPUs (masks in hexadecimal). To a stepd of an earlier release it is an order
    for some other step, which it ignores."""
    return pack_values(f"{_MOVE}{key}", "", 0, f"{cpus} {job_cpus}")


def decode_move(data: bytes) -> tuple[str, list[int], list[int]] | None:
    """Key, CPUs of the step and of its job; None for other orders."""
    key, _, _, masks, *_ = [part.decode() for part in unpack(data)] + [""] * 4
    if not key.startswith(_MOVE):
        return None
    cpus, job_cpus = (int(mask or "0", 16) for mask in masks.split(" "))
    return key.removeprefix(_MOVE), _numbers(cpus), _numbers(job_cpus)


def _numbers(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def decode_signals(data: bytes) -> tuple[str, tuple[int, ...], int, str]:
    """Key, signals, scope and note."""
    key, signals, scope, note = unpack(data)
    return key.decode(), tuple(map(int, signals.split())), int(scope), note.decode()


def began(key: str, at_us: int, pid: int, claim: bytes = b"") -> bytes:
    """Encodes: the task's program has started. `claim`: what the step's record begins with; empty = read it."""
    return pack_values(BEGAN, key, at_us, pid, claim)


def ready(key: str) -> bytes:
    """Encodes: the step is claimed, clients may connect."""
    return pack_values(READY, key)


def ended(key: str) -> bytes:
    """Encodes: the exit record is in place."""
    return pack_values(ENDED, key)


def stepds_ended(stepds: list[tuple[str, int]]) -> bytes:
    """Encodes: these stepds have ended (wait status each), with or without an end in their records."""
    return pack_values(STEPDS_ENDED, *(value for pair in stepds for value in pair))


def script_message(key: str, text: str) -> bytes:
    """Encodes output or failure of a site's program, for noded's log."""
    return pack_values(SCRIPT_MESSAGE, key, text)


def suspected(key: str, kind: str, text: str) -> bytes:
    """Encodes why a step is suspected to hang; an empty kind: it no longer is."""
    return pack_values(SUSPECTED, key, kind, text)


def hang_signalled(key: str, signum: int, text: str) -> bytes:
    """Encodes that a step that hangs was sent the site's signal, and what is suspected of it."""
    return pack_values(HANG_SIGNALLED, key, signum, text)


def trouble(key: str, text: str) -> bytes:
    """Encodes an unexpected failure of a stepd, for noded's log."""
    return pack_values(TROUBLE, key, text)
