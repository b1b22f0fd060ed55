"""Kinds of values for job policy and logging: exit codes, log levels, GPU defaults."""

import re
from ipaddress import ip_network

from penstock.config.kinds import NAMES, NAMES_OR_ALL, SECONDS_MAX, ValueKind, choice
from penstock.values.counts import format_ranges
from penstock.values.debugflags import read_flags
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.loglevels import LOG_LEVELS
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.signals import parse_signal, signal_name
from penstock.values.text import check_name, shown

#: Data that PrivateData may hide from other users. `cloud` shows powered-down nodes, which are always shown here.
_PRIVATE = ("accounts", "events", "jobs", "nodes", "partitions", "reservations", "usage", "users")
#: What AccountingStorageEnforce may enforce, in Slurm's order.
ENFORCED = ("associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys")
_IMPLIED = {
    "none": (), "0": (),
    "associations": ("associations",), "1": ("associations",),
    "limits": ("associations", "limits"), "2": ("associations", "limits"),
    "qos": ("associations", "qos"),
    "safe": ("associations", "limits", "safe"),
    "wckeys": ("associations", "wckeys"),
    "nojobs": ("nojobs", "nosteps"),
    "nosteps": ("nosteps",),
    "all": ("associations", "limits", "qos", "safe", "wckeys"),
}  # fmt: skip


#: Of PenstockHangAction: the seconds that a suspicion has to last, unless it says otherwise.
_HANG_GRACE_S = 600


def _read_hang_action(text: str, what: str) -> tuple[int, int]:
    """Reads `none`, or SIGNAL[@SECONDS] as in sbatch's --signal."""
    if text.lower() in ("none", "(null)"):
        return 0, 0
    name, at, seconds = text.partition("@")
    grace_s = parse_int(seconds, 0, SECONDS_MAX, what) if at else _HANG_GRACE_S
    try:
        return parse_signal(name), grace_s
    except BadValue as error:
        raise BadValue(f"Invalid {what}: {error}; write none or SIGNAL@SECONDS, like TERM@600") from None


def _write_hang_action(value: tuple[int, int]) -> str:
    signal_no, grace_s = value
    return f"{signal_name(signal_no)}@{grace_s}" if signal_no else "none"


def enforce_note(text: str) -> str:
    """Returns the note about words of AccountingStorageEnforce without effect, or ""."""
    if "nojobs" not in (word.strip().lower() for word in text.split(",")):
        return ""
    return (
        "jobs are recorded in spite of nojobs, since the queue and the records are one; their steps are not. "
        "PurgeJobAfter in slurmdbd.conf says when records of jobs go"
    )


#: Where completions of jobs may be written, of those that Slurm has.
JOB_COMPS = ("filetxt", "script", "elasticsearch", "kafka")
#: PMI libraries that srun supports.
MPI_KINDS = ("none", "pmi2", "pmix")
MCS_WORDS = ("ondemand", "enforced", "noselect", "select", "ondemandselect", "privatedata")
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?\Z")


def _read_private(text: str, what: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in text.split(",")]
    if words == ["none"]:
        return ()
    if "all" in words:
        return _PRIVATE
    for word in words:
        if word not in (*_PRIVATE, "cloud"):
            raise BadValue(f"Invalid {what}: expected none, all or some of {', '.join(_PRIVATE)}, not {shown(word)}")
    return tuple(word for word in _PRIVATE if word in words)


def _read_exit_codes(text: str, what: str) -> tuple[int, ...]:
    """Reads `1,5-9`; returns exit codes in ascending order."""
    if text.lower() in ("none", "(null)"):
        return ()
    codes: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = parse_int(first, 0, 255, what)
        high = parse_int(last, low, 255, what) if dash else low
        codes |= set(range(low, high + 1))
    return tuple(sorted(codes))


def _read_networks(text: str, what: str) -> tuple[str, ...]:
    """Reads addresses and networks (`10.0.0.0/8,::1`), separated by commas."""
    if text.lower() in ("all", "none", "(null)"):
        return ()
    found = []
    for word in map(str.strip, text.split(",")):
        try:
            found.append(str(ip_network(word)))
        except ValueError:
            raise BadValue(
                f"Invalid {what}: expected addresses or networks such as 10.1.0.0/16, not {shown(word)}"
            ) from None
    return tuple(dict.fromkeys(found))


def _read_domain(text: str, what: str) -> str:
    if text.lower() in ("none", "(null)"):
        return ""
    if not _DOMAIN.match(text):
        raise BadValue(f"Invalid {what}: {shown(text)} is not a domain")
    return text


def _read_job_defaults(text: str, what: str) -> dict[str, int]:
    """Reads `DefCpuPerGPU=4,DefMemPerGPU=16000` to fields."""
    fields: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip().lower() == "defcpupergpu":
            fields["def_cpu_per_gpu"] = parse_int(value, 0, 65533, "DefCpuPerGPU")
        elif name.strip().lower() == "defmempergpu":
            fields["def_mem_per_gpu_mb"] = parse_mb(value, "DefMemPerGPU")
        else:
            raise BadValue(f"Invalid {what}: expected DefCpuPerGPU=N,DefMemPerGPU=MB, not {shown(part)}")
    return fields


