"""Parses the values of a job's options: one function a syntax, each raising BadValue with its reason.

Numbers, sizes and times become numbers. Texts that the controller parses again (arrays, dependencies, hostlists) are
checked and stay text. Parsers are imported on demand: most submissions need one or two, and start-up time matters.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from cli.base.options import LateText, LateValue, OptionValues, WholeText, flag_is_on, message_text
from cli.base.run import RemoteAnswer
from cli.base.users import find_uid, named_group
from penstock.boundedfile import read_bounded
from penstock.values.duration import UNLIMITED, parse_duration_s, whole_minutes
from penstock.values.errors import BadValue
from penstock.values.memory import parse_mb
from penstock.values.numbers import is_digits, parse_int
from penstock.values.signals import parse_end_warning
from penstock.values.text import check_name

if TYPE_CHECKING:
    from penstock.values.gres import Gres

_Value = TypeVar("_Value")

COUNT_MAX = 2**31 - 1  # nodes, tasks, CPUs: Slurm's range; the controller's limits are far below
NICE_MAX = 2_147_483_645
PRIORITY_MAX = 2**32 - 2
ID_MAX = 2**32 - 2
LONG_MAX = 2**63 - 1
DIGITS_MAX = 20  # more digits than LONG_MAX
#: Slurm's hard limit of MaxArraySize; the cluster's own is checked by the controller.
ARRAY_SIZE_MAX = 4_000_001
#: The longest structured text: dependencies on thousands of jobs occur.
TEXT_MAX = 256 * 1024
#: The largest file of host names: room for 65,536 names.
NODE_FILE_BYTES_MAX = 4 * 1024 * 1024


def name(what: str) -> Callable[[str], str]:
    return late(lambda text: check_name(text, what))


def late(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """The same parser, for an option whose value Slurm's commands leave to the controller."""

    def convert(text: str) -> _Value:
        try:
            return read(text)
        except BadValue as error:
            raise LateValue(str(error)) from error

    return convert


def number(what: str, low: int, high: int = COUNT_MAX) -> Callable[[str], int]:
    """Parses a whole number; an invalid or too large one is reported in Slurm's words."""

    def convert(text: str) -> int:
        try:
            return parse_int(text, low, high, what)
        except BadValue as error:
            value = min(int(text[:DIGITS_MAX]), LONG_MAX) if is_digits(text) else 0
            if value > high:
                raise LateText(f"Numeric argument ({value}) to big for {what}.") from error
            raise LateText(f'Invalid numeric value "{message_text(text)}" for {what}.') from error

    return convert


def immediate(text: str) -> int:
    """Parses the seconds of --immediate; as in Slurm, within one second means at once."""
    seconds = number("immediate", 0)(text)
    return 0 if seconds == 1 else seconds


def memory(what: str) -> Callable[[str], int]:
    return lambda text: parse_mb(text, what)


def checked(check: Callable[[str], object], what: str) -> Callable[[str], str]:
    """Checks a text that is sent as written; empty means "not given"."""

    def convert(text: str) -> str:
        if text:
            check(check_name(text, what, TEXT_MAX))
        return text

    return late(convert)


def array(text: str) -> None:
    from penstock.values.taskset import parse_array

    try:
        parse_array(text, ARRAY_SIZE_MAX)
    except BadValue as error:  # the option adds the rest
        raise BadValue(str(error).removeprefix("Invalid job array specification: ")) from error


def dependency(text: str) -> None:
    from penstock.values.dependency import parse_dependency

    parse_dependency(text)


def features(text: str) -> None:
    from penstock.values.features import parse_features

    parse_features(text)


def licenses(text: str) -> None:
    from penstock.values.licenses import split_licenses

    split_licenses(text)  # a count may be a word of the site, which the controller knows


_switch_count = number("--switches", 1)


def switches(text: str) -> tuple[int, ...]:
    """The most switches, and the seconds to wait for so few if given."""
    count, at, wait = text.partition("@")
    return (_switch_count(count), switches_wait(wait)) if at else (_switch_count(count),)


def switches_wait(text: str) -> int:
    return max(0, parse_duration_s(text))


_PARTS_OF_B = tuple(number(f"{which} arg of -B", 1) for which in ("first", "second", "third"))


def _least(text: str, read: Callable[[str], int]) -> int:
    """The least of a range, `2-4`; its most does not matter, as in Slurm."""
    least, _, most = text.partition("-")
    if most:
        read(most)
    return read(least)


