"""Computes the cpus and memory nodes that each task of a step is bound to on this node. Pure: from options and topology
to numbers.

srun(1), --cpu-bind, --distribution, --hint, --mem-bind. Without a kind, tasks are bound where the numbers match: when
tasks times cpus per task equal the step's sockets, cores or threads here; else each may use all of the step's. Cpus are
assigned to tasks by the second value of --distribution:

    block     consecutive in the node's order
    cyclic    each task on the next socket, its cpus together (the default)
    fcyclic   each cpu on the next socket

then `sockets`, `cores`, `ldoms` widen a task's set to the whole of what it touches, within the step's cpus. Where there
are more tasks than cpus, cpus are assigned again. Numbers of map_cpu and mask_cpu are the kernel's, and must be the
step's own.

Deliberately absent: binding a process (stepd/task.py), reading the request (wire.py). The configuration decides whether
the node binds at all: TaskPlugin with task/affinity.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodedaemon.base.topology_info import Cpu, NodeTopology
from penstock.values.binding import Bind, parse_cpu_bind, parse_mem_bind
from penstock.values.errors import BadValue

#: How a task's memory is bound, in TaskOrder.mem_mode: the kernel's numbers of set_mempolicy(2).
MEM_DEFAULT = 0
MEM_PREFERRED = 1
MEM_BIND = 2
MEM_LOCAL = 4
_ENTITIES = ("sockets", "cores", "threads", "ldoms")
#: Names of the kinds in messages.
_SHOWN = {
    "": "MASK", "none": "NONE", "rank": "RANK", "map_cpu": "MAP", "mask_cpu": "MASK", "rank_ldom": "LDRANK",
    "map_ldom": "LDMAP", "mask_ldom": "LDMASK", "local": "LOC", "map_mem": "MAP", "mask_mem": "MASK",
}  # fmt: skip


@dataclass(frozen=True)
class BindingRequest:
    """A step's request on this node. `allowed`: the kernel's numbers of its cpus here."""

    ranks: tuple[int, ...]  # global, in order
    allowed: tuple[int, ...]
    cpus_per_task: int = 1
    cpu_bind: str = ""
    mem_bind: str = ""
    hint: str = ""
    distribution: str = ""
    threads_per_core: int = 0  # 0 = not given
    node_name: str = ""
    autobind: str = ""  # kind that the site binds to where the numbers do not match: cores, threads, "" = none


@dataclass
class TaskBinding:
    """The binding of one task. Empty lists = not bound."""

    cpus: list[int] = field(default_factory=list)
    mem_nodes: list[int] = field(default_factory=list)
    mem_mode: int = MEM_DEFAULT
    notes: list[str] = field(default_factory=list)


@dataclass
class Binding:
    """Bindings in the order of the ranks, and variables of all tasks of the step on this node."""

    tasks: list[TaskBinding]
    environment: dict[bytes, bytes]


def bind(wanted: BindingRequest, topology: NodeTopology) -> Binding:
    """Computes the bindings. Raises BadValue when the request is not within the step's cpus."""
    cpu_bind = parse_cpu_bind(wanted.cpu_bind)
    mem_bind = parse_mem_bind(wanted.mem_bind)
    cpus = topology.of(wanted.allowed) or list(topology.cpus)
    usable = _one_thread_each(cpus) if _is_single_threaded(wanted) else cpus
    kind = cpu_bind.kind or _even_kind(wanted, usable)
    sets = _cpu_sets(kind, cpu_bind, wanted, usable, topology)
    tasks = [TaskBinding(cpus=sorted(one)) for one in sets]
    for local, task in enumerate(tasks):
        task.mem_mode, task.mem_nodes = _memory(mem_bind, local, task.cpus, topology)
    width = (len(topology.cpus) + 3) // 4
    if cpu_bind.verbose:
        for local, task in enumerate(tasks):
            task.notes.append(_cpu_note(wanted, local, kind, task.cpus or [cpu.kernel for cpu in cpus]))
    if mem_bind.verbose:
        for local, task in enumerate(tasks):
            task.notes.append(_mem_note(wanted, local, mem_bind, task.mem_nodes or topology.nodes()))
    environment = _cpu_variables(kind, cpu_bind, tasks, width)
    if mem_bind.kind:
        environment |= _mem_variables(mem_bind)
    return Binding(tasks, environment)


# -- cpus


def _is_single_threaded(wanted: BindingRequest) -> bool:
    return wanted.threads_per_core == 1 or wanted.hint in ("nomultithread", "compute_bound")


