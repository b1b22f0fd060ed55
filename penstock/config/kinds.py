"""Kinds of values: how each is read from the file, written to it, and shown by `scontrol show config`.

A `ValueKind` is three functions. `read` raises `BadValue`, whose text states what is allowed; `write` returns text that
`read` converts to an equal value; `show` returns what Slurm prints, where that differs (`30 sec`, `(null)`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Any: each parameter has a value of its kind
from typing import Any, Final

from penstock.values.duration import UNLIMITED, format_duration, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.licenses import format_licenses, parse_licenses
from penstock.values.memory import parse_mb
from penstock.values.names import is_cluster_name, why_no_schema
from penstock.values.numbers import parse_int
from penstock.values.text import check_name, shown
from penstock.values.urls import place_without_secret, without_password
from penstock.values.weights import format_weights, parse_weights

#: The largest number of any parameter: Slurm's 32-bit fields, less the reserved values.
INT_MAX = 4_294_967_293

#: The maximum number of jobs per CPU (OverSubscribe=FORCE:n); more would not be useful.
SHARE_MAX = 1024

#: The longest interval in seconds: a year. A longer one is a mistake of units.
SECONDS_MAX = 366 * 86400

_TRUE = ("yes", "true", "up", "1")
_FALSE = ("no", "false", "down", "0")
_UNLIMITED = ("unlimited", "infinite", "-1")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:-]*[A-Za-z0-9_])?\Z")


@dataclass(frozen=True, slots=True)
class ValueKind:
    """One kind of value: how it is read, written and shown."""

    read: Callable[[str, str], Any]
    write: Callable[[Any], str] = str
    show: Callable[[Any], str] | None = None

    def shown(self, value: object) -> str:
        """Formats the value for `scontrol show config`."""
        return (self.show or self.write)(value) or "(null)"


def _read_bool(text: str, what: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise BadValue(f"Invalid {what}: expected YES or NO, not {shown(text)}")


def _read_names(text: str, what: str) -> tuple[str, ...]:
    """Reads a comma-separated list and removes duplicates; empty entries are refused."""
    names = tuple(dict.fromkeys(check_name(name, what) for name in text.split(",")))
    if not all(names):
        raise BadValue(f"Invalid {what}: an empty name in {shown(text)}")
    return names


def _read_names_or_none(text: str, what: str) -> tuple[str, ...]:
    return _read_names(text, what) if text else ()


def _read_names_or_all(text: str, what: str) -> tuple[str, ...]:
    """Reads a comma-separated list; ALL (no restriction) is the empty tuple."""
    return () if text.lower() == "all" else _read_names(text, what)


def _read_mb(text: str, what: str) -> int:
    """Reads a memory size; UNLIMITED is 0 (not set)."""
    if text.lower() in _UNLIMITED:
        return 0
    return parse_mb(text, what)


def _read_size_mb(text: str, what: str) -> int:
    """Reads the memory or disk size of a node: megabytes or a number with suffix, not UNLIMITED."""
    if text.lower() in _UNLIMITED:
        raise BadValue(f"Invalid {what}: expected megabytes, not {shown(text)}")
    return _read_mb(text, what)


def _read_host(text: str, what: str) -> str:
    if not _HOST.match(text) or len(text) > 255:
        raise BadValue(f"Invalid {what}: {shown(text)} is not a host name or address")
    return text


def _read_path(text: str, what: str) -> str:
    check_name(text, what, limit=4096)
    if not text.startswith("/"):
        raise BadValue(f"Invalid {what}: expected an absolute path, not {shown(text)}")
    return text


def _read_optional_path(text: str, what: str) -> str:
    return "" if text.lower() in ("none", "(null)") else _read_path(text, what)


def _read_xid_file(text: str, what: str) -> str:
    """Reads a file name, which may be relative to the folder of slurm.conf."""
    return "" if text.lower() in ("none", "(null)") else check_name(text, what, limit=4096)


def _read_submit_plugins(text: str, what: str) -> tuple[str, ...]:
    """Reads the submit plug-ins that there are here: Lua's."""
    names = [name.rpartition("/")[2].lower() for name in _read_names_or_none(text, what)]
    return ("lua",) if "lua" in names else ()


