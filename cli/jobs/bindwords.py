"""Parses the values of options that place tasks: distribution and binding.

As in cli.jobs.jobwords: one function per syntax, each raising BadValue with its reason. Values that the nodes parse
again are sent as written. The value `help` prints the possible values.
"""

from collections.abc import Callable
from typing import NamedTuple

from cli.base.options import LateValue, WholeText, message_text
from cli.base.run import RemoteAnswer
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import check_name

COUNT_MAX = 2**31 - 1
TEXT_MAX = 256 * 1024

#: By --hint: threads of a core to use (0 = all), tasks of a socket (0 = any), and the help text.
_HINTS = {
    "compute_bound": (1, 0, "all cores of each socket, one thread of each"),
    "memory_bound": (1, 0, "one thread of each core"),
    "multithread": (0, 0, "all threads of a core"),
    "nomultithread": (1, 0, "one thread of each core"),
}


class BindHint(NamedTuple):
    """Threads of a core to use, and tasks of a socket, 0 = any; and the hint as written."""

    threads: int
    tasks: int
    text: str


def hint(text: str) -> BindHint:
    """Parses --hint."""
    if text == "help":
        lines = (f"    {name:<16}{what}" for name, (_, _, what) in _HINTS.items())
        raise RemoteAnswer("\n".join(("--hint=TYPE", *lines)))
    threads, tasks = 0, 0
    for word in text.split(","):
        if word not in _HINTS:
            raise LateValue(f"known are {', '.join(_HINTS)}")
        threads, tasks = max(threads, _HINTS[word][0]), max(tasks, _HINTS[word][1])
    return BindHint(threads, tasks, text)


_SPREADS = ("block", "cyclic", "arbitrary", "*")
_PACKING = ("pack", "nopack")
_SPREADS_INSIDE = ("block", "cyclic", "fcyclic", "*")


def distribution(text: str) -> str:
    """--distribution: over nodes, sockets, cores; `plane=SIZE`; `Pack` or `NoPack` after a comma, or
    alone. Returned as written."""
    if text.lower() in _PACKING:  # the levels as by default
        return text
    first, *inside = text.split(",")[0].lower().split(":")
    packing = [word.lower() for word in text.split(",")[1:]]
    size = first.removeprefix("plane=")
    if size != first:
        parse_int(size, 1, COUNT_MAX, "plane size")
        first = "block"
    known = first in _SPREADS and len(inside) <= 2 and all(word in _SPREADS_INSIDE for word in inside)
    if not known or any(word not in _PACKING for word in packing):
        raise BadValue(
            f"{text!r} is not {{block|cyclic|plane=SIZE|arbitrary|*}}[:{{block|cyclic|fcyclic|*}}[:...]][,{{Pack|NoPack}}]"
        )
    return text


CPU_BIND_WORDS = (
    "none", "no", "rank", "rank_ldom", "sockets", "socket", "cores", "core", "threads", "thread", "ldoms", "ldom",
    "boards", "board", "map_cpu", "mask_cpu", "map_ldom", "mask_ldom",
)  # fmt: skip
MEM_BIND_WORDS = ("none", "no", "rank", "local", "map_mem", "mask_mem", "sort", "nosort", "prefer", "p")
_LOUDNESS = ("quiet", "verbose", "q", "v")


def _binding(option: str, known: tuple[str, ...]) -> Callable[[str], str]:
    """A binding as written: words before a colon or comma, then the list of a map or mask."""

    def convert(text: str) -> str:
        rest = check_name(text, "binding", TEXT_MAX)
        while rest:
            ends = [at for at in (rest.find(","), rest.find(":"), len(rest)) if at >= 0]
            word, rest = rest[: min(ends)].lower(), rest[min(ends) :]
            if word == "help":
                lists = (f"    {name}{':<list>' if name.startswith(('map', 'mask')) else ''}" for name in known)
                raise RemoteAnswer("\n".join((f"{option}=[quiet|verbose,]TYPE, where TYPE is one of", *lists)))
            if word not in (*known, *_LOUDNESS):
                raise BadValue(f"known are quiet, verbose, {', '.join(known)}")
            if word.startswith(("map_", "mask_")):
                if len(rest) < 2:
                    raise BadValue(f"{word} needs a list: {word}:0,1,...")
                return text
            rest = rest[1:]
        return text

    return convert