def _one_thread_each(cpus: list[Cpu]) -> list[Cpu]:
    """Returns the first of the step's threads of each core."""
    seen: dict[int, Cpu] = {}
    for cpu in cpus:
        seen.setdefault(cpu.core, cpu)
    return list(seen.values())


def _even_kind(wanted: BindingRequest, cpus: list[Cpu]) -> str:
    """Returns the default kind: where tasks times cpus match a number of units, else the site's."""
    needed = len(wanted.ranks) * max(wanted.cpus_per_task, 1)
    for kind, count in (
        ("sockets", len({cpu.socket for cpu in cpus})),
        ("cores", len({cpu.core for cpu in cpus})),
        ("threads", len(cpus)),
    ):
        if needed == count:
            return kind
    return wanted.autobind


def _cpu_sets(
    kind: str, cpu_bind: Bind, wanted: BindingRequest, cpus: list[Cpu], topology: NodeTopology
) -> list[list[int]]:
    """Returns the kernel's numbers for each task."""
    count = len(wanted.ranks)
    if kind in _ENTITIES:
        per_task = max(wanted.cpus_per_task, 1)
        distributed = cpus
        if kind == "cores" and per_task == 1 and count <= len({cpu.core for cpu in cpus}):
            distributed = _one_thread_each(cpus)  # each task a core of its own
        shares = _distribute(distributed, count, per_task, _second(wanted.distribution))
        return [[cpu.kernel for cpu in _widen(share, cpus, kind)] for share in shares]
    if kind == "rank":
        return [[cpus[local % len(cpus)].kernel] for local in range(count)]
    if kind in ("map_cpu", "mask_cpu"):
        allowed = {cpu.kernel for cpu in cpus}
        return [_checked(_listed(kind, cpu_bind, local), allowed) for local in range(count)]
    if kind in ("rank_ldom", "map_ldom", "mask_ldom"):
        return [_of_nodes(kind, cpu_bind, local, cpus, topology) for local in range(count)]
    if kind == "none":
        return [[] for _ in range(count)]
    return [[cpu.kernel for cpu in cpus] for _ in range(count)]


def _listed(kind: str, cpu_bind: Bind, local: int) -> list[int]:
    value = cpu_bind.value(local)
    return [value] if kind.startswith("map") else _bits(value)


def _checked(chosen: list[int], allowed: set[int]) -> list[int]:
    if not allowed.issuperset(chosen):
        mask = sum(1 << number for number in sorted(allowed))
        raise BadValue(f"CPU binding outside of job step allocation, allocated CPUs are: 0x{mask:X}.")
    return chosen


def _of_nodes(kind: str, cpu_bind: Bind, local: int, cpus: list[Cpu], topology: NodeTopology) -> list[int]:
    """Returns all of the step's cpus on a task's NUMA nodes."""
    nodes = topology.nodes()
    chosen = [nodes[local % len(nodes)]] if kind == "rank_ldom" else _listed(kind, cpu_bind, local)
    found = [cpu.kernel for cpu in cpus if cpu.node in chosen]
    if not found:
        raise BadValue(f"--cpu-bind: the step has no CPU on NUMA node {','.join(map(str, chosen))}")
    return found


def _second(distribution: str) -> str:
    """Returns the distribution inside a node: the second value; `*` and nothing are the default."""
    words = distribution.lower().partition(",")[0].split(":")
    word = words[1] if len(words) > 1 else ""
    return word if word in ("block", "cyclic", "fcyclic") else "cyclic"


def _distribute(cpus: list[Cpu], tasks: int, per_task: int, how: str) -> list[list[Cpu]]:
    """Assigns that many cpus to each task. Each cpu is used once before any is used again."""
    dealer = _CpuDistributor(cpus)
    shares: list[list[Cpu]] = []
    for local in range(tasks):
        if how == "block":
            shares.append([dealer.next() for _ in range(per_task)])
        elif how == "fcyclic":
            shares.append([dealer.next_on(local * per_task + number) for number in range(per_task)])
        else:
            first = dealer.room_on(local, per_task)
            shares.append([dealer.next_from(first) for _ in range(per_task)])
    return shares


