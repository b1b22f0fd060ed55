"""What is written behind the options of a job, read: one function a language, each raising BadValue with its reason.

Numbers, sizes and times become numbers. Texts that the controller reads again (arrays, dependencies, hostlists) are
checked and stay text. Parsers are imported when they are needed: most submissions need one or two, and start-up time
counts.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.values.duration import UNLIMITED, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.signals import parse_end_warning
from penstock.values.text import check_name

if TYPE_CHECKING:
    from penstock.values.gres import Gres

COUNT_MAX = 2**31 - 1  # nodes, tasks, CPUs: Slurm's range; the controller's limits are far below
NICE_MAX = 2_147_483_645
PRIORITY_MAX = 2**32 - 2
#: Slurm's hard limit of MaxArraySize; the cluster's own is checked by the controller.
ARRAY_SIZE_MAX = 4_000_001
#: Texts with a language of their own: a dependency on thousands of jobs is not unheard of.
TEXT_MAX = 256 * 1024
#: A list of hosts in a file: room for 65,536 names.
NODE_FILE_BYTES_MAX = 4 * 1024 * 1024


def name(what: str) -> Callable[[str], str]:
    return lambda text: check_name(text, what)


def number(what: str, low: int, high: int = COUNT_MAX) -> Callable[[str], int]:
    return lambda text: parse_int(text, low, high, what)


def memory(what: str) -> Callable[[str], int]:
    return lambda text: parse_mb(text, what)


def checked(check: Callable[[str], object], what: str) -> Callable[[str], str]:
    """Check a text that is sent as written; empty means "not said"."""

    def convert(text: str) -> str:
        if text:
            check(check_name(text, what, TEXT_MAX))
        return text

    return convert


def array(text: str) -> None:
    from penstock.values.taskset import parse_array

    parse_array(text, ARRAY_SIZE_MAX)


def dependency(text: str) -> None:
    from penstock.values.dependency import parse_dependency

    parse_dependency(text)


def features(text: str) -> None:
    from penstock.values.features import parse_features

    parse_features(text)


def licenses(text: str) -> None:
    from penstock.values.licenses import parse_licenses

    parse_licenses(text)


def switches(text: str) -> tuple[int, int]:
    count, at, wait = text.partition("@")
    return parse_int(count, 1, COUNT_MAX, "number of switches"), max(0, parse_duration_s(wait)) if at else 0


def extra_node_info(text: str) -> tuple[int, int, int]:
    """-B: least sockets a node, cores a socket, threads a core; `*` or nothing is any."""
    words = text.split(":")
    if len(words) > 3:
        raise BadValue(f"{text!r} is not SOCKETS[:CORES[:THREADS]]")
    counts = [0 if word in ("*", "") else parse_int(word, 1, COUNT_MAX, "--extra-node-info") for word in words]
    sockets, cores, threads = (*counts, 0, 0)[:3]
    return sockets, cores, threads


#: By --hint: threads of a core that work, 0 = all.
_HINTS = {"nomultithread": 1, "compute_bound": 1, "multithread": 0}


def hint(text: str) -> int:
    if text not in _HINTS:
        raise BadValue(f"{text!r} is none of {', '.join(_HINTS)}, which Penstock knows")
    return _HINTS[text]


def gres_flags(text: str) -> str:
    for word in text.split(","):
        if word not in ("enforce-binding", "disable-binding"):
            raise BadValue(f"{word!r} is not supported by Penstock; enforce-binding and disable-binding are")
    return text


def hosts(text: str) -> None:
    from penstock.values.hostlist import expand

    expand(text)


def begin(text: str) -> int:
    from penstock.values.dates import parse_date_us

    return parse_date_us(text, time.time_ns() // 1000)


def gres(text: str) -> "tuple[Gres, ...]":
    from penstock.values.gres import parse_gres

    return parse_gres(text)


def gpus(text: str) -> "tuple[Gres, ...]":
    return gres(",".join(f"gpu:{part}" for part in text.split(",")))


def time_limit(text: str) -> int:
    return parse_duration_s(text) or UNLIMITED  # Slurm: a limit of 0 is no limit


def time_min(text: str) -> int:
    return max(0, parse_duration_s(text))


def nodes(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    least = parse_int(low, 1, COUNT_MAX, "node count")
    most = parse_int(high, 1, COUNT_MAX, "node count") if dash else least
    if most < least:
        raise BadValue(f"Maximum node count {most} is less than minimum node count {least}")
    return least, most


def partitions(text: str) -> list[str]:
    return [check_name(word, "partition name") for word in text.split(",") if word]


def exclusive(text: str) -> str:
    if text.lower() not in ("user", "mcs", "topo", "exclusive", ""):
        raise BadValue(f"{text!r} is none of user, mcs, topo")
    if text.lower() in ("mcs", "topo"):
        raise BadValue(f"{text!r} is not supported yet by Penstock; a plain --exclusive and =user are")
    return text.lower() if text.lower() == "user" else ""


def open_mode(text: str) -> str:
    for mode in ("append", "truncate"):
        if text.lower() in (mode, mode[0]):
            return mode
    raise BadValue(f"{text!r} is neither append nor truncate")


def yes_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise BadValue(f"{text!r} is neither yes nor no")
    return text.lower() == "yes"


def signal(text: str) -> str:
    parse_end_warning(text)
    return text


def mail_type(text: str) -> str:
    if text.upper() != "NONE":
        raise BadValue("mail is not supported yet by Penstock; only NONE is")
    return text


def node_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(NODE_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadValue(f"{path}: {error.strerror}") from error
    if len(data) > NODE_FILE_BYTES_MAX:
        raise BadValue(f"{path}: larger than {NODE_FILE_BYTES_MAX} bytes")
    names = ",".join(data.decode("utf-8", "surrogateescape").split())
    hosts(check_name(names, path, NODE_FILE_BYTES_MAX))
    return names


def node_gpus(text: str) -> "tuple[Gres, ...]":
    """GPUs of something: `4`, `a100:4`, `a100:2,h100:2`; 0 and none ask for nothing."""
    if text.lower() == "none":
        return ()
    return gpus(text)


def tres_per_task(text: str) -> tuple[int, "tuple[Gres, ...]"]:
    """--tres-per-task: CPUs of a task (0 = not said) and its generic resources."""
    cpus, rest = 0, []
    for word in text.split(","):
        name_, equals, count = word.replace(":", "=", 1).partition("=")
        if name_ == "cpu" and equals:
            cpus = parse_int(count, 1, COUNT_MAX, "cpu of --tres-per-task")
        elif word.startswith(("gres/", "gres:")):
            rest.append(word)
        else:
            raise BadValue(f"{word!r} is neither cpu=N nor gres/NAME[:TYPE]=N, which Penstock knows")
    return cpus, gres(",".join(rest))


_SPREADS = ("block", "cyclic", "arbitrary", "*")
_SPREADS_INSIDE = ("block", "cyclic", "fcyclic", "*")


def distribution(text: str) -> str:
    """--distribution: over nodes, sockets, cores; `plane=SIZE`; `Pack` or `NoPack` behind a comma. As it was written."""
    first, *inside = text.split(",")[0].lower().split(":")
    packing = [word.lower() for word in text.split(",")[1:]]
    size = first.removeprefix("plane=")
    if size != first:
        parse_int(size, 1, COUNT_MAX, "plane size")
        first = "block"
    known = first in _SPREADS and len(inside) <= 2 and all(word in _SPREADS_INSIDE for word in inside)
    if not known or any(word not in ("pack", "nopack") for word in packing):
        raise BadValue(
            f"{text!r} is not {{block|cyclic|plane=SIZE|arbitrary|*}}[:{{block|cyclic|fcyclic|*}}[:...]][,{{Pack|NoPack}}]"
        )
    return text


def no_kill(text: str) -> bool:
    """--no-kill, and --no-kill=off."""
    if text.lower() not in ("", "off"):
        raise BadValue(f"{text!r} is not off, the only value there is")
    return not text


def node_fail_policy(text: str) -> str:
    """stop or keep."""
    if text.lower() not in ("stop", "keep"):
        raise BadValue(f"{text!r} is neither stop nor keep")
    return text.lower()


def zero_one(text: str) -> bool:
    """0 or 1."""
    return parse_int(text, 0, 1, "value") == 1


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
    """--gpu-bind, as it was written."""
    return _check_bind(text, _GPU_BIND, GPU_BINDS)


def tres_bind(text: str) -> str:
    """--tres-bind: gres/gpu:BINDING as --gpu-bind; shares are on one GPU of a node, so there is little to say of them."""
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
    """--gpu-freq, as it was written."""
    import re

    words = check_name(text, "GPU frequency").split(",")
    if words[-1].lower() == "verbose":
        del words[-1]
    if not words or not all(re.fullmatch(_GPU_FREQ, word, re.IGNORECASE) for word in words):
        raise BadValue(f"{text!r}: expected [memory=]low, medium, high, highm1 or MHz, and perhaps ,verbose")
    return text
