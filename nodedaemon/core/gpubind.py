"""Which GPUs of a step each of its tasks on a node sees: --gpu-bind and --gpus-per-task, as documented for Slurm.

Numbers in map_gpu and mask_gpu are places among the GPUs that the step has on the node. A binding that cannot be read, or
names a GPU that is not there, binds nothing: all tasks see all GPUs. `closest` does so too: how near a GPU is to a
processor is not known here.
"""

Gpus = tuple[int, ...]


def gpus_of_tasks(gpus: Gpus, tasks: int, per_task: int, bind: str) -> list[Gpus]:
    """The GPUs of each of so many tasks. `bind` is as written; `per_task` 0 = not asked for."""
    words = [word for word in bind.split(",") if word not in ("verbose", "v")]
    kind, _, rest = ",".join(words).partition(":")
    if not kind and per_task:
        kind, rest = "per_task", str(per_task)
    make = _KINDS.get(kind)
    if make is None or not gpus:
        return [gpus] * tasks
    try:
        found = make(gpus, tasks, rest)
    except (ValueError, IndexError, ZeroDivisionError):
        return [gpus] * tasks
    return found


def _single(gpus: Gpus, tasks: int, rest: str) -> list[Gpus]:
    """`single:N`: N tasks share one GPU."""
    each = int(rest or 1)
    return [(gpus[number // each % len(gpus)],) for number in range(tasks)]


def _per_task(gpus: Gpus, tasks: int, rest: str) -> list[Gpus]:
    """`per_task:N`: N GPUs each, one after the other."""
    each = int(rest or 1)
    if each < 1 or each > len(gpus):
        return [gpus] * tasks
    groups = max(len(gpus) // each, 1)
    return [gpus[number % groups * each : (number % groups + 1) * each] for number in range(tasks)]


def _map(gpus: Gpus, tasks: int, rest: str) -> list[Gpus]:
    places = [int(word, 0) for word in _repeated(rest)]
    return [(gpus[_place(places[number % len(places)])],) for number in range(tasks)]


def _mask(gpus: Gpus, tasks: int, rest: str) -> list[Gpus]:
    masks = [int(word, 16) for word in _repeated(rest)]
    if any(mask <= 0 or mask >> len(gpus) for mask in masks):
        return [gpus] * tasks
    sets = [tuple(gpu for place, gpu in enumerate(gpus) if mask >> place & 1) for mask in masks]
    return [sets[number % len(sets)] for number in range(tasks)]


def _place(number: int) -> int:
    if number < 0:
        raise IndexError(number)
    return number


def _repeated(text: str) -> list[str]:
    """`0*2,1` as 0, 0, 1."""
    words: list[str] = []
    for word in text.split(","):
        value, _, times = word.partition("*")
        words += [value] * min(int(times or 1), _REPEAT_MAX)
    return words


_REPEAT_MAX = 4096
_KINDS = {"single": _single, "per_task": _per_task, "map_gpu": _map, "map": _map, "mask_gpu": _mask, "mask": _mask}
