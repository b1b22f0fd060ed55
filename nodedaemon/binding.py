"""Which cpus and which memory each task of a step is bound to on this node. Pure: from options and topology to numbers.

srun(1), --cpu-bind, --distribution, --hint, --mem-bind. Without a kind, tasks are bound where it comes out even: when
tasks times cpus a task are as many as the sockets, the cores or the threads that the step has here; else each may use
all of the step's. Cpus go to tasks by the second word of --distribution:

    block     one after the other in the node's order
    cyclic    each task on the next socket, its cpus together (the default)
    fcyclic   each cpu on the next socket

then `sockets`, `cores`, `ldoms` widen a task's set to the whole of what it touches, within the step's cpus. Where there
are more tasks than cpus it begins anew. Numbers of map_cpu and mask_cpu are the kernel's, and must be the step's own.

Deliberately absent: how a process is bound (task.py), who asks for what (wire.py). Whether the node binds at all is the
configuration's word: TaskPlugin with task/affinity.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodedaemon.topology_info import Cpu, Topology
from penstock.values.binding import Bind, parse_cpu_bind, parse_mem_bind
from penstock.values.errors import BadValue

#: How a task's memory is bound, in TaskOrder.mem_mode: the kernel's numbers of set_mempolicy(2).
MEM_DEFAULT, MEM_PREFERRED, MEM_BIND, MEM_LOCAL = 0, 1, 2, 4
_ENTITIES = ("sockets", "cores", "threads", "ldoms")
#: As messages name a kind.
_SHOWN = {
    "": "MASK", "none": "NONE", "rank": "RANK", "map_cpu": "MAP", "mask_cpu": "MASK", "rank_ldom": "LDRANK",
    "map_ldom": "LDMAP", "mask_ldom": "LDMASK", "local": "LOC", "map_mem": "MAP", "mask_mem": "MASK",
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What a step asks for on this node. `allowed`: the kernel's numbers of its cpus here."""

    ranks: tuple[int, ...]  # global, in order
    allowed: tuple[int, ...]
    cpus_per_task: int = 1
    cpu_bind: str = ""
    mem_bind: str = ""
    hint: str = ""
    distribution: str = ""
    threads_per_core: int = 0  # 0 = not said
    node_name: str = ""
    autobind: str = ""  # kind that the site binds to where it does not come out even: cores, threads, "" = none


@dataclass
class Place:
    """One task's. Empty lists = not bound."""

    cpus: list[int] = field(default_factory=list)
    mem_nodes: list[int] = field(default_factory=list)
    mem_mode: int = MEM_DEFAULT
    notes: list[str] = field(default_factory=list)


@dataclass
class Binding:
    """Places in the order of the ranks, and variables of all tasks of the step on this node."""

    places: list[Place]
    environment: dict[bytes, bytes]


def bind(wanted: Wanted, topology: Topology) -> Binding:
    """Raises BadValue when what is asked for is not the step's."""
    cpu_bind = parse_cpu_bind(wanted.cpu_bind)
    mem_bind = parse_mem_bind(wanted.mem_bind)
    cpus = topology.of(wanted.allowed) or list(topology.cpus)
    usable = _one_thread_each(cpus) if _is_single_threaded(wanted) else cpus
    kind = cpu_bind.kind or _even_kind(wanted, usable)
    sets = _cpu_sets(kind, cpu_bind, wanted, usable, topology)
    places = [Place(cpus=sorted(one)) for one in sets]
    for local, place in enumerate(places):
        place.mem_mode, place.mem_nodes = _memory(mem_bind, local, place.cpus, topology)
    width = (len(topology.cpus) + 3) // 4
    if cpu_bind.verbose:
        for local, place in enumerate(places):
            place.notes.append(_cpu_note(wanted, local, kind, place.cpus or [cpu.kernel for cpu in cpus]))
    if mem_bind.verbose:
        for local, place in enumerate(places):
            place.notes.append(_mem_note(wanted, local, mem_bind, place.mem_nodes or topology.nodes()))
    environment = _cpu_variables(kind, cpu_bind, places, width)
    if mem_bind.kind:
        environment |= _mem_variables(mem_bind)
    return Binding(places, environment)


# -- cpus


def _is_single_threaded(wanted: Wanted) -> bool:
    return wanted.threads_per_core == 1 or wanted.hint in ("nomultithread", "compute_bound")


def _one_thread_each(cpus: list[Cpu]) -> list[Cpu]:
    """The first of the step's threads of each core."""
    seen: dict[int, Cpu] = {}
    for cpu in cpus:
        seen.setdefault(cpu.core, cpu)
    return list(seen.values())


