"""Assigns a step's GPUs to its tasks on a node: --gpu-bind and --gpus-per-task, as documented for Slurm.

    none            all of the step's
    closest         those near to the task's cpus
    single:N        one; N tasks share it
    per_task:N      N, its own as long as there are enough
    map:0,1*2       the n-th of the list for the n-th task; `map_gpu:` too
    mask:0x3,0xC    the same with several

Rules
    - `single` and `per_task` prefer GPUs near to the task's cpus and take any other when these are used up; when all are
      used up, GPUs are assigned once more. A task that is bound to no cpus, or near to no GPU, is near to all.
    - Numbers in a map or mask count the step's GPUs from 0 where a device group hides the others, else they are the
      node's. A list that is shorter than the tasks is repeated; `0*4` is 0,0,0,0.
    - Shares of a GPU are on one GPU of each node, so there is no choice.
    - A binding that names a GPU which the step does not have is ignored: the task gets all of them, and a message.

Pure. The names of GPUs in a task's environment are in gpupins.py.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nodedaemon.core.gpupins import PinnedGpu

#: Indexes among the step's GPUs.
Places = tuple[int, ...]
REPEAT_MAX = 4096
VERBOSE = frozenset(("v", "verbose"))
QUIET = frozenset(("q", "quiet"))


class GpuBinding(NamedTuple):
    """A requested binding."""

    kind: str = ""  # "" = not requested
    values: str = ""
    is_verbose: bool = False


class SeenGpus(NamedTuple):
    """The GPUs that binding considers."""

    gpus: Sequence[PinnedGpu]
    cpus: Sequence[Sequence[int]]  # by task: the kernel's numbers; empty = not bound
    is_fenced: bool  # numbers count the step's GPUs


class _Unfit(Exception):
    """The binding names a GPU that does not exist; the text is the message."""


def parse(text: str, per_task: int = 0) -> GpuBinding:
    """Parses `verbose,single:2`; `per_task`: the value of --gpus-per-task, when --gpu-bind says nothing."""
    parts = [word for word in text.removeprefix("gpu:").removeprefix("gres/gpu:").split(",") if word]
    is_verbose = False
    while parts and parts[0] in VERBOSE | QUIET:
        is_verbose = parts.pop(0) in VERBOSE
    kind, _, values = ",".join(parts).partition(":")
    kind = {"map_gpu": "map", "mask_gpu": "mask"}.get(kind, kind)
    if not kind and per_task:
        kind, values = "per_task", str(per_task)
    return GpuBinding(kind, values, is_verbose)


def places_of_tasks(bind: GpuBinding, seen: SeenGpus) -> tuple[list[Places], str]:
    """Returns for each task the indexes of its GPUs among the step's, and an error message about the binding ("" =
    none)."""
    everything = [tuple(range(len(seen.gpus)))] * len(seen.cpus)
    make = _KINDS.get(bind.kind)
    if make is None or not seen.gpus:
        return everything, ""
    try:
        return make(bind.values, seen), ""
    except _Unfit as problem:
        return everything, f"{bind.kind}:{bind.values}: {problem}; tasks are not bound to GPUs"


def _near(seen: SeenGpus, task: int) -> list[bool]:
    """Returns for each GPU whether it is near to the task's cpus."""
    mine = set(seen.cpus[task])
    found = [not gpu.near_cpus or not mine.isdisjoint(gpu.near_cpus) for gpu in seen.gpus]
    return found if mine and any(found) else [True] * len(found)


def _closest(values: str, seen: SeenGpus) -> list[Places]:
    near = [_near(seen, task) for task in range(len(seen.cpus))]
    return [tuple(place for place, is_near in enumerate(found) if is_near) for found in near]


def _distributed(seen: SeenGpus, each: int, sharers: int) -> list[Places]:
    """Assigns `each` GPUs to every task; `sharers` tasks use a GPU before it counts as used up."""
    used = [0] * len(seen.gpus)
    found = []
    for task in range(len(seen.cpus)):
        near = _near(seen, task)
        order = sorted(range(len(used)), key=lambda place: (used[place] // sharers, not near[place], place))
        mine = tuple(sorted(order[:each]))
        for place in mine:
            used[place] += 1
        found.append(mine)
    return found


def _single(values: str, seen: SeenGpus) -> list[Places]:
    return _distributed(seen, 1, _count(values))


def _per_task(values: str, seen: SeenGpus) -> list[Places]:
    each = _count(values)
    if each > len(seen.gpus):
        raise _Unfit(f"the step has {len(seen.gpus)} GPUs here")
    return _distributed(seen, each, 1)


def _count(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) < len("1000000") and int(text)):
        raise _Unfit("not a number above 0")
    return int(text or 1)


def _by_number(seen: SeenGpus) -> dict[int, int]:
    return {place if seen.is_fenced else gpu.number: place for place, gpu in enumerate(seen.gpus)}


def _map(values: str, seen: SeenGpus) -> list[Places]:
    place_of = _by_number(seen)
    chosen = [_number(word, 10) for word in repeated(values)]
    missing = [number for number in chosen if number not in place_of]
    if missing:
        raise _Unfit(f"the step has no GPU {missing[0]} here")
    return [(place_of[chosen[task % len(chosen)]],) for task in range(len(seen.cpus))]


def _mask(values: str, seen: SeenGpus) -> list[Places]:
    place_of = _by_number(seen)
    known = sum(1 << number for number in place_of)
    masks = [_number(word, 16) for word in repeated(values)]
    if any(mask & ~known or not mask for mask in masks):
        raise _Unfit("the step has not all of these GPUs here")
    sets = [tuple(sorted(place for number, place in place_of.items() if mask >> number & 1)) for mask in masks]
    return [sets[task % len(sets)] for task in range(len(seen.cpus))]


def _number(word: str, base: int) -> int:
    try:
        return int(word, 16 if word[:2].lower() == "0x" else base)
    except ValueError:
        raise _Unfit(f"{word!r} is not a number") from None


def repeated(text: str) -> list[str]:
    """Expands `0*2,1` to 0, 0, 1."""
    words: list[str] = []
    for word in text.split(","):
        value, star, times = word.partition("*")
        words += [value] * min(_count(times) if star else 1, REPEAT_MAX)
    return words[:REPEAT_MAX]


_KINDS: dict[str, Callable[[str, SeenGpus], list[Places]]] = {
    "closest": _closest,
    "single": _single,
    "per_task": _per_task,
    "map": _map,
    "mask": _mask,
}
