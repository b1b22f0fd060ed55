"""The environment that a job inherits from the process that submits it: variables, soft limits, umask.

The environment is bytes and stays bytes; it is passed on unchanged, also where it is not UTF-8. --export selects from
it: ALL (the default), NONE and NIL (only SLURM_* and SPANK_*), or a list of names and NAME=value, which may hold ALL.
Values in a list may be quoted to protect commas.

Submitting from inside a job: the variables that are set for each job are removed. Those that the new job does not set
itself (SLURM_ARRAY_TASK_ID, say) would otherwise describe the outer job. Variables that commands read (SLURM_CONF,
SLURM_TIME_FORMAT, ...) and those that Penstock does not set stay. SLURM_JWT, a secret, is never passed on.
"""

import errno
import os
import resource
from collections.abc import Mapping

from cli.base.run import CommandError
from penstock.boundedfile import read_bounded
from penstock.values.numbers import is_digits
from penstock.values.rlimits import RLIMITS
from penstock.values.text import shown

#: The controller's default limit (config.max_environment_bytes); it checks again with its own.
ENVIRONMENT_BYTES_MAX = 1024 * 1024
EXPORT_NOTHING = ("NONE", "NIL")
#: The most digits of a file descriptor; anything longer is a file name.
DESCRIPTOR_DIGITS_MAX = 7
#: The most digits of a number in a variable: above all that Slurm sets.
NUMBER_DIGITS_MAX = 10
SECRETS = (b"SLURM_JWT",)

#: Set in every job: by whole name, or by prefix.
SET_BY_JOBS = frozenset(
    b"SLURM_" + name
    for name in (
        b"JOBID NODELIST NNODES NPROCS NTASKS NTASKS_PER_NODE NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_SOCKET "
        b"TASKS_PER_NODE CPUS_ON_NODE CPUS_PER_TASK CPUS_PER_GPU MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU GPUS "
        b"GPUS_PER_NODE GPUS_PER_TASK GPUS_ON_NODE SHARDS_ON_NODE TRES_PER_TASK RESTART_COUNT SUBMIT_DIR SUBMIT_HOST "
        b"TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN PRIO_PROCESS UMASK PROCID LOCALID NODEID NODE_ALIASES GTIDS TASK_PID "
        b"SRUN_COMM_HOST SRUN_COMM_PORT LAUNCH_NODE_IPADDR DISTRIBUTION EXPORT_ENV GET_USER_ENV WORKING_CLUSTER "
        b"SCRIPT_CONTEXT OVERCOMMIT"
    ).split()
) | {b"SLURMD_NODENAME"}
SET_BY_JOBS_PREFIXES = (
    b"SLURM_JOB_",
    b"SLURM_ARRAY_",
    b"SLURM_STEP_",
    b"SLURM_CPU_BIND",
    b"SLURM_MEM_BIND",
    b"SLURM_HET_",
)

_LIMIT_NUMBERS = {name: int(getattr(resource, f"RLIMIT_{name}")) for name in RLIMITS}

EnvironmentPairs = dict[bytes, bytes]


def job_environment(export: str, export_file: str, source: Mapping[bytes, bytes]) -> list[bytes]:
    """The job's environment as KEY=VALUE, within its limit."""
    pairs = _select(export, outside_job(source))
    if export_file:
        pairs |= _read_pairs(export_file)
    pairs[b"SLURM_PRIO_PROCESS"] = b"%d" % os.getpriority(os.PRIO_PROCESS, 0)
    return _lines(pairs)


def _lines(pairs: EnvironmentPairs) -> list[bytes]:
    """The variables as KEY=VALUE without secrets. Raises CommandError when they are too large."""
    for secret in SECRETS:
        pairs.pop(secret, None)
    lines = [name + b"=" + value for name, value in pairs.items()]
    size = sum(len(line) + 1 for line in lines)
    if size > ENVIRONMENT_BYTES_MAX:
        biggest = os.fsdecode(max(pairs, key=lambda name: len(pairs[name])))
        raise CommandError(
            f"Job environment too large: {size} bytes, the limit is {ENVIRONMENT_BYTES_MAX} (the biggest variable is "
            f"{biggest[:80]!r}). Choose with --export what the job needs."
        )
    return lines


def step_environment(export: str, source: Mapping[bytes, bytes], *, inside: bool) -> list[bytes]:
    """A step's environment as KEY=VALUE. `inside` its job: the job's variables are passed on, too."""
    pairs = _select(export, dict(source) if inside else outside_job(source))
    pairs[b"SLURM_PRIO_PROCESS"] = b"%d" % os.getpriority(os.PRIO_PROCESS, 0)
    pairs[b"SLURM_UMASK"] = b"%04o" % current_umask()
    return _lines(pairs)