def extra_node_info(text: str) -> tuple[int, int, int]:
    """-B: least sockets a node, cores a socket, threads a core; `*` or nothing is any."""
    words = text.split(":")
    if len(words) > 3:
        raise BadValue(f"{message_text(text)} is not SOCKETS[:CORES[:THREADS]]")
    counts = [0 if word in ("*", "") else _least(word, read) for word, read in zip(words, _PARTS_OF_B, strict=False)]
    sockets, cores, threads = (*counts, 0, 0)[:3]
    return sockets, cores, threads


GRES_FLAGS = (
    "enforce-binding", "disable-binding", "multiple-tasks-per-sharing", "one-task-per-sharing", "allow-task-sharing",
)  # fmt: skip


def gres_flags(text: str) -> str:
    for word in text.lower().split(","):
        if word not in GRES_FLAGS:
            raise BadValue(f"known are {', '.join(GRES_FLAGS)}")
    return text


@lru_cache(maxsize=1)  # components of a job, and the options of a request, often have the same list
def hosts(text: str) -> None:
    from penstock.values.hostlist import expand

    expand(text)


def host_list(text: str) -> str:
    """A list of hosts, repetitions written out: with --distribution=arbitrary a task for each."""
    if "*" in text:
        from penstock.values.hostlist import repeated

        text = repeated(text)
    if text:
        hosts(check_name(text, "host list", TEXT_MAX))
    return text