cpu_bind = _binding("--cpu-bind", CPU_BIND_WORDS)
mem_bind = _binding("--mem-bind", MEM_BIND_WORDS)


_TIMES = r"(\*[0-9]{1,5})?"
_MAP = rf"(0x[0-9a-f]{{1,4}}|[0-9]{{1,5}}){_TIMES}"
_MASK = rf"(0x)?[0-9a-f]{{1,256}}{_TIMES}"
_GPU_BIND = (
    rf"none|closest|single(:[1-9][0-9]{{0,5}})?|per_task:[1-9][0-9]{{0,5}}"
    rf"|map(_gpu)?:{_MAP}(,{_MAP})*|mask(_gpu)?:{_MASK}(,{_MASK})*"
)
_SHARE_BIND = r"none|per_task:[1-9][0-9]{0,5}"
_GPU_FREQ = r"((memory|graphics)=)?(low|medium|high|highm1|[0-9]{1,6})"
_WORDS_BEFORE = ("verbose", "v", "quiet", "q")
GPU_BINDS = "closest, single:TASKS, per_task:GPUS, map:LIST, mask:LIST or none"


def _check_bind(text: str, known: str, allowed: str) -> str:
    import re

    words = check_name(text, "GPU binding").split(",")
    while words and words[0].lower() in _WORDS_BEFORE:
        del words[0]
    if (words or not text) and not re.fullmatch(known, ",".join(words), re.IGNORECASE):
        raise BadValue(f"{text!r}: expected [verbose,] and one of {allowed}")
    return text


def gpu_bind(text: str) -> str:
    """--gpu-bind, as written."""
    return _check_bind(text, _GPU_BIND, GPU_BINDS)


def tres_bind(text: str) -> str:
    """--tres-bind: gres/gpu:BINDING as --gpu-bind; shares are on one GPU of a node, so few bindings apply."""
    known = ("gres/gpu", "gres/shard", "gres/mps")
    found = ""
    for part in text.split("+"):
        name_, _, bind = part.partition(":")
        if name_ not in known:
            raise BadValue(f"{part!r} does not begin with gres/gpu: or gres/shard:")
        if name_ == known[0]:
            found = gpu_bind(bind)
        else:
            _check_bind(bind, _SHARE_BIND, "per_task:N or none, for shares")
    return found


def gpu_freq(text: str) -> str:
    """--gpu-freq, as written."""
    import re

    words = check_name(text, "GPU frequency").split(",")
    if words[-1].lower() == "verbose":
        del words[-1]
    if not words or not all(re.fullmatch(_GPU_FREQ, word, re.IGNORECASE) for word in words):
        raise BadValue(f"{text!r}: expected [memory=]low, medium, high, highm1 or MHz, and perhaps ,verbose")
    return text


_FREQ = r"[0-9]{1,8}|low|medium|highm1|high"
_GOVERNOR = "conservative|ondemand|performance|powersave|schedutil|userspace"


def cpu_freq(text: str) -> str:
    """[[min-]max[:governor]], or a governor alone, as written."""
    import re

    if not re.fullmatch(
        rf"(({_FREQ})(-({_FREQ})(:({_GOVERNOR}))?)?|{_GOVERNOR})(,quiet|,verbose)?", text, re.IGNORECASE
    ):
        raise WholeText(f'unrecognized --cpu-freq argument "{message_text(text)}"\nInvalid --cpu-freq argument')
    return text
