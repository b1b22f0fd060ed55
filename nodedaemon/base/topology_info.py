"""CPU topology of the node: which cpu is on which socket, core and NUMA node, from sysfs; and both numberings of the
cpus.

The controller counts cpus socket by socket, core by core, thread by thread (Slurm's abstract numbers); the kernel
numbers them as the firmware lists them. `NodeTopology` keeps the kernel's numbers in the controller's order: item i is
the controller's cpu i. Only cpus that the daemon may use itself are counted (a container may have a part of a machine),
as in its inventory.

Read once, at the daemon's start. Where sysfs has no information (no topology folder, no NUMA) there is one socket,
one node.
"""

import os
from collections.abc import Iterable

SYSFS = "/sys/devices/system"


class Cpu:
    """One logical cpu. `kernel` is its number; the others number what it is part of, in no order."""

    __slots__ = ("core", "kernel", "node", "socket")

    def __init__(self, kernel: int, socket: int, core: int, node: int) -> None:
        self.kernel = kernel
        self.socket = socket
        self.core = core  # unique over all sockets
        self.node = node


class NodeTopology:
    """All usable cpus, in the controller's order."""

    __slots__ = ("_abstract", "cpus")

    def __init__(self, cpus: Iterable[Cpu]) -> None:
        self.cpus = tuple(sorted(cpus, key=lambda cpu: (cpu.socket, cpu.core, cpu.kernel)))
        self._abstract = {cpu.kernel: index for index, cpu in enumerate(self.cpus)}

    def kernel(self, abstract: int) -> int:
        """The kernel's number of the controller's cpu; -1 when there is no such cpu."""
        return self.cpus[abstract].kernel if 0 <= abstract < len(self.cpus) else -1

    def kernels(self, mask: bytes) -> list[int]:
        """The kernel's numbers for a bit mask of the controller's, little endian. Empty unless all of them are here."""
        number = int.from_bytes(mask, "little")
        found = [self.kernel(index) for index in range(number.bit_length()) if number >> index & 1]
        return [] if -1 in found else sorted(found)

    def of(self, kernels: Iterable[int]) -> list[Cpu]:
        """These cpus, in the controller's order; unknown numbers are left out."""
        return [self.cpus[index] for index in sorted(self._abstract[k] for k in kernels if k in self._abstract)]

    def abstracts(self, kernels: Iterable[int]) -> list[int]:
        """The controller's numbers of these cpus; those that are not here are left out."""
        return sorted(self._abstract[number] for number in kernels if number in self._abstract)

    def nodes(self) -> list[int]:
        """Numbers of the NUMA nodes that have cpus."""
        return sorted({cpu.node for cpu in self.cpus})


def flat(count: int) -> NodeTopology:
    """A topology of so many cpus without any structure."""
    return NodeTopology(Cpu(number, 0, number, 0) for number in range(count))


def read_topology(usable: Iterable[int], sysfs: str = SYSFS) -> NodeTopology:
    """Reads the topology of these cpus from sysfs."""
    node_of = _numa(sysfs)
    cores: dict[tuple[int, int], int] = {}
    found = []
    for number in sorted(usable):
        base = f"{sysfs}/cpu/cpu{number}/topology"
        socket = _number(f"{base}/physical_package_id", 0)
        die = _number(f"{base}/die_id", 0)
        name = (socket, max(die, 0) << 20 | max(_number(f"{base}/core_id", number), 0))
        core = cores.setdefault(name, number)  # named by its first cpu: unique, and in the kernel's order
        found.append(Cpu(number, max(socket, 0), core, node_of.get(number, 0)))
    return NodeTopology(found)


def _numa(sysfs: str) -> dict[int, int]:
    nodes: dict[int, int] = {}
    try:
        names = os.listdir(f"{sysfs}/node")
    except OSError:
        return nodes
    for name in names:
        if name.startswith("node") and name[4:].isdigit():
            for cpu in parse_list(_text(f"{sysfs}/node/{name}/cpulist")):
                nodes[cpu] = int(name[4:])
    return nodes


def parse_list(text: str) -> list[int]:
    """Parses `0-3,8` to numbers; the kernel's notation for sets of cpus and nodes."""
    found: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            found.extend(range(int(low), int(high or low) + 1))
    return found


def format_list(numbers: Iterable[int]) -> str:
    """The reverse of `parse_list`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _number(path: str, default: int) -> int:
    try:
        return int(_text(path))
    except ValueError:
        return default


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