def show_job_defaults(cpus: int, mem_mb: int) -> str:
    """Formats the defaults as Slurm does; "" if there are none."""
    pairs = (("DefCpuPerGPU", cpus), ("DefMemPerGPU", mem_mb))
    return ",".join(f"{name}={value}" for name, value in pairs if value)


def _read_log_level(text: str, what: str) -> str:
    if text.isascii() and text.isdigit() and int(text[:4]) < len(LOG_LEVELS):
        return LOG_LEVELS[int(text)]
    if text.lower() not in LOG_LEVELS:
        raise BadValue(f"Invalid {what}: expected one of {', '.join(LOG_LEVELS)}, not {shown(text)}")
    return text.lower()


def _read_mpi(text: str, what: str) -> str:
    """Reads a PMI library that srun supports; `none` for others, which `mpi_note` reports."""
    name = check_name(text, what).lower().removeprefix("mpi/")
    return "pmix" if name.startswith("pmix") else name if name in MPI_KINDS else "none"


def mpi_note(text: str) -> str:
    """Returns the note about a library that srun does not support."""
    name = text.lower().removeprefix("mpi/")
    known = name in MPI_KINDS or name.startswith("pmix")
    return "" if known else f"srun has no {shown(text)}; none is used (there are {', '.join(MPI_KINDS)})"


def _read_mcs(text: str, what: str) -> str:
    """Checks `[ondemand|enforced][,noselect|select|ondemandselect][,privatedata][:GROUP|GROUP...]`."""
    for word in filter(None, text.partition(":")[0].split(",")):
        if word.strip().lower() not in MCS_WORDS:
            raise BadValue(f"Invalid {what}: expected some of {', '.join(MCS_WORDS)}, not {shown(word)}")
    return check_name(text, what)


def _read_hosts(text: str, what: str) -> tuple[str, ...]:
    return () if text.lower() == "all" else tuple(dict.fromkeys(expand(text)))


def _lower(kind: ValueKind) -> ValueKind:
    def read(text: str, what: str) -> object:
        return tuple(name.lower() for name in kind.read(text, what))

    return ValueKind(read, kind.write, kind.show)


def _read_enforce(text: str, what: str) -> tuple[str, ...]:
    """Reads the words, and adds those that they imply: limits require associations (slurm.conf(5))."""
    found: dict[str, None] = {}
    for word in (part.strip().lower() for part in text.split(",")):
        if word not in _IMPLIED:
            raise BadValue(f"Invalid {what}: expected none, all or some of {', '.join(ENFORCED)}, not {shown(word)}")
        found |= dict.fromkeys(_IMPLIED[word])
    return tuple(word for word in ENFORCED if word in found)


def _read_currency(text: str, what: str) -> str:
    if not re.fullmatch(r"[A-Za-z]{1,32}", text):
        raise BadValue(f"Invalid {what}: expected one word of letters, as EUR, not {shown(text)}")
    return text


def _read_qos(text: str, what: str) -> str:
    return "" if text.lower() in ("none", "(null)", "n/a") else check_name(text, what).lower()


def _read_job_comp(text: str, what: str) -> str:
    """Reads a way to deliver completions; "" for others, which `job_comp_note` reports."""
    name = check_name(text, what).lower().removeprefix("jobcomp/")
    return f"jobcomp/{name}" if name in JOB_COMPS else ""


def job_comp_note(text: str) -> str:
    """Returns the note about a way to deliver completions that Penstock lacks."""
    name = text.lower().removeprefix("jobcomp/")
    if name in (*JOB_COMPS, "none", "(null)"):
        return ""
    return (
        f"{shown(text)} is not supported (there are {', '.join(JOB_COMPS)}, and PenstockWebhooks); "
        "every job is recorded in the accounting tables (sacct)"
    )


JOB_COMP = ValueKind(_read_job_comp)
ENFORCE = ValueKind(_read_enforce, lambda words: ",".join(words) or "none")
CURRENCY = ValueKind(_read_currency)
QOS_NAME = ValueKind(_read_qos, lambda name: name or "N/A")
PRIVATE_DATA = ValueKind(_read_private, lambda words: ",".join(words) or "none")
EXIT_CODES = ValueKind(_read_exit_codes, lambda codes: format_ranges(codes) or "none", format_ranges)
DOMAIN = ValueKind(_read_domain)
NETWORKS = ValueKind(_read_networks, ",".join)
JOB_DEFAULTS = ValueKind(_read_job_defaults)
LOG_LEVEL = ValueKind(_read_log_level)
DEBUG_FLAGS = ValueKind(read_flags, ",".join)
HANG_ACTION = ValueKind(_read_hang_action, _write_hang_action)
LOG_TIME = choice(
    "iso8601", "iso8601_ms", "rfc5424", "rfc5424_ms", "rfc3339", "clock", "short", "thread_id", "format_stderr"
)
MCS = ValueKind(_read_mcs)
MPI_DEFAULT = ValueKind(_read_mpi)
HOSTS_OR_ALL = ValueKind(_read_hosts, lambda hosts: compress(hosts) or "ALL")
LOWER_NAMES = _lower(NAMES)
LOWER_NAMES_OR_ALL = _lower(NAMES_OR_ALL)