def _even_kind(wanted: Wanted, cpus: list[Cpu]) -> str:
    """What to bind to where nothing is said: where tasks times cpus come out even, else what the site says."""
    needed = len(wanted.ranks) * max(wanted.cpus_per_task, 1)
    for kind, count in (
        ("sockets", len({cpu.socket for cpu in cpus})),
        ("cores", len({cpu.core for cpu in cpus})),
        ("threads", len(cpus)),
    ):
        if needed == count:
            return kind
    return wanted.autobind


def _cpu_sets(kind: str, cpu_bind: Bind, wanted: Wanted, cpus: list[Cpu], topology: Topology) -> list[list[int]]:
    """Kernel numbers for each task."""
    count = len(wanted.ranks)
    if kind in _ENTITIES:
        per_task = max(wanted.cpus_per_task, 1)
        dealt = cpus
        if kind == "cores" and per_task == 1 and count <= len({cpu.core for cpu in cpus}):
            dealt = _one_thread_each(cpus)  # each task a core of its own
        shares = _distribute(dealt, count, per_task, _second(wanted.distribution))
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


def _of_nodes(kind: str, cpu_bind: Bind, local: int, cpus: list[Cpu], topology: Topology) -> list[int]:
    """All of the step's cpus on a task's NUMA nodes."""
    nodes = topology.nodes()
    chosen = [nodes[local % len(nodes)]] if kind == "rank_ldom" else _listed(kind, cpu_bind, local)
    found = [cpu.kernel for cpu in cpus if cpu.node in chosen]
    if not found:
        raise BadValue(f"--cpu-bind: the step has no CPU on NUMA node {','.join(map(str, chosen))}")
    return found


def _second(distribution: str) -> str:
    """How cpus go to tasks inside a node: the second word; `*` and nothing are the default."""
    words = distribution.lower().partition(",")[0].split(":")
    word = words[1] if len(words) > 1 else ""
    return word if word in ("block", "cyclic", "fcyclic") else "cyclic"


def _distribute(cpus: list[Cpu], tasks: int, per_task: int, how: str) -> list[list[Cpu]]:
    """So many cpus for each task. Each is given once before any is given again."""
    dealer = _Dealer(cpus)
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


class _Dealer:
    """Cpus by socket, each handed out once before they begin anew."""

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
        """The next in the node's order."""
        return self.next_from(0)

    def next_from(self, socket: int) -> Cpu:
        """One of that socket, or of the first after it that has one."""
        self._refill()
        count = len(self._free)
        place = next(i % count for i in range(socket, socket + count) if self._free[i % count])
        return self._free[place].pop(0)

    next_on = next_from

    def room_on(self, socket: int, wanted: int) -> int:
        """The first socket from that one on that has so many free, else that has any."""
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


def _memory(mem_bind: Bind, local: int, cpus: list[int], topology: Topology) -> tuple[int, list[int]]:
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


# -- what is said of it


def mask_text(numbers: Iterable[int], width: int = 1) -> str:
    """As the kernel's and Slurm's masks are written."""
    return f"0x{sum(1 << number for number in numbers):0{width}X}"


def _cpu_note(wanted: Wanted, local: int, kind: str, cpus: list[int]) -> str:
    units = f"-{kind}" if kind in _ENTITIES and wanted.cpu_bind else ""
    shown, done = _SHOWN.get(kind, "MASK"), "" if kind == "none" else " set"
    return _note(f"cpu-bind{units}={shown}", wanted, local, cpus, done)


def _mem_note(wanted: Wanted, local: int, mem_bind: Bind, nodes: list[int]) -> str:
    return _note(f"mem-bind={_SHOWN[mem_bind.kind]}", wanted, local, nodes, "" if mem_bind.kind == "none" else " set")


def _note(what: str, wanted: Wanted, local: int, numbers: list[int], done: str) -> str:
    rank = wanted.ranks[local]
    return f"{what} - {wanted.node_name}, task {rank:2} {local:2} [{{pid}}]: mask {mask_text(numbers)}{done}"


def _cpu_variables(kind: str, cpu_bind: Bind, places: list[Place], width: int) -> dict[bytes, bytes]:
    verbose = "verbose" if cpu_bind.verbose else "quiet"
    if kind in _ENTITIES or not kind:
        type_, listed = "mask_cpu:", ",".join(mask_text(place.cpus, width) for place in places)
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
