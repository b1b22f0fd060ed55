"""Parses and validates --cpu-bind and --mem-bind (srun(1)), and formats them for SLURM_CPU_BIND.

    [quiet|verbose,]none|rank|sockets|cores|threads|ldoms|rank_ldom|map_cpu:LIST|mask_cpu:LIST|map_ldom:LIST|mask_ldom:LIST
    [prefer,][sort,][quiet|verbose,]none|rank|local|map_mem:LIST|mask_mem:LIST

A LIST holds numbers: in maps decimal, or hexadecimal with 0x; in masks hexadecimal. `N*COUNT` repeats a number for
several tasks. Tasks beyond the end of the list start again at its beginning.
"""

from dataclasses import dataclass

from penstock.values.errors import BadValue
from penstock.values.text import shown

#: More than the tasks, CPUs or NUMA nodes of any node.
ENTRIES_MAX = 65_536
_CPU_WORDS = {
    "no": "none", "none": "none", "rank": "rank", "socket": "sockets", "sockets": "sockets", "core": "cores",
    "cores": "cores", "thread": "threads", "threads": "threads", "ldom": "ldoms", "ldoms": "ldoms",
    "rank_ldom": "rank_ldom",
}  # fmt: skip
_CPU_LISTS = {"map_cpu": False, "mask_cpu": True, "map_ldom": False, "mask_ldom": True}
_MEM_WORDS = {"no": "none", "none": "none", "rank": "rank", "local": "local", "nosort": ""}
_MEM_LISTS = {"map_mem": False, "mask_mem": True}


@dataclass(frozen=True, slots=True)
class Bind:
    """The value of one of the two options. `kind` is "" if unset; `values` holds the numbers of a map or the masks of a
    mask list.
    """

    kind: str = ""
    values: tuple[int, ...] = ()
    verbose: bool = False
    prefer: bool = False  # --mem-bind only
    written: str = ""  # the list as the user wrote it

    def value(self, local_rank: int) -> int:
        """Returns the entry of the list for a task."""
        return self.values[local_rank % len(self.values)]

    def has_list(self) -> bool:
        """Returns whether the kind takes a list."""
        return self.kind in _CPU_LISTS or self.kind in _MEM_LISTS

    def type_text(self) -> str:
        """Returns the value of SLURM_CPU_BIND_TYPE: a kind with a list ends in a colon."""
        return self.kind + (":" if self.has_list() else "")


def parse_cpu_bind(text: str) -> Bind:
    """Parses the value of --cpu-bind. Raises BadValue."""
    return _parse(text, "--cpu-bind", _CPU_WORDS, _CPU_LISTS)


def parse_mem_bind(text: str) -> Bind:
    """Parses the value of --mem-bind. Raises BadValue."""
    return _parse(text, "--mem-bind", _MEM_WORDS, _MEM_LISTS)


def _parse(text: str, option: str, words: dict[str, str], lists: dict[str, bool]) -> Bind:
    kind, written = "", ""
    verbose = prefer = False
    values: tuple[int, ...] = ()
    rest = text.strip()
    while rest:
        word, _, rest_after = rest.partition(",")
        name, colon, _ = word.partition(":")
        lower = name.lower()
        if colon and lower in lists:
            written = rest.partition(":")[2]
            kind, values = lower, _entries(written, lists[lower], option)
            break
        rest = rest_after
        if word.lower() in ("q", "quiet"):
            verbose = False
        elif word.lower() in ("v", "verbose"):
            verbose = True
        elif option == "--mem-bind" and word.lower() in ("p", "prefer"):
            prefer = True
        elif option == "--mem-bind" and word.lower() == "sort":
            continue  # applies to one discontinued processor only
        elif word.lower() in words:
            kind = words[word.lower()]
        else:
            raise BadValue(
                f"{option}: {shown(word)} is not one of {', '.join(dict.fromkeys([*words.values(), *lists]))}"
            )
    return Bind(kind, values, verbose, prefer, written)


def _entries(text: str, masks: bool, option: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        number, star, count = part.partition("*")
        try:
            value = int(number, 16 if masks or number.lower().startswith("0x") else 10)
            times = int(count) if star else 1
        except ValueError:
            raise BadValue(f"{option}: {shown(part)} is no {'mask' if masks else 'number'}") from None
        if value < 0 or not 1 <= times <= ENTRIES_MAX or (masks and not value) or value.bit_length() > ENTRIES_MAX:
            raise BadValue(f"{option}: {shown(part)} is out of range")
        found += [value] * times
        if len(found) > ENTRIES_MAX:
            raise BadValue(f"{option}: more than {ENTRIES_MAX} entries")
    return tuple(found)