def begin(text: str) -> int:
    from penstock.values.dates import parse_date_us

    return parse_date_us(text, time.time_ns() // 1000)


def gres(text: str) -> "tuple[Gres, ...]":
    """A list of resources; `help` asks the controller which there are."""
    if text == "help":
        raise RemoteAnswer(_gres_help())
    return listed_gres(text)


def listed_gres(text: str) -> "tuple[Gres, ...]":
    """A list of resources, without help."""
    from penstock.values.gres import parse_gres

    return late(parse_gres)(text)


def _gres_help() -> str:
    """The cluster's generic resources."""
    from penstock.client import Client
    from penstock.v1.controller_pb2 import ShowConfigRequest

    with Client.open() as client:
        lines = client.call("ShowConfig", ShowConfigRequest()).lines
    kinds = next((line.value for line in lines if line.key == "GresTypes"), "")
    return "\n".join(["Valid gres options are:", *(f"{kind}[[:type]:count]" for kind in kinds.split(",") if kind)])


def devices(values: OptionValues, key: str) -> "tuple[Gres, ...]":
    """The generic resources that an option names."""
    if not values.flag(key):
        return ()
    from penstock.values.gres import Gres  # loaded already: the value has some

    return values.each(Gres, key)


def gpus(text: str) -> "tuple[Gres, ...]":
    return gres(",".join(f"gpu:{part}" for part in text.split(",")))


def time_limit(text: str) -> int:
    return whole_minutes(parse_duration_s(text)) or UNLIMITED  # Slurm: a limit of 0 is no limit


def time_min(text: str) -> int:
    return max(0, whole_minutes(parse_duration_s(text)))


def nodes(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    least = _node_count(low)
    most = _node_count(high) if dash else least
    if most < least:
        raise WholeText(f"Maximum node count {most} is less than minimum node count {least}")
    return least, most


def _node_count(text: str) -> int:
    """As in Slurm a count may be in k or m: 1k is 1024."""
    factor = {"k": 1024, "m": 1024 * 1024}.get(text[-1:].lower(), 1)
    try:
        return parse_int(text[:-1] if factor > 1 else text, 1, COUNT_MAX // factor, "node count") * factor
    except BadValue as error:
        raise WholeText(f'"{message_text(text)}" is not a valid node count') from error


_partition = name("partition name")


def partitions(text: str) -> list[str]:
    return [_partition(word) for word in text.split(",") if word]


def exclusive(text: str) -> str:
    word = text.lower() or "exclusive"
    if word not in ("exclusive", "user", "mcs", "topo"):
        raise BadValue("known are user, mcs, topo, or no value")
    return word


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


def mail_types(text: str) -> tuple[str, ...]:
    """The events, in capitals, each once; NONE is none."""
    from penstock.values.mail import parse_mail_types

    if not text:
        raise BadValue("no event is named; NONE is none")
    return parse_mail_types(text)


def mail_user(text: str) -> str:
    from penstock.values.mail import parse_mail_user

    return parse_mail_user(text)


def nice(text: str) -> int:
    try:
        return parse_int(text, -NICE_MAX, NICE_MAX, "--nice")
    except BadValue as error:
        if is_digits(text.removeprefix("-")):
            raise WholeText(f"Invalid --nice value, out of range (+/- {NICE_MAX})") from error
        raise


def priority(text: str) -> int:
    """A number; TOP is the highest priority."""
    if text.upper() == "TOP":
        return PRIORITY_MAX
    if is_digits(text.removeprefix("-")):
        if text.startswith("-"):
            raise WholeText("Priority must be >= 0")
        if int(text[:DIGITS_MAX]) > PRIORITY_MAX:
            raise WholeText(f"Priority must be < {PRIORITY_MAX}")
    return parse_int(text, 0, PRIORITY_MAX, "--priority")


def requeue(text: str) -> bool | str | None:
    """True, `expedite`, or None where a variable turns it off."""
    if text.lower() == "expedite":
        return "expedite"
    if text.lower() not in ("yes", "no", "") and not is_digits(text):
        raise BadValue("the only value is expedite")
    return True if flag_is_on(text) else None


def get_user_env(text: str) -> bool:
    """[seconds][S|L]: the timeout, and the kind of login shell; neither is used."""
    if not is_digits(text[:-1] + "0" if text[-1:] in ("S", "L") else text):
        raise BadValue("expected [seconds][S|L]")
    return True


def user(text: str) -> int:
    """A user by name or number."""
    if is_digits(text):
        return parse_int(text, 0, ID_MAX, "user id")
    uid = find_uid(text)
    if uid is None:
        raise BadValue("no such user here")
    return uid


def group(text: str) -> int:
    """A group by name or number."""
    if is_digits(text):
        return parse_int(text, 0, ID_MAX, "group id")
    gid = named_group(text)
    if gid is None:
        raise BadValue("no such group here")
    return gid


PROFILES = ("all", "none", "energy", "task", "lustre", "network")


def profile(text: str) -> str:
    for word in text.lower().split(","):
        if word not in PROFILES:
            raise BadValue(f"known are {', '.join(PROFILES)}")
    return text


SAMPLED = ("task", "energy", "network", "filesystem", "gpu")


def acctg_freq(text: str) -> str:
    """`30`, or `task=30,energy=60`: seconds by what is sampled; 0 = never."""
    for word in text.split(","):
        name_, equals, seconds = word.rpartition("=")
        if (equals and name_.lower() not in SAMPLED) or not is_digits(seconds) or len(seconds) > 5:
            raise WholeText(f"Invalid --acctg-freq specification: {message_text(text)}")
    return text


def node_file(path: str) -> str:
    try:
        data = read_bounded(path, NODE_FILE_BYTES_MAX)
    except OSError as error:
        text = f"slurm_allocate_resources error opening file {message_text(path)}, {error.strerror}"
        raise WholeText(f"{text}\nInvalid --nodefile node file") from error
    names = ",".join(data.decode("utf-8", "surrogateescape").split())
    if "*" in names:
        from penstock.values.hostlist import repeated

        names = repeated(names)
    hosts(check_name(names, path, NODE_FILE_BYTES_MAX))
    return names


def node_gpus(text: str) -> "tuple[Gres, ...]":
    """A number of GPUs: `4`, `a100:4`, `a100:2,h100:2`; 0 and none request nothing."""
    if text.lower() == "none":
        return ()
    return gpus(text)


class TaskTres(tuple[int, "tuple[Gres, ...]"]):
    """CPUs of a task, 0 = not given, and its generic resources. No NamedTuple: making one takes ten times as long."""

    __slots__ = ()


def tres_per_task(text: str) -> TaskTres:
    """Parses --tres-per-task."""
    cpus, rest = 0, []
    for word in text.split(","):
        name_, equals, count = word.replace(":", "=", 1).partition("=")
        if name_ == "cpu" and equals:
            cpus = parse_int(count, 1, COUNT_MAX, "cpu of --tres-per-task")
        elif word.startswith(("gres/", "gres:")):
            rest.append(word)
        else:
            raise BadValue(f"{word!r} is neither cpu=N nor gres/NAME[:TYPE]=N, which Penstock supports")
    return TaskTres((cpus, gres(",".join(rest))))


def no_kill(text: str) -> bool:
    """--no-kill, and --no-kill=off."""
    if text.lower() not in ("", "off"):
        raise BadValue(f"{text!r} is not off, the only value")
    return not text


def node_fail_policy(text: str) -> str:
    """stop or keep."""
    if text.lower() not in ("stop", "keep"):
        raise BadValue(f"{text!r} is neither stop nor keep")
    return text.lower()


def zero_one(text: str) -> bool:
    """0 or 1."""
    return parse_int(text, 0, 1, "value") == 1