class _CpuDistributor:
    """Hands out cpus by socket, each once before any is repeated."""

    def __init__(self, cpus: list[Cpu]) -> None:
        sockets: dict[int, list[Cpu]] = {}
        for cpu in cpus:
            sockets.setdefault(cpu.socket, []).append(cpu)
        self._all = list(sockets.values())
        self._free = [list(one) for one in self._all]

    def _refill(self) -> None:
        if not any(self._free):
            self._free = [list(one) for one in self._all]

    def next(self) -> Cpu:
        """Returns the next in the node's order."""
        return self.next_from(0)

    def next_from(self, socket: int) -> Cpu:
        """Returns one of that socket, or of the first after it that has one."""
        self._refill()
        count = len(self._free)
        start = next(i % count for i in range(socket, socket + count) if self._free[i % count])
        return self._free[start].pop(0)

    next_on = next_from

    def room_on(self, socket: int, wanted: int) -> int:
        """Returns the first socket from that one on with enough free cpus, else one with any."""
        self._refill()
        count = len(self._free)
        order = [i % count for i in range(socket, socket + count)]
        return next((i for i in order if len(self._free[i]) >= wanted), next(i for i in order if self._free[i]))


def _widen(share: list[Cpu], cpus: list[Cpu], kind: str) -> list[Cpu]:
    if kind == "threads":
        return list({cpu.kernel: cpu for cpu in share}.values())
    attribute = {"sockets": "socket", "cores": "core", "ldoms": "node"}[kind]
    touched = {getattr(cpu, attribute) for cpu in share}
    return [cpu for cpu in cpus if getattr(cpu, attribute) in touched]


# -- memory


def _memory(mem_bind: Bind, local: int, cpus: list[int], topology: NodeTopology) -> tuple[int, list[int]]:
    """Mode and NUMA nodes of a task."""
    nodes = topology.nodes()
    if mem_bind.kind in ("", "none"):
        return MEM_DEFAULT, []
    if mem_bind.kind == "local":
        chosen = sorted({cpu.node for cpu in topology.of(cpus)})
        return (MEM_BIND, chosen) if chosen and not mem_bind.prefer else (MEM_LOCAL, [])
    if mem_bind.kind == "rank":
        chosen = [nodes[local % len(nodes)]]
    else:
        value = mem_bind.value(local)
        chosen = [value] if mem_bind.kind == "map_mem" else _bits(value)
    if not set(nodes).issuperset(chosen):
        raise BadValue(f"--mem-bind: this node has no NUMA node {','.join(map(str, chosen))}")
    return (MEM_PREFERRED, chosen[:1]) if mem_bind.prefer else (MEM_BIND, chosen)


# -- messages


def mask_text(numbers: Iterable[int], width: int = 1) -> str:
    """Formats a mask as the kernel and Slurm do."""
    return f"0x{sum(1 << number for number in numbers):0{width}X}"


def _cpu_note(wanted: BindingRequest, local: int, kind: str, cpus: list[int]) -> str:
    units = f"-{kind}" if kind in _ENTITIES and wanted.cpu_bind else ""
    shown, done = _SHOWN.get(kind, "MASK"), "" if kind == "none" else " set"
    return _note(f"cpu-bind{units}={shown}", wanted, local, cpus, done)


def _mem_note(wanted: BindingRequest, local: int, mem_bind: Bind, nodes: list[int]) -> str:
    return _note(f"mem-bind={_SHOWN[mem_bind.kind]}", wanted, local, nodes, "" if mem_bind.kind == "none" else " set")


def _note(what: str, wanted: BindingRequest, local: int, numbers: list[int], done: str) -> str:
    rank = wanted.ranks[local]
    return f"{what} - {wanted.node_name}, task {rank:2} {local:2} [{{pid}}]: mask {mask_text(numbers)}{done}"


def _cpu_variables(kind: str, cpu_bind: Bind, tasks: list[TaskBinding], width: int) -> dict[bytes, bytes]:
    verbose = "verbose" if cpu_bind.verbose else "quiet"
    if kind in _ENTITIES or not kind:
        type_, listed = "mask_cpu:", ",".join(mask_text(task.cpus, width) for task in tasks)
    else:
        type_, listed = cpu_bind.type_text() if cpu_bind.kind else kind, cpu_bind.written
    return _variables("SLURM_CPU_BIND", verbose, type_, listed)


def _mem_variables(mem_bind: Bind) -> dict[bytes, bytes]:
    found = _variables(
        "SLURM_MEM_BIND", "verbose" if mem_bind.verbose else "quiet", mem_bind.type_text(), mem_bind.written
    )
    if mem_bind.prefer:
        found[b"SLURM_MEM_BIND_PREFER"] = b"prefer"
    return found


def _variables(name: str, verbose: str, type_: str, listed: str) -> dict[bytes, bytes]:
    texts = {
        name: f"{verbose},{type_}{listed}",
        f"{name}_VERBOSE": verbose,
        f"{name}_TYPE": type_,
        f"{name}_LIST": listed,
    }
    return {key.encode(): value.encode() for key, value in texts.items()}


def _bits(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]