def submit_plugins_note(text: str) -> str:
    """Returns what is not used of JobSubmitPlugins; "" = nothing."""
    names = [name for name in text.split(",") if name.rpartition("/")[2].lower() not in ("lua", "none", "(null)")]
    if not names:
        return ""
    return f"{', '.join(names)}: Slurm's compiled plug-ins cannot be loaded; lua and PenstockSubmitFilter are used"


#: The filters of options that commands have (docs/hooks.md).
CLI_FILTER_NAMES: Final = ("lua", "user_defaults", "syslog")


def _read_cli_filters(text: str, what: str) -> tuple[str, ...]:
    """Reads the filters of options that there are here."""
    names = [name.rpartition("/")[2].lower() for name in _read_names_or_none(text, what)]
    return tuple(name for name in names if name in CLI_FILTER_NAMES)


def cli_filters_note(text: str) -> str:
    """Returns what is not used of CliFilterPlugins; "" = nothing."""
    used = (*CLI_FILTER_NAMES, "none", "(null)")
    names = [name for name in text.split(",") if name.rpartition("/")[2].lower() not in used]
    if not names:
        return ""
    used_here = f"{', '.join(CLI_FILTER_NAMES)} and PenstockCliFilter are used"
    return f"{', '.join(names)}: Slurm's compiled plug-ins cannot be loaded; {used_here}"


def _read_program(text: str, what: str) -> str:
    """Reads an absolute path, or a name to be searched in root's PATH."""
    return _read_name(text, what) if "/" not in text else _read_path(text, what)


def _read_paths(text: str, what: str) -> tuple[str, ...]:
    """Reads absolute paths, separated by commas."""
    return tuple(dict.fromkeys(_read_path(path, what) for path in text.split(",")))


def _read_patterns(text: str, what: str) -> tuple[str, ...]:
    """Reads absolute paths or glob(7) patterns. Relative ones are refused: a user could control them."""
    return () if text.lower() in ("none", "(null)") else _read_paths(text, what)


#: Slurm's value for "no timeout".
_NO_TIMEOUT_S = 65534


def _read_script_timeout_s(text: str, what: str) -> int:
    """Reads seconds; 0 = no timeout."""
    if text.lower() in _UNLIMITED:
        return 0
    seconds = parse_int(text, 0, _NO_TIMEOUT_S, what)
    return 0 if seconds == _NO_TIMEOUT_S else seconds


def _read_text(text: str, what: str) -> str:
    return check_name(text, what)


def _read_name(text: str, what: str) -> str:
    if not check_name(text, what) or re.search(r"[\s,]", text):
        raise BadValue(f"Invalid {what}: expected one name without spaces and commas, not {shown(text)}")
    return text


def _read_schema(text: str, what: str) -> str:
    if why := why_no_schema(text):
        raise BadValue(f"{what}={text}: {why}")
    return text


def _read_cluster_name(text: str, what: str) -> str:
    if not is_cluster_name(text.lower()):
        raise BadValue(f"Invalid {what}: write at most 40 letters, digits, '_' and '-', not {shown(text)}")
    return text.lower()


def _read_default_time_s(text: str, what: str) -> int:
    """Reads a time; NONE (or 0) means that MaxTime is used."""
    return 0 if text.lower() == "none" else parse_duration_s(text)


