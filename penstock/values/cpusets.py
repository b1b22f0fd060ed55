"""Sets of CPUs of a node as bit masks: their text (`0-1,8`), and the cores that are specialized for the system.

A CPU's number is Slurm's abstract one: socket by socket, core by core, thread by thread.
"""

from collections.abc import Iterator
from itertools import islice

from penstock.values.errors import BadValue
from penstock.values.taskset import TaskSet


def format_cpus(mask: int) -> str:
    """Returns the numbers as a list of ranges, without steps, as Slurm writes them; "" = none."""
    words = []
    number = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        run = (~mask & (mask + 1)).bit_length() - 1
        first, last = number + gap, number + gap + run - 1
        words.append(str(first) if run == 1 else f"{first}-{last}")
        mask >>= run
        number = last + 1
    return ",".join(words)


def numbers_of(mask: int) -> list[int]:
    """Returns the numbers in a mask, the lowest first, in steps by what is set and not by its width."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def parse_cpus(text: str, cpus: int) -> int:
    """Reads a list of CPU numbers below `cpus`. Raises BadValue."""
    mask = 0
    for number in TaskSet.parse(text):
        if number >= cpus:
            raise BadValue(f"CPU {number} does not exist: they are 0 to {cpus - 1}")
        mask |= 1 << number
    return mask


def whole_cores(mask: int, cpus_per_core: int) -> int:
    """Returns the mask with all CPUs of each core of which it has one."""
    found, core = 0, (1 << cpus_per_core) - 1
    rest = mask
    while rest:
        at = ((rest & -rest).bit_length() - 1) // cpus_per_core * cpus_per_core
        found |= core << at
        rest &= ~(core << at)
    return found


def last_cores(count: int, sockets: int, cores_per_socket: int, cpus_per_core: int, first: bool = False) -> int:
    """Returns the CPUs of `count` cores as CoreSpecCount chooses them (slurm.conf(5)): `spec_order`."""
    core = (1 << cpus_per_core) - 1
    return sum(core << at * cpus_per_core for at in islice(spec_order(sockets, cores_per_socket, first), count))


def spec_order(sockets: int, cores_per_socket: int, first: bool = False) -> Iterator[int]:
    """Returns the cores in the order in which they are taken for the system: the last core of the last socket, the last
    of the one before, and so on around; `first` (spec_cores_first): the first of the first socket."""
    for i in range(sockets * cores_per_socket):
        within, socket = divmod(i, sockets)
        if not first:
            within, socket = cores_per_socket - 1 - within, sockets - 1 - socket
        yield socket * cores_per_socket + within
