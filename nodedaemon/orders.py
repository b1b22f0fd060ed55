"""What noded, launcher and stepd say to each other on one machine.

- noded to launcher: a stream of orders; length, key, LaunchOrder.
- launcher and stepds to noded: packets on one socket. BEGAN and TROUBLE from a stepd, GONE from the launcher that
  reaped it. Of a step with streams also READY (its clients may come) and ENDED (its exit record is in place, its
  clients may not be done).
- noded to stepd: datagrams to the address in the step's claim; signals, or a client's connection.

An order holds everything a stepd needs; nothing is looked up later. Keys travel as text, "JOB.ATTEMPT.STEP". A
running stepd is older than the noded that comes after an upgrade: what it understands here must keep its meaning.
"""

import struct

from nodedaemon.framing import dump, load, pack, pack_values, unpack

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from typing import Any

#: Frame of an order on the stream to the launcher: length of the key, length of the rest.
ORDER_HEAD = struct.Struct("<II")
#: One packet from launcher or stepd; GONE is split to stay below.
PACKET_BYTES_MAX = 64 * 1024
GONE_PER_PACKET_MAX = 500
BEGAN, GONE, TROUBLE, READY, ENDED, SAID = b"began", b"gone", b"trouble", b"ready", b"ended", b"said"
#: Who gets a signal: the task's first process, or every process of the step. Numbers as in core.machine.
SCOPE_BATCH, SCOPE_ALL = 0, 1


class TaskOrder:
    """One task of a step of srun on this node. An empty path of a stream: through the client."""

    __slots__ = (
        "argv", "bind_notes", "cpus", "environment", "mem_mode", "mem_nodes", "rank", "std_err", "std_in", "std_out",
    )  # fmt: skip

    def __init__(self, rank: int, **known: object) -> None:
        self.rank = rank  # in the whole step
        self.argv: list[bytes] = []  # empty: the order's own
        self.environment: dict[bytes, bytes] = {}  # beside the order's own
        self.cpus: list[int] = []  # that it is bound to, by the kernel's numbers; empty = not bound
        self.mem_nodes: list[int] = []  # NUMA nodes that its memory comes from; empty = not bound
        self.mem_mode = 0  # how: see binding.MEM_*
        self.bind_notes: list[str] = []  # lines for its error output about that; `{pid}` is the task's
        self.std_in, self.std_out, self.std_err = b"", b"", b""
        for name, value in known.items():
            setattr(self, name, value)


class LaunchOrder:
    """How to start a step. Paths have their patterns expanded; relative ones are in `work_dir`.

    The fields below the line came with steps of srun; a batch script has one task and none of them.
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
    make_folders: bool = False  # of the output files: their names hold the job's number, so nobody could make them
    rlimits: dict[str, int]  # soft limits, -1 = unlimited
    umask: int = 0o022
    memory_limit_mb: int = 0  # of the step; 0 = not limited
    # --
    kind: str = "batch"  # batch, step, extern
    tasks: list[TaskOrder]  # of a step of srun
    io_key: bytes = b""  # who shows it may attach; empty: nobody
    asking_key: bytes = b""  # who shows this one may ask, and nothing else
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
    kill_wait_s: int = 30  # from asking to killing, when a task that failed ends the others
    mpi: str = "none"
    mpi_facts: dict[str, str]  # what its exchange needs to know: tasks_per_node, node_list, ...
    task_prolog: list[bytes]  # programs run as the user before each task, the site's first
    task_epilog: list[bytes]
    cpu_ids: list[int]  # the step may use on this node, by the kernel's numbers; empty = all
    job_cpu_ids: list[int]  # that its job is held to by a control group; empty = by none
    job_memory_limit_mb: int = 0
    swap_limit_mb: int = -1  # beside the memory; -1 = not limited
    login_environment: bool = False  # what the user's login shell sets lies below `environment`
    oom_group: bool = True  # a step that is out of memory dies as a whole
    pids_max: int = 0
    gpus: list[str]  # UUIDs of those that the step was given, or shares of
    gpu_shares: list[list[int]]  # of these, in their order: how many of how many; empty = whole
    #: That the step may not open: the node's that it was not given. Files, or as devices.entry says.
    denied_devices: list[str]
    job_denied_devices: list[str]
    mps_gpu: str = ""  # UUID of the one that it has a share of by MPS: its control daemon is there before the step
    fence_devices: bool = False  # its job is in groups that can be denied more later
    no_groups: bool = False  # CgroupPlugin=disabled
    count_by_group: bool = False  # each task in a group of its own, which counts what it uses
    no_new_privs: bool = True
    use_pam: bool = False
    sample_every_s: int = 0  # 0 = usage is taken at the end only
    lease_s: int = 0  # stops itself after so long without contact; 0 = never
    lease_grace_s: int = 0  # between SIGTERM and SIGKILL then
    private_tmp: str = ""  # the job's own folder in place of the folders below
    private_folders: list[str]
    prolog: list[str]  # of an extern step
    epilog: list[str]
    script_environment: dict[str, str]  # of prolog and epilog
    script_timeout_s: int = 0  # of each of them; 0 = none
    script_flags: list[str]  # RUNINJOB, SERIAL
    message: str = ""  # to write to the error output before the program runs

    def __init__(self, **known: object) -> None:
        if not LaunchOrder.__annotations__.keys() >= known.keys():
            raise TypeError(f"a launch order has no {known.keys() - LaunchOrder.__annotations__.keys()}")
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> "Any":
        """Lists and dictionaries that nobody has set are made when they are first looked at."""
        make = _FRESH.get(name)
        if make is None:
            raise AttributeError(name)
        value = self.__dict__[name] = make()
        return value

    def encode(self) -> bytes:
        """As bytes, framed for the launcher's stream. Only what is not the default travels."""
        known = {
            name: _plain(value)
            for name, value in vars(self).items()
            if name not in ("key", "environment") and (value or name not in _FRESH) and value != _DEFAULTS.get(name)
        }
        key = self.key.encode()
        body = pack([dump(known), pack([name + b"=" + value for name, value in self.environment.items()])])
        return ORDER_HEAD.pack(len(key), len(body)) + key + body