def trace_parent(source: Mapping[str, str]) -> str:
    """The trace context of the caller (TRACEPARENT); "" where there is none."""
    if "TRACEPARENT" not in source:
        return ""
    from penstock.values.tracecontext import checked_traceparent  # imported only where it is needed

    return checked_traceparent(source["TRACEPARENT"])


def export_text(export: str) -> str:
    """The value of SLURM_EXPORT_ENV: --export as written, or only the names where a value is a secret or not clean text."""
    if export.isprintable() and not any(f"{os.fsdecode(secret)}=" in export for secret in SECRETS):
        return export
    names = (item.partition("=")[0] for item in export.split(","))
    return ",".join(name for name in names if name and name.isprintable())


def number_of(env: Mapping[str, str], name: str, default: int = 0) -> int:
    """The number in a variable; the default when there is none: a user's script may have set anything."""
    text = env.get(name, "")
    return int(text) if is_digits(text) and len(text) <= NUMBER_DIGITS_MAX else default


def soft_limits(propagate: str) -> dict[str, int]:
    """The soft resource limits to take along; -1 = unlimited. `propagate`: "" or ALL, NONE, or a list of names."""
    given = [word.strip() for word in propagate.split(",")] if propagate else ["ALL"]
    words = [word.upper().removeprefix("RLIMIT_") for word in given]
    if words == ["NONE"]:
        return {}
    for said, word in zip(given, words, strict=True):
        if word not in (*RLIMITS, "ALL"):
            raise CommandError(
                f"Bad rlimit name: {said}\n--propagate={propagate} is not valid.",
                detail=f"known are ALL, NONE, {', '.join(RLIMITS)}",
            )
    names = RLIMITS if "ALL" in words else [name for name in RLIMITS if name in words]
    return {name: resource.getrlimit(_LIMIT_NUMBERS[name])[0] for name in names}


def current_umask() -> int:
    """The umask, which can only be read by setting it. SLURM_UMASK takes precedence over it, but not that of a job."""
    said = os.environ.get("SLURM_UMASK", "")
    if said and "SLURM_JOB_ID" not in os.environ:
        if len(said) > 5 or not set(said) <= set("01234567") or int(said, 8) > 0o777:
            raise CommandError(f"SLURM_UMASK is not an octal number up to 0777: {shown(said)}")
        return int(said, 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def outside_job(source: Mapping[bytes, bytes]) -> EnvironmentPairs:
    """An environment without the variables of a job around it."""
    if b"SLURM_JOB_ID" not in source:
        return dict(source)
    return {
        name: value
        for name, value in source.items()
        if name not in SET_BY_JOBS and not name.startswith(SET_BY_JOBS_PREFIXES)
    }


def _select(export: str, source: EnvironmentPairs) -> EnvironmentPairs:
    if not export or export.upper() == "ALL":
        return source
    chosen = {n: v for n, v in source.items() if n.startswith((b"SLURM_", b"SPANK_"))}
    if export.upper() in EXPORT_NOTHING:
        return chosen
    for item in _split_list(export):
        name, equals, value = os.fsencode(item).partition(b"=")
        if equals:
            if not name:
                raise CommandError(f"Invalid --export specification: {item!r} has no variable name")
            chosen[name] = _unquote(value)
        elif item.upper() == "ALL":
            chosen = source | chosen
        elif name in source:
            chosen[name] = source[name]
    return chosen


def _split_list(text: str) -> list[str]:
    """Split at commas that are not inside quotes."""
    items = []
    start = 0
    quote = ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == ",":
            items.append(text[start:position])
            start = position + 1
    if quote:
        raise CommandError(f"Invalid --export specification: the quote {quote} is not closed")
    return [item for item in (*items, text[start:]) if item]


def _unquote(value: bytes) -> bytes:
    if len(value) >= 2 and value[:1] in (b'"', b"'") and value[-1:] == value[:1]:
        return value[1:-1]
    return value


def _read_pairs(where: str) -> EnvironmentPairs:
    """Read NAME=value entries, each ended by NUL, from a file or, for a number from 3, an open file descriptor."""
    is_descriptor = where.isascii() and where.isdigit() and len(where) <= DESCRIPTOR_DIGITS_MAX and int(where) >= 3
    try:
        data = read_bounded(int(where) if is_descriptor else where, ENVIRONMENT_BYTES_MAX)
    except OSError as error:
        if error.errno == errno.EFBIG:
            text = f"Job environment too large: {where} exceeds the limit of {ENVIRONMENT_BYTES_MAX} bytes"
            raise CommandError(text) from error
        raise CommandError(f"Could not open user environment file {where}: {error.strerror}") from error
    pairs: EnvironmentPairs = {}
    for number, entry in enumerate(filter(None, data.split(b"\0")), start=1):
        name, equals, value = entry.partition(b"=")
        if not name or not equals:
            raise CommandError(f"User environment file {where}: entry {number} is not NAME=value")
        pairs[name] = value
    return pairs