def _read_minutes_s(text: str, what: str) -> int:
    """Reads minutes as seconds; UNLIMITED is -1."""
    if text.lower() in _UNLIMITED:
        return UNLIMITED
    return parse_int(text, 0, SECONDS_MAX // 60, what) * 60


def _write_minutes(seconds: int) -> str:
    return "UNLIMITED" if seconds == UNLIMITED else str(-(-seconds // 60))


def _write_duration(seconds: int) -> str:
    return "UNLIMITED" if seconds == UNLIMITED else format_duration(seconds)


def _read_first_port(text: str, what: str) -> int:
    """Reads a port, or the first port of a range."""
    first, dash, last = text.partition("-")
    port = parse_int(first, 1, 65535, what)
    if dash:
        parse_int(last, port, 65535, what)
    return port


def _read_parameters(text: str, what: str) -> tuple[tuple[str, str], ...]:
    """Reads `a=1,b,c=2` as pairs; a word without `=` has the value ""."""
    pairs = []
    for word in text.split(","):
        name, _, value = check_name(word, what).strip().partition("=")
        if name:
            pairs.append((name, value))
    return tuple(pairs)


def _write_parameters(pairs: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f"{name}={value}" if value else name for name, value in pairs)


def integer(low: int, high: int = INT_MAX) -> ValueKind:
    """Returns the kind of whole numbers in a range."""
    return ValueKind(lambda text, what: parse_int(text, low, high, what))


def integer_or_unlimited(low: int, high: int = INT_MAX) -> ValueKind:
    """Returns the kind of whole numbers in a range; UNLIMITED is -1."""

    def read(text: str, what: str) -> int:
        return UNLIMITED if text.lower() in _UNLIMITED else parse_int(text, low, high, what)

    return ValueKind(read, lambda value: "UNLIMITED" if value == UNLIMITED else str(value))


def seconds(low: int, high: int = SECONDS_MAX, unlimited: int | None = None) -> ValueKind:
    """Returns the kind of intervals in seconds; `unlimited` is the value of UNLIMITED, or None if that is not allowed."""

    def read(text: str, what: str) -> int:
        if unlimited is not None and text.lower() in _UNLIMITED:
            return unlimited
        return parse_int(text, low, high, what)

    return ValueKind(read, str, lambda value: f"{value} sec")


#: Heartbeats arrive every 5 s. With a shorter lease, a slightly late one would end jobs.
LEASE_S_MIN = 12


def _read_lease(text: str, what: str) -> int:
    found = parse_int(text, 0, 65533, what)
    if 0 < found < LEASE_S_MIN:
        raise BadValue(f"{what} {text} is too short: 0 (no leases) or at least {LEASE_S_MIN}")
    return found


lease = ValueKind(_read_lease, str, lambda value: f"{value} sec")


def choice(*allowed: str, also: dict[str, str] | None = None) -> ValueKind:
    """Returns the kind of one of these words; `also` maps aliases to them. The plug-in's kind (task/) may be omitted."""
    words = {word.partition("/")[2].lower(): word for word in allowed if "/" in word}
    words |= {word.lower(): word for word in allowed} | {old.lower(): word for old, word in (also or {}).items()}

    def read(text: str, what: str) -> str:
        if text.lower() not in words:
            raise BadValue(f"Invalid {what}: expected {', '.join(allowed)}, not {shown(text)}")
        return words[text.lower()]

    return ValueKind(read)


def _read_backfill(text: str, what: str) -> str:
    """Reads conservative, easy, none, fifo, or the number of pending jobs that may hold resources."""
    if text.lower() in ("conservative", "easy", "none", "fifo"):
        return text.lower()
    return str(parse_int(text, 0, INT_MAX, what))


def with_count(kind: ValueKind, *counted: str) -> ValueKind:
    """Extends a kind by `:N` after the words in `counted`; the value is `WORD:N`."""

    def read(text: str, what: str) -> object:
        word, colon, count = text.partition(":")
        found = kind.read(word, what)
        if not colon:
            return found
        if found not in counted:
            raise BadValue(f"Invalid {what}: {found} takes no number, {' and '.join(counted)} do")
        return f"{found}:{parse_int(count, 1, SHARE_MAX, what)}"

    return ValueKind(read, kind.write, kind.show)


def _read_preempt_mode(text: str, what: str) -> tuple[str, ...]:
    """Reads the mode, GANG and WITHIN, in any order; returns them in this one."""
    modes = choices("OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN").read(text, what)
    return tuple(sorted(modes, key=lambda mode: mode in ("GANG", "WITHIN")))


def _show_preempt_mode(modes: tuple[str, ...]) -> str:
    """Formats modes as Slurm does: GANG first."""
    return ",".join(sorted(modes, key=lambda mode: mode != "GANG"))


def _read_exempt_s(text: str, what: str) -> int:
    """Reads a time; -1 means none."""
    return 0 if text == "-1" else parse_duration_s(text)


def _read_grace_s(text: str, what: str) -> int:
    """Reads seconds, or a time with colons (slurm.conf(5))."""
    return parse_duration_s(text) if ":" in text or "-" in text else parse_int(text, 0, SECONDS_MAX, what)


def choices(*allowed: str) -> ValueKind:
    """Returns the kind of comma-separated lists of these words; the value is a tuple."""
    one = choice(*allowed)
    return ValueKind(
        lambda text, what: tuple(dict.fromkeys(one.read(word, what) for word in text.split(","))),
        lambda value: ",".join(value),
    )


def joined_choices(*allowed: str) -> ValueKind:
    """Returns the kind of comma-separated lists of these words; the value is text."""
    many = choices(*allowed)
    return ValueKind(lambda text, what: ",".join(many.read(text, what)))


def _join(names: tuple[str, ...]) -> str:
    return ",".join(names)


def _show_mb(mb: int) -> str:
    return str(mb) if mb else "UNLIMITED"


_PRIORITY_FLAGS = choices(
    "ACCRUE_ALWAYS", "CALCULATE_RUNNING", "DEPTH_OBLIVIOUS", "FAIR_TREE", "INCR_ONLY", "MAX_TRES", "MAX_TRES_GRES",
    "NO_FAIR_TREE", "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES",
    "SMALL_RELATIVE_TO_TIME", "TICKET_BASED",
)  # fmt: skip


def _read_priority_flags(text: str, what: str) -> tuple[str, ...]:
    flags: tuple[str, ...] = _PRIORITY_FLAGS.read(text, what) if text else ()
    return tuple(flag for flag in flags if flag not in ("DEPTH_OBLIVIOUS", "FAIR_TREE", "TICKET_BASED"))


def priority_flags_note(text: str) -> str:
    """Returns the note about flags that Penstock does not support. FAIR_TREE is always in effect."""
    words = text.upper().split(",")
    old = [word for word in ("DEPTH_OBLIVIOUS", "TICKET_BASED") if word in words]
    return (
        f"{' and '.join(old)} is not used: Fair Tree does not favour users for the depth of their account"
        if old
        else ""
    )


def task_param_note(text: str) -> str:
    """Returns the note about words that Slurm has removed."""
    old = [word for word in text.split(",") if word.lower() in _OLD_TASK_PARAMS]
    return f"{','.join(old)} is not used: TaskPlugin says how tasks are bound" if old else ""


def _read_forgetting_s(text: str, what: str) -> int:
    """Reads a half-life; UNLIMITED and 0 are 0 (never)."""
    return max(0, parse_duration_s(text))


def _read_mpi_ports(text: str, what: str) -> tuple[int, int]:
    """Reads ports=12000-12999; privileged ports are refused."""
    name, _, value = text.partition("=")
    first, dash, last = value.partition("-")
    if name.lower() != "ports" or not dash:
        raise BadValue(f"Invalid {what}: {shown(text)}; write ports=FIRST-LAST")
    low, high = (parse_int(number, 1024, 65535, what) for number in (first, last))
    if high < low:
        raise BadValue(f"Invalid {what}: {shown(text)} holds no port")
    return low, high


def _read_period_s(text: str, what: str) -> int:
    """Reads an interval of at least a second, written as a time (a plain number is minutes)."""
    found = parse_duration_s(text)
    if found < 1:
        raise BadValue(f"Invalid {what}: {shown(text)} is no interval")
    return found


def _read_percent(text: str, what: str) -> float:
    """Reads a percentage as in cgroup.conf: a number, optionally followed by `%`."""
    match = _PERCENT_TEXT.fullmatch(text)
    if match is None:
        raise BadValue(f"Invalid {what}: expected a percentage like 100 or 98.5, not {shown(text)}")
    return float(match[1])


def _write_percent(percent: float) -> str:
    return f"{percent:g}%"


def _read_gather_s(text: str, what: str) -> int:
    """Reads the interval of tasks from `30` or `task=30,energy=0,...`. Other intervals are checked and ignored."""
    if "=" not in text:
        return parse_int(text, 0, SECONDS_MAX, what)
    found = 30
    for part in text.split(","):
        word, _, value = part.partition("=")
        if word.lower() not in ("task", "energy", "network", "filesystem"):
            raise BadValue(f"Invalid {what}: expected seconds or task=SECONDS, not {shown(part)}")
        number = parse_int(value, 0, SECONDS_MAX, what)
        if word.lower() == "task":
            found = number
    return found


def _read_task_param(text: str, what: str) -> tuple[str, ...]:
    words = [word for word in text.split(",") if word.lower() not in ("none", *_OLD_TASK_PARAMS)]
    return _TASK_PARAMS.read(",".join(words), what) if words else ()


_OLD_TASK_PARAMS = ("sched", "boards", "cpusets")
_PERCENT_TEXT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)%?")
_TASK_PARAMS = choices("Cores", "Sockets", "Threads", "Verbose", "Autobind=cores", "Autobind=threads", "Autobind=none",
    "SlurmdOffSpec", "OOMKillStep", "SlurmdSpecOverride")  # fmt: skip
PERCENT = ValueKind(_read_percent, _write_percent)
MIN_RAM = ValueKind(_read_size_mb, str, lambda mb: f"{mb}MB")
YES_NO_SMALL = ValueKind(_read_bool, lambda value: "yes" if value else "no")
TASK_PLUGIN_PARAM = ValueKind(
    _read_task_param, lambda words: ",".join(words) or "none", lambda words: ",".join(words) or "(null type)"
)
ACCT_GATHER_FREQUENCY = ValueKind(_read_gather_s)
ACCT_GATHER_TYPE = ValueKind(
    choice("jobacct_gather/none", "jobacct_gather/linux", "jobacct_gather/cgroup").read,
    str,
    lambda value: "" if value == "jobacct_gather/none" else str(value),
)

TEXT = ValueKind(_read_text)
#: Hostlists and other lists that their own parser validates.
RAW = ValueKind(lambda text, what: text)
NAME = ValueKind(_read_name)
HOST = ValueKind(_read_host)
PATH = ValueKind(_read_path)
OPTIONAL_NAME = ValueKind(lambda text, what: "" if text.lower() in ("none", "(null)") else _read_name(text, what))
XID_FILE = ValueKind(_read_xid_file)
PROGRAM = ValueKind(_read_program)
OPTIONAL_PATH = ValueKind(_read_optional_path)
CLI_FILTERS = ValueKind(_read_cli_filters, lambda names: _join(names) or "(null)")
SUBMIT_PLUGINS = ValueKind(_read_submit_plugins, lambda names: _join(names) or "(null)")
PATHS = ValueKind(_read_paths, _join)
PATTERNS = ValueKind(_read_patterns, _join)
SCRIPT_TIMEOUT = ValueKind(_read_script_timeout_s, lambda value: str(value or _NO_TIMEOUT_S))
URL = ValueKind(_read_text, str, without_password)
SCHEMA = ValueKind(_read_schema)
PLACE = ValueKind(_read_text, str, place_without_secret)
CLUSTER_NAME = ValueKind(_read_cluster_name)
BOOL = ValueKind(_read_bool, lambda value: "YES" if value else "NO")
BOOL_AS_NUMBER = ValueKind(_read_bool, lambda value: "YES" if value else "NO", lambda value: str(int(value)))
NAMES = ValueKind(_read_names, _join)
NAMES_OR_NONE = ValueKind(_read_names_or_none, _join)
NAMES_OR_ALL = ValueKind(_read_names_or_all, lambda names: _join(names) or "ALL")
MB = ValueKind(_read_mb, str, _show_mb)
SIZE_MB = ValueKind(_read_size_mb)
DURATION = ValueKind(lambda text, what: parse_duration_s(text), _write_duration)
DEFAULT_TIME = ValueKind(_read_default_time_s, lambda value: _write_duration(value) if value else "NONE")
MINUTES = ValueKind(_read_minutes_s, _write_minutes, lambda value: f"{_write_minutes(value)} min")
PORT = integer(1, 65535)
BACKFILL = ValueKind(_read_backfill)
LICENSES = ValueKind(lambda text, what: parse_licenses(text), format_licenses)
PREEMPT_MODE = ValueKind(_read_preempt_mode, lambda modes: ",".join(modes), _show_preempt_mode)
MPI_PORTS = ValueKind(_read_mpi_ports, lambda value: f"ports={value[0]}-{value[1]}")
EXEMPT_TIME = ValueKind(_read_exempt_s, _write_duration)
GRACE_TIME = ValueKind(_read_grace_s, str)
FIRST_PORT = ValueKind(_read_first_port)
PARAMETERS = ValueKind(_read_parameters, _write_parameters)
HALF_LIFE = ValueKind(_read_forgetting_s, format_duration)
PERIOD = ValueKind(_read_period_s, format_duration)
YES_NO = ValueKind(_read_bool, lambda value: "YES" if value else "NO", lambda value: "Yes" if value else "No")
TRES_WEIGHTS = ValueKind(parse_weights, format_weights)
PRIORITY_FLAGS = ValueKind(_read_priority_flags, _join)