#: What every order needs its own of.
_FRESH: dict[str, type] = {
    "argv": list, "environment": dict, "rlimits": dict, "tasks": list, "mpi_facts": dict, "task_prolog": list,
    "task_epilog": list, "cpu_ids": list, "job_cpu_ids": list, "denied_devices": list,
    "job_denied_devices": list, "gpus": list, "gpu_shares": list, "private_folders": list,
    "prolog": list, "epilog": list, "script_flags": list, "script_environment": dict,
}  # fmt: skip


_DEFAULTS = {name: vars(LaunchOrder)[name] for name in LaunchOrder.__annotations__ if name in vars(LaunchOrder)}


def _plain(value: "Any") -> "Any":
    """As what `dump` can hold: tasks and byte-named dictionaries become lists."""
    if isinstance(value, TaskOrder):
        return [_plain(getattr(value, name)) for name in TaskOrder.__slots__]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and any(isinstance(name, bytes) for name in value):
        return [part for item in value.items() for part in item]
    return int(value) if isinstance(value, bool) else value


def decode_launch(key: str, body: bytes) -> LaunchOrder:
    """An order from its bytes. What a newer noded added and this stepd does not know is left out."""
    known, environment = unpack(body)
    fields: Any = load(known)
    tasks = fields.pop("tasks", ())
    for name in fields.keys() - LaunchOrder.__annotations__.keys():
        del fields[name]
    order = LaunchOrder(key=key, environment=dict([entry.split(b"=", 1) for entry in unpack(environment)]), **fields)
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
    """What goes with a client's connection."""
    return pack_values(key)


def encode_signals(key: str, signals: tuple[int, ...], scope: int, note: str) -> bytes:
    """An order to send these signals; `note` is a line for the error file, "" = none."""
    return pack_values(key, " ".join(map(str, signals)), scope, note)


def decode_signals(data: bytes) -> tuple[str, tuple[int, ...], int, str]:
    """Key, signals, scope and note."""
    key, signals, scope, note = unpack(data)
    return key.decode(), tuple(map(int, signals.split())), int(scope), note.decode()


def began(key: str, at_us: int, pid: int) -> bytes:
    """The task's program runs."""
    return pack_values(BEGAN, key, at_us, pid)


def ready(key: str) -> bytes:
    """The step is claimed: clients may come."""
    return pack_values(READY, key)


def ended(key: str) -> bytes:
    """The exit record is in place."""
    return pack_values(ENDED, key)


def gone(stepds: list[tuple[str, int]]) -> bytes:
    """These stepds have ended (wait status each), with or without an end in their records."""
    return pack_values(GONE, *(value for pair in stepds for value in pair))


def said(key: str, text: str) -> bytes:
    """What a site's program said or how it failed: for noded's log."""
    return pack_values(SAID, key, text)


def trouble(key: str, text: str) -> bytes:
    """A stepd failed in a way that nobody has foreseen: for noded's log."""
    return pack_values(TROUBLE, key, text)
